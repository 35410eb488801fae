"""Connect four to its end, and shortest ways over grids and through rooms with boxes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import srl_envs
from benchmarks.environments.solvers.rows import MakeBot, Solved, move
from srl_envs.core import Streams, episode_entropy
from srl_envs.families.board.connect_four import ConnectFour, Position

# --- connect four --------------------------------------------------------------------------------


class Solver:
    """Values of positions of connect four for the seat on move: 1, 0 or -1.

    A position is a pair of bit boards, of the seat on move and of all pieces; column ``c`` has its lowest
    cell at bit ``c * (rows + 1)``, and one empty row lies above, so that no line wraps.
    """

    def __init__(self, rows: int, cols: int, k: int) -> None:
        self.rows, self.cols, self.k = rows, cols, k
        self._known: dict[tuple[int, int], int] = {}
        middle = (cols - 1) / 2
        self._order = sorted(range(cols), key=lambda c: abs(c - middle))
        self._full = sum(((1 << rows) - 1) << c * (rows + 1) for c in range(cols))

    def drops(self, taken: int) -> Iterator[tuple[int, int]]:
        """Columns with room, and the bit that a piece there takes."""
        for column in self._order:
            base = 1 << column * (self.rows + 1)
            cell = (taken + base) & (((1 << self.rows) - 1) * base)
            if cell:
                yield column, cell

    def wins(self, stones: int) -> bool:
        """Whether these pieces hold a line."""
        for shift in (1, self.rows, self.rows + 1, self.rows + 2):
            line = stones
            for _ in range(self.k - 1):
                line &= line >> shift
            if line:
                return True
        return False

    def value(self, mine: int, taken: int) -> int:
        """What the seat on move reaches against best play."""
        if taken == self._full:
            return 0
        key = (mine, taken)
        known = self._known.get(key)
        if known is not None:
            return known
        cells = [cell for _, cell in self.drops(taken)]
        best = -1
        if any(self.wins(mine | cell) for cell in cells):
            best = 1
        else:
            for cell in cells:
                best = max(best, -self.value(taken ^ mine, taken | cell))
                if best == 1:
                    break
        self._known[key] = best
        return best

    def moves(self, mine: int, taken: int) -> dict[int, int]:
        """Value of every move, by column."""
        return {
            column: 1 if self.wins(mine | cell) else -self.value(taken ^ mine, taken | cell)
            for column, cell in self.drops(taken)
        }


def connect_four(
    bots: tuple[str, ...],
    make: MakeBot,
    size: tuple[int, int, int],
    *,
    most_empty: int,
    positions: int = 200,
) -> Solved:
    """Share of a bot's moves that keep what the position is worth, where some move does not.

    Args:
        bots: their names.
        make: makes one.
        size: rows, columns, pieces in a line.
        most_empty: cells without a piece; random play goes on until no more are left.
        positions: to ask about.
    """
    rows, cols, k = size
    game, solver = ConnectFour(rows=rows, cols=cols, k=k), Solver(rows, cols, k)
    rng = np.random.default_rng(0)
    asked: list[tuple[str, dict[int, int]]] = []
    while len(asked) < positions:
        state = game.new(Streams(int(rng.integers(2**31))))
        empty = int(rng.integers(4, most_empty + 1))
        while game.to_move(state) and rows * cols - sum(state.heights) > empty:
            state = game.apply(state, {state.mover: int(rng.choice(state.open)) - 1})
        if not game.to_move(state):
            continue
        values = solver.moves(*_boards(state))
        if len(set(values.values())) > 1:
            asked.append((game.observe(state, state.mover), values))
    found = {}
    for name in bots:
        bot = make(name, 0)
        kept = [values[int(move(bot, text)) - 1] == max(values.values()) for text, values in asked]
        found[name] = float(np.mean(kept))
    start = "" if most_empty < rows * cols else f"; who begins has {solver.value(0, 0):+d}"
    return Solved(
        game=f"connect_four-v0 rows={rows} cols={cols} k={k}",
        measure=f"share of moves that keep the value, at most {most_empty} empty cells",
        solver=f"the whole tree from there, {positions} positions in which it matters{start}",
        solution=1.0,
        bots=found,
    )


def _boards(state: Position) -> tuple[int, int]:
    mine = state.stones[state.mover % 2]
    return mine, state.stones[0] | state.stones[1]


# --- shortest ways -------------------------------------------------------------------------------

_STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
Cell = tuple[int, int]


class Maze(NamedTuple):
    """Walls, boxes and goals by row and column; a grid without boxes has one goal for the walker."""

    walls: frozenset[Cell]
    boxes: frozenset[Cell]
    goals: frozenset[Cell]
    at: Cell


def fewest_moves(maze: Maze) -> int:
    """Moves of a shortest solution, breadth first.

    Raises:
        ValueError: there is none.
    """
    start = (maze.at, maze.boxes)
    waiting, seen = deque([(start, 0)]), {start}
    while waiting:
        (at, boxes), made = waiting.popleft()
        if (boxes == maze.goals) if maze.boxes else (at in maze.goals):
            return made
        for down, right in _STEPS.values():
            cell, beyond = (at[0] + down, at[1] + right), (at[0] + 2 * down, at[1] + 2 * right)
            pushed = boxes
            if cell in boxes:
                if beyond in boxes or beyond in maze.walls:
                    continue
                pushed = boxes - {cell} | {beyond}
            after = (cell, pushed)
            if cell not in maze.walls and after not in seen:
                seen.add(after)
                waiting.append((after, made + 1))
    raise ValueError("no way leads to the goal")


def maze_of(board: Any) -> Maze:
    """A grid of `plan_path-v0` or a room of `sokoban-v0` in this module's terms."""
    size = board.size
    edge = {(r, c) for r in range(-1, size + 1) for c in (-1, size)}
    edge |= {(r, c) for c in range(-1, size + 1) for r in (-1, size)}
    if hasattr(board, "boxes"):
        edge |= {(r, c) for r in range(size) for c in range(size) if {r, c} & {0, size - 1}}
        closed, boxes, goals = board.walls, board.boxes, board.goals
    else:
        closed, boxes, goals = board.blocked, (), (board.goal,)
    walls, held, due = (
        frozenset(divmod(cell, size) for cell in cells) for cells in (closed, boxes, goals)
    )
    return Maze(walls | edge, held, due, divmod(board.at, size))


def ways(game_id: str, bots: tuple[str, ...], make: MakeBot, *, seeds: int = 40) -> Solved:
    """Shortest way over the moves that a team of copies made, 0 where it did not arrive."""
    game: Any = srl_envs.make(game_id, split="eval").game
    found = {}
    for name in bots:
        ratios = []
        for seed in range(seeds):
            state = game.new(Streams(*episode_entropy(game_id.partition("-")[0], 0, "eval", seed)))
            team = [make(name, 2 * seed + seat) for seat in range(game.seats)]
            shortest = fewest_moves(maze_of(state.task))
            while seats := game.to_move(state):
                (seat,) = seats
                body = move(team[seat], game.observe(state, seat))
                state = game.apply(state, {seat: game.parse(state, seat, body)})
            arrived = state.now.at == getattr(state.now, "goal", state.now.at)
            arrived = arrived and getattr(state.now, "boxes", ()) == getattr(state.now, "goals", ())
            ratios.append(shortest / state.now.walked if arrived else 0.0)
        found[name] = float(np.mean(ratios))
    return Solved(
        game=game_id,
        measure=f"shortest way / moves of a team of copies, 0 where it does not arrive, {seeds} seeds",
        solver="breadth first over walker and boxes",
        solution=1.0,
        bots=found,
    )
