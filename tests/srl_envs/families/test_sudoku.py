from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.workflow.sudoku import Grid, Sudoku, drawing, fill, fills_text, read_fills
from srl_envs.families.workflow.sudoku_bots import printed_fills, read_grid, singles
from srl_envs.families.workflow.sudoku_grids import (
    BOXES,
    candidates,
    clashes,
    draw_givens,
    solutions,
    structure,
    units,
)

#   1 2 | . 4        1 2 | 3 4
#   3 . | 1 2        3 4 | 1 2
#   ----+----        ----+----
#   2 1 | 4 .        2 1 | 4 3
#   4 3 | 2 1        4 3 | 2 1
GIVENS = (1, 2, 0, 4, 3, 0, 1, 2, 2, 1, 4, 0, 4, 3, 2, 1)
SOLVED = (1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1)
SMALL = Grid(4, GIVENS, GIVENS)


def played(answers: list[str], **options: Any) -> tuple[Sudoku, Any]:
    game = Sudoku(holes=3, **options)
    state: Any = game.new(Streams(0))
    state = game.decode({**game.encode(state), "task": list(SMALL), "now": list(SMALL)})
    for answer in answers:
        state = game.apply(state, {0: ""})
        state = game.apply(state, {1: game.parse(state, 1, answer)})
    return game, state


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("r1c3=3", "r1c3=3"), ("R2C2=4, r1c3=3;", "r1c3=3 r2c2=4"), (" r1c3=3.", "r1c3=3"),
        ("12.4\n3412\n2143\n4321", None), ("12.4 34.2 | 2143 4321", None), ("1204341221434321", None),
    ],
)  # fmt: skip
def test_answers_may_be_cells_or_the_whole_grid(body: str, text: str | None) -> None:
    fills = read_fills(4, body)
    if text is None:
        assert 14 <= len(fills) <= 15
        assert fills[4] == 3
    else:
        assert fills_text(4, fills) == text
    assert read_fills(4, fills_text(4, fills)) == fills


@pytest.mark.parametrize(
    "body",
    [
        "", "r1c3", "r1c3=0", "r1c5=1", "r5c1=1", "r1c1=5", "r1c1=1 r1c1=2", "r1c3=3 because", "....\n" * 4,
        "12.4 3412 2143 4325", "123", "r\u0661c1=1", "9" * 4000, "\ud800",
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused(body: str) -> None:
    with pytest.raises(IllegalMoveError):
        read_fills(4, body)


def test_a_grid_by_hand() -> None:
    assert drawing(SMALL) == "12.4\n3.12\n214.\n4321"
    assert read_grid(f"The task:\n{drawing(SMALL)}\n") == SMALL
    assert solutions(4, GIVENS, 9) == [SOLVED]
    assert candidates(4, GIVENS) == {2: 1 << 3, 5: 1 << 4, 11: 1 << 3}
    now, report = fill(SMALL, {2: 3, 5: 3, 0: 4})  # the first cell was given
    assert now.digits == (1, 2, 3, 4, 3, 3, 1, 2, *GIVENS[8:])
    assert report == "1 cell open, a digit stands twice in row 2, column 2, box 1"
    assert fill(now, {5: 4})[1] == "1 cell open, no digit stands twice"
    assert clashes(4, SOLVED) == ()
    assert units(6).of_cell[35] == (5, 11, 17)
    assert units(6).names[units(6).of_cell[9][2]] == "box 2"


def test_the_outcome_is_one_less_a_tenth_per_round() -> None:
    game, state = played(["r1c3=3"])
    assert game.returns(state) is None
    game, state = played(["r1c3=3", "r2c2=3 r3c4=3", "r2c2=4"])
    assert game.returns(state) == pytest.approx((0.8, 0.8))
    game, state = played(["1234 3412 2143 4321"])
    assert game.returns(state) == (1.0, 1.0)
    game, state = played(["r1c3=3", "r1c3=3", "r1c3=3"])
    assert game.returns(state) == (0.0, 0.0)


def test_wrong_digits_cost_what_right_ones_earn() -> None:
    game, state = played(["r1c3=3 r2c2=4"], reward="shaped")
    assert game.earned(state) == pytest.approx((0.2, 0.2))
    game, state = played(["r1c3=3 r2c2=1"], reward="shaped")
    assert game.earned(state) == (0.0, 0.0)
    game, state = played(["r2c2=1"], reward="shaped")
    assert game.earned(state) == (0.0, 0.0)
    assert game.components(state, 0)["progress"] == 0.0


@given(st.integers(0, 2**32), st.sampled_from([(4, 10), (4, 3), (6, 16), (9, 40)]))
@settings(max_examples=10, deadline=None)
def test_every_grid_has_exactly_one_solution(seed: int, level: tuple[int, int]) -> None:
    size, holes = level
    givens = draw_givens(Draws(seed), size, holes)
    assert givens.count(0) == holes
    (found,) = solutions(size, givens, 2)
    assert clashes(size, found) == ()
    assert 0 not in found
    assert all(given in (0, digit) for given, digit in zip(givens, found, strict=True))


def test_the_search_finds_every_solution() -> None:
    """4 by 4 has 288 grids; with 1 2 3 4 on top there are 288 / 24."""
    assert len(solutions(4, (0,) * 16, 1000)) == 288
    assert len(solutions(4, (1, 2, 3, 4, *(0,) * 12), 1000)) == 12
    assert solutions(4, (1, 2, 3, 0, 0, 0, 0, 4, *(0,) * 8), 9) == []


@given(st.integers(0, 2**32), st.sampled_from([4, 6, 9]))
@settings(max_examples=10, deadline=None)
def test_grids_that_are_the_same_up_to_symmetry_share_a_key(seed: int, size: int) -> None:
    draws = Draws(seed)
    givens = draw_givens(draws, size, {4: 10, 6: 16, 9: 40}[size])
    high, wide = BOXES[size]
    names = (0, *(digit + 1 for digit in draws.permutation(size)))

    def lines(of: int) -> list[int]:
        """Bands in random order, and the lines of each."""
        bands = draws.permutation(size // of)
        return [band * of + line for band in bands for line in draws.permutation(of)]

    rows, columns = lines(high), lines(wide)
    other = tuple(names[givens[row * size + column]] for row in rows for column in columns)
    assert structure(size, other) == structure(size, givens)
    if size != 6:
        turned = tuple(givens[column * size + row] for row in range(size) for column in range(size))
        assert structure(size, turned) == structure(size, givens)


def test_other_grids_have_other_keys() -> None:
    keys = {structure(4, draw_givens(Draws(seed), 4, 10)) for seed in range(60)}
    assert len(keys) > 30
    moved = list(permutations(GIVENS[:4]))[1]
    assert structure(4, (*moved, *GIVENS[4:])) != structure(4, GIVENS)


@pytest.mark.parametrize("options", [{"holes": 3}, {"size": 6}, {"size": 9, "holes": 30}])
def test_both_splits_have_grids_at_every_level(options: dict[str, Any]) -> None:
    env: Any = srl_envs.make("sudoku-v0", **options)
    for split in ("train", "eval"):
        seen = {
            env.reset(seed=seed, options={"split": split})[0]["player_1"]["text"]
            for seed in range(6)
        }
        assert len(seen) >= 5


@pytest.mark.parametrize(
    ("options", "named"), [({"size": 5}, "4, 6 or 9"), ({"holes": 12}, "3 to 11")]
)
def test_wrong_levels_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Sudoku(**options)


def test_a_planner_takes_what_was_printed_unless_it_clashes() -> None:
    line = 'Round 1: the program printed "{}".'
    assert printed_fills(line.format("r1c3=3"), SMALL) == "r1c3=3"
    assert printed_fills(line.format("1234 3412 2143 4321"), SMALL).count("=") == 16
    assert printed_fills(line.format("r1c3=4"), SMALL) == ""
    assert printed_fills(line.format("solved"), SMALL) == ""
    assert singles(SMALL) == "r1c3=3 r2c2=4 r3c4=3"
    assert singles(Grid(4, (0,) * 16, (0,) * 16)) == "r1c1=1"


def test_bots_stand_in_their_order() -> None:
    env = srl_envs.make("sudoku-v0")
    paid = {}
    for name in ("strong", "held_out", "middle", "random"):
        outcomes = []
        for seed in range(12):
            bots = {seat: srl_envs.make_bot("sudoku-v0", name, seed=seed) for seat in (0, 1)}
            outcomes.append(srl_envs.play(env, bots, seed=seed).outcomes[0])
        paid[name] = sum(outcomes) / len(outcomes)
    env.close()
    assert paid["strong"] == 1.0
    assert 1.0 > paid["held_out"] > paid["middle"] > paid["random"]
