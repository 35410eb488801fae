"""Sokoban: a coder and a planner push boxes onto goals in a room with walls, in as few moves as they can.

Cooperative, two seats in turn, or one that takes both parts (`players=1`): the workflow of `plan_path`. A
box is pushed, never pulled, and only if the cell behind it is free, so a mistake may be final. A move that
is stopped counts and ends the walk of its round.

The outcome of a solution is the fewest moves that solve the room over the moves made; 0 without one. The
fewest are known exactly, by a search backwards from all solved positions. With shaped rewards three tenths
are paid for boxes on goals. The size is that of Sokoban in arXiv:2510.11062, 6 by 6 with the outer walls.
Rewards there are shaped and unbounded, so returns do not compare; rates of success do (`solved`).

A room that is turned or mirrored is the same task: all of them are in one split.

Levels: `size=5, boxes=1` first, nine cells and a solution of 3 to 10 moves, where one random move in four
comes nearer to it; then 6 and up to 9 with up to 3 boxes.

Baselines on 40 rooms of train: the solver 1, the most that there is, and so the strong team, whose program
searches breadth first; a program that keeps boxes near goals 0.94; middle teams 0.61 (one box after the
other, no program); random ones 0.00, and 0.02 with `size=5, boxes=1`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from srl_envs.draws import Draws
from srl_envs.families.workflow.moves import LETTERS, place, read_moves, turned
from srl_envs.families.workflow.sokoban_rooms import (
    Room,
    bits,
    cells_of,
    draw_room,
    free_cells,
    moved,
)
from srl_envs.families.workflow.team import Team, check_number
from srl_envs.sandbox import CodeExecutor

SIZE, BOXES, WALLS, ROUNDS = 6, 2, 12, 3
"""Default options."""


def walk(room: Room, moves: str) -> tuple[Room, str]:
    """The room after the moves, up to the solution or to the first one that is stopped; and a report."""
    free, solved = free_cells(room.size, room.walls), bits(room.goals)
    position, walked, stop = (room.at, bits(room.boxes)), 0, ""
    for letter in moves:
        if position[1] == solved:
            break
        walked += 1
        after = moved(room.size, free, position, letter)
        if after is None:
            stop = f", where {letter} was stopped"
            break
        position = after
    at, boxes = position
    now = room._replace(at=at, boxes=cells_of(boxes), walked=room.walked + walked)
    done = f"{on_goals(now)} of {len(room.goals)} boxes on goals"
    return now, f"{walked} move{'s' * (walked != 1)}, now at {place(room.size, at)}{stop}, {done}"


def on_goals(room: Room) -> int:
    """Boxes that stand on goals."""
    return len({*room.boxes} & {*room.goals})


def drawing(room: Room) -> str:
    """One line per row."""
    free = free_cells(room.size, room.walls)
    marks = ["_" if free >> cell & 1 else "#" for cell in range(room.size * room.size)]
    for cell in room.goals:
        marks[cell] = "o"
    for cell in room.boxes:
        marks[cell] = "*" if cell in room.goals else "$"
    marks[room.at] = "+" if room.at in room.goals else "@"
    return "\n".join("".join(marks[k : k + room.size]) for k in range(0, len(marks), room.size))


class Sokoban(Team[Room]):
    """Observation: the room, what programs printed, the walks so far. Action: a program; moves.

    Args:
        players: 2, or 1 for the lone version.
        size: of the room with its outer walls, 5 to 9.
        boxes: 1 to 3.
        walls: percent of the inner cells, 0 to 25.
        rounds: programs and walks at most, 1 to 8.
        reward: ``"sparse"`` or ``"shaped"``.
        executor: runs the programs; None takes a shared one at the first program.

    Raises:
        ConfigError: an option is impossible.
    """

    name = "sokoban"
    board = Room

    def __init__(
        self,
        *,
        players: int = 2,
        size: int = SIZE,
        boxes: int = BOXES,
        walls: int = WALLS,
        rounds: int = ROUNDS,
        reward: str = "sparse",
        executor: CodeExecutor | None = None,
    ) -> None:
        check_number(self.name, "size", size, 5, 9)
        check_number(self.name, "boxes", boxes, 1, 3)
        check_number(self.name, "walls", walls, 0, 25)
        self.size, self.boxes, self.walls = size, boxes, walls
        self.most_moves = 4 * size * size
        super().__init__(players=players, rounds=rounds, reward=reward, executor=executor)

    @property
    def texts(self) -> Mapping[str, str]:
        """See `Team`."""
        return {
            "goal": (
                "SOKOBAN. Push every box onto a goal in as few moves as you can. @ is you, $ a box, o a "
                "goal, * a box on a goal, + you on a goal, # a wall, _ free. U, D, L and R move you up, "
                "down, left and right; moving into a box pushes it, if the cell behind it is free. Boxes "
                "are never pulled. A move that is stopped counts and ends the walk of its round."
            ),
            "payoff": (
                "fewest moves that solve it / moves of all rounds if every box is on a goal, else 0"
            ),
            "progress": "(boxes on goals - those at the start) / boxes off goals at the start, at least 0",
            "kind": "moves",
            "program": 'print("RRDD")',
            "answer": "RRDD",
        }

    def draw(self, draws: Draws) -> Room:
        """A room that can be solved."""
        return draw_room(draws, self.size, self.boxes, self.walls)

    def key(self, task: Room) -> object:
        """The least of the eight turned rooms."""
        return min(
            (
                *(sorted(map(turn, cells)) for cells in (task.walls, task.goals, task.boxes)),
                turn(task.at),
            )
            for turn in turned(task.size)
        )

    def shown(self, task: Room, now: Room) -> str:
        """The room as it stands."""
        return f"{drawing(now)}\nYou are at {place(now.size, now.at)}."

    def read(self, now: Room, body: str) -> str:
        """Moves as letters."""
        return read_moves(body, self.most_moves)

    def act(self, now: Room, answer: str) -> tuple[Room, str]:
        """See `walk`."""
        return walk(now, answer)

    def progress(self, task: Room, now: Room) -> float:
        """Share of the boxes that were off goals and are on now; below 0 where some left theirs."""
        before = on_goals(task)
        return (on_goals(now) - before) / (len(task.goals) - before)

    def quality(self, task: Room, now: Room, rounds: int) -> float:
        """Fewest moves over moves made."""
        return task.fewest / now.walked

    def plain_answer(self, now: Room) -> str:
        """One move up."""
        return "U"

    def random_answer(self, now: Room, rng: np.random.Generator) -> str:
        """Up to twenty random moves."""
        return "".join(rng.choice(list(LETTERS), int(rng.integers(1, 21))))
