"""Sudoku grids: solving by candidates, drawing grids with one solution, and naming them up to symmetry.

A grid is a tuple of digits, row by row, 0 where a cell is open. Candidates are bits, and a search takes the
open cell with the fewest of them first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import NamedTuple

from srl_envs.draws import Draws

Digits = tuple[int, ...]

BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}
"""Side -> rows and columns of a box."""
_ROUNDS = 4
"""Of refinement in `structure`."""


class Units(NamedTuple):
    """Which cells may not hold the same digit."""

    of_cell: tuple[tuple[int, int, int], ...]
    """Per cell, the numbers of its row, column and box."""
    cells: tuple[tuple[int, ...], ...]
    """Per unit, its cells: rows, then columns, then boxes."""
    names: tuple[str, ...]


@cache
def units(size: int) -> Units:
    """Rows, columns and boxes of a grid."""
    high, wide = BOXES[size]
    of_cell = []
    for cell in range(size * size):
        row, column = divmod(cell, size)
        box = row // high * (size // wide) + column // wide
        of_cell.append((row, size + column, 2 * size + box))
    members = tuple(
        tuple(cell for cell, mine in enumerate(of_cell) if unit in mine) for unit in range(3 * size)
    )
    names = tuple(f"{kind} {n + 1}" for kind in ("row", "column", "box") for n in range(size))
    return Units(tuple(of_cell), members, names)


def taken(size: int, digits: Sequence[int]) -> list[int]:
    """Per unit, the digits that stand in it, as bits."""
    masks = [0] * (3 * size)
    for cell, digit in enumerate(digits):
        for unit in units(size).of_cell[cell] if digit else ():
            masks[unit] |= 1 << digit
    return masks


def candidates(size: int, digits: Sequence[int]) -> dict[int, int]:
    """Per open cell, the digits that its row, column and box leave, as bits."""
    masks, of_cell, every = taken(size, digits), units(size).of_cell, (2 << size) - 2
    return {
        cell: every & ~(masks[of_cell[cell][0]] | masks[of_cell[cell][1]] | masks[of_cell[cell][2]])
        for cell, digit in enumerate(digits)
        if not digit
    }


def clashes(size: int, digits: Sequence[int]) -> tuple[str, ...]:
    """Names of the rows, columns and boxes in which a digit stands twice."""
    every = units(size)
    found = []
    for name, cells in zip(every.names, every.cells, strict=True):
        there = [digits[cell] for cell in cells if digits[cell]]
        if len(set(there)) < len(there):
            found.append(name)
    return tuple(found)


def solutions(
    size: int, digits: Digits, most: int, order: Sequence[Sequence[int]] = ()
) -> list[Digits]:
    """Up to ``most`` solutions.

    Args:
        size: side.
        digits: a grid without clashes.
        most: ends the search.
        order: per cell, the digits in the order in which they are tried; ascending where it is empty.
    """
    grid, found = list(digits), list[Digits]()
    masks, of_cell, every = taken(size, digits), units(size).of_cell, (2 << size) - 2
    left = {cell for cell, digit in enumerate(digits) if not digit}
    ascending = range(1, size + 1)

    def choices(cell: int) -> int:
        row, column, box = of_cell[cell]
        return every & ~(masks[row] | masks[column] | masks[box])

    def fill() -> None:
        if not left:
            found.append(tuple(grid))
            return
        cell = min(left, key=lambda c: (choices(c).bit_count(), c))
        open_to = choices(cell)
        left.discard(cell)
        for digit in order[cell] if order else ascending:
            if open_to >> digit & 1 and len(found) < most:
                bit = 1 << digit
                grid[cell] = digit
                for unit in of_cell[cell]:
                    masks[unit] |= bit
                fill()
                for unit in of_cell[cell]:
                    masks[unit] ^= bit
        grid[cell] = 0
        left.add(cell)

    fill()
    return found


def draw_givens(draws: Draws, size: int, holes: int) -> Digits:
    """A grid with exactly so many open cells and one solution."""
    cells = size * size
    while True:
        order = [[digit + 1 for digit in draws.permutation(size)] for _ in range(cells)]
        grid = list(solutions(size, (0,) * cells, 1, order)[0])
        opened = 0
        for cell in draws.permutation(cells):
            kept, grid[cell] = grid[cell], 0
            if len(solutions(size, tuple(grid), 2)) == 1:
                opened += 1
            else:
                grid[cell] = kept
            if opened == holes:
                return tuple(grid)


def structure(size: int, givens: Digits) -> str:
    """The same text for grids that differ by names of digits, order of lines, or a turn.

    Colours of cells, units and digits are refined by those of their neighbours, so grids that are the same up
    to symmetry have the same text. The reverse does not hold for all: that puts more grids into one split.
    Source: Weisfeiler and Leman, 1968.
    """
    every = units(size)
    cell_colours = ["given" if digit else "open" for digit in givens]
    unit_colours = ["line"] * (2 * size) + ["box"] * size
    digit_colours = ["digit"] * (size + 1)
    for _ in range(_ROUNDS):
        cell_colours = [
            _colour(
                cell_colours[cell],
                *sorted((unit_colours[row], unit_colours[column])),
                unit_colours[box],
                digit_colours[givens[cell]] if givens[cell] else "",
            )
            for cell, (row, column, box) in enumerate(every.of_cell)
        ]
        unit_colours = [
            _colour(colour, *sorted(cell_colours[cell] for cell in cells))
            for colour, cells in zip(unit_colours, every.cells, strict=True)
        ]
        digit_colours = [
            _colour(*sorted(c for c, g in zip(cell_colours, givens, strict=True) if g == digit))
            for digit in range(size + 1)
        ]
    return _colour(*sorted(cell_colours))


def _colour(*parts: str) -> str:
    return blake2b(" ".join(parts).encode(), digest_size=8).hexdigest()
