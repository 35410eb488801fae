"""Scripted teams of plan path; they read the observation's text and nothing else.

A planner follows what the coder's program printed where it is moves that lead to the goal. Otherwise it
walks by its own sense of direction, so a team is as strong as its coder.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from srl_envs.errors import IllegalMoveError
from srl_envs.families.workflow.moves import LETTERS, neighbours, read_moves
from srl_envs.families.workflow.plan_path import Grid, walk
from srl_envs.families.workflow.scripted import Bot, last_printed, team
from srl_envs.families.workflow.tool import NO_PROGRAM

_ROWS = re.compile(r"^The task:\n((?:[.#SG]+\n)+)", re.MULTILINE)

_SEARCH = """from collections import deque
grid = {rows!r}
n = len(grid)
cells = {{(r, c): grid[r][c] for r in range(n) for c in range(n)}}
start = next(k for k, v in cells.items() if v == "S")
seen, waiting = {{start}}, deque([(start, "")])
while waiting:
    (r, c), way = waiting.popleft()
    if cells[r, c] == "G":
        print(way)
        break
    for m, k in (("U", (r-1, c)), ("D", (r+1, c)), ("L", (r, c-1)), ("R", (r, c+1))):
        if cells.get(k, "#") != "#" and k not in seen:
            seen.add(k)
            waiting.append((k, way + m))"""
_NEAREST = """import heapq
rows = {rows!r}
marks = {{m: (r, c) for r, row in enumerate(rows) for c, m in enumerate(row) if m in "SG"}}
goal, n = marks["G"], len(rows)
heap, closed = [(0, marks["S"], [])], set()
while heap:
    _, (r, c), moves = heapq.heappop(heap)
    if (r, c) == goal:
        print(*moves)
        break
    for a, b, m in (-1, 0, "up"), (1, 0, "down"), (0, -1, "left"), (0, 1, "right"):
        k = r + a, c + b
        if 0 <= k[0] < n and 0 <= k[1] < n and rows[k[0]][k[1]] != "#" and k not in closed:
            closed.add(k)
            far = abs(k[0] - goal[0]) + abs(k[1] - goal[1])
            heapq.heappush(heap, (far, k, moves + [m]))"""


def read_grid(text: str) -> Grid:
    """The grid of an observation, with the walker where it stands."""
    found = _ROWS.search(text)
    if found is None:
        raise ValueError("the text holds no grid")
    cells = found.group(1).replace("\n", "")
    blocked = tuple(cell for cell, mark in enumerate(cells) if mark == "#")
    goal = cells.index("G")
    at = cells.index("S") if "S" in cells else goal
    return Grid(found.group(1).index("\n"), blocked, goal, at)


def random_bot(rng: np.random.Generator) -> Bot:
    """No program; random moves."""
    return team(
        lambda _: NO_PROGRAM,
        lambda _: "".join(rng.choice(list(LETTERS), int(rng.integers(1, 13)))),
    )


def middle_bot(_rng: np.random.Generator) -> Bot:
    """No program; walks by direction, up to the first dead end."""
    return _team(lambda _grid: NO_PROGRAM, lambda grid: by_direction(grid, back=False))


def strong_bot(_rng: np.random.Generator) -> Bot:
    """A program that searches breadth first, and the moves that it printed."""
    return _team(lambda grid: _SEARCH.format(rows=rows(grid)), by_direction)


def held_out_bot(_rng: np.random.Generator) -> Bot:
    """A program that goes where the crow flies, so its ways may be long. For ratings only."""
    return _team(lambda grid: _NEAREST.format(rows=rows(grid)), by_direction)


def _team(write: Callable[[Grid], str], wander: Callable[[Grid], str]) -> Bot:
    def answer(text: str) -> str:
        grid = read_grid(text)
        return printed_way(text, grid) or wander(grid)

    return team(lambda text: write(read_grid(text)), answer)


def rows(grid: Grid) -> list[str]:
    """As the observation shows them."""
    marks = ["." if cell not in grid.blocked else "#" for cell in range(grid.size * grid.size)]
    marks[grid.at], marks[grid.goal] = "S", "G"
    return ["".join(marks[k : k + grid.size]) for k in range(0, len(marks), grid.size)]


def printed_way(text: str, grid: Grid) -> str:
    """What the last program printed, if it is a way to the goal; else ""."""
    try:
        moves = read_moves(last_printed(text), grid.size * grid.size)
    except IllegalMoveError:
        return ""
    return moves if walk(grid, moves)[0].at == grid.goal else ""


def by_direction(grid: Grid, back: bool = True) -> str:
    """Steps to the free neighbour that is nearest as the crow flies and was not yet visited.

    Args:
        grid: where to walk.
        back: at a dead end, step back and go on; else the walk ends there.
    """
    size, seen, track, moves = grid.size, {grid.at}, [grid.at], ""
    goal_row, goal_column = divmod(grid.goal, size)

    def crow(cell: int) -> int:
        return abs(cell // size - goal_row) + abs(cell % size - goal_column)

    while track[-1] != grid.goal and len(moves) < size * size:
        near = [(m, c) for m, c in neighbours(size)[track[-1]] if c not in grid.blocked]
        new = [(crow(cell), move, cell) for move, cell in near if cell not in seen]
        if new:
            _, move, cell = min(new)
            seen.add(cell)
            track.append(cell)
        elif back:
            track.pop()
            move = next(move for move, cell in near if cell == track[-1])
        else:
            break
        moves += move
    return moves or "U"
