"""Sudoku: a coder and a planner fill a grid of 4, 6 or 9 digits a side in as few rounds as they can.

Cooperative, two seats in turn, or one that takes both parts (`players=1`): the workflow of `plan_path`.
Every grid has exactly one solution. An answer fills open cells, some or all, and may change what earlier
answers filled; digits that were given stay, whatever is sent. After each answer the team reads in which
rows, columns and boxes a digit stands twice, which anyone can see, and never which digits are wrong.

The outcome is 1 for the solution, less a tenth for each round after the first; 0 without it. With shaped
rewards three tenths are paid for progress: digits that are right less digits that are wrong, over the open
cells, so that guessing pays nothing. The sizes are those of arXiv:2510.11062, from 4 by 4; rewards there are
+2 and a bonus for speed, so returns do not compare; rates of success do (`solved`).

Grids that differ by the names of their digits, the order of lines within a band, of bands, or a turn are the
same task: all of them are in one split.

Levels: `holes=3` on the default 4 by 4 first, a guess of one in 64; then up to 11 open cells, `size=6` and
`size=9`.

Baselines on 60 grids of train: a program that searches 1, the most that there is, and so the strong team; a
program that fills single candidates in one pass 0.92; middle teams 0.71 (the same by eye, round by round);
random ones 0.00, and 0.02 with `holes=3`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from srl_envs.core import require_action
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.workflow.sudoku_grids import (
    BOXES,
    Digits,
    clashes,
    draw_givens,
    solutions,
    structure,
)
from srl_envs.families.workflow.team import Team, check_number
from srl_envs.sandbox import CodeExecutor

SIZE, ROUNDS = 4, 3
"""Default options."""
HOLES = {4: (10, 11), 6: (16, 20), 9: (40, 50)}
"""Side -> open cells by default, and at most."""
LEAST_HOLES = 3
"""With fewer, a split may own no grid."""
ROUND_COST = 0.1
_FILL = re.compile(r"r([1-9])c([1-9])=([1-9])")
_WHOLE = re.compile(r"[\s|+-]+")
_NAMED = 4
"""Clashing rows, columns and boxes that a report names at most."""


class Grid(NamedTuple):
    """A grid as it stands."""

    size: int
    givens: Digits
    digits: Digits
    """Given or filled; 0 for open cells."""


@lru_cache(maxsize=256)
def solution(size: int, givens: Digits) -> Digits:
    """The only one."""
    return solutions(size, givens, 1)[0]


def read_fills(size: int, body: str) -> dict[int, int]:
    """Cell -> digit, from ``r1c2=3`` and the like, or from all digits row by row.

    Raises:
        IllegalMoveError: it is neither, a number is too large, or a cell is named twice.
    """
    text = body.strip().lower()
    whole = _WHOLE.sub("", text)
    if len(whole) == size * size and not whole.strip("0123456789._"):
        digits = [int(mark) if mark.isdigit() else 0 for mark in whole]
        require_action(max(digits) <= size, f"digits go from 1 to {size}")
        require_action(any(digits), "no digit is filled in")
        return {cell: digit for cell, digit in enumerate(digits) if digit}
    fills: dict[int, int] = {}
    for part in re.split(r"[\s,;]+", text.strip(" ,;\n\t.")):
        found = _FILL.fullmatch(part)
        if found is None:
            raise IllegalMoveError("write cells like r1c2=3 r2c4=1, or all digits row by row")
        row, column, digit = map(int, found.groups())
        require_action(
            max(row, column, digit) <= size, f"rows, columns and digits go from 1 to {size}"
        )
        cell = (row - 1) * size + column - 1
        require_action(cell not in fills, f"r{row}c{column} is written twice")
        fills[cell] = digit
    return fills


def fills_text(size: int, fills: Mapping[int, int]) -> str:
    """``r1c2=3 r2c4=1``, by cell."""
    return " ".join(
        f"r{cell // size + 1}c{cell % size + 1}={digit}" for cell, digit in sorted(fills.items())
    )


def fill(grid: Grid, fills: Mapping[int, int]) -> tuple[Grid, str]:
    """The grid with these digits, but for those that were given; and a report."""
    digits = tuple(
        given or fills.get(cell, digit)
        for cell, (given, digit) in enumerate(zip(grid.givens, grid.digits, strict=True))
    )
    twice = clashes(grid.size, digits)
    more = f" and {len(twice) - _NAMED} more" if len(twice) > _NAMED else ""
    clash = (
        f"a digit stands twice in {', '.join(twice[:_NAMED])}{more}"
        if twice
        else "no digit stands twice"
    )
    left = digits.count(0)
    return grid._replace(digits=digits), f"{left} cell{'s' * (left != 1)} open, {clash}"


def drawing(grid: Grid) -> str:
    """One line per row, a dot for open cells."""
    marks = "".join(str(digit) if digit else "." for digit in grid.digits)
    return "\n".join(marks[k : k + grid.size] for k in range(0, len(marks), grid.size))


class Sudoku(Team[Grid]):
    """Observation: the grid, what programs printed, the answers so far. Action: a program; cells to fill.

    Args:
        players: 2, or 1 for the lone version.
        size: digits a side: 4, 6 or 9.
        holes: open cells; None for 10, 16 or 40, by the size.
        rounds: programs and answers at most, 1 to 8.
        reward: ``"sparse"`` or ``"shaped"``.
        executor: runs the programs; None takes a shared one at the first program.

    Raises:
        ConfigError: an option is impossible.
    """

    name = "sudoku"
    board = Grid

    def __init__(
        self,
        *,
        players: int = 2,
        size: int = SIZE,
        holes: int | None = None,
        rounds: int = ROUNDS,
        reward: str = "sparse",
        executor: CodeExecutor | None = None,
    ) -> None:
        if type(size) is not int or size not in BOXES:
            raise ConfigError(f"sudoku: size={size!r}; give 4, 6 or 9.")
        usual, most = HOLES[size]
        self.size, self.holes = size, usual if holes is None else holes
        check_number(self.name, "holes", self.holes, LEAST_HOLES, most)
        super().__init__(players=players, rounds=rounds, reward=reward, executor=executor)

    @property
    def texts(self) -> Mapping[str, str]:
        """See `Team`."""
        high, wide = BOXES[self.size]
        return {
            "goal": (
                f"SUDOKU. Fill the grid so that each row, each column and each box of {high} rows and "
                f"{wide} columns has every digit from 1 to {self.size} once. Open cells are dots; r1c2 is "
                "row 1, column 2. You may fill some cells or all, and change what you filled; digits that "
                "were given stay."
            ),
            "payoff": f"1 - {ROUND_COST} for each round after the first if the grid is solved, else 0",
            "progress": "(right - wrong digits that you filled) / open cells at the start, at least 0",
            "kind": "cells to fill",
            "program": 'print("r1c2=3 r2c4=1")',
            "answer": "r1c2=3 r2c4=1",
        }

    def draw(self, draws: Draws) -> Grid:
        """A grid with one solution."""
        givens = draw_givens(draws, self.size, self.holes)
        return Grid(self.size, givens, givens)

    def key(self, task: Grid) -> object:
        """See `structure`."""
        return structure(task.size, task.givens)

    def shown(self, task: Grid, now: Grid) -> str:
        """The grid as it stands."""
        return drawing(now)

    def read(self, now: Grid, body: str) -> str:
        """Cells and digits, in order."""
        return fills_text(now.size, read_fills(now.size, body))

    def act(self, now: Grid, answer: str) -> tuple[Grid, str]:
        """See `fill`."""
        return fill(now, read_fills(now.size, answer))

    def progress(self, task: Grid, now: Grid) -> float:
        """Right less wrong digits over the open cells of the task."""
        balance, holes = 0, 0
        truth = solution(task.size, task.givens)
        for given, digit, right in zip(task.givens, now.digits, truth, strict=True):
            holes += not given
            balance += 0 if given or not digit else 1 if digit == right else -1
        return balance / holes

    def quality(self, task: Grid, now: Grid, rounds: int) -> float:
        """1, less a tenth for each round after the first."""
        return 1.0 - ROUND_COST * (rounds - 1)

    def plain_answer(self, now: Grid) -> str:
        """A 1 in the first open cell."""
        cell = now.digits.index(0) if 0 in now.digits else 0
        return fills_text(now.size, {cell: 1})

    def random_answer(self, now: Grid, rng: np.random.Generator) -> str:
        """A random digit in each open cell."""
        cells = [cell for cell, digit in enumerate(now.digits) if not digit] or [0]
        return fills_text(now.size, {cell: int(rng.integers(1, now.size + 1)) for cell in cells})
