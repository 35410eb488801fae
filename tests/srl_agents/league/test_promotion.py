"""The gate has the chances of error that its settings state, for scores of every kind."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from benchmarks.league.gates import errors, simulate
from benchmarks.league.pair_scores import KINDS
from benchmarks.league.stopping_rules import gate, pentanomial
from srl_agents.league.matchmaking.promotion import PromotionSettings, half_difference
from srl_envs.errors import ConfigError, ShapeError

GATE = PromotionSettings()
RUNS = 500
WORST = {"equal": "loses all, 10 % of seeds", "better": "wins all, 10 % of seeds"}
"""Kinds for which a rule that trusts the variance so far errs most."""


def chance_and_noise(chance: float, runs: int) -> float:
    """A share that a true chance exceeds only by three standard errors."""
    return chance + 3 * math.sqrt(chance * (1 - chance) / runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Gaussian, sd .2", "90 % drawn", *WORST.values()])
@pytest.mark.parametrize("settings", [GATE, PromotionSettings(elo1=60, alpha=0.1, beta=0.02)])
def test_both_chances_of_error_hold(settings: PromotionSettings, kind: str) -> None:
    row = errors(gate, kind, settings.against_best, RUNS)
    assert row["equal"] <= chance_and_noise(settings.alpha, RUNS)
    assert row["better"] <= chance_and_noise(settings.beta, RUNS)
    assert row["better_undecided"] <= chance_and_noise(settings.beta / 10, RUNS)


@pytest.mark.parametrize("side", ["equal", "better"])
def test_a_rule_that_trusts_the_variance_so_far_errs_on_rare_events(side: str) -> None:
    """So that the test above can fail: the rule of commit 2582fa9 does."""
    row = errors(pentanomial, WORST[side], GATE.against_best, RUNS)
    assert row[side] > chance_and_noise(GATE.alpha, RUNS)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_both_chances_of_error_hold_for_every_kind(kind: str) -> None:
    """Errors of 2,500 candidates at most 5 %, with their upper ends at most 6 %."""
    row = errors(gate, kind, GATE.against_best, 2500)
    old = errors(pentanomial, kind, GATE.against_best, 2500)
    for side in ("equal", "better"):
        assert row[side] <= 0.05
        assert row[f"{side}_upper"] <= 0.06
        assert row[f"{side}_undecided"] <= 0.05
        if kind.startswith("Gaussian"):
            assert row[f"{side}_pairs"] <= 1.5 * old[f"{side}_pairs"]


def test_a_weaker_candidate_stays_out_and_a_strong_one_does_not_wait() -> None:
    test = GATE.against_best
    assert simulate(gate, "mirrored games", test, 0.45, 300)[0] <= 0.01
    promoted, _, pairs = simulate(gate, "mirrored games", test, 0.67, 300)
    assert promoted >= 0.99
    assert pairs < 75


@pytest.mark.parametrize("mean", [0.45, 0.5])
def test_the_anchors_keep_out_what_loses_to_them_and_nothing_else(mean: float) -> None:
    """Half differences of the points, with and without a loss of the margin."""
    test = GATE.against_anchors()
    assert (test.low, test.high) == (0.45, 0.5)
    passed = simulate(gate, "quarters with ties", test, mean, RUNS)[0]
    wrong = passed if mean == test.low else 1 - passed
    assert wrong <= chance_and_noise(0.05, RUNS)


def test_the_vector_of_candidates_and_one_candidate_decide_alike() -> None:
    test = GATE.against_best
    scores = KINDS["mirrored games"](0.53, (30, test.most), np.random.default_rng(5))
    many = gate(scores, test)
    for k, row in enumerate(scores):
        found = test.find(row)
        assert (found.answer == "above", found.scores) == (many.promoted_R[k], many.pairs_R[k])


def test_two_lucky_pairs_prove_nothing() -> None:
    test = GATE.against_best
    assert test.find(np.ones(19)).answer == "open"
    assert test.find(np.ones(20)).answer == "above"


def test_the_widest_settings_decide_at_once() -> None:
    """A margin of all points, and a strength that takes all of them."""
    widest = PromotionSettings(elo1=20_000, min_pairs=1, anchor_margin=1)
    assert widest.against_anchors().find(np.full(10, 0.5)).answer == "above"
    assert widest.against_best.find(np.full(20, 0.5)).answer == "below"


def test_returns_of_a_team_become_pair_scores() -> None:
    assert half_difference(np.array([1.0, 0.5]), np.array([0.0, 0.5])).tolist() == [1.0, 0.5]


def test_the_most_pairs_are_stated_before_the_first() -> None:
    line = GATE.line()
    assert f"{GATE.against_best.most:,} mirrored pairs per candidate" in line
    assert f"{GATE.against_anchors().most:,} per anchor" in line
    assert "anchor" not in PromotionSettings(anchor_pairs=0).line()


def test_a_gate_that_may_take_millions_of_pairs_is_refused_with_one_that_does_not() -> None:
    with pytest.raises(
        ConfigError, match=r"at most 20,000 are allowed\. Raise elo1 to \d+"
    ) as caught:
        PromotionSettings(elo1=0.5)
    assert "\n" not in str(caught.value)
    enough = int(re.findall(r"to (\d+) or more", str(caught.value))[0])
    assert PromotionSettings(elo1=enough).against_best.most <= 20_000
    with pytest.raises(ConfigError, match=r"anchor_margin=0.001: .* per anchor") as caught:
        PromotionSettings(anchor_margin=0.001)
    margin = float(re.findall(r"Use ([\d.]+) or more", str(caught.value))[0])
    assert PromotionSettings(anchor_margin=margin).against_anchors().most <= 20_000
    PromotionSettings(anchor_margin=0.001, anchor_pairs=0)


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="elo1=0"):
        PromotionSettings(elo1=0)
    with pytest.raises(ConfigError, match="min_pairs=0"):
        PromotionSettings(min_pairs=0)
    with pytest.raises(ConfigError, match="alpha"):
        PromotionSettings(alpha=0.7)
    with pytest.raises(ConfigError, match="Raise elo1"):
        PromotionSettings(elo1=1e-7)
    with pytest.raises(ConfigError, match="anchor_margin=0"):
        PromotionSettings(anchor_margin=0)
    with pytest.raises(ShapeError, match="same seeds"):
        half_difference(np.zeros(2), np.zeros(3))
