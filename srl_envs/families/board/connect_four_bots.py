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

    def drop(self, column: int) -> Board:
        """The position after our piece, seen from the other side."""
        bit = 1 << (column * (self.rows + 1) + self.heights[column])
        heights = (*self.heights[:column], self.heights[column] + 1, *self.heights[column + 1 :])
        return Board(self.rows, self.cols, self.k, self.theirs, self.mine | bit, heights)

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
    """Negamax of depth 4."""
    return _searcher(4, rng)


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Negamax of depth 6; for rating only."""
    return _searcher(6, rng)


def _searcher(depth: int, rng: np.random.Generator) -> Callable[[str], str]:
    def act(text: str) -> str:
        board = read_board(text)
        scored = [
            (_WIN if board.wins(c, board.mine) else -_negamax(board.drop(c), depth - 1), c)
            for c in board.open_columns()
        ]
        best = max(value for value, _ in scored)
        return _reply(int(rng.choice([c for value, c in scored if value == best])))

    return act


def _negamax(board: Board, depth: int, alpha: float = -np.inf, beta: float = np.inf) -> float:
    """Worth of the position for the side on move (``mine``); wins that come sooner count more."""
    columns = board.open_columns()
    if not columns:
        return 0.0
    if any(board.wins(c, board.mine) for c in columns):
        return _WIN / 2 + depth
    if depth == 0:
        return _shape(board)
    for column in columns:
        alpha = max(alpha, -_negamax(board.drop(column), depth - 1, -beta, -alpha))
        if alpha >= beta:
            break
    return alpha


def _shape(board: Board) -> float:
    """A small preference for pieces in the middle column, where most lines pass."""
    column = ((1 << board.rows) - 1) << (board.cols // 2 * (board.rows + 1))
    return float((board.mine & column).bit_count() - (board.theirs & column).bit_count())


def _reply(column: int) -> str:
    return action(column + 1)
