"""Arms against a baseline over paired training seeds: differences, intervals, Holm, equivalence.

The unit is a training seed: runs of one seed meet the same start states, so differences are taken seed by
seed. Intervals are Student's t. Array axes: ``S`` seeds, ``C`` comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from srl_envs.errors import ConfigError

LEVEL = 0.05
Verdict = Literal["better", "worse", "no difference", "open"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One arm against the baseline."""

    arm: str
    seeds: int
    """Training seeds that both arms have."""
    difference: float
    """Mean of arm minus baseline; NaN without a common seed."""
    half_width: float
    """Of the 95 % interval, without a correction; infinite below two seeds."""
    p: float
    """Two-sided, of no difference; 1 below two seeds."""
    holm: float
    """``p`` corrected for the number of comparisons."""
    equivalence: float
    """p of two one-sided tests of a difference of the margin or more, corrected likewise."""

    @property
    def verdict(self) -> Verdict:
        """``open``: neither a difference nor its absence is shown at the level of .05."""
        if self.holm < LEVEL:
            return "better" if self.difference > 0 else "worse"
        return "no difference" if self.equivalence < LEVEL else "open"


def paired(arm: Mapping[int, float], baseline: Mapping[int, float]) -> Floats:
    """(S,) differences of the seeds that both have, by seed."""
    return np.array([arm[seed] - baseline[seed] for seed in sorted(arm.keys() & baseline.keys())])


def half_width(values_S: Sequence[float] | Floats, confidence: float = 0.95) -> float:
    """Half of Student's interval around the mean; infinite for fewer than two values."""
    size = len(values_S)
    if size < 2:
        return float("inf")
    quantile = stats.t.ppf((1 + confidence) / 2, size - 1)
    return float(quantile * np.std(values_S, ddof=1) / np.sqrt(size))


def two_sided(differences_S: Floats) -> float:
    """p of the mean being 0, by Student's t; 1 for fewer than two differences."""
    return 1.0 if len(differences_S) < 2 else 2 * _tail(abs(_mean(differences_S)), differences_S)


def equivalent(differences_S: Floats, margin: float) -> float:
    """p of the mean lying outside (-margin, margin): the larger of two one-sided tests (Schuirmann, 1987).

    Raises:
        ConfigError: the margin is not positive.
    """
    if margin <= 0:
        raise ConfigError(f"margin={margin}: use more than 0.")
    if len(differences_S) < 2:
        return 1.0
    return _tail(margin - abs(_mean(differences_S)), differences_S)


def _mean(values_S: Floats) -> float:
    return float(np.mean(values_S))


def _tail(distance: float, differences_S: Floats) -> float:
    """Chance that t exceeds the distance in standard errors; without spread 0, .5 or 1 by its sign."""
    error = float(np.std(differences_S, ddof=1)) / np.sqrt(len(differences_S))
    if error == 0:
        return 0.5 - 0.5 * float(np.sign(distance))
    return float(stats.t.sf(distance / error, len(differences_S) - 1))


def holm(p_C: Sequence[float]) -> list[float]:
    """Step-down correction: the k-th smallest of C times (C - k + 1), rising, at most 1 (Holm, 1979)."""
    found, largest = [0.0] * len(p_C), 0.0
    for place, index in enumerate(np.argsort(p_C, kind="stable").tolist()):
        largest = max(largest, min(1.0, (len(p_C) - place) * p_C[index]))
        found[index] = largest
    return found


def compare(
    values: Mapping[str, Mapping[int, float]], baseline: str, margin: float
) -> list[Comparison]:
    """Every arm against the baseline.

    Args:
        values: arm -> seed -> measure.
        baseline: one of the arms.
        margin: of equivalence.

    Returns:
        In the order of ``values``; both kinds of p are corrected over all of them.
    """
    found = {arm: paired(own, values[baseline]) for arm, own in values.items() if arm != baseline}
    p_C = [two_sided(differences) for differences in found.values()]
    equal_C = [equivalent(differences, margin) for differences in found.values()]
    return [
        Comparison(
            arm=arm,
            seeds=len(differences),
            difference=_mean(differences) if len(differences) else float("nan"),
            half_width=half_width(differences),
            p=p,
            holm=corrected,
            equivalence=equal,
        )
        for (arm, differences), p, corrected, equal in zip(
            found.items(), p_C, holm(p_C), holm(equal_C), strict=True
        )
    ]
