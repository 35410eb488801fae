"""Rooms of Sokoban: what a move does, the fewest moves from every position, and how rooms are drawn.

A position is a cell and a set of boxes as bits. Distances come from a search backwards from all solved
positions: each step takes back a move or a push, so the number of a position is the fewest moves that solve
it, exactly. With more positions than `MOST_POSITIONS` the search stops early; what it has reached is exact.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import NamedTuple

from srl_envs.draws import Draws
from srl_envs.families.workflow.moves import LETTERS, step

Position = tuple[int, int]
"""Cell of the walker, and the cells of all boxes as bits."""
MOST_POSITIONS = 20_000


class Room(NamedTuple):
    """A square room; cells are numbered row by row, the outer ones are walls."""

    size: int
    walls: tuple[int, ...]
    """Walls inside of the room, ascending."""
    goals: tuple[int, ...]
    """Goal cells, ascending."""
    boxes: tuple[int, ...]
    """Ascending, as many as goals."""
    at: int
    fewest: int
    """Moves of a shortest solution of the task; no player is shown it."""
    walked: int = 0
    """Moves so far, those that were stopped included."""


@cache
def inside(size: int) -> tuple[int, ...]:
    """Cells that are not of the outer wall."""
    span = range(1, size - 1)
    return tuple(row * size + column for row in span for column in span)


@cache
def leads(size: int) -> dict[tuple[int, str], int]:
    """(cell, move) -> the next cell, for cells inside."""
    return {
        (cell, letter): after
        for cell in inside(size)
        for letter in LETTERS
        if (after := step(size, cell, letter)) is not None
    }


def bits(cells: tuple[int, ...]) -> int:
    """A set of cells as a number."""
    return sum(1 << cell for cell in cells)


def cells_of(mask: int) -> tuple[int, ...]:
    """The inverse of `bits`, ascending."""
    return tuple(cell for cell in range(mask.bit_length()) if mask >> cell & 1)


def free_cells(size: int, walls: tuple[int, ...]) -> int:
    """Cells that a walker or a box may stand on, as bits."""
    return bits(inside(size)) & ~bits(walls)


def moved(size: int, free: int, position: Position, letter: str) -> Position | None:
    """The position after a move; None where a wall or a box that cannot move stops it."""
    at, boxes = position
    cell = leads(size)[at, letter]
    if boxes >> cell & 1:
        beyond = leads(size)[cell, letter]
        if not free >> beyond & 1 or boxes >> beyond & 1:
            return None
        return cell, boxes ^ (1 << cell) ^ (1 << beyond)
    return (cell, boxes) if free >> cell & 1 else None


def distances_to_solved(
    size: int, walls: tuple[int, ...], goals: tuple[int, ...]
) -> dict[Position, int]:
    """Fewest moves of every position from which there is a solution, in the order of distance."""
    free, solved = free_cells(size, walls), bits(goals)
    back = {letter: -(leads(size)[size + 1, letter] - size - 1) for letter in LETTERS}
    found = {(cell, solved): 0 for cell in cells_of(free & ~solved)}
    waiting = deque(found)
    while waiting and len(found) < MOST_POSITIONS:
        at, boxes = waiting.popleft()
        number = found[at, boxes] + 1
        for offset in back.values():
            before = at + offset
            if not free >> before & 1 or boxes >> before & 1:
                continue
            pushed = at - offset
            earlier = [(before, boxes)]
            if boxes >> pushed & 1:
                earlier.append((before, boxes ^ (1 << pushed) ^ (1 << at)))
            for position in earlier:
                if position not in found:
                    found[position] = number
                    waiting.append(position)
    return found


def draw_room(draws: Draws, size: int, boxes: int, walls: int) -> Room:
    """A room with a position ``size`` moves from its solution, and one of the harder half of its positions.

    Where rooms as deep as that are rare, less is asked for after every ten that were not.

    Args:
        draws: of the instance.
        size: side, the outer walls included.
        boxes: in the room.
        walls: percent of the inner cells.
    """
    cells = inside(size)
    tries = 0
    while True:
        order = draws.permutation(len(cells))
        closed = len(cells) * walls // 100
        chosen = [cells[k] for k in order]
        wall_cells, goals = (
            tuple(sorted(chosen[:closed])),
            tuple(sorted(chosen[closed : closed + boxes])),
        )
        found = distances_to_solved(size, wall_cells, goals)
        deepest = max(found.values(), default=0)
        if deepest >= max(1, size - tries // 10):
            hard = [position for position, number in found.items() if 2 * number >= deepest]
            at, mask = hard[draws.integers(len(hard))]
            return Room(size, wall_cells, goals, cells_of(mask), at, found[at, mask])
        tries += 1


def way_to_solve(
    size: int, walls: tuple[int, ...], goals: tuple[int, ...], position: Position
) -> str | None:
    """A shortest solution by a search forwards; "" if it is solved, None where there is none."""
    free, solved = free_cells(size, walls), bits(goals)
    before: dict[Position, tuple[Position, str] | None] = {position: None}
    waiting = deque([position])
    while waiting:
        now = waiting.popleft()
        if now[1] == solved:
            return _traced(before, now)
        for letter in LETTERS:
            after = moved(size, free, now, letter)
            if after is not None and after not in before:
                before[after] = now, letter
                waiting.append(after)
    return None


def _traced(before: dict[Position, tuple[Position, str] | None], end: Position) -> str:
    moves, link = "", before[end]
    while link is not None:
        position, letter = link
        moves = letter + moves
        link = before[position]
    return moves
