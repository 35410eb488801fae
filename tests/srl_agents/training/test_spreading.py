"""Learners are shared out to devices evenly, and by every process alike."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from srl_agents.training.loop.shared_gradients import spread_learners

COSTS = st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 10_000), max_size=12)
DEVICES = st.integers(1, 9)


@given(COSTS, DEVICES)
def test_everybody_has_a_device_and_no_device_is_far_above_the_mean(
    costs: dict[str, int], devices: int
) -> None:
    placed = spread_learners(costs, devices)
    assert placed.keys() == costs.keys()
    assert set(placed.values()) <= set(range(devices))
    loads = [sum(c for name, c in costs.items() if placed[name] == d) for d in range(devices)]
    highest = max(costs.values(), default=0)
    assert max(loads) <= sum(costs.values()) / devices + (1 - 1 / devices) * highest + 1e-6


@given(COSTS, DEVICES, st.randoms(use_true_random=False))
def test_the_order_of_learners_decides_nothing(
    costs: dict[str, int], devices: int, random: Random
) -> None:
    names = list(costs)
    random.shuffle(names)
    mixed = {name: costs[name] for name in names}
    assert spread_learners(mixed, devices) == spread_learners(costs, devices)


@given(st.integers(1, 8), st.integers(1, 4), st.integers(0, 50))
def test_learners_of_one_cost_come_out_even(devices: int, each: int, cost: int) -> None:
    """Two on each of four cards, for example."""
    names = [f"learner_{number}" for number in range(devices * each)]
    counts = Counter(spread_learners(dict.fromkeys(names, cost), devices).values())
    assert counts == dict.fromkeys(range(devices), each)
