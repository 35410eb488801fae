"""The gate: its two chances of error are what its settings say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.league.gates import KINDS, promotions
from srl_agents.league.promotion import (
    PromotionSettings,
    anchor_change,
    half_difference,
    loses_to_anchors,
    sequential_test,
)
from srl_agents.league.ratings import expected_score
from srl_envs.errors import ConfigError, ShapeError

GATE = PromotionSettings()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gate", [GATE, PromotionSettings(elo1=60, alpha=0.1, beta=0.02)])
def test_both_chances_of_error_hold_whatever_the_games_are_like(
    gate: PromotionSettings, kind: str
) -> None:
    """A chance that is met exactly passes: the margin is three standard errors of 600 runs."""
    runs = 600
    equal, *_ = promotions(gate, gate.elo0, kind, runs)
    better, _, most = promotions(gate, gate.elo1, kind, runs)
    for chance, seen in ((gate.alpha, equal), (gate.beta, 1 - better)):
        assert seen <= chance + 3 * math.sqrt(chance * (1 - chance) / runs)
    assert most <= 2 * gate.most_pairs


def test_a_weaker_candidate_stays_out_and_a_strong_one_does_not_wait() -> None:
    assert promotions(GATE, -35, "mirrored", 300)[0] <= 0.01
    share, games, _ = promotions(GATE, 120, "mirrored", 300)
    assert share >= 0.99
    assert games < 150


def test_the_end_costs_a_tenth_of_beta() -> None:
    """Brownian motion in small steps, from 0 with drift 1/2, between the bounds until the end."""
    gate = PromotionSettings(alpha=0.2, beta=0.2)
    low, high = gate.bounds
    step, runs = 0.01, 20_000
    rng = np.random.default_rng(0)
    place, inside = np.zeros(runs), np.ones(runs, dtype=bool)
    for _ in range(round(gate.information / step)):
        place += step / 2 + math.sqrt(step) * rng.normal(size=runs)
        inside &= (place > low) & (place < high)
    # coarse steps see fewer crossings; the series is exact
    assert inside.mean() == pytest.approx(0.1 * gate.beta, abs=0.008)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=320))
def test_the_decision_is_that_of_the_first_pair_that_allows_one(scores: list[float]) -> None:
    whole = sequential_test(np.array(scores), GATE)
    for stop in range(1, len(scores) + 1):
        part = sequential_test(np.array(scores[:stop]), GATE)
        if part.decision != "continue":
            assert part == whole
            return
    assert whole.decision == "continue"


def test_the_ratio_by_hand() -> None:
    """Scores 1 and 1/2 by turns: mean 3/4, variance 1/16, and one pair with a variance of 1/4."""
    scores = np.array([1, 0.5] * 10)
    s1 = 1 / (1 + 10 ** (-35 / 400))
    expected = 20 * (s1 - 0.5) * (1.5 - 0.5 - s1) / (2 * (1 / 16 + 0.25 / 20))
    verdict = sequential_test(scores, PromotionSettings(alpha=1e-9, beta=1e-9))
    assert verdict.decision == "continue"
    assert verdict.log_ratio == pytest.approx(expected)


def test_an_undecided_candidate_stays_out() -> None:
    """The mean sits between the hypotheses, so that evidence never builds up."""
    middle = (0.5 + expected_score(35)) / 2
    noisy = np.resize([0.0, 1.0, 5 * middle - 2, 1.0, 0.0], 5000)
    verdict = sequential_test(noisy, GATE)
    assert verdict.decision == "keep"
    assert 0.5 * GATE.most_pairs < verdict.pairs <= GATE.most_pairs
    calm = sequential_test(np.resize([0.5, 2 * middle - 0.5], 5000), GATE)
    assert calm.decision == "keep"
    assert calm.pairs < 0.1 * verdict.pairs  # scores that agree tell more each


def test_two_lucky_pairs_prove_nothing() -> None:
    assert sequential_test(np.ones(19), GATE).decision == "continue"
    assert sequential_test(np.ones(20), GATE).decision == "promote"
    assert sequential_test(np.zeros(0), GATE).decision == "continue"


def test_returns_of_a_team_become_pair_scores() -> None:
    assert half_difference(np.array([1.0, 0.5]), np.array([0.0, 0.5])).tolist() == [1.0, 0.5]


def test_a_loss_against_the_anchors_is_seen() -> None:
    rng = np.random.default_rng(1)
    seeds = np.arange(60)
    best = rng.choice([0.5, 1.0], 60)
    worse = np.maximum(best - rng.choice([0, 0.5], 60), 0)
    assert loses_to_anchors(anchor_change(worse, best, seeds), GATE)
    assert not loses_to_anchors(anchor_change(best, worse, seeds), GATE)
    assert anchor_change(worse, best, seeds).estimate == pytest.approx(np.mean(worse - best))


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="elo1=0"):
        PromotionSettings(elo1=0)
    with pytest.raises(ConfigError, match="min_pairs=0"):
        PromotionSettings(min_pairs=0)
    with pytest.raises(ConfigError, match="alpha"):
        PromotionSettings(alpha=0.7)
    with pytest.raises(ShapeError, match="pair scores"):
        sequential_test(np.array([1.5]), GATE)
    with pytest.raises(ShapeError, match="same seeds"):
        half_difference(np.zeros(2), np.zeros(3))
