"""Scripted players of connect four; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from srl_envs.families.board.connect_four import has_line
from srl_envs.turns.grammar import action

_BOARD = re.compile(r"^(?:[XO.]+\n)+", re.MULTILINE)
_LINE = re.compile(r"; (\d) in a row")
_WIN = 10_000.0


@dataclass(frozen=True, slots=True)
class Board:
    """A position as a bot sees it: ``mine`` are the X."""

    rows: int
    cols: int
    k: int
    mine: int
    theirs: int
    heights: tuple[int, ...]

    def open_columns(self) -> list[int]:
        """Columns with room, those near the middle first."""
        middle = (self.cols - 1) / 2
        columns = [c for c in range(self.cols) if self.heights[c] < self.rows]
        return sorted(columns, key=lambda c: (abs(c - middle), c))

    def wins(self, column: int, stones: int) -> bool:
        """Whether a piece of the owner of ``stones`` in ``column`` makes a line."""
        bit = 1 << (column * (self.rows + 1) + self.heights[column])
        return has_line(stones | bit, self.rows, self.k)


def read_board(text: str) -> Board:
    """The board of an observation."""
    found = _BOARD.search(text)
    line = _LINE.search(text)
    if found is None or line is None:
        raise ValueError("the text holds no board of connect four")
    grid = found.group().split()
    rows, cols = len(grid), len(grid[0])
    mine = theirs = 0
    heights = [0] * cols
    for row, cells in enumerate(reversed(grid)):
        for col, cell in enumerate(cells):
            if cell == ".":
                continue
            heights[col] = row + 1
            bit = 1 << (col * (rows + 1) + row)
            mine, theirs = (mine | bit, theirs) if cell == "X" else (mine, theirs | bit)
    return Board(rows, cols, int(line.group(1)), mine, theirs, tuple(heights))


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Any open column."""

    def act(text: str) -> str:
        return _reply(int(rng.choice(read_board(text).open_columns())))

    return act


def middle_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Wins if it can, blocks if it must, else plays at random."""

    def act(text: str) -> str:
        board = read_board(text)
        columns = board.open_columns()
        for stones in (board.mine, board.theirs):
            urgent = [c for c in columns if board.wins(c, stones)]
            if urgent:
                return _reply(urgent[0])
        return _reply(int(rng.choice(columns)))

    return act


def strong_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Negamax of depth 8, which solves positions with at most 14 empty cells."""
    return _searcher(8, rng, solved=14)


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Negamax of depth 6; for rating only."""
    return _searcher(6, rng)


def _searcher(depth: int, rng: np.random.Generator, solved: int = 0) -> Callable[[str], str]:
    """Plays a move of the highest worth; with ``solved`` empty cells or fewer it looks to the end."""

    def act(text: str) -> str:
        board = read_board(text)
        search = Search(board.rows, board.cols, board.k)
        empty = board.rows * board.cols - sum(board.heights)
        worth = search.moves(
            board.mine, board.mine | board.theirs, empty if empty <= solved else depth
        )
        best = max(worth.values())
        return _reply(int(rng.choice([c for c, value in worth.items() if value == best])))

    return act


class Search:
    """Alpha-beta search on bit boards; see `connect_four.Position.stones`.

    Args:
        rows: height of the board.
        cols: its width.
        k: pieces in a line.
    """

    def __init__(self, rows: int, cols: int, k: int) -> None:
        self.rows, self.k = rows, k
        middle = (cols - 1) / 2
        columns = sorted(range(cols), key=lambda c: (abs(c - middle), c))
        column = (1 << rows) - 1
        self._columns = [(c, 1 << c * (rows + 1), column << c * (rows + 1)) for c in columns]
        self._middle = column << cols // 2 * (rows + 1)
        self._known: dict[tuple[int, int, int], tuple[float, float]] = {}

    def moves(self, mine: int, taken: int, depth: int) -> dict[int, float]:
        """Worth of every open column for the owner of ``mine``, looking ``depth`` moves ahead."""
        worth = {}
        for column, base, cells in self._columns:
            if cell := (taken + base) & cells:
                if has_line(mine | cell, self.rows, self.k):
                    worth[column] = _WIN
                else:
                    worth[column] = -self._worth(
                        taken ^ mine, taken | cell, depth - 1, -np.inf, np.inf
                    )
        return worth

    def _worth(self, mine: int, taken: int, depth: int, alpha: float, beta: float) -> float:
        """Worth of the position for the side on move; wins that come sooner count more."""
        cells = [cell for _, base, mask in self._columns if (cell := (taken + base) & mask)]
        if not cells:
            return 0.0
        theirs = taken ^ mine
        if any(has_line(mine | cell, self.rows, self.k) for cell in cells):
            return _WIN / 2 + depth
        if depth <= 0:
            return float((mine & self._middle).bit_count() - (theirs & self._middle).bit_count())
        key = (mine, taken, depth)
        low, high = self._known.get(key, (-np.inf, np.inf))
        if low >= beta or low == high:
            return low
        if high <= alpha:
            return high
        # only a piece in the cell where the other would win can help, wherever there is one
        threats = [cell for cell in cells if has_line(theirs | cell, self.rows, self.k)]
        best, bound = -np.inf, alpha
        for cell in threats[:1] or cells:
            best = max(best, -self._worth(theirs, taken | cell, depth - 1, -beta, -bound))
            bound = max(bound, best)
            if bound >= beta:
                break
        self._known[key] = (
            best if best > alpha else low,
            best if best < beta else high,
        )
        return best


def _reply(column: int) -> str:
    return action(column + 1)
