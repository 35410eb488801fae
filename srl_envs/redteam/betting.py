"""Bounds on a mean by betting, valid at every look and for any scores in [0, 1].

A gambler who owns 1 bets on every score that the mean is above a bound. If it is not, the gambler's wealth
ever reaches ``1 / chance`` with at most that chance (Ville). The bounds that some gambler has refuted form
the interval's outside.

Array axes: ``K`` scores in their order, after any number of others that are worked on alike.

Sources: Waudby-Smith and Ramdas, arXiv:2010.09686; Kelly, Bell System Technical Journal 35 (1956) for the
size of bets. Difference: bets aim at a stated step above the bound, and gamblers of several steps share the
capital.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST_VARIANCE = 0.25
"""Largest variance of numbers in [0, 1]."""
GAMBLERS = ((0.75, 0.98), (0.25, 0.5))
"""Share of the capital, and the largest part of it that one score can lose."""
_FIRST_WEIGHT = 0.5
"""Scores' worth of the largest variance in the first estimates."""
_STEPS = (0.004, 0.016, 0.064)
"""Distances of the mean from the bound for which the gamblers of an interval size their bets."""
_HALVINGS = 14


class Interval(NamedTuple):
    """Mean of scores and an interval that holds at every look jointly."""

    mean: float
    low: float
    high: float
    scores: int

    def __str__(self) -> str:
        return f"{self.mean:+.3f} in [{self.low:+.3f}, {self.high:+.3f}] over {self.scores} seeds"


def interval(
    values: Sequence[float], *, least: float, most: float, alpha: float = 0.05
) -> Interval:
    """Interval for the mean of independent values.

    Args:
        values: in their order; what lies outside ``least`` and ``most`` is cut off.
        least: smallest value that can occur.
        most: largest value that can occur.
        alpha: chance that the interval ever misses the mean, whenever one stops.
    """
    width = most - least
    scores = (np.clip(np.asarray(values, dtype=np.float64), least, most) - least) / width
    if not scores.size:
        return Interval(0.0, least, most, 0)
    low, high = lower_bound(scores, alpha / 2), 1 - lower_bound(1 - scores, alpha / 2)
    mean = float(scores.mean())
    mean, low, high = (least + width * at for at in (mean, low, high))
    return Interval(mean, low, high, scores.size)


def lower_bound(scores: Floats, alpha: float) -> float:
    """Largest bound that is refuted together with all below it; 0 where none is.

    Args:
        scores: (K,) in [0, 1].
        alpha: chance of an error.
    """
    low, high = 0.0, float(scores.mean())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        wealth = [log_wealth(scores, middle, step) for step in _STEPS]
        best = float(np.max(np.logaddexp.reduce(wealth, axis=0)))
        refuted = best - math.log(len(_STEPS)) >= -math.log(alpha)
        low, high = (middle, high) if refuted else (low, middle)
    return low


def log_wealth(scores: Floats, bound: float, step: float) -> Floats:
    """Log-wealth of a gambler who bets that the mean is above a bound.

    Args:
        scores: (..., K) in [0, 1].
        bound: from 0 to below 1; at a mean of at most this, no bet is expected to gain.
        step: above the bound, the mean for which the bets are sized.

    Returns:
        (..., K) after every score; 0 is what the gambler started with.
    """
    kelly = step / (_variance_before(scores, bound + step / 2) + step**2)
    shares = []
    for share, largest in GAMBLERS:
        gain = np.log1p(np.minimum(kelly, largest_bet(largest, bound)) * (scores - bound))
        shares.append(math.log(share) + np.cumsum(gain, axis=-1))
    wealth: Floats = np.logaddexp(*shares)
    return wealth


def largest_bet(part: float, bound: float) -> float:
    """Largest bet of which a score of 0 takes no more than a part of the wealth."""
    return part / bound if bound else math.inf


def _variance_before(scores: Floats, centre: float) -> Floats:
    """(..., K) variance of the scores before each, with half a score's worth of the largest one."""
    away = scores - centre
    weight = _FIRST_WEIGHT + np.arange(scores.shape[-1])
    total, square = (np.cumsum(part, axis=-1) - part for part in (away, away**2))
    spread = square - total**2 / weight + _FIRST_WEIGHT * MOST_VARIANCE
    variance: Floats = spread / weight
    return variance
