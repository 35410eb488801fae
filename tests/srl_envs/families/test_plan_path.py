from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams, split_of_instance
from srl_envs.draws import Draws
from srl_envs.errors import IllegalMoveError
from srl_envs.families.workflow.moves import descent, distances, read_moves, turned
from srl_envs.families.workflow.plan_path import Grid, PlanPath, drawing, left, walk, ways
from srl_envs.families.workflow.plan_path_bots import by_direction, printed_way, read_grid

#   S . #
#   # . .
#   . . G
SMALL = Grid(3, (2, 3), goal=8, at=0)


@pytest.mark.parametrize(
    ("body", "moves"),
    [
        ("RRD", "RRD"), ("r r d", "RRD"), ("R, R, D.", "RRD"), ("right, Right down", "RRD"),
        ("R -> D -> up", "RDU"),
    ],
)  # fmt: skip
def test_moves_may_be_written_in_several_ways(body: str, moves: str) -> None:
    assert read_moves(body, 9) == moves


@pytest.mark.parametrize(
    "body", ["", " , ", "RRX", "go right", "R" * 10, "R 1", "\u0052\u0301", "R" * 10_000]
)
def test_what_is_no_walk_is_refused(body: str) -> None:
    with pytest.raises(IllegalMoveError):
        read_moves(body, 9)


def test_a_walk_by_hand() -> None:
    assert drawing(SMALL) == "S.#\n#..\n..G"
    after, report = walk(SMALL, "RDRDU")
    assert (after.at, after.walked) == (8, 4)  # it ends at the goal
    assert report == "4 steps, now at G"
    after, report = walk(SMALL, "RRDD")
    assert (after.at, after.walked) == (1, 2)
    assert report == "2 steps, now at row 1, column 2, where R was stopped"
    assert walk(SMALL, "U")[1] == "1 step, now at row 1, column 1, where U was stopped"


def test_the_outcome_is_the_shortest_way_over_the_steps() -> None:
    game = PlanPath(size=3)
    state: Any = game.new(Streams(0))
    state = game.decode({**game.encode(state), "task": list(SMALL), "now": list(SMALL)})
    for answer, done in (("RR", False), ("DRD", True)):
        state = game.apply(game.apply(state, {0: ""}), {1: answer})
        assert (game.returns(state) is not None) == done
    assert game.returns(state) == (4 / 5, 4 / 5)  # R, stopped, D, R, D


def test_progress_is_paid_by_the_true_distance_and_given_back() -> None:
    game = PlanPath(size=3, reward="shaped")
    state: Any = game.new(Streams(0))
    state = game.decode({**game.encode(state), "task": list(SMALL), "now": list(SMALL)})
    earned = []
    for answer in ("R", "L", "RD"):
        state = game.apply(game.apply(state, {0: ""}), {1: answer})
        earned.append(game.earned(state)[0])  # type: ignore[index]
    assert earned == pytest.approx([0.075, 0.0, 0.15])
    assert game.returns(state) == pytest.approx((0.15, 0.15))  # it did not arrive


def by_depth(size: int, blocked: tuple[int, ...], at: int, goal: int) -> int:
    """Distance by trying every walk of each length: slow, and shares nothing with the game."""
    reached, length = {at}, 0
    while goal not in reached:
        more = set(reached)
        for cell in reached:
            row, column = divmod(cell, size)
            for r, c in (
                (row - 1, column),
                (row + 1, column),
                (row, column - 1),
                (row, column + 1),
            ):
                if 0 <= r < size and 0 <= c < size and r * size + c not in blocked:
                    more.add(r * size + c)
        if more == reached:
            return -1
        reached, length = more, length + 1
    return length


@given(st.integers(0, 2**32), st.integers(3, 10), st.integers(0, 40))
@settings(max_examples=30, deadline=None)
def test_every_grid_can_be_walked_and_its_shortest_way_is_shortest(
    seed: int, size: int, blocked: int
) -> None:
    game = PlanPath(size=size, blocked=blocked)
    grid = game.draw(Draws(seed))
    assert len(grid.blocked) == size * size * blocked // 100
    assert not {grid.at, grid.goal} & set(grid.blocked)
    assert left(grid) == by_depth(size, grid.blocked, grid.at, grid.goal) > size // 2
    way = descent(size, grid.at, ways(size, grid.blocked, grid.goal))
    assert len(way) == left(grid)
    assert walk(grid, way)[0].at == grid.goal
    found = walk(grid, by_direction(grid))[0]
    assert found.walked >= left(grid)
    assert read_grid(f"The task:\n{drawing(grid)}\n") == grid


def test_a_turned_or_reversed_grid_is_the_same_task() -> None:
    game = PlanPath()
    keys = set()
    for seed in range(20):
        grid = game.draw(Draws(seed))
        same = [
            Grid(10, tuple(sorted(map(turn, grid.blocked))), *ends)
            for turn in turned(10)
            for ends in ((turn(grid.goal), turn(grid.at)), (turn(grid.at), turn(grid.goal)))
        ]
        assert len({repr(game.key(other)) for other in same}) == 1
        assert len({split_of_instance(game.key(other)) for other in same}) == 1
        keys.add(repr(game.key(grid)))
    assert len(keys) == 20


def test_both_splits_have_grids_at_every_level() -> None:
    for size in (3, 4, 5):
        env: Any = srl_envs.make("plan_path-v0", size=size)
        for split in ("train", "eval"):
            seen = {
                env.reset(seed=seed, options={"split": split})[0]["player_1"]["text"]
                for seed in range(30)
            }
            assert len(seen) > 5


def test_bots_are_as_strong_as_their_coder() -> None:
    """A planner takes what was printed, where it is a way, and walks by itself where it is none."""
    env = srl_envs.make("plan_path-v0")
    team = {}
    for coder, planner in (
        ("strong", "strong"),
        ("random", "strong"),
        ("held_out", "strong"),
        ("random", "random"),
    ):
        paid = []
        for seed in range(12):
            bots = {
                0: srl_envs.make_bot("plan_path-v0", coder, seed=seed),
                1: srl_envs.make_bot("plan_path-v0", planner, seed=seed),
            }
            paid.append(srl_envs.play(env, bots, seed=seed).outcomes[0])
        team[coder, planner] = sum(paid) / len(paid)
    env.close()
    assert team["strong", "strong"] == 1.0
    assert 0.5 < team["random", "strong"] < team["held_out", "strong"] <= 1.0
    assert team["random", "random"] < 0.1


def test_only_a_way_to_the_goal_is_followed() -> None:
    line = 'Round 1: the program printed "{}".'
    assert printed_way(line.format("R D R D"), SMALL) == "RDRD"
    assert printed_way(line.format("R D R"), SMALL) == ""
    assert printed_way(line.format("no way"), SMALL) == ""
    assert printed_way("Round 1: no program was sent.", SMALL) == ""


def test_distances_by_hand() -> None:
    assert distances(3, (2, 3), 8) == (4, 3, -1, -1, 2, 1, 2, 1, 0)
    assert descent(3, 0, distances(3, (2, 3), 8)) == "RDDR"
