"""Land of an expedition: a square of terrain around a camp, with sites, and what is seen of it.

Cells are numbered row by row; the camp lies in the middle. Ridges of mountains have one pass each, and no
site needs a pass.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from srl_envs.draws import Draws

PLAIN, FOREST, HILL, SWAMP, WATER, MOUNTAIN, PASS, CAMP = ".fhs~^=C"
FOOD = {PLAIN: 1, CAMP: 1, FOREST: 2, HILL: 2, SWAMP: 3}
"""Food that a step onto a cell takes, by terrain; the others are closed to steps."""
NAMES = {
    PLAIN: "plain", FOREST: "forest", HILL: "hill", SWAMP: "swamp", WATER: "water",
    MOUNTAIN: "mountain", PASS: "a pass", CAMP: "camp",
}  # fmt: skip
DIRECTIONS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
SEEN_SITE = "!"
"""How a map shows a site."""
FAR = 10**6
"""Food to a cell that cannot be reached."""


class Size(NamedTuple):
    """How much land there is, and what is on it."""

    side: int
    sites: int
    near: int
    """Least distance of a site from the camp, in steps."""
    rough: int
    """Percent of the cells in patches of other terrain."""
    ridges: int


class Land(NamedTuple):
    """Terrain by cell, and sites."""

    cells: str
    sites: tuple[tuple[int, int], ...]
    """Cell and value of each."""


@cache
def neighbours(side: int) -> tuple[tuple[int, ...], ...]:
    """Per cell those north, east, south and west of it that are on the land."""
    return tuple(
        tuple(
            cell
            for down, right in DIRECTIONS.values()
            if (cell := beside(side, at, down, right)) is not None
        )
        for at in range(side * side)
    )


def beside(side: int, at: int, down: int, right: int) -> int | None:
    """The cell so many rows below and columns to the right; None off the land."""
    row, column = at // side + down, at % side + right
    return row * side + column if 0 <= row < side and 0 <= column < side else None


@cache
def within(side: int, at: int, reach: int) -> tuple[int, ...]:
    """Cells at most so many steps away, over any terrain."""
    found = []
    for down in range(-reach, reach + 1):
        for right in range(-reach, reach + 1):
            cell = beside(side, at, down, right)
            if cell is not None and abs(down) + abs(right) <= reach:
                found.append(cell)
    return tuple(found)


def cheapest(
    cells: Sequence[str], side: int, start: int, unknown: float = 0.0
) -> tuple[list[float], list[int]]:
    """Food from one cell to every other in calm weather, and the cell before each on the way.

    Args:
        cells: terrain; any mark that is not terrain counts as not seen yet.
        side: of the square.
        start: where the ways begin.
        unknown: food that a step onto a cell not seen yet is taken to need; 0 closes it.
    """
    food: list[float] = [FAR] * len(cells)
    before = [-1] * len(cells)
    food[start] = 0
    waiting: list[tuple[float, int]] = [(0, start)]
    near = neighbours(side)
    steps = [FOOD.get(mark) or (FAR if mark in NAMES else unknown or FAR) for mark in cells]
    while waiting:
        spent, at = heapq.heappop(waiting)
        if spent > food[at]:
            continue
        for cell in near[at]:
            reached = spent + steps[cell]
            if reached < food[cell]:
                food[cell], before[cell] = reached, at
                heapq.heappush(waiting, (reached, cell))
    return food, before


def way(before: Sequence[int], to: int) -> list[int]:
    """Cells of a way from its start, without it, to one cell."""
    found = [to]
    while before[found[-1]] >= 0:
        found.append(before[found[-1]])
    return found[-2::-1]


def draw_land(draws: Draws, size: Size) -> Land | None:
    """Land on which every site can be reached on foot; None where a draw has too little room."""
    side = size.side
    camp = side * side // 2
    cells = [PLAIN] * (side * side)
    kinds = (FOREST, FOREST, HILL, HILL, SWAMP, WATER)
    rough = 0
    while rough < side * side * size.rough // 100:
        kind = kinds[draws.integers(len(kinds))]
        patch = within(side, draws.integers(side * side), 1 + draws.integers(2))
        for cell in patch:
            if draws.integers(4):
                rough += cells[cell] == PLAIN
                cells[cell] = kind
    for _ in range(size.ridges):
        _raise_ridge(draws, cells, side)
    for cell in within(side, camp, 1):
        cells[cell] = PLAIN
    cells[camp] = CAMP
    food, _ = cheapest(cells, side, camp)
    free = [
        cell
        for cell in range(side * side)
        if food[cell] < FAR and _steps(side, camp, cell) >= size.near
    ]
    if len(free) < 2 * size.sites:
        return None
    places = [free[k] for k in draws.sample(len(free), size.sites)]
    sites = sorted((cell, 2 + int(food[cell]) // 4 + draws.integers(3)) for cell in places)
    return Land("".join(cells), tuple(sites))


def _raise_ridge(draws: Draws, cells: list[str], side: int) -> None:
    """A line of mountains off the camp, with a pass whose two sides are plain."""
    along = draws.integers(2)
    line = (side // 4, side - 1 - side // 4)[draws.integers(2)]
    length = side // 2 + draws.integers(side // 4)
    first = draws.integers(side - length + 1)
    gap = first + 1 + draws.integers(length - 2)
    for place in range(first, first + length):
        cell = line * side + place if along else place * side + line
        cells[cell] = PASS if place == gap else MOUNTAIN
        if place == gap:
            for step in (-1, 1):
                other = cell + (step * side if along else step)
                cells[other] = PLAIN


def _steps(side: int, one: int, other: int) -> int:
    return abs(one // side - other // side) + abs(one % side - other % side)


def turned(side: int) -> Iterator[tuple[int, ...]]:
    """The eight ways to turn or mirror the land, as the place that each cell goes to."""
    last = side - 1
    for flip in (False, True):
        for quarter in range(4):
            found = []
            for at in range(side * side):
                row, column = divmod(at, side)
                column = last - column if flip else column
                for _ in range(quarter):
                    row, column = column, last - row
                found.append(row * side + column)
            yield tuple(found)


@cache
def _all_turned(side: int) -> tuple[tuple[int, ...], ...]:
    return tuple(turned(side))


def view_key(land: Land, reach: int) -> str:
    """What is seen from the camp so many steps far: the least of its eight turned forms."""
    side, camp = round(len(land.cells) ** 0.5), len(land.cells) // 2
    near, sites = within(side, camp, reach), {cell for cell, _ in land.sites}
    marks = {cell: SEEN_SITE if cell in sites else land.cells[cell] for cell in near}
    return min("".join(marks[to[cell]] for cell in near) for to in _all_turned(side))
