"""Hazards, and the value of a block that follows from them."""

from __future__ import annotations

import numpy as np
import pytest

from srl_agents.caching.policies.reuse_times import AGE_STARTS, AGES, EPOCHS, ReuseTimes, age_bucket


def test_every_age_has_the_bucket_that_starts_at_or_before_it() -> None:
    for age in range(EPOCHS):
        bucket = age_bucket(age)
        assert AGE_STARTS[bucket] <= age
        assert bucket + 1 == AGES or age < AGE_STARTS[bucket + 1]


def test_before_anything_is_seen_newer_is_worth_more_and_classes_are_alike() -> None:
    worth_CA = ReuseTimes((0, 1, 2), 128).worth()

    assert np.all(np.diff(worth_CA[0]) < 0)
    assert np.all(worth_CA == worth_CA[0])


def test_a_hazard_is_uses_over_blocks_that_reached_the_age() -> None:
    """A thousand blocks per epoch: of class 0 half come back one epoch later, of class 1 none."""
    times = ReuseTimes((0, 1), 128)
    for epoch in range(300):
        for _ in range(1000):
            times.used(0, times.epoch)
            times.used(1, times.epoch)
        if epoch:
            for _ in range(500):
                times.came_back(0, epoch - 1)
        times.advance()
    hazard_CA = times.hazards()

    assert hazard_CA[0, age_bucket(1)] == pytest.approx(0.5, abs=0.01)
    assert hazard_CA[0, age_bucket(8)] < 0.01
    assert hazard_CA[1].max() < 0.01


def test_worth_is_the_best_ratio_of_uses_to_time_held() -> None:
    times = ReuseTimes((0,), 128)
    rng = np.random.default_rng(0)
    hazard_A = rng.uniform(0.001, 0.05, AGES)
    times.hazards = lambda: hazard_A[None, :]  # type: ignore[method-assign]
    per_epoch = np.repeat(hazard_A, np.diff(np.append(AGE_STARTS, EPOCHS)))
    for bucket in (0, 3, AGES - 1):
        alive, uses, held, best = 1.0, 0.0, 0.0, 0.0
        for age in range(AGE_STARTS[bucket], EPOCHS):
            uses += alive * per_epoch[age]
            held += alive
            alive *= 1 - per_epoch[age]
            if age + 1 == EPOCHS or age + 1 in AGE_STARTS:
                best = max(best, uses / held)
        assert times.worth()[0, bucket] == pytest.approx(best)


def test_a_peak_to_come_makes_waiting_worth_it() -> None:
    """Nothing comes back young, all at one later age: worth rises towards it and falls after it."""
    times = ReuseTimes((0,), 128)
    hazard_A = np.full(AGES, 1e-4)
    hazard_A[8] = 0.5
    times.hazards = lambda: hazard_A[None, :]  # type: ignore[method-assign]
    worth_A = times.worth()[0]

    assert np.all(np.diff(worth_A[:9]) > 0)
    assert np.all(worth_A[9:] < worth_A[0])


def test_old_evidence_fades() -> None:
    times = ReuseTimes((0,), 128)
    for _ in range(100):
        times.used(0, times.epoch)
        times.came_back(0, 0)
    before = times.hazards()[0, 0]
    for _ in range(4 * EPOCHS):
        times.used(0, times.epoch)
        times.advance()

    assert times.hazards()[0, 0] < before / 10


def test_a_class_that_was_not_seen_is_like_its_group() -> None:
    """Of group 0 half come back after an epoch, of group 1 none; a class of each was never used."""
    times = ReuseTimes((0, 0, 1, 1), 128)
    for epoch in range(100):
        for _ in range(100):
            times.used(0, times.epoch)
            times.used(2, times.epoch)
        for _ in range(50 * bool(epoch)):
            times.came_back(0, epoch - 1)
        times.advance()
    seen, like_it, _, like_the_other = times.hazards()[:, age_bucket(1)]

    assert like_it == pytest.approx(seen, rel=0.1)
    assert like_the_other < like_it / 5
