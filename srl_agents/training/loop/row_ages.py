"""How many steps older than their learner the rows of a batch are, and which are too old to learn from."""

from __future__ import annotations

from collections import Counter

import numpy as np

from srl_agents.records import TrainingBatch

PER_AGE = "rows_lag:"
"""Begins the names of metrics that count rows by age."""


def of_age(
    batch: TrainingBatch, now: int, most: int | None
) -> tuple[TrainingBatch | None, dict[str, float]]:
    """Leave out rows that are too old.

    Args:
        batch: of one learner.
        now: its present version.
        most: steps that a row may be old; None: nothing was generated ahead, so nothing is left out or
            counted by age.

    Returns:
        The rest, None where nothing is left, and metrics: ``version_lag``, the mean age of the rows that
        are learned from; with ``most`` also the largest, the rows per age, and those that were dropped.
    """
    ages_R = np.array([now - version.number for version in batch.versions])
    if most is None:
        return batch, {"version_lag": float(ages_R.mean())}
    young_R = ages_R <= most
    metrics = {f"{PER_AGE}{age}": float(n) for age, n in sorted(Counter(ages_R.tolist()).items())}
    metrics["rows_too_old"] = float((~young_R).sum())
    if not young_R.any():
        return None, metrics
    metrics |= {
        "rows": float(young_R.sum()),
        "version_lag": float(ages_R[young_R].mean()),
        "version_lag/max": float(ages_R[young_R].max()),
    }
    return (batch if young_R.all() else batch.take(np.flatnonzero(young_R))), metrics
