import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.dilemmas.public_goods import (
    EFFECTS,
    POOR,
    RICH,
    UNIT,
    Gift,
    Pot,
    PublicGoods,
    Terms,
    draw_terms,
    largest_cut,
    par,
    round_points,
)
from srl_envs.families.dilemmas.public_goods_bots import read_view
from srl_envs.turns.grammar import action
from tests.commit_cases import nightly_but

ENV = "public_goods-v0"
Policy = Callable[[str], str]


def flat(factor: int, rounds: int = 8, *, tokens: int = 20, effect: int = 3) -> Pot:
    """A start in which every round has the same factor."""
    return Pot(Terms(tokens, effect, (factor,) * rounds))


def outcome(one: str | Policy, company: str, seeds: int, **options: Any) -> float:
    """Mean outcome of ``one`` among three of ``company`` ("itself": of its like), its seat going round."""
    env = srl_envs.make(ENV, **options)
    others = one if company == "itself" else company
    total = 0.0
    for seed in range(seeds):
        players = [one if seat == seed % 4 else others for seat in range(4)]
        bots = {
            seat: srl_envs.make_bot(ENV, player, seed=4 * seed + seat)
            if isinstance(player, str)
            else player
            for seat, player in enumerate(players)
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
    points = round_points(20, 16, 0, tuple(map(Gift, gifts)))
    assert [p / UNIT for p in points] == expected


def test_a_cut_costs_one_and_takes_three() -> None:
    gifts = (Gift(0, 1, 4), Gift(0, 0, 1), Gift(0), Gift(0, 1, 2))
    assert [p / UNIT for p in round_points(20, 16, 3, gifts)] == [
        20 - 4 - 3,
        20 - 1 - 12 - 6,
        20,
        20 - 2,
    ]


@given(
    st.integers(8, 24),
    st.sampled_from(POOR + RICH),
    st.sampled_from(EFFECTS),
    st.lists(
        st.tuples(st.integers(0, 24), st.integers(1, 3), st.integers(0, 7)),
        min_size=4, max_size=4,
    ),
)  # fmt: skip
def test_points_agree_with_the_rules_spelled_out(
    tokens: int, factor: int, effect: int, raw: list[tuple[int, int, int]]
) -> None:
    terms = Terms(tokens, effect, (factor,))
    gifts = tuple(
        Gift(min(given, tokens), (seat + step) % 4, min(spent, largest_cut(terms)))
        for seat, (given, step, spent) in enumerate(raw)
    )
    pot = Fraction(factor, 10) * sum(gift.tokens for gift in gifts)
    for seat, points in enumerate(round_points(tokens, factor, effect, gifts)):
        cut = sum(effect * gift.spent for gift in gifts if gift.target == seat)
        mine = gifts[seat]
        assert Fraction(points, UNIT) == tokens - mine.tokens + pot / 4 - mine.spent - cut
        assert -1 <= Fraction(points, par(terms)) <= 1


def test_par_is_the_most_that_a_seat_can_have() -> None:
    three = Gift(20), Gift(20), Gift(20)
    for factor in POOR + RICH:
        had = [round_points(20, factor, 3, (Gift(n), *three))[0] for n in range(21)]
        assert par(Terms(20, 3, (factor,))) == max(had) == had[0 if factor in POOR else 20]
    assert par(Terms(20, 3, (16, 50))) == par(Terms(20, 3, (16,))) + par(Terms(20, 3, (50,)))


def test_the_outcome_is_measured_by_the_lone_free_rider() -> None:
    game = PublicGoods(rounds=2)
    state = flat(16, 2)
    for _ in range(2):
        assert game.returns(state) is None
        state = game.apply(state, {0: Gift(0), 1: Gift(20), 2: Gift(20), 3: Gift(20)})
    assert game.returns(state) == (1.0, 24 / 44, 24 / 44, 24 / 44)
    assert game.components(state, 0) == {
        "contribution": 0.0, "punishing": 0.0, "punished": 0.0, "welfare": (44 + 72) / 128,
    }  # fmt: skip


def test_giving_is_a_dilemma_in_poor_rounds_and_pays_in_rich_ones() -> None:
    for factor in POOR + RICH:
        one, none = (
            round_points(20, factor, 0, (Gift(n), Gift(5), Gift(5), Gift(5))) for n in (1, 0)
        )
        assert (one[0] > none[0]) == (factor in RICH)
        assert sum(one) > sum(none)


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_the_first_round_of_several_is_rich(seed: int, rounds: int) -> None:
    terms = draw_terms(Draws(seed), rounds, cuts=True)
    assert len(terms.factors) == rounds
    assert (terms.factors[0] in RICH) == (rounds > 1)
    assert set(terms.factors) <= set(POOR + RICH)


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
            terms = state.terms
            assert (view.tokens, view.effect) == terms[:2]
            assert view.largest_cut == largest_cut(terms) > 0
            assert view.factors == tuple(factor / 10 for factor in terms.factors)
            assert view.left == 12 - len(state.rounds)
        state = game.apply(
            state, {s: game.parse(state, s, game.sample(state, s, rng)) for s in range(4)}
        )
    assert all(-1 <= x <= 1 for x in game.returns(state) or (9,))
    assert game.decode(json.loads(json.dumps(game.encode(state)))) == state


def test_the_longest_observation_fits() -> None:
    game = PublicGoods(rounds=12, cuts_from=1)
    state = flat(14, 12)
    for _ in range(12):
        gifts = {seat: Gift(19 - seat, (seat + 1) % 2 * 3, 4) for seat in range(4)}
        state = game.apply(state, gifts)
    longest = max(len(game.observe(state, seat)) for seat in range(4))
    assert longest < game.max_observation_chars - 300
    assert game.max_observation_chars <= 8000


@pytest.mark.parametrize(
    "body",
    ["", "21", "-1", "7.5", "seven", "７", "7 cut player_2 2", "7 8", "cut player_2 2", "9" * 30],
)
def test_bodies_refused_before_cuts_are_possible(body: str) -> None:
    game = PublicGoods()
    with pytest.raises(IllegalMoveError):
        game.parse(flat(16), 0, body)


@pytest.mark.parametrize(
    "body",
    ["7 cut player_0 2", "7 cut player_4 2", "7 cut player_2 5", "7 cut player_2 0", "7 cut player_2",
     "7 cut player_2 2 2", "7 cut P2 2", "7 cut player_2 -1", "7 cut player_２ 1", "7 cut 0 2"],
)  # fmt: skip
def test_cuts_refused(body: str) -> None:
    game = PublicGoods(cuts_from=1)
    with pytest.raises(IllegalMoveError):
        game.parse(flat(16), 0, body)


@pytest.mark.parametrize(
    "body",
    ["7 cut player_2 4", "7 CUT Player_2 4", "7, cut 2 4", "Give 7 tokens, cut player_2 by 4."],
)
def test_clear_moves_are_taken(body: str) -> None:
    game = PublicGoods(cuts_from=1)
    assert game.parse(flat(16), 0, body) == Gift(7, 2, 4)


def test_cuts_start_in_their_round_and_can_be_switched_off() -> None:
    game = PublicGoods()
    state = flat(16)
    for number in range(1, 9):
        assert ("a cut may cost" in game.observe(state, 0)) == (number >= 5)
        if number >= 5:
            assert game.parse(state, 0, "7 cut player_2 4") == Gift(7, 2, 4)
        state = game.apply(state, {seat: Gift(1) for seat in range(4)})
    peaceful = PublicGoods(cuts_from=0)
    state = peaceful.new(Streams(0))
    assert "cut" not in peaceful.observe(state, 0).lower()
    with pytest.raises(IllegalMoveError):
        peaceful.parse(state, 0, "7 cut player_2 2")


def test_a_forfeit_leaves_the_others_what_they_can_have_alone() -> None:
    game = PublicGoods(rounds=4)
    state = game.apply(flat(16, 4), {seat: Gift(20) for seat in range(4)})
    assert game.forfeit(state, 2) == pytest.approx(
        ((32 + 60) / 176, (32 + 60) / 176, -1.0, (32 + 60) / 176)
    )


@pytest.mark.parametrize(
    "options",
    [{"rounds": 0}, {"rounds": 13}, {"cuts_from": -1}, {"cuts_from": 13}, {"rounds": "8"}],
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        PublicGoods(**options)


def test_babble_earns_less_than_any_thoughtless_honest_play() -> None:
    def babble(_: str) -> str:
        return "I give nothing."

    assert outcome(babble, "middle", 20) == -1.0


def after(*rounds: tuple[int, int, int, int], factors: tuple[int, ...], cuts_from: int = 5) -> str:
    """What seat 0 sees after these gifts of 20 tokens."""
    game = PublicGoods(rounds=len(factors), cuts_from=cuts_from)
    state = Pot(Terms(20, 3, factors))
    for gifts in rounds:
        state = game.apply(state, {seat: Gift(n) for seat, n in enumerate(gifts)})
    return game.observe(state, 0)


ALL, LESS, NONE = (20, 20, 20, 20), (20, 20, 14, 20), (20, 20, 0, 20)


@pytest.mark.parametrize(
    ("bot", "rounds", "expected"),
    [
        ("strong", [], "20"),
        ("strong", [ALL], "20"),
        ("strong", [LESS], "14"),
        ("strong", [NONE], "0"),
        ("strong", [ALL, NONE], "20"),  # a rich round
        ("strong", [ALL, NONE, ALL], "0"),  # a rich round proves nothing
        ("middle", [ALL, NONE], "0"),
        ("middle", [ALL, LESS], "14"),
        ("free_rider", [ALL], "0"),
        ("free_rider", [ALL, NONE], "20"),
        ("punisher", [ALL, LESS, ALL], "20 cut player_2 2"),
        ("punisher", [ALL, ALL, ALL], "20"),
        ("held_out", [ALL, LESS], "18"),
    ],
)
def test_bots_do_what_they_say(
    bot: str, rounds: list[tuple[int, int, int, int]], expected: str
) -> None:
    text = after(*rounds, factors=(50, 16, 50, 16, 16), cuts_from=4)
    assert srl_envs.make_bot(ENV, bot)(text) == action(expected)


def test_in_one_poor_round_strong_keeps_its_tokens() -> None:
    assert srl_envs.make_bot(ENV, "strong")(after(factors=(16,))) == action(0)


@pytest.mark.slow
def test_who_earns_what() -> None:
    assert outcome("strong", "strong", 10) > 0.9
    for company in ("middle", "strong", "held_out", "punisher"):
        for other in ("random", "free_rider"):
            assert outcome("strong", company, 20) > outcome(other, company, 20) + 0.1
    assert outcome("strong", "random", 40) > outcome("random", "random", 40) + 0.04


def test_cuts_make_free_riding_dear() -> None:
    feared = outcome("free_rider", "punisher", 20)
    assert feared < outcome("strong", "punisher", 20) - 0.05
    assert feared < outcome("free_rider", "punisher", 20, cuts_from=0) - 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "company",
    nightly_but(
        {"punisher", "itself"},
        ["random", "free_rider", "middle", "punisher", "strong", "held_out", "itself"],
    ),
)
def test_no_part_of_the_tokens_and_no_constant_earns_what_strong_does(company: str) -> None:
    def fixed(gift: int) -> Policy:
        return lambda text: action(min(gift, read_view(text).tokens))

    def part(tenths: int) -> Policy:
        return lambda text: action(read_view(text).tokens * tenths // 10)

    thoughtless = [*map(fixed, (0, 1, 4, 8, 12, 16, 20)), *map(part, range(2, 10))]
    best = max(outcome(policy, company, 40) for policy in thoughtless)
    assert best < outcome("strong", company, 40) + 0.005
