"""Intervals around means of games that share their randomness: Student's t over clusters, Wilson.

A cluster is what was drawn once: a seed, played in all seat rotations. Games of one cluster count as
one observation. Pure numpy.

Array axes: ``K`` entries, ``C`` clusters, ``N`` agents.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from srl_envs.errors import ConfigError, ShapeError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval around an estimate; infinite ends when too few clusters show no spread."""

    estimate: float
    low: float
    high: float
    clusters: int

    @classmethod
    def around(cls, estimate: float, half_width: float, clusters: int) -> Interval:
        """An interval that reaches equally far to both sides."""
        return cls(estimate, estimate - half_width, estimate + half_width, clusters)

    @property
    def half_width(self) -> float:
        """Distance to the farther end."""
        return max(self.high - self.estimate, self.estimate - self.low)


def paired_interval(pair_scores: Floats, clusters: NDArray[np.generic]) -> Interval:
    """Mean of mirrored pairs' score differences with a 95 % interval.

    Args:
        pair_scores: (K,) score difference per mirrored pair (or per game), in [-1, 1].
        clusters: (K,) label per entry; entries with one label count as one observation.

    Returns:
        The mean; Student's t over clusters with the factor C / (C - 1). If all clusters
        agree, the observed spread is 0, which proves nothing about unseen seeds: then the
        half-width is 2 (1 - 0.025^(1/C)), the effect of a kind of seed that was just missed.

    Raises:
        ShapeError: the arrays differ in length.
        ConfigError: no entries.
    """
    if pair_scores.shape != clusters.shape or pair_scores.ndim != 1:
        raise ShapeError(f"{pair_scores.shape} scores with {clusters.shape} clusters.")
    if pair_scores.size == 0:
        raise ConfigError("no mirrored pair: these two agents never met.")
    label_K = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    count = int(label_K.max()) + 1
    mean = float(pair_scores.mean())
    if count < 2:
        return Interval.around(mean, math.inf, count)
    sums_C = np.bincount(label_K, weights=pair_scores - mean)
    if np.abs(sums_C).max() < 1e-9:
        return Interval.around(mean, 2 * (1 - 0.025 ** (1 / count)), count)
    variance = count / (count - 1) * float(sums_C @ sums_C) / pair_scores.size**2
    return Interval.around(mean, t_quantile(count - 1) * math.sqrt(variance), count)


@functools.cache
def t_quantile(degrees: int, probability: float = 0.975) -> float:
    """Quantile of Student's t for whole degrees of freedom.

    Up to 200 degrees: bisection on the exact finite sum (Abramowitz and Stegun 26.7.3 and
    26.7.4). Above: their expansion 26.7.5 around the normal quantile, error below 1e-6.

    Args:
        degrees: 1 or more; 0 gives infinity (nothing is known about the spread).
        probability: between 0.5 and 1.
    """
    if degrees < 1:
        return math.inf
    if degrees > 200:
        z = NormalDist().inv_cdf(probability)
        first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
        return z + first / degrees + second / degrees**2
    low, high = 0.0, math.pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        if _t_inside(middle, degrees) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def _t_inside(angle: float, degrees: int) -> float:
    """P(|T| < sqrt(degrees) tan(angle))."""
    sine, cosine = math.sin(angle), math.cos(angle)
    term = total = cosine if degrees % 2 else 1.0
    first = 3 if degrees % 2 else 2
    for k in range(first, degrees, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    if degrees % 2 == 0:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if degrees > 1 else 0.0))


def wilson(score_NN: Floats, count_NN: Ints) -> tuple[Floats, Floats]:
    """Wilson's interval for a mean in [0, 1]; NaN where ``score_NN`` is."""
    z = NormalDist().inv_cdf(0.975)
    count = np.maximum(count_NN, 1)
    scale = 1 + z**2 / count
    centre = (score_NN + z**2 / (2 * count)) / scale
    spread = z / scale * np.sqrt(score_NN * (1 - score_NN) / count + z**2 / (4 * count**2))
    return centre - spread, centre + spread


# --- intervals that hold at every look of a growing sample -----------------------------------------

FIRST_LOOK = 8
"""Seeds at the first look."""
LOOKS_ALPHA = 0.05
"""Chance that a comparison misses at any look."""
_LEAST_ERROR = 0.5
"""Least standard error of a mean over n seeds, times n: equal values of few seeds prove little."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one entrant earns above another per match with the references, on the same seeds."""

    one: str
    other: str
    mean: float
    low: float
    high: float
    seeds: int

    @property
    def apart(self) -> bool:
        """Whether one of the two is shown to earn more."""
        return self.low > 0 or self.high < 0


def looks(most: int) -> tuple[int, ...]:
    """Numbers of seeds at which a run looks; the last is all of them."""
    found = []
    seeds = FIRST_LOOK
    while seeds < most:
        found.append(seeds)
        seeds *= 2
    return (*found, most)


def compared(one: str, other: str, gap_S: Floats, count: int) -> Comparison:
    """The interval of a mean gap, at `LOOKS_ALPHA` over ``count`` looks.

    Args:
        one: whose earnings are the larger where the gap is positive.
        other: the other one.
        gap_S: one number per seed.
        count: number of looks.
    """
    n = gap_S.size
    mean = float(gap_S.mean())
    if n < 2:
        return Comparison(one, other, mean, -math.inf, math.inf, n)
    error = max(float(gap_S.std(ddof=1)) / math.sqrt(n), _LEAST_ERROR / n)
    reach = t_quantile(n - 1, 1 - LOOKS_ALPHA / (2 * count)) * error
    return Comparison(one, other, mean, mean - reach, mean + reach, n)
