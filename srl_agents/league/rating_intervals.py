"""Ends of ratings' intervals: how far an agent can move before the likelihood speaks against it.

An interval has three parts, found for every agent at once:

- *Shape.* The agent moves along the direction in which its distance to zero costs least. Its own
  match-ups are counted as they are, everything else to second order. So an agent with one loss in
  a hundred games gets a long side and a short one.
- *Design effect.* Clusters that agree less than chance would widen the interval. The ratio of the
  scatter between clusters to the scatter that the model expects is shrunk as if one more game's
  worth of information had shown the larger of 1 and the field's ratio.
- *Quantile.* Student's t. The ratio of an agent with few surprising results rests on few numbers,
  whatever the number of clusters; its degrees of freedom say so.

Array axes: ``N`` agents, ``R`` (match-up, agent) entries.

Sources: Chandler and Bate, "Inference for clustered data using the independence loglikelihood",
Biometrika 94 (2007) for likelihoods scaled by a sandwich; Satterthwaite, Biometrics Bulletin 2
(1946) for degrees of freedom; Zou and Donner, Statistics in Medicine 27 (2008) for differences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from srl_agents.league.intervals import Floats, Ints, t_quantile
from srl_agents.league.result_tails import OwnGames, ResultTails

BORROWED = 1.0
"""Information, in squared log-odds, that every design effect borrows from the field."""
_FIXED = 1e-12
"""Variance below which a rating is where it is by definition: the only anchor's."""
_TURNS = 100
_MISSED = 0.05
"""Share of intervals that miss."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Evidence:
    """What is known about the distance of each agent to zero, in log-odds."""

    variance_N: Floats
    """If the model is right: the inverse curvature of the posterior."""
    observed_N: Floats
    """The share of the results in it, as the scatter between clusters has it."""
    expected_N: Floats
    """The same as the model has it."""
    clusters_N: Ints
    """Clusters in which the agent has a result."""


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """(N,) squared deviates at which an end lies; infinite below 2 clusters."""

    half_N: Floats
    """Of an end that may miss in half of the 5 %."""
    whole_N: Floats
    """Of an end that may miss in all of them, because the other one cannot."""


def limits(found: Evidence) -> Limits:
    """Squared quantiles of Student's t, times the design effect."""
    known = (found.clusters_N > 1) & (found.variance_N > _FIXED)
    squared = np.where(known, found.variance_N, 1.0) ** 2
    information_N = np.where(known, found.expected_N / squared, 0.0)
    scatter_N = np.where(known, found.observed_N / squared, 0.0)
    # luck with a seed shows by how much a seed tells: an excess of (information per cluster) x luck
    per_cluster_N = information_N / np.maximum(found.clusters_N, 1.0)
    luck = float((scatter_N - information_N).sum()) / max(
        float((information_N * per_cluster_N).sum()), _FIXED
    )
    usual_N = 1 + max(luck, 0.0) * per_cluster_N
    effect_N = (scatter_N + BORROWED * usual_N) / (information_N + BORROWED)
    own_N = information_N / (information_N + BORROWED)
    # the relative variance 2 / (clusters - 1) belongs to the agent's own share of the effect
    degrees_N = np.maximum(found.clusters_N - 1.0, 1.0) / np.maximum(own_N, 0.01) ** 2
    half_N, whole_N = (
        np.where(found.clusters_N > 1, _t(degrees_N, 1 - missed) ** 2 * effect_N, np.inf)
        for missed in (_MISSED / 2, _MISSED)
    )
    return Limits(half_N, whole_N)


def ends(own: OwnGames, variance_N: Floats, allowed: Limits) -> tuple[Floats, Floats]:
    """(N,) distances from the estimate to the lower and to the upper end, log-odds."""
    fixed = variance_N <= _FIXED
    solvable = ~fixed & np.isfinite(allowed.half_N)
    limits_ = Limits(*(np.where(solvable, x, 1.0) for x in (allowed.half_N, allowed.whole_N)))
    doubt = _Doubt(own, np.where(fixed, 1.0, variance_N), limits_)
    sides = []
    for sign in (-1.0, 1.0):
        side = np.abs(doubt.end(sign))
        sides.append(np.where(fixed, 0.0, np.where(solvable, side, np.inf)))
    return sides[0], sides[1]


def apart(one: Floats, other: Floats, correlation: Floats | float) -> Floats:
    """Distance from a difference to its end, of the two agents' distances to their ends.

    Args:
        one: of the agents, towards the end in question.
        other: of their opponents, away from it.
        correlation: of the two errors.
    """
    unknown = np.isinf(one) | np.isinf(other)
    a, b = np.where(unknown, 0.0, one), np.where(unknown, 0.0, other)
    width: Floats = np.sqrt(np.maximum(a**2 + b**2 - 2 * correlation * a * b, 0.0))
    return np.where(unknown, np.inf, width)


class _Doubt:
    """What speaks against a move, half a squared deviate: own results by their tail, the rest to second order."""

    def __init__(self, own: OwnGames, variance_N: Floats, allowed: Limits) -> None:
        self._tails, self._allowed, self._variance_N = ResultTails(own), allowed, variance_N
        stay_N = np.zeros(variance_N.size)
        slope = self._tails.slope(stay_N)
        self._rest_N = np.maximum(1 / variance_N - slope.second_N, 0.0)
        self._slope_N = slope.first_N  # that of the rest is the opposite: the estimate is the top
        self._start_N = self._tails.deviate(stay_N) ** 2 / 2

    def end(self, sign: float) -> Floats:
        """(N,) moves at which the doubt reaches the limit: regula falsi, Illinois variant."""
        near_N = np.zeros(self._variance_N.size)
        near_miss_N = self._miss(near_N, sign)
        far_N = sign * np.sqrt(self._allowed.half_N * self._variance_N)
        far_miss_N = self._miss(far_N, sign)
        for _ in range(_TURNS):
            inside_N = far_miss_N <= 0
            if not inside_N.any():
                break
            near_N = np.where(inside_N, far_N, near_N)
            near_miss_N = np.where(inside_N, far_miss_N, near_miss_N)
            far_N = np.where(inside_N, 1.5 * far_N, far_N)
            far_miss_N = self._miss(far_N, sign)
        side_N, last_N = np.zeros(near_N.size), far_N
        for _ in range(_TURNS):
            share_N = near_miss_N / (near_miss_N - far_miss_N)
            guess_N = near_N + share_N * (far_N - near_N)
            if (np.abs(guess_N - last_N) <= 1e-11 * np.abs(guess_N)).all():
                break
            miss_N = self._miss(guess_N, sign)
            outside_N = miss_N > 0
            far_N, near_N = np.where(outside_N, guess_N, far_N), np.where(outside_N, near_N, guess_N)
            # an end that stays twice counts half, so that both brackets close
            near_miss_N = np.where(outside_N, near_miss_N * np.where(side_N > 0, 0.5, 1), miss_N)
            far_miss_N = np.where(outside_N, miss_N, far_miss_N * np.where(side_N < 0, 0.5, 1))
            side_N, last_N = np.where(outside_N, 1.0, -1.0), guess_N
        return guess_N

    def _miss(self, move_N: Floats, sign: float) -> Floats:
        own_N = self._tails.deviate(move_N) ** 2 / 2 - self._start_N
        doubt_N = own_N - self._slope_N * move_N + self._rest_N * move_N**2 / 2
        return doubt_N - self._limit(move_N, sign) / 2

    def _limit(self, move_N: Floats, sign: float) -> Floats:
        """(N,) squared deviate of an end; a tail of 2.5 to 5 %, what the other end leaves.

        The other end errs at the earliest with the most extreme results beyond it. While half their
        probability is above 5 %, it never does.
        """
        half_N = self._tails.extreme(move_N, sign) - np.log(2)
        whole_N = np.clip((half_N - np.log(_MISSED / 2)) / np.log(1.2), 0.0, 1.0)
        return self._allowed.half_N + whole_N * (self._allowed.whole_N - self._allowed.half_N)


def _t(degrees_N: Floats, probability: float) -> Floats:
    """Quantile of Student's t for degrees of freedom of 1 or more, straight between whole ones in 1 / df."""
    whole_N = np.floor(np.minimum(degrees_N, 1e6)).astype(np.int64)
    values, place = np.unique(whole_N, return_inverse=True)
    low = np.array([t_quantile(int(v), probability) for v in values])[place]
    high = np.array([t_quantile(int(v) + 1, probability) for v in values])[place]
    share = (1 / whole_N - 1 / np.maximum(degrees_N, 1.0)) / (1 / whole_N - 1 / (whole_N + 1))
    quantiles: Floats = low + np.clip(share, 0.0, 1.0) * (high - low)
    return quantiles


def correlations(covariance_NN: Floats) -> Floats:
    """(N, N) of a covariance; 0 where an agent has no variance."""
    deviation_N = np.sqrt(np.maximum(np.diag(covariance_NN), 0.0))
    known_N = deviation_N > _FIXED**0.5
    scale_N = np.where(known_N, 1 / np.where(known_N, deviation_N, 1.0), 0.0)
    found: Floats = np.clip(covariance_NN * scale_N[:, None] * scale_N[None, :], -1.0, 1.0)
    return found
