"""Best responses are exact: equilibria give nothing, and what fixed policies give is known by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.league.best_response import (
    Policy,
    blotto_decisions,
    blotto_exploitability,
    kuhn_decisions,
    kuhn_exploitability,
    spreads,
    uniform,
)
from srl_envs.families.cards.kuhn_poker_bots import equilibrium, read_spot
from srl_envs.families.dilemmas.blotto import balance, even_spread

SEATS_DECIDE = 24
"""Two seats that may begin; three cards; nothing said, after a check, after a bet, after both."""


def kuhn(push: float, call: float) -> Policy:
    """The same chances of a bet and of a call at every decision."""
    chances = {"bet": push, "check": 1 - push, "call": call, "fold": 1 - call}
    return {d.text: {word: chances[word] for word in d.replies} for d in kuhn_decisions()}


def from_bot(bluff: float) -> Policy:
    """The equilibrium that the scripted players know."""
    policy = {}
    for decision in kuhn_decisions():
        spot = read_spot(decision.text)
        push, call = equilibrium(spot, bluff)
        free = "check" in spot.possible
        policy[decision.text] = (
            {"bet": push, "check": 1 - push} if free else {"call": call, "fold": 1 - call}
        )
    return policy


def test_a_hand_has_24_decisions_of_two_words() -> None:
    found = list(kuhn_decisions())
    assert len(found) == len({d.text for d in found}) == SEATS_DECIDE
    assert {d.replies for d in found} == {("check", "bet"), ("fold", "call")}
    assert all(d.fallback == d.replies[0] for d in found)


@pytest.mark.parametrize("bluff", [0, 1 / 6, 1 / 3])
def test_nothing_is_won_from_an_equilibrium(bluff: float) -> None:
    assert kuhn_exploitability(from_bot(bluff)) == pytest.approx(0, abs=1e-9)


def test_bluffing_more_than_the_equilibrium_can_be_exploited() -> None:
    assert kuhn_exploitability(from_bot(1 / 2 - 1e-3)) > 0.01


def test_from_who_always_bets_and_calls_a_third_of_a_chip() -> None:
    """King: 2. Queen: as often 2 as -2. Jack: gives up its ante. In both seats."""
    assert kuhn_exploitability(kuhn(1, 1)) == pytest.approx(1 / 3)


def test_from_who_never_bets_and_never_calls_the_ante() -> None:
    assert kuhn_exploitability(kuhn(0, 0)) == pytest.approx(1)


@given(st.lists(st.floats(0, 1), min_size=SEATS_DECIDE, max_size=SEATS_DECIDE))
@settings(max_examples=25, deadline=None)
def test_a_best_response_never_loses(chances: list[float]) -> None:
    """It could play the policy itself, for 0."""
    policy = {
        d.text: dict(zip(d.replies, (1 - chance, chance), strict=True))
        for d, chance in zip(kuhn_decisions(), chances, strict=True)
    }
    assert kuhn_exploitability(policy) >= -1e-12


def test_spreads_are_all_and_each_once() -> None:
    found = list(spreads(6, 3))
    assert len(set(found)) == len(found) == 8 * 7 // 2
    assert {sum(spread) for spread in found} == {6}


def test_from_who_spreads_evenly_all_but_the_cheapest_field() -> None:
    """Two soldiers everywhere lose 2 and 3 to three soldiers each, and win 1."""
    policy = {d.text: {"2 2 2": 1.0} for d in blotto_decisions(6, 3)}
    assert blotto_exploitability(policy, 6, 3) == pytest.approx((2 + 3 - 1) / 6)


@pytest.mark.parametrize(("soldiers", "fields"), [(7, 3), (5, 4)])
def test_against_uniform_spreads_no_spread_does_better(soldiers: int, fields: int) -> None:
    """Tried one by one; by symmetry one order of the values is enough."""
    values, every = range(1, fields + 1), list(spreads(soldiers, fields))
    best = max(sum(balance(values, a, b) for b in every) for a in every)
    value = blotto_exploitability(uniform(blotto_decisions(soldiers, fields)), soldiers, fields)
    assert value == pytest.approx(best / len(every) / sum(values))


def test_blotto_falls_back_on_the_even_spread() -> None:
    even = " ".join(map(str, even_spread(10, 3)))
    assert {d.fallback for d in blotto_decisions(10, 3)} == {even}
