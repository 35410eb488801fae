"""Scripted teams of Sokoban; they read the observation's text and nothing else.

A planner follows what the coder's program printed where it solves the room. Otherwise it brings one box
after the other to a goal, without a thought for the rest.
"""

from __future__ import annotations

import re

import numpy as np

from srl_envs.errors import IllegalMoveError
from srl_envs.families.workflow.moves import LETTERS, read_moves
from srl_envs.families.workflow.scripted import Bot, last_printed, team
from srl_envs.families.workflow.sokoban import walk
from srl_envs.families.workflow.sokoban_rooms import Room, inside, way_to_solve
from srl_envs.families.workflow.tool import NO_PROGRAM

_ROWS = re.compile(r"^The task:\n((?:[#_o$*@+]+\n)+)", re.MULTILINE)

_READ = """rows = {rows!r}
at = {{(r, c): m for r, row in enumerate(rows) for c, m in enumerate(row)}}
goals = frozenset(k for k in at if at[k] in "o*+")
boxes = frozenset(k for k in at if at[k] in "$*")
start = next(k for k in at if at[k] in "@+")
ways = (("U", -1, 0), ("D", 1, 0), ("L", 0, -1), ("R", 0, 1))
def after(you, boxes, r, c):
    k, b = (you[0] + r, you[1] + c), (you[0] + 2 * r, you[1] + 2 * c)
    if at[k] == "#" or k in boxes and (at[b] == "#" or b in boxes):
        return None
    return k, boxes - {{k}} | {{b}} if k in boxes else boxes
"""
_SEARCH = (
    "from collections import deque\n"
    + _READ
    + """seen, waiting = {{(start, boxes)}}, deque([(start, boxes, "")])
while waiting:
    you, boxes, way = waiting.popleft()
    if boxes == goals:
        print(way)
        break
    for m, r, c in ways:
        new = after(you, boxes, r, c)
        if new and new not in seen:
            seen.add(new)
            waiting.append((*new, way + m))"""
)
_NEAREST = (
    "import heapq\n"
    + _READ
    + """def far(boxes):
    return sum(min(abs(b[0] - g[0]) + abs(b[1] - g[1]) for g in goals) for b in boxes)
seen, heap, n = {{(start, boxes)}}, [(far(boxes), 0, start, boxes, "")], 0
while heap:
    _, _, you, boxes, way = heapq.heappop(heap)
    if boxes == goals:
        print(*way)
        break
    for m, r, c in ways:
        new = after(you, boxes, r, c)
        if new and new not in seen:
            seen.add(new)
            n += 1
            heapq.heappush(heap, (far(new[1]), n, *new, way + m))"""
)


def read_room(text: str) -> Room:
    """The room of an observation as it stands."""
    found = _ROWS.search(text)
    if found is None:
        raise ValueError("the text holds no room")
    marks = found.group(1).replace("\n", "")
    size = found.group(1).index("\n")

    def cells(kinds: str) -> tuple[int, ...]:
        return tuple(cell for cell, mark in enumerate(marks) if mark in kinds)

    walls = tuple(cell for cell in inside(size) if marks[cell] == "#")
    return Room(size, walls, cells("o*+"), cells("$*"), cells("@+")[0], 0)


def random_bot(rng: np.random.Generator) -> Bot:
    """No program; random moves."""
    return team(
        lambda _: NO_PROGRAM,
        lambda _: "".join(rng.choice(list(LETTERS), int(rng.integers(1, 21)))),
    )


def middle_bot(_rng: np.random.Generator) -> Bot:
    """No program; one box after the other to a goal."""
    return _team(None)


def strong_bot(_rng: np.random.Generator) -> Bot:
    """A program that searches breadth first, and the moves that it printed."""
    return _team(_SEARCH)


def held_out_bot(_rng: np.random.Generator) -> Bot:
    """A program that keeps boxes near goals, so its solutions may be long. For ratings only."""
    return _team(_NEAREST)


def _team(program: str | None) -> Bot:
    def write(text: str) -> str:
        rows = _ROWS.search(text)
        return program.format(rows=rows.group(1).split()) if program and rows else NO_PROGRAM

    def answer(text: str) -> str:
        room = read_room(text)
        return printed_solution(text, room) or box_by_box(room)

    return team(write, answer)


def printed_solution(text: str, room: Room) -> str:
    """What the last program printed, if it solves the room; else ""."""
    try:
        moves = read_moves(last_printed(text), 4 * room.size * room.size)
    except IllegalMoveError:
        return ""
    return moves if walk(room, moves)[0].boxes == room.goals else ""


def box_by_box(room: Room) -> str:
    """Brings each box in turn to the goal that takes the fewest moves, the other boxes taken for walls."""
    moves = ""
    for box in room.boxes:
        if box in room.goals:
            continue
        others = tuple(b for b in room.boxes if b != box)
        ways = [
            way
            for goal in room.goals
            if goal not in others
            and (
                way := way_to_solve(room.size, (*room.walls, *others), (goal,), (room.at, 1 << box))
            )
        ]
        if ways:
            best = min(ways, key=len)
            moves += best
            room = walk(room, best)[0]
    return moves or "U"
