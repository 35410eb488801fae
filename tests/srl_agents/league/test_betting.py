"""The test by bets: wealth by hand, fair bets whatever the scores, and exact chances of error."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.league.ratings.betting import MeanTest
from srl_envs.errors import ShapeError
from srl_envs.redteam.betting import log_wealth

score = st.floats(0, 1)
bound = st.floats(0.05, 0.95)


def test_the_wealth_by_hand() -> None:
    """Variances before the scores: 1/4 of half a score, then with 1 and with 1, 1/2."""
    first = 1 + 0.1 / (0.25 + 0.01) * 0.5
    wealth = np.exp(log_wealth(np.array([1.0, 0.5, 0.0]), bound=0.5, step=0.1))
    assert wealth[0] == pytest.approx(first)
    assert wealth[1] == pytest.approx(first)  # a score at the bound pays nothing
    assert wealth[2] == pytest.approx(first * (1 - 0.1 / (0.1064 + 0.01) * 0.5))


def test_the_bold_and_the_careful_gambler_share_the_capital() -> None:
    """After a hundred equal scores bets are at their limits: 98 % and 50 % of what each owns."""
    calm = np.full(101, 0.5)
    before, after = log_wealth(np.append(calm, 0.0), bound=0.5, step=0.1)[-2:]
    assert math.exp(after - before) == pytest.approx(0.75 * 0.02 + 0.25 * 0.5)


@given(st.lists(score, max_size=30), bound, st.floats(0.01, 0.5), score, score)
def test_bets_are_fair_where_the_mean_is_the_bound(
    scores: list[float], at: float, step: float, down: float, up: float
) -> None:
    """Whatever came before: a lottery whose mean is the bound leaves the expected wealth as it is."""
    worse, better = at * down, at + (1 - at) * up
    spread = better - worse
    chance = (at - worse) / spread if spread > 1e-9 else 0.5
    wealth = [
        math.exp(log_wealth(np.array([*scores, last]), at, step)[-1]) for last in (worse, better)
    ]
    before = math.exp(log_wealth(np.array(scores), at, step)[-1]) if scores else 1.0
    assert (1 - chance) * wealth[0] + chance * wealth[1] == pytest.approx(before, rel=1e-6)


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.0, 0.7), (0.45, 1.0), (0.0, 0.51), (0.25, 0.75)])
@pytest.mark.parametrize("side", ["above", "below"])
def test_both_chances_of_error_are_exact_over_all_sequences(
    values: tuple[float, float], side: str
) -> None:
    """Every sequence of 14 scores with two values, weighted with its probability."""
    test = MeanTest(low=0.5, high=0.65, alpha=0.4, beta=0.4)
    mean = test.low if side == "above" else test.high
    low, high = values
    if not low < mean < high:
        pytest.skip(f"no mean of {mean} between {low} and {high}")
    ups = np.array(list(itertools.product([False, True], repeat=14)))
    chance = (mean - low) / (high - low)
    weights = np.where(ups, chance, 1 - chance).prod(axis=1)
    above, below = test.wealth(np.where(ups, high, low))
    ahead, goal = (above, test.goals[0]) if side == "above" else (below, test.goals[1])
    wrong = float(weights @ (ahead >= goal).any(axis=1))
    assert wrong <= 0.8 * 0.4
    assert weights.sum() == pytest.approx(1)


@given(st.lists(st.sampled_from([0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=200))
def test_scores_seen_from_the_other_side_give_the_opposite_answer(scores: list[float]) -> None:
    test = MeanTest(low=0.4, high=0.55, alpha=0.05, beta=0.1)
    mirror = MeanTest(low=0.45, high=0.6, alpha=0.1, beta=0.05)
    found, other = test.find(np.array(scores)), mirror.find(1 - np.array(scores))
    assert {"above": "below", "below": "above", "open": "open"}[found.answer] == other.answer
    assert (found.above, found.below) == pytest.approx((other.below, other.above))


@given(st.lists(st.sampled_from([0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=320))
def test_the_answer_is_that_of_the_first_score_that_allows_one(scores: list[float]) -> None:
    test = MeanTest(low=0.5, high=0.6, alpha=0.05, beta=0.05, least=20)
    whole = test.find(np.array(scores))
    parts = (test.find(np.array(scores[:stop])) for stop in range(1, len(scores) + 1))
    assert next((part for part in parts if part.answer != "open"), whole) == whole


def test_rows_are_tests_of_their_own() -> None:
    rows = np.random.default_rng(0).random((3, 40))
    test = MeanTest(low=0.5, high=0.6, alpha=0.05, beta=0.05)
    for together, single in zip(
        test.wealth(rows), zip(*(test.wealth(row) for row in rows), strict=True), strict=True
    ):
        np.testing.assert_allclose(together, np.array(single))


def test_an_undecided_test_ends_below() -> None:
    """The mean sits between the bounds, so that neither gambler grows rich."""
    test = MeanTest(low=0.5, high=0.55, alpha=0.05, beta=0.05)
    noisy = np.resize([0.0, 1.0, 0.625, 1.0, 0.0], test.most + 10)
    assert test.find(noisy[: test.most - 1]).answer == "open"
    found = test.find(noisy)
    assert (found.answer, found.scores) == ("below", test.most)


def test_the_end_leaves_a_tenth_of_beta_undecided() -> None:
    """Of scores that are 0 or 1, the noisiest there are."""
    test = MeanTest(low=0.5, high=0.6, alpha=0.2, beta=0.4)
    scores = (np.random.default_rng(0).random((2000, test.most)) < test.high).astype(float)
    above, below = test.wealth(scores)
    answered = (above >= test.goals[0]) | (below >= test.goals[1])
    assert not answered.any(axis=1).all()
    assert (~answered.any(axis=1)).mean() <= 0.1 * test.beta + 0.013


def test_no_score_has_no_answer_and_others_than_scores_are_refused() -> None:
    test = MeanTest(low=0.5, high=0.6, alpha=0.05, beta=0.05)
    assert test.find(np.zeros(0)).answer == "open"
    for wrong in (np.array([1.5]), np.array([math.nan]), np.zeros((2, 2))):
        with pytest.raises(ShapeError, match="from 0 to 1"):
            test.find(wrong)
