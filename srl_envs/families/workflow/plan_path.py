"""Plan path: a coder and a planner lead a walker over a grid with blocked cells, by the shortest way.

Cooperative, two seats in turn, or one that takes both parts (`players=1`), which has the same number of
replies over the same texts. The coder's program is run in the sandbox; the planner reads what it printed and
sends moves. Both seats see the grid. A move that leads off the grid or into a blocked cell counts as a step
and ends the walk of its round.

The outcome of a walk that arrives is the length of the shortest way over the steps walked (success weighted
by path length, arXiv:1807.06757); 0 where it does not arrive. With shaped rewards three tenths are paid for
progress, measured by the true distance, not by the Manhattan one, which pays for walking into dead ends. The
sizes are those of Plan-Path in arXiv:2510.11062: 10 by 10, 22 % blocked. Rewards there are +1 at the goal,
+.5 for a shortest way and potentials by Manhattan distance, so returns do not compare; rates of success do
(`solved`).

A grid that is turned, mirrored or walked backwards is the same task: all of them are in one split.

Levels: `size=3` first: one of nine cells is blocked, and a way takes two to four moves, so about one random
step in three leads nearer; then 5, 7, 10 and up to 20. `rounds=1` leaves no second try.

Baselines on 60 grids of train: breadth-first search 1, the most that there is, and so the strong team, whose
program searches so; a program that goes where the crow flies 0.97; middle teams 0.81 (they walk by direction
and send no program); random ones 0.00, and 0.13 at `size=3`, where they reach one goal in five.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from srl_envs.draws import Draws
from srl_envs.families.workflow.moves import (
    LETTERS,
    distances,
    place,
    read_moves,
    step,
    turned,
)
from srl_envs.families.workflow.team import Team, check_number
from srl_envs.sandbox import CodeExecutor

SIZE, BLOCKED, ROUNDS = 10, 22, 3
"""Default options."""
_OPEN, _CLOSED, _AT, _GOAL = ".#SG"


class Grid(NamedTuple):
    """A walker on a square grid; cells are numbered row by row."""

    size: int
    blocked: tuple[int, ...]
    """Blocked cells, ascending."""
    goal: int
    at: int
    walked: int = 0
    """Steps so far, those that were stopped included."""


@lru_cache(maxsize=256)
def ways(size: int, blocked: tuple[int, ...], goal: int) -> tuple[int, ...]:
    """Distance of every cell to the goal; see `distances`."""
    return distances(size, blocked, goal)


def left(grid: Grid) -> int:
    """Fewest moves to the goal."""
    return ways(grid.size, grid.blocked, grid.goal)[grid.at]


def walk(grid: Grid, moves: str) -> tuple[Grid, str]:
    """The grid after the moves, up to the goal or to the first one that is stopped; and a report."""
    at, walked, stop = grid.at, 0, ""
    for letter in moves:
        if at == grid.goal:
            break
        walked += 1
        cell = step(grid.size, at, letter)
        if cell is None or cell in grid.blocked:
            stop = f", where {letter} was stopped"
            break
        at = cell
    after = grid._replace(at=at, walked=grid.walked + walked)
    where = "G" if at == grid.goal else place(grid.size, at)
    return after, f"{walked} step{'s' * (walked != 1)}, now at {where}{stop}"


def drawing(grid: Grid) -> str:
    """One line per row."""
    cells = [_OPEN] * (grid.size * grid.size)
    for cell in grid.blocked:
        cells[cell] = _CLOSED
    cells[grid.at], cells[grid.goal] = _AT, _GOAL
    rows = ("".join(cells[k : k + grid.size]) for k in range(0, len(cells), grid.size))
    return "\n".join(rows)


class PlanPath(Team[Grid]):
    """Observation: the grid, what programs printed, the walks so far. Action: a program; moves.

    Args:
        players: 2, or 1 for the lone version.
        size: of the grid, 3 to 20.
        blocked: percent of the cells, 0 to 40.
        rounds: programs and walks at most, 1 to 8.
        reward: ``"sparse"`` or ``"shaped"``.
        executor: runs the programs; None takes a shared one at the first program.

    Raises:
        ConfigError: an option is impossible.
    """

    name = "plan_path"
    board = Grid

    def __init__(
        self,
        *,
        players: int = 2,
        size: int = SIZE,
        blocked: int = BLOCKED,
        rounds: int = ROUNDS,
        reward: str = "sparse",
        executor: CodeExecutor | None = None,
    ) -> None:
        check_number(self.name, "size", size, 3, 20)
        check_number(self.name, "blocked", blocked, 0, 40)
        self.size, self.blocked = size, blocked
        self.most_moves = size * size
        super().__init__(players=players, rounds=rounds, reward=reward, executor=executor)

    @property
    def texts(self) -> Mapping[str, str]:
        """See `Team`."""
        return {
            "goal": (
                "PLAN PATH. Walk from S to G on a grid in as few steps as you can. U, D, L and R lead one "
                "cell up, down, left and right; # is blocked. A move into # or off the grid counts as a "
                "step and ends the walk of its round."
            ),
            "payoff": "shortest way / steps of all rounds if G is reached, else 0",
            "progress": "1 - shortest way from where you end / shortest way at the start, at least 0",
            "kind": "moves",
            "program": 'print("RRDD")',
            "answer": "RRDD",
        }

    def draw(self, draws: Draws) -> Grid:
        """A grid on which G can be reached, and is not near."""
        size, cells = self.size, self.size * self.size
        while True:
            blocked = tuple(sorted(draws.sample(cells, cells * self.blocked // 100)))
            closed = set(blocked)
            free = [cell for cell in range(cells) if cell not in closed]
            goal = free[draws.integers(len(free))]
            distance = ways(size, blocked, goal)
            starts = [cell for cell in free if distance[cell] > size // 2]
            if starts:
                return Grid(size, blocked, goal, starts[draws.integers(len(starts))])

    def key(self, task: Grid) -> object:
        """The least of the eight turned grids, whose two ends have no order."""
        return min(
            (sorted(map(turn, task.blocked)), sorted((turn(task.at), turn(task.goal))))
            for turn in turned(task.size)
        )

    def shown(self, task: Grid, now: Grid) -> str:
        """The grid, with S where the walker stands."""
        return (
            f"{drawing(now)}\nS is at {place(now.size, now.at)}, G at {place(now.size, now.goal)}."
        )

    def read(self, now: Grid, body: str) -> str:
        """Moves as letters."""
        return read_moves(body, self.most_moves)

    def act(self, now: Grid, answer: str) -> tuple[Grid, str]:
        """See `walk`."""
        return walk(now, answer)

    def progress(self, task: Grid, now: Grid) -> float:
        """Share of the way that is behind the walker; below 0 where it went the other way."""
        return 1.0 - left(now) / left(task)

    def quality(self, task: Grid, now: Grid, rounds: int) -> float:
        """Shortest way over steps walked."""
        return left(task) / now.walked

    def plain_answer(self, now: Grid) -> str:
        """One step up."""
        return "U"

    def random_answer(self, now: Grid, rng: np.random.Generator) -> str:
        """Up to twelve random moves."""
        return "".join(rng.choice(list(LETTERS), int(rng.integers(1, 13))))
