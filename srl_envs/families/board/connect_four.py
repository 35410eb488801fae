"""Connect four: two seats drop pieces into columns; a line of ``k`` wins, a full board is a draw.

Competitive, zero-sum, outcome +1, 0 or -1. The seat of the first mover is drawn from the seed. Each
seat sees its own pieces as X, so all read the same rules.

With four players, seats 0 and 2 share the pieces of one side, seats 1 and 3 those of the other. All drop in
turn, by number, so partners move alternately, without a word. A side wins, loses and forfeits as one.

Every episode starts from the empty board, so the eval split cannot be held out: `EnvSpec.held_out` is
False, and only the seeds of opponents differ between the splits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.errors import ConfigError, IllegalMoveError

_RUNNING, _DRAW = -1, 2
_TOKENS = re.compile(r"[a-z]+|[0-9]+|\S")
_WORDS = frozenset({
    "i", "will", "'", "ll", "let", "s", "pick", "select", "answer", "=", "play", "drop", "put", "place",
    "choose", "my", "the", "a", "move", "action", "piece", "disc", "is", "in", "into", "at", "to",
    "col", "column", "number", "no", "th", ":", "#",
})  # fmt: skip
"""What may stand beside the number of a column without changing what is meant."""


class Position(NamedTuple):
    """One position. A seat's side is its number modulo 2; side 0 owns X."""

    boards: tuple[str, str]
    """The board as each side sees it: rows from the top, each ending in a newline; X is its own."""
    stones: tuple[int, int]
    """Bit board per side: bit ``col * (rows + 1) + row``, row 0 at the bottom."""
    heights: tuple[int, ...]
    """Pieces per column."""
    open: tuple[str, ...]
    """Columns with room, as action bodies."""
    mover: int
    result: int
    """-1 while running, the winning side, or 2 for a draw."""


class ConnectFour(Game[Position, int]):
    """Rules of connect four on a board of ``rows`` x ``cols`` with ``k`` in a line.

    Action body: a column number from 1 to ``cols`` that is not full, by itself or as in ``column 4``.
    Fallback: the lowest open one.

    Args:
        rows: height of the board, 4 to 9.
        cols: width of the board, 4 to 9.
        k: pieces in a line that win, 3 to 5.
        players: 2, or 4 on two sides of two.

    Raises:
        ConfigError: a size is out of range, or no line of ``k`` fits the board.
    """

    mode = "competitive"
    max_action_chars = 48
    max_observation_chars = 1600

    def __init__(self, *, rows: int = 6, cols: int = 7, k: int = 4, players: int = 2) -> None:
        for name, value, low, high in (("rows", rows, 4, 9), ("cols", cols, 4, 9), ("k", k, 3, 5)):
            if not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"connect_four: {name}={value!r}; give {low} to {high}.")
        if k > max(rows, cols):
            raise ConfigError(f"connect_four: no line of {k} fits a board of {rows} x {cols}.")
        if not isinstance(players, int) or players not in (2, 4):
            raise ConfigError(
                f"connect_four: players={players!r}; give 2, or 4 on two sides of two."
            )
        self.rows, self.cols, self.k, self.seats = rows, cols, k, players
        self.max_turns = rows * cols
        self._columns = {str(c + 1): c for c in range(cols)}
        names = [str(c + 1) for c in range(cols)]
        self._footer = "".join(names) + "\n"
        self._heads = tuple(self._write_head(seat) for seat in range(self.seats))
        self._waits = tuple(f"Wait for {seat_name(seat)}.\n" for seat in range(self.seats))
        empty = ("." * cols + "\n") * rows
        self._opening = Position((empty, empty), (0, 0), (0,) * cols, tuple(names), 0, _RUNNING)

    def _write_head(self, seat: int) -> str:
        """The rules, and who the seat is and plays with."""
        whose, win = "X is you, O the other player", "a win"
        if self.seats > 2:
            mate, *others = (seat_name((seat + turn) % self.seats) for turn in (2, 1, 3))
            whose = f"X is you and {mate}, O {' and '.join(sorted(others))}"
            win = "a win of your side"
        return (
            f"Connect four. Drop a piece into a column; {self.k} in a row (across, down or diagonal) win.\n"
            f"{whose}, . is empty.\n"
            f"Payoff: 1 for {win}, -1 for a loss, 0 for a full board.\n"
            f"Reply with one column number from 1 to {self.cols}, like this: <action>{self.cols}</action>\n\n"
            f"You are {seat_name(seat)}.\n"
        )

    def new(self, streams: Streams) -> Position:
        """An empty board; every seat is as likely to be the first mover."""
        return self._opening._replace(mover=streams.draws("seats").integers(self.seats))

    def to_move(self, state: Position) -> tuple[int, ...]:
        """One seat, or none at the end."""
        return (state.mover,) if state.result == _RUNNING else ()

    def observe(self, state: Position, seat: int) -> str:
        """Rules, board from the seat's side, and the open columns."""
        board = state.boards[seat % 2]
        if state.result != _RUNNING:
            status = "The game is over.\n"
        elif state.mover == seat:
            status = f"Your move. Open columns: {' '.join(state.open)}\n"
        else:
            status = self._waits[state.mover]
        return f"{self._heads[seat]}{board}{self._footer}{status}"

    def parse(self, state: Position, seat: int, body: str) -> int:
        """The column's index."""
        column = self._columns.get(body)
        if column is None:
            column = self._columns.get(_number_in(body))
            if column is None:
                raise IllegalMoveError(f"{body!r} is no column from 1 to {self.cols}")
        if state.heights[column] >= self.rows:
            raise IllegalMoveError(f"column {column + 1} is full")
        return column

    def apply(self, state: Position, actions: Mapping[int, int]) -> Position:
        """Drop the mover's piece."""
        (first, second), stones, before, still_open, seat, _ = state
        rows, column = self.rows, actions[seat]
        row = before[column]
        index = (rows - 1 - row) * (self.cols + 1) + column
        side = seat % 2
        mine = stones[side] | 1 << column * (rows + 1) + row
        if side == 0:
            own, other, stones = "X", "O", (mine, stones[1])
        else:
            own, other, stones = "O", "X", (stones[0], mine)
        boards = (
            first[:index] + own + first[index + 1 :],
            second[:index] + other + second[index + 1 :],
        )
        heights = list(before)
        heights[column] = row + 1
        if row + 1 == rows:
            still_open = tuple(name for name in still_open if self._columns[name] != column)
        result = _RUNNING if still_open else _DRAW
        if has_line(mine, rows, self.k):
            result = side
        follower = (seat + 1) % self.seats
        return Position(boards, stones, tuple(heights), still_open, follower, result)

    def returns(self, state: Position) -> tuple[float, ...] | None:
        """+1 to the side that wins, -1 to the one that loses, 0 to all for a draw."""
        if state.result == _RUNNING:
            return None
        if state.result == _DRAW:
            return (0.0,) * self.seats
        return self._won_by(state.result)

    def forfeit(self, state: Position, seat: int) -> tuple[float, ...]:
        """The seat's side loses."""
        return self._won_by(1 - seat % 2)

    def _won_by(self, side: int) -> tuple[float, ...]:
        return ((1.0, -1.0) if side == 0 else (-1.0, 1.0)) * (self.seats // 2)

    def legal(self, state: Position, seat: int) -> Sequence[str]:
        """The open columns."""
        return state.open

    def fallback(self, state: Position, seat: int) -> str:
        """The lowest-numbered open column."""
        return state.open[0]

    def sample(self, state: Position, seat: int, rng: np.random.Generator) -> str:
        """A random open column."""
        return state.open[int(rng.integers(len(state.open)))]

    def components(self, state: Position, seat: int) -> Mapping[str, float]:
        """``pieces``: how many the seat's side has dropped."""
        return {"pieces": float(state.stones[seat % 2].bit_count())}

    def encode(self, state: Position) -> Any:
        """Lists and numbers."""
        return [
            list(state.boards), list(state.stones), list(state.heights), list(state.open),
            state.mover, state.result,
        ]  # fmt: skip

    def decode(self, data: Any) -> Position:
        """The inverse of `encode`."""
        boards, stones, heights, still_open, mover, result = data
        return Position(
            (boards[0], boards[1]), (stones[0], stones[1]), tuple(heights), tuple(still_open),
            mover, result,
        )  # fmt: skip

    def render(self, state: Position) -> str:
        """The board with the columns' numbers, and whose pieces are which."""
        first, second = (
            " and ".join(seat_name(seat) for seat in range(side, self.seats, 2)) for side in (0, 1)
        )
        return f"{state.boards[0]}{self._footer}X is {first}, O is {second}."


def _number_in(body: str) -> str:
    """The only number of a body such as ``column 4``; "" where other words stand with it."""
    rest = [word for word in _TOKENS.findall(body.lower()) if word not in _WORDS]
    return rest[0] if len(rest) == 1 else ""


def has_line(stones: int, rows: int, k: int) -> bool:
    """Whether a bit board holds ``k`` (3 to 5) in a line; columns are ``rows + 1`` bits apart."""
    for step in (1, rows + 1, rows, rows + 2):
        pairs = stones & stones >> step
        if pairs:
            line = pairs & pairs >> (k - 2) * step  # the first two and the last two of k
            if line and (k < 5 or line & stones >> 2 * step):
                return True
    return False
