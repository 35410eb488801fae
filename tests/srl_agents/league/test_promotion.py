"""The gate: rarely promotes an equal, hardly ever a weaker, usually a stronger candidate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.league.promotion import (
    PromotionSettings,
    anchor_change,
    half_difference,
    loses_to_anchors,
    sequential_test,
)
from srl_envs.errors import ConfigError, ShapeError

GATE = PromotionSettings()


def pair_scores(elo: float, pairs: int, rng: np.random.Generator) -> np.ndarray:
    """Mirrored pairs: a deal favours a seat (sd 1 logit), 15 % of games tie."""
    luck = rng.normal(0, 1, pairs)
    total = np.zeros(pairs)
    for sign in (1, -1):
        p = 1 / (1 + np.exp(-(elo * math.log(10) / 400 + sign * luck)))
        total += np.where(rng.random(pairs) < 0.15, 0.5, rng.random(pairs) < p)
    return total / 2


@pytest.mark.parametrize(
    ("elo", "least", "most"), [(-35, 0, 0.02), (0, 0, 0.09), (70, 0.9, 1), (120, 0.97, 1)]
)
def test_error_rates(elo: float, least: float, most: float) -> None:
    rng = np.random.default_rng(0)
    runs = [sequential_test(pair_scores(elo, 300, rng), GATE) for _ in range(300)]
    promoted = np.mean([run.decision == "promote" for run in runs])
    assert least <= promoted <= most
    assert all(run.decision != "continue" for run in runs)


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
    """Scores 1 and 1/2 by turns: mean 3/4, variance 1/16."""
    scores = np.array([1, 0.5] * 10)
    s1 = 1 / (1 + 10 ** (-35 / 400))
    expected = 20 * (s1 - 0.5) * (1.5 - 0.5 - s1) / (2 / 16)
    verdict = sequential_test(scores, PromotionSettings(alpha=1e-9, beta=1e-9))
    assert verdict.decision == "continue"
    assert verdict.log_ratio == pytest.approx(expected)


def test_an_undecided_candidate_stays_out() -> None:
    # alternate so that the mean sits between the hypotheses: evidence never builds up
    scores = np.array([0.5] * 19 + [1.0]).repeat(15)
    assert sequential_test(np.resize([0.5, 0.55], 300), GATE).pairs == 300
    assert sequential_test(np.resize([0.5, 0.55], 300), GATE).decision == "keep"
    assert scores.size == 300


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
    with pytest.raises(ConfigError, match="max_pairs=5"):
        PromotionSettings(max_pairs=5)
    with pytest.raises(ConfigError, match="alpha"):
        PromotionSettings(alpha=0.7)
    with pytest.raises(ShapeError, match="pair scores"):
        sequential_test(np.array([1.5]), GATE)
    with pytest.raises(ShapeError, match="same seeds"):
        half_difference(np.zeros(2), np.zeros(3))
