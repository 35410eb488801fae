"""Connect four: two seats drop pieces into columns; a line of ``k`` wins, a full board is a draw.

Competitive, zero-sum, outcome +1, 0 or -1. The seat of the first mover is drawn from the seed. Each
seat sees its own pieces as X, so both read the same rules.

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
    """One position; seat 0 owns X."""

    boards: tuple[str, str]
    """The board as each seat sees it: rows from the top, each ending in a newline; X is its own."""
    stones: tuple[int, int]
    """Bit board per seat: bit ``col * (rows + 1) + row``, row 0 at the bottom."""
    heights: tuple[int, ...]
    """Pieces per column."""
    open: tuple[str, ...]
    """Columns with room, as action bodies."""
    mover: int
    result: int
    """-1 while running, the winner's seat, or 2 for a draw."""


class ConnectFour(Game[Position, int]):
    """Rules of connect four on a board of ``rows`` x ``cols`` with ``k`` in a line.

    Action body: a column number from 1 to ``cols`` that is not full, alone or as in ``column 4``.
    Fallback: the lowest open one.

    Raises:
        ConfigError: a size is out of range, or no line of ``k`` fits the board.
    """

    mode = "competitive"
    max_action_chars = 48
    max_observation_chars = 1600

    def __init__(self, *, rows: int = 6, cols: int = 7, k: int = 4) -> None:
        for name, value, low, high in (("rows", rows, 4, 9), ("cols", cols, 4, 9), ("k", k, 3, 5)):
            if not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"connect_four: {name}={value!r}; give {low} to {high}.")
        if k > max(rows, cols):
            raise ConfigError(f"connect_four: no line of {k} fits a board of {rows} x {cols}.")
        self.rows, self.cols, self.k = rows, cols, k
        self.max_turns = rows * cols
        self._columns = {str(c + 1): c for c in range(cols)}
        names = [str(c + 1) for c in range(cols)]
        self._footer = "".join(names) + "\n"
        rules = (
            f"Connect four. Drop a piece into a column; {k} in a row (across, down or diagonal) win.\n"
            f"X is you, O the other player, . is empty.\n"
            f"Payoff: 1 for a win, -1 for a loss, 0 for a full board.\n"
            f"Reply with one column number from 1 to {cols}, like this: <action>{cols}</action>\n\n"
        )
        self._heads = tuple(f"{rules}You are {seat_name(seat)}.\n" for seat in (0, 1))
        self._waits = tuple(f"Wait for {seat_name(1 - seat)}.\n" for seat in (0, 1))
        empty = ("." * cols + "\n") * rows
        self._opening = Position((empty, empty), (0, 0), (0,) * cols, tuple(names), 0, _RUNNING)

    def new(self, streams: Streams) -> Position:
        """An empty board; the first mover is a fair coin."""
        return self._opening._replace(mover=streams.draws("seats").integers(2))

    def to_move(self, state: Position) -> tuple[int, ...]:
        """One seat, or nobody at the end."""
        return (state.mover,) if state.result == _RUNNING else ()

    def observe(self, state: Position, seat: int) -> str:
        """Rules, board from the seat's side, and the open columns."""
        board = state.boards[seat]
        if state.result != _RUNNING:
            status = "The game is over.\n"
        elif state.mover == seat:
            status = f"Your move. Open columns: {' '.join(state.open)}\n"
        else:
            status = self._waits[seat]
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
        mine = stones[seat] | 1 << column * (rows + 1) + row
        if seat == 0:
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
            result = seat
        return Position(boards, stones, tuple(heights), still_open, 1 - seat, result)

    def returns(self, state: Position) -> tuple[float, ...] | None:
        """+1 to the winner, -1 to the loser, 0 to both for a draw."""
        if state.result == _RUNNING:
            return None
        if state.result == _DRAW:
            return (0.0, 0.0)
        return (1.0, -1.0) if state.result == 0 else (-1.0, 1.0)

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
        """``pieces``: how many the seat has dropped."""
        return {"pieces": float(state.stones[seat].bit_count())}

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
        return f"{state.boards[0]}{self._footer}X is {seat_name(0)}, O is {seat_name(1)}."


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
