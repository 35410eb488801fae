from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams, split_of_instance
from srl_envs.draws import Draws
from srl_envs.families.workflow.moves import turned
from srl_envs.families.workflow.sokoban import Sokoban, drawing, on_goals, walk
from srl_envs.families.workflow.sokoban_bots import box_by_box, printed_solution, read_room
from srl_envs.families.workflow.sokoban_rooms import (
    Room,
    bits,
    cells_of,
    distances_to_solved,
    draw_room,
    way_to_solve,
)

SMALL = Room(5, (), goals=(18,), boxes=(12,), at=6, fewest=5)
PICTURE = "#####\n#@__#\n#_$_#\n#__o#\n#####"


def test_a_room_by_hand() -> None:
    assert drawing(SMALL) == PICTURE
    assert read_room(f"The task:\n{PICTURE}\n")[:5] == SMALL[:5]
    now, report = walk(SMALL, "RD")
    assert (now.at, now.boxes, now.walked) == (12, (17,), 2)
    assert report == "2 moves, now at row 3, column 3, 0 of 1 boxes on goals"
    now, report = walk(now, "DL")  # the box stands at the wall
    assert (now.at, now.boxes, now.walked) == (12, (17,), 3)
    assert report == "1 move, now at row 3, column 3, where D was stopped, 0 of 1 boxes on goals"
    now, report = walk(now, "LDRUU")  # the walk ends when it is solved
    assert (now.at, now.boxes, now.walked) == (17, (18,), 6)
    assert report == "3 moves, now at row 4, column 3, 1 of 1 boxes on goals"
    assert drawing(now) == "#####\n#___#\n#___#\n#_@*#\n#####"
    assert way_to_solve(5, (), (18,), (6, bits((12,)))) == "DRURD"


def test_a_box_before_another_box_does_not_move() -> None:
    row = Room(6, (), goals=(8, 9), boxes=(14, 15), at=13, fewest=0)
    assert walk(row, "R")[0].boxes == (14, 15)
    assert "where R was stopped" in walk(row, "R")[1]


def test_the_outcome_is_the_fewest_moves_over_the_moves_made() -> None:
    game = Sokoban(size=5, boxes=1)
    state: Any = game.new(Streams(0))
    state = game.decode({**game.encode(state), "task": list(SMALL), "now": list(SMALL)})
    for answer, done in (("RD", False), ("DL", False), ("LDR", True)):
        state = game.apply(game.apply(state, {0: ""}), {1: answer})
        assert (game.returns(state) is not None) == done
    assert game.returns(state) == (5 / 6, 5 / 6)


@given(st.integers(0, 2**32), st.integers(5, 6), st.integers(1, 2), st.integers(0, 25))
@settings(max_examples=12, deadline=None)
def test_the_fewest_moves_are_what_a_search_forwards_finds(
    seed: int, size: int, boxes: int, walls: int
) -> None:
    room = draw_room(Draws(seed), size, boxes, walls)
    way = way_to_solve(size, room.walls, room.goals, (room.at, bits(room.boxes)))
    assert way is not None
    assert len(way) == room.fewest > 0
    solved = walk(room, way)[0]
    assert on_goals(solved) == boxes > on_goals(room)
    assert solved.walked == room.fewest
    assert cells_of(bits(room.boxes)) == room.boxes
    assert read_room(f"The task:\n{drawing(room)}\n")[:5] == room[:5]


def test_positions_without_a_solution_have_no_distance() -> None:
    """A box in a corner that is not a goal stays there."""
    found = distances_to_solved(5, (), (18,))
    stuck = [position for position in found if cells_of(position[1]) in ((6,), (8,), (16,))]
    assert not stuck
    assert way_to_solve(5, (), (18,), (12, bits((6,)))) is None
    assert found[6, bits((12,))] == 5


def test_a_search_that_stops_early_is_still_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = distances_to_solved(7, (), (9, 24))
    monkeypatch.setattr("srl_envs.families.workflow.sokoban_rooms.MOST_POSITIONS", 200)
    part = distances_to_solved(7, (), (9, 24))
    assert 200 <= len(part) < len(whole)
    assert all(whole[position] == number for position, number in part.items())


def test_a_turned_room_is_the_same_task() -> None:
    game = Sokoban()
    for seed in range(10):
        room = game.draw(Draws(seed))
        same = [
            room._replace(
                walls=tuple(sorted(map(turn, room.walls))),
                goals=tuple(sorted(map(turn, room.goals))),
                boxes=tuple(sorted(map(turn, room.boxes))),
                at=turn(room.at),
            )
            for turn in turned(6)
        ]
        assert len({repr(game.key(other)) for other in same}) == 1
        assert len({split_of_instance(game.key(other)) for other in same}) == 1


@pytest.mark.parametrize(
    "options",
    [{"size": 5, "boxes": 1}, {"size": 5, "boxes": 3, "walls": 25}, {"size": 8, "boxes": 3}],
)
def test_both_splits_have_rooms_at_every_level(options: dict[str, Any]) -> None:
    env: Any = srl_envs.make("sokoban-v0", **options)
    for split in ("train", "eval"):
        seen = {
            env.reset(seed=seed, options={"split": split})[0]["player_1"]["text"]
            for seed in range(3 if options["size"] == 8 else 20)
        }
        assert len(seen) >= 3


def test_a_planner_takes_a_solution_that_was_printed_and_else_goes_box_by_box() -> None:
    line = 'Round 1: the program printed "{}".'
    assert printed_solution(line.format("R D L D R"), SMALL) == "RDLDR"
    assert printed_solution(line.format("R D"), SMALL) == ""
    assert printed_solution(line.format("none"), SMALL) == ""
    assert box_by_box(SMALL) == "DRURD"
    stuck = SMALL._replace(boxes=(6,), at=12)
    assert box_by_box(stuck) == "U"


def test_bots_are_as_strong_as_their_coder() -> None:
    env = srl_envs.make("sokoban-v0")
    paid = {}
    for coder in ("strong", "held_out", "random"):
        outcomes = []
        for seed in range(12):
            bots = {
                0: srl_envs.make_bot("sokoban-v0", coder, seed=seed),
                1: srl_envs.make_bot("sokoban-v0", "strong", seed=seed),
            }
            outcomes.append(srl_envs.play(env, bots, seed=seed).outcomes[0])
        paid[coder] = sum(outcomes) / len(outcomes)
    env.close()
    assert paid["strong"] == 1.0
    assert paid["random"] < paid["held_out"] < 1.0
