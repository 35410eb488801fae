"""HACPO's capability, advantage, ratio and clip, against cases computed by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.sharing.capabilities import LEAST, MOST, Capabilities
from srl_agents.sharing.exchange_settings import ExchangeSettings
from srl_agents.sharing.hacpo import exchange_advantages, exchange_weights, points
from srl_envs.errors import ConfigError

TASK = ("task", 0)


def seen(**means: list[float]) -> Capabilities:
    found = Capabilities(5)
    for name, updates in means.items():
        for mean in updates:
            found.observe(name, {TASK: [mean]})
    return found


def test_capability_is_the_mean_of_the_last_five_updates() -> None:
    found = seen(alice=[0.2, 0.4, 0.6, 0.8, 1.0, 0.0])
    assert found.of("alice", TASK) == pytest.approx((0.4 + 0.6 + 0.8 + 1.0 + 0.0) / 5)
    found.observe("alice", {("task", 1): [1.0, 0.5], TASK: []})
    assert found.of("alice", ("task", 1)) == 0.75  # a seat of its own
    assert found.of("alice", TASK) == pytest.approx(0.56)  # nothing played moves nothing


def test_points_are_a_reward_of_minus_one_to_one_above_a_lost_game() -> None:
    assert (points(-1.0), points(0.0), points(1.0)) == (0.0, 0.5, 1.0)
    found = Capabilities(5)
    found.observe("alice", {TASK: [points(-1.2), points(1.0)]})  # a format cost is no debt
    assert found.of("alice", TASK) == 0.5


def test_the_ratio_of_capabilities_is_bounded_and_none_without_success() -> None:
    found = seen(alice=[0.5], bob=[0.25], carol=[0.0], dora=[0.001])
    assert found.ratio("alice", "bob", TASK) == 2.0
    assert found.ratio("bob", "alice", TASK) == 0.5
    assert found.ratio("alice", "carol", TASK) is None
    assert found.ratio("carol", "alice", TASK) is None
    assert found.ratio("alice", "nobody yet", TASK) is None
    assert (found.ratio("alice", "dora", TASK), found.ratio("dora", "alice", TASK)) == (MOST, LEAST)


def test_the_windows_come_back_from_a_checkpoint() -> None:
    found = seen(alice=[0.2, 0.4], bob=[0.1] * 7)
    again = Capabilities(5)
    again.load_state(json.loads(json.dumps(found.state())))
    for capabilities in (found, again):
        capabilities.observe("alice", {TASK: [0.9]})
    assert again.state() == found.state()
    assert again.of("alice", TASK) == 0.5


def test_rewards_of_others_are_rescaled_to_what_the_reader_would_get() -> None:
    """Points 1, 0 of the reader and 1, 0 of an author half as capable: mean of 1, 0, 2, 0 is 3/4."""
    rewards = np.array([1.0, -1.0, 1.0, -1.0])
    ratios, own = np.array([1.0, 1.0, 2.0, 2.0]), np.array([True, True, False, False])
    assert exchange_advantages(rewards, ratios, own).tolist() == [0.5, -1.5, 0.5, -1.5]
    plain = exchange_advantages(rewards, ratios, own, rescale=False)
    assert plain.tolist() == [1.0, -1.0, 1.0, -1.0]
    scaled = exchange_advantages(rewards / 2, ratios, own, scale=True)
    # points 3/4, 1/4, 3/2, 1/2: the baseline is a reward of 1/2, the deviation 1/2
    assert scaled == pytest.approx([0.0, -2.0, 0.0, -2.0], abs=1e-5)


def test_a_baseline_above_the_best_result_is_that_of_the_readers_own() -> None:
    rewards = np.array([1.0, 1.0, 1.0, 0.0])
    ratios, own = np.array([1.0, 1.0, 4.0, 4.0]), np.array([True, True, False, False])
    assert exchange_advantages(rewards, ratios, own).tolist() == [0.0, 0.0, 0.0, -1.0]


@given(st.floats(-1, 1), st.lists(st.floats(0.1, 10), min_size=2, max_size=6))
def test_equal_rewards_carry_no_signal_whatever_the_capabilities(
    reward: float, ratios: list[float]
) -> None:
    own = np.arange(len(ratios)) == 0
    found = exchange_advantages(np.full(len(ratios), reward), np.array(ratios), own, scale=True)
    assert found == pytest.approx(np.zeros(len(ratios)), abs=1e-9)


def test_a_row_weighs_coefficient_times_ratio_to_one_plus_alpha() -> None:
    log_ratios, coefficients = np.log([0.9, 0.9, 0.85]), np.array([1.0, 2.0, 0.5])
    found = exchange_weights(log_ratios, coefficients, ExchangeSettings(), 0)
    assert found.factors_R == pytest.approx([0.81, 1.62, 0.36125])
    linear = exchange_weights(log_ratios, coefficients, ExchangeSettings(exponent=0.0), 0)
    assert linear.factors_R == pytest.approx([0.9, 1.8, 0.425])
    without = exchange_weights(
        log_ratios, coefficients, ExchangeSettings(estimator="no_discrepancy"), 0
    )
    assert without.factors_R == pytest.approx([0.81, 0.81, 0.7225])


@pytest.mark.parametrize(
    ("step", "kept"),
    [
        (0, [False, True, True, True, True, False]),  # the bound is 0.8
        (1, [False, False, True, True, True, False]),  # 0.825
        (3, [False, False, False, True, True, False]),  # 0.875
        (7, [False, False, False, False, True, False]),  # 0.975
        (50, [False, False, False, False, True, False]),  # never above 1
    ],
)
def test_the_clip_rises_with_every_step(step: int, kept: list[bool]) -> None:
    log_ratios = np.log([0.79, 0.81, 0.86, 0.96, 1.0, 1.01])
    found = exchange_weights(log_ratios, np.ones(6), ExchangeSettings(), step)
    assert found.kept_R.tolist() == kept
    assert (found.factors_R > 0).tolist() == kept
    assert found.above_R.tolist() == [False] * 5 + [True]
    assert not (found.below_R & found.above_R).any()


@given(
    st.lists(st.floats(-60, 60), min_size=1, max_size=8),
    st.floats(0.1, 10),
    st.integers(0, 30),
)
def test_no_row_of_others_weighs_more_than_its_coefficient(
    log_ratios: list[float], coefficient: float, step: int
) -> None:
    rows = np.array(log_ratios)
    found = exchange_weights(rows, np.full(rows.shape, coefficient), ExchangeSettings(), step)
    assert (found.factors_R >= 0).all()
    assert (found.factors_R <= coefficient).all()
    free = exchange_weights(rows, np.ones(rows.shape), ExchangeSettings(clip=None), step)
    assert free.kept_R.all()
    assert np.isfinite(free.factors_R).all()


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"exponent": -1.0}, "exponent"),
        ({"clip": (0.0, 0.0)}, "clip"),
        ({"clip": (1.5, 0.0)}, "clip"),
        ({"clip": (0.2, 1.0)}, "clip"),
        ({"estimator": "naive", "exponent": 2.0}, "exponent"),
        ({"estimator": "naive", "clip": None}, "clip"),
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        ExchangeSettings(**wrong)
