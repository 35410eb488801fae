"""Quantiles of durations that are counted by range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.engines.meter import Durations

SECONDS = st.lists(st.floats(1e-5, 1e4), min_size=1, max_size=50)


@given(one=SECONDS, other=SECONDS, share=st.sampled_from([0.01, 0.5, 0.99]))
def test_quantiles_of_merged_counts_are_those_of_all_values_to_a_range(
    one: list[float], other: list[float], share: float
) -> None:
    counted, second = Durations(), Durations()
    for seconds in one:
        counted.add(seconds)
    for seconds in other:
        second.add(seconds)
    counted.merge(second)
    exact = np.quantile([*one, *other], share, method="inverted_cdf")
    assert counted.count == len(one) + len(other)
    assert exact / 1.051 <= counted.quantile(share) <= exact * 1.051


def test_counts_inside_a_range_are_spread_and_an_open_range_gives_its_start() -> None:
    durations = Durations()
    durations.add_range(1.0, 2.0, 10)
    durations.add_range(2.0, float("inf"), 1)
    durations.add_range(5.0, 6.0, 0)
    assert durations.quantile(0.5) == pytest.approx(1.55)
    assert durations.quantile(0.99) == 2.0
    with pytest.raises(ValueError, match="nothing"):
        Durations().quantile(0.5)
