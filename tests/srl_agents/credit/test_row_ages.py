"""Rows are as old as the versions that wrote them say, one by one; those above the bound are left out."""

from __future__ import annotations

import numpy as np

from srl_agents.credit.batches import of_age
from srl_agents.records import TrainingBatch, WeightVersion


def batch(*numbers: int) -> TrainingBatch:
    shape = (len(numbers), 2)
    return TrainingBatch(
        learner="alice",
        versions=tuple(WeightVersion("alice", n, "0" * 16) for n in numbers),
        prompt_ids_RP=np.array([[n, n] for n in numbers]),
        prompt_mask_RP=np.ones(shape, dtype=bool),
        completion_ids_RT=np.array([[n, n] for n in numbers]),
        completion_mask_RT=np.ones(shape, dtype=bool),
        learned_RT=np.ones(shape, dtype=bool),
        logprobs_RT=np.zeros(shape, dtype=np.float32),
        advantages_RT=np.ones(shape, dtype=np.float32),
    )


def test_rows_above_the_bound_are_dropped_and_counted() -> None:
    young, metrics = of_age(batch(7, 4, 5, 6, 4), now=7, most=2)
    assert young is not None
    assert [version.number for version in young.versions] == [7, 5, 6]
    assert young.completion_ids_RT[:, 0].tolist() == [7, 5, 6]
    assert metrics == {
        "rows_lag:0": 1, "rows_lag:1": 1, "rows_lag:2": 1, "rows_lag:3": 2, "rows_too_old": 2,
        "rows": 3, "version_lag": 1, "version_lag/max": 2,
    }  # fmt: skip


def test_where_all_rows_are_too_old_nothing_is_learned_from() -> None:
    assert of_age(batch(1, 2), now=9, most=3) == (
        None,
        {"rows_lag:7": 1, "rows_lag:8": 1, "rows_too_old": 2},
    )


def test_without_generation_ahead_nothing_is_dropped() -> None:
    whole = batch(1, 2)
    found, metrics = of_age(whole, now=9, most=None)
    assert found is whole
    assert metrics == {"version_lag": 7.5}
