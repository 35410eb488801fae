"""Scripted teams of Sudoku; they read the observation's text and nothing else.

A planner sends what the coder's program printed where it fills the grid without a clash. Otherwise it fills
the cells that have one candidate.
"""

from __future__ import annotations

import re

import numpy as np

from srl_envs.errors import IllegalMoveError
from srl_envs.families.workflow.scripted import Bot, last_printed, team
from srl_envs.families.workflow.sudoku import Grid, fill, fills_text, read_fills
from srl_envs.families.workflow.sudoku_grids import candidates, clashes
from srl_envs.families.workflow.tool import NO_PROGRAM

_ROWS = re.compile(r"^The task:\n((?:[1-9.]+\n)+)", re.MULTILINE)
_BOX = re.compile(r"each box of (\d) rows and (\d) columns")

_READ = """rows = {rows!r}
h, w = {box}
n = h * w
grid = [[0 if m == "." else int(m) for m in row] for row in rows]
def fits(r, c):
    used = {{grid[r][k] for k in range(n)}} | {{grid[k][c] for k in range(n)}}
    used |= {{grid[r // h * h + i][c // w * w + j] for i in range(h) for j in range(w)}}
    return [d for d in range(1, n + 1) if d not in used]
"""
_SEARCH = (
    _READ
    + """def solve():
    cells = [(len(fits(r, c)), r, c) for r in range(n) for c in range(n) if not grid[r][c]]
    if not cells:
        return True
    _, r, c = min(cells)
    for d in fits(r, c):
        grid[r][c] = d
        if solve():
            return True
    grid[r][c] = 0
    return False
if solve():
    print(*("".join(map(str, row)) for row in grid))"""
)
_SINGLES = (
    _READ
    + """found = []
for r in range(n):
    for c in range(n):
        if not grid[r][c] and len(fits(r, c)) == 1:
            grid[r][c] = fits(r, c)[0]
            found.append(f"r{{r + 1}}c{{c + 1}}={{grid[r][c]}}")
print(*found)"""
)


def read_grid(text: str) -> Grid:
    """The grid of an observation as it stands; all its digits count as given."""
    found = _ROWS.search(text)
    if found is None:
        raise ValueError("the text holds no grid")
    digits = tuple(0 if mark == "." else int(mark) for mark in found.group(1).replace("\n", ""))
    return Grid(found.group(1).index("\n"), digits, digits)


def random_bot(rng: np.random.Generator) -> Bot:
    """No program; a random digit in each open cell."""

    def answer(text: str) -> str:
        grid = read_grid(text)
        cells = [cell for cell, digit in enumerate(grid.digits) if not digit] or [0]
        return fills_text(grid.size, {c: int(rng.integers(1, grid.size + 1)) for c in cells})

    return team(lambda _: NO_PROGRAM, answer)


def middle_bot(_rng: np.random.Generator) -> Bot:
    """No program; fills the cells that have one candidate, and looks again in the next round."""
    return _team(None)


def strong_bot(_rng: np.random.Generator) -> Bot:
    """A program that searches, and the grid that it printed."""
    return _team(_SEARCH)


def held_out_bot(_rng: np.random.Generator) -> Bot:
    """A program that fills single candidates in one pass over the grid. For ratings only."""
    return _team(_SINGLES)


def _team(program: str | None) -> Bot:
    def write(text: str) -> str:
        rows, box = _ROWS.search(text), _BOX.search(text)
        if program is None or rows is None or box is None:
            return NO_PROGRAM
        return program.format(rows=rows.group(1).split(), box=", ".join(box.groups()))

    def answer(text: str) -> str:
        grid = read_grid(text)
        return printed_fills(text, grid) or singles(grid)

    return team(write, answer)


def printed_fills(text: str, grid: Grid) -> str:
    """What the last program printed, if no digit stands twice with it; else ""."""
    try:
        fills = read_fills(grid.size, last_printed(text))
    except IllegalMoveError:
        return ""
    return "" if clashes(grid.size, fill(grid, fills)[0].digits) else fills_text(grid.size, fills)


def singles(grid: Grid) -> str:
    """The cells that have one candidate; without any, the first candidate of the cell that has fewest."""
    found = candidates(grid.size, grid.digits)
    sure = {cell: bits for cell, bits in found.items() if bits.bit_count() == 1}
    if not sure:
        open_to = {cell: bits for cell, bits in found.items() if bits} or {0: 2}
        cell = min(open_to, key=lambda c: open_to[c].bit_count())
        sure = {cell: open_to[cell] & -open_to[cell]}
    return fills_text(grid.size, {cell: bits.bit_length() - 1 for cell, bits in sure.items()})
