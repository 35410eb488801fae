import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.dilemmas.public_goods import (
    FACTORS,
    UNIT,
    Gift,
    Pot,
    PublicGoods,
    round_points,
)
from srl_envs.families.dilemmas.public_goods_bots import read_view

ENV = "public_goods-v0"


def outcome(one: str, others: str, seeds: int, **options: object) -> float:
    """Mean outcome of the bot ``one`` among three ``others``, its seat going round."""
    env = srl_envs.make(ENV, **options)
    total = 0.0
    for seed in range(seeds):
        bots = {
            seat: srl_envs.make_bot(ENV, one if seat == seed % 4 else others, seed=4 * seed + seat)
            for seat in range(4)
        }
        total += srl_envs.play(env, bots, seed=seed).outcomes[seed % 4]
    return total / seeds


@pytest.mark.parametrize(
    ("gifts", "expected"),
    [
        ([20, 20, 20, 20], [32, 32, 32, 32]),
        ([0, 0, 0, 0], [20, 20, 20, 20]),
        ([0, 20, 20, 20], [44, 24, 24, 24]),
        ([1, 0, 0, 0], [19.4, 20.4, 20.4, 20.4]),
    ],
)
def test_points_of_a_round_by_hand(gifts: list[int], expected: list[float]) -> None:
    points = round_points(20, 16, tuple(map(Gift, gifts)))
    assert [p / UNIT for p in points] == expected


def test_a_cut_costs_one_and_takes_three() -> None:
    gifts = (Gift(0, 1, 4), Gift(0, 0, 1), Gift(0), Gift(0, 1, 2))
    assert [p / UNIT for p in round_points(20, 16, gifts)] == [
        20 - 4 - 3,
        20 - 1 - 12 - 6,
        20,
        20 - 2,
    ]


@given(
    st.integers(10, 20),
    st.sampled_from(FACTORS),
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 3), st.integers(0, 4)),
        min_size=4, max_size=4,
    ),
)  # fmt: skip
def test_points_agree_with_the_rules_spelled_out(
    tokens: int, factor: int, raw: list[tuple[int, int, int]]
) -> None:
    gifts = tuple(
        Gift(min(given, tokens), (seat + step) % 4, min(spent, tokens // 5))
        for seat, (given, step, spent) in enumerate(raw)
    )
    pot = Fraction(factor, 10) * sum(gift.tokens for gift in gifts)
    for seat, points in enumerate(round_points(tokens, factor, gifts)):
        cut = sum(3 * gift.spent for gift in gifts if gift.target == seat)
        mine = gifts[seat]
        assert Fraction(points, UNIT) == tokens - mine.tokens + pot / 4 - mine.spent - cut
        most = tokens + Fraction(factor, 10) * 3 * tokens / 4
        assert -1 <= Fraction(points, UNIT) / most <= 1


def test_the_outcome_is_measured_by_the_lone_free_rider() -> None:
    game = PublicGoods(rounds=2)
    state = Pot(20, 16)
    for _ in range(2):
        assert game.returns(state) is None
        state = game.apply(state, {0: Gift(0), 1: Gift(20), 2: Gift(20), 3: Gift(20)})
    assert game.returns(state) == (1.0, 24 / 44, 24 / 44, 24 / 44)
    assert game.components(state, 0) == {
        "contribution": 0.0, "punishing": 0.0, "punished": 0.0, "welfare": (44 + 72) / 128,
    }  # fmt: skip


def test_giving_is_a_dilemma_at_every_factor() -> None:
    for factor in FACTORS:
        one, none = (round_points(20, factor, (Gift(n), Gift(5), Gift(5), Gift(5))) for n in (1, 0))
        assert one[0] < none[0]
        assert sum(one) > sum(none)


@given(st.integers(0, 2**32))
def test_all_seats_see_the_same_past(seed: int) -> None:
    game = PublicGoods(rounds=12, cuts_from=1)
    rng = np.random.default_rng(seed)
    state = game.new(Streams(seed))
    while game.to_move(state):
        views = [read_view(game.observe(state, seat)) for seat in range(4)]
        for seat, view in enumerate(views):
            assert view.seat == seat
            assert view.given == tuple(tuple(g.tokens for g in gifts) for gifts in state.rounds)
            assert (view.tokens, view.largest_cut) == (state.tokens, state.tokens // 5)
            assert view.left == 12 - len(state.rounds)
        state = game.apply(
            state, {s: game.parse(state, s, game.sample(state, s, rng)) for s in range(4)}
        )
    assert all(-1 <= x <= 1 for x in game.returns(state) or (9,))
    assert game.decode(json.loads(json.dumps(game.encode(state)))) == state


def test_the_longest_observation_fits() -> None:
    game = PublicGoods(rounds=12, cuts_from=1)
    state = Pot(20, 14)
    for _ in range(12):
        gifts = {seat: Gift(19 - seat, (seat + 1) % 2 * 3, 4) for seat in range(4)}
        state = game.apply(state, gifts)
    longest = max(len(game.observe(state, seat)) for seat in range(4))
    assert longest < game.max_observation_chars - 300
    assert game.max_observation_chars <= 8000


@pytest.mark.parametrize(
    "body", ["", "21", "-1", "7.5", "seven", "７", "7 cut P3 2", "7 8", "cut P3 2", "9" * 30]
)
def test_bodies_refused_before_cuts_are_possible(body: str) -> None:
    game = PublicGoods()
    with pytest.raises(IllegalMoveError):
        game.parse(Pot(20, 16), 0, body)


@pytest.mark.parametrize(
    "body",
    ["7 cut P1 2", "7 cut P5 2", "7 cut P3 5", "7 cut P3 0", "7 cut P3", "7 cut P3 2 2",
     "7 CUT P3 2", "7 cut 3 2", "7 cut P3 -1", "7 cut P３ 1"],
)  # fmt: skip
def test_cuts_refused(body: str) -> None:
    game = PublicGoods(cuts_from=1)
    with pytest.raises(IllegalMoveError):
        game.parse(Pot(20, 16), 0, body)


def test_cuts_start_in_their_round_and_can_be_switched_off() -> None:
    game = PublicGoods()
    state = Pot(20, 16)
    for number in range(1, 9):
        assert ("a cut may cost" in game.observe(state, 0)) == (number >= 5)
        if number >= 5:
            assert game.parse(state, 0, "7 cut P3 4") == Gift(7, 2, 4)
        state = game.apply(state, {seat: Gift(1) for seat in range(4)})
    peaceful = PublicGoods(cuts_from=0)
    assert "cut" not in peaceful.observe(state, 0)
    with pytest.raises(IllegalMoveError):
        peaceful.parse(state._replace(rounds=()), 0, "7 cut P3 2")


def test_a_forfeit_leaves_the_others_what_they_can_have_alone() -> None:
    game = PublicGoods(rounds=4)
    state = game.apply(Pot(20, 16), {seat: Gift(20) for seat in range(4)})
    assert game.forfeit(state, 2) == pytest.approx(
        ((32 + 60) / 176, (32 + 60) / 176, -1.0, (32 + 60) / 176)
    )


@pytest.mark.parametrize(
    "options",
    [{"rounds": 0}, {"rounds": 13}, {"cuts_from": -1}, {"cuts_from": 13}, {"rounds": "8"}],
)
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        PublicGoods(**options)


def test_babble_earns_less_than_any_thoughtless_honest_play() -> None:
    env = srl_envs.make(ENV)
    total = 0.0
    for seed in range(20):
        bots = {seat: srl_envs.make_bot(ENV, "middle", seed=4 * seed + seat) for seat in range(4)}
        bots[seed % 4] = lambda _: "I give nothing."
        total += srl_envs.play(env, bots, seed=seed).rewards[seed % 4]
    assert total / 20 < outcome("generous", "middle", 20) - 0.2


def test_who_earns_what() -> None:
    assert outcome("strong", "random", 40) > outcome("random", "random", 40) + 0.03
    assert outcome("strong", "middle", 40) > outcome("random", "middle", 40) + 0.05
    assert outcome("strong", "middle", 40) > outcome("free_rider", "middle", 40) + 0.05
    assert outcome("generous", "generous", 10) > outcome("free_rider", "free_rider", 10) + 0.2


def test_cuts_make_free_riding_dear() -> None:
    feared = outcome("free_rider", "punisher", 20)
    assert feared < outcome("generous", "punisher", 20)
    assert feared < outcome("free_rider", "punisher", 20, cuts_from=0) - 0.2
