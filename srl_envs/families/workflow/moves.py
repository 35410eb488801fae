"""Walks on a grid: moves as letters, neighbours, distances, and the eight ways to turn a grid."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import cache

from srl_envs.core import require_action
from srl_envs.errors import IllegalMoveError

LETTERS = "UDLR"
_STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
_WORDS = {"UP": "U", "DOWN": "D", "LEFT": "L", "RIGHT": "R"}
_PARTS = re.compile(r"[^\s,;.>-]+")
FAR = -1
"""Distance of a cell that has no way to the goal."""


def read_moves(body: str, most: int) -> str:
    """Moves as one text of `LETTERS`; written apart, in small letters or as words they are taken, too.

    Raises:
        IllegalMoveError: there is none, there are more than ``most``, or something else is in between.
    """
    moves = ""
    for part in _PARTS.findall(body[: 16 * most].upper()):
        moves += _WORDS.get(part, part)
        if moves.strip(LETTERS):
            raise IllegalMoveError("write the letters U, D, L and R only, for example RRD")
    require_action(bool(moves), "the move is missing; write letters, for example RRD")
    require_action(
        len(body) <= 16 * most and len(moves) <= most,
        f"these are too many moves; at most {most} are allowed",
    )
    return moves


@cache
def neighbours(size: int) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Per cell of a square grid, numbered row by row, the moves that stay on it and where they lead."""
    found = []
    for cell in range(size * size):
        row, column = divmod(cell, size)
        near = []
        for letter, (down, right) in _STEPS.items():
            if 0 <= row + down < size and 0 <= column + right < size:
                near.append((letter, cell + size * down + right))
        found.append(tuple(near))
    return tuple(found)


def step(size: int, cell: int, letter: str) -> int | None:
    """The cell that a move leads to; None off the grid."""
    row, column = divmod(cell, size)
    down, right = _STEPS[letter]
    inside = 0 <= row + down < size and 0 <= column + right < size
    return cell + size * down + right if inside else None


def distances(size: int, blocked: Collection[int], goal: int) -> tuple[int, ...]:
    """Per cell, the fewest moves to the goal; `FAR` for cells without a way."""
    near, closed = neighbours(size), set(blocked)
    found = [FAR] * (size * size)
    found[goal] = 0
    waiting = deque([goal])
    while waiting:
        cell = waiting.popleft()
        for _, other in near[cell]:
            if found[other] == FAR and other not in closed:
                found[other] = found[cell] + 1
                waiting.append(other)
    return tuple(found)


def descent(size: int, at: int, distance: tuple[int, ...]) -> str:
    """Moves that come nearer with every step; "" without a way."""
    moves = ""
    while distance[at] > 0:
        letter, at = next(
            (letter, cell)
            for letter, cell in neighbours(size)[at]
            if distance[cell] == distance[at] - 1
        )
        moves += letter
    return moves


def turned(size: int) -> Iterator[Callable[[int], int]]:
    """The eight maps of the cells that turn or mirror a square grid."""
    last = size - 1

    def mapped(flip: bool, quarter: int, cell: int) -> int:
        row, column = divmod(cell, size)
        if flip:
            column = last - column
        for _ in range(quarter):
            row, column = column, last - row
        return row * size + column

    for flip in (False, True):
        for quarter in range(4):
            yield lambda cell, flip=flip, quarter=quarter: mapped(flip, quarter, cell)  # type: ignore[misc]


def place(size: int, cell: int) -> str:
    """``row 1, column 1`` is on top to the left."""
    row, column = divmod(cell, size)
    return f"row {row + 1}, column {column + 1}"
