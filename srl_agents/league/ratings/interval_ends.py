"""Ends of ratings' intervals: how far an agent can move before its results speak against it.

An interval has four parts, found for every agent at once:

- *Path.* The agent moves along the direction in which its distance to zero costs least.
- *Doubt.* Its own match-ups, and those that move with it (`moved_games`), count by the tail that the moved
  skills predict for them (`result_tails`), everything else to second order. So an agent with one loss in a
  hundred games gets a long side and a short one, and few surprising results are counted as the whole
  numbers that they are, also where they lie between two groups far apart. The prior counts only on a side
  that no result can end: it is not evidence, and it pulls far groups together.
- *Design effect.* Clusters that agree less than chance would widen the interval. The ratio of the
  scatter between clusters to the scatter that the model expects is shrunk as if one more game's
  worth of information had shown what luck with seeds, as the whole field has it, would do to this
  agent.
- *Limit.* Student's t. Each end misses in 2.5 %. An agent that loses nearly everything has an upper
  end that cannot miss while losing everything is likely; its lower end then misses in 5 %.

Array axes: ``N`` agents.

Sources: Chandler and Bate, "Inference for clustered data using the independence loglikelihood",
Biometrika 94 (2007) for likelihoods scaled by a sandwich; Blaker, Canadian Journal of Statistics 28
(2000) for tails that get what the opposite tail cannot use; Satterthwaite, Biometrics Bulletin 2
(1946) for degrees of freedom; Zou and Donner, Statistics in Medicine 27 (2008) for differences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from srl_agents.league.ratings.intervals import Floats, Ints, t_quantile
from srl_agents.league.ratings.result_tails import OwnGames, ResultTails

BORROWED = 1.0
"""Information, in squared log-odds, that every design effect borrows from the field."""
LENT_CLUSTERS = 1.0
"""Clusters that agree with the model, in the errors' correlations: those of two clusters are all 1 or -1."""
_MISSED = 0.05
"""Share of intervals that miss."""
_HANDOVER = 1.2
"""Ratio of probabilities over which one end takes over the other's share, without a jump."""
_FIXED = 1e-12
"""Variance below which a rating is where it is by definition: the only anchor's."""
_TURNS = 100
_CLOSE = 1e-8
"""Relative error of an end."""


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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prior:
    """(N,) derivatives of the prior's negative logarithm along the agents' paths."""

    slope_N: Floats
    curvature_N: Floats


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
    # luck with a seed shows by how informative a seed is: an excess of (information per cluster) x luck
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


def ends(own: OwnGames, variance_N: Floats, allowed: Limits, prior: Prior) -> tuple[Floats, Floats]:
    """(N,) distances from the estimate to the lower and to the upper end, log-odds."""
    fixed = variance_N <= _FIXED
    solvable = ~fixed & np.isfinite(allowed.half_N)
    doubt = _Doubt(
        own,
        np.where(fixed, 1.0, variance_N),
        Limits(np.where(solvable, allowed.half_N, 1.0), np.where(solvable, allowed.whole_N, 1.0)),
        prior,
    )
    sides_SN = np.abs(doubt.ends())
    sides_SN = np.where(fixed, 0.0, np.where(solvable, sides_SN, np.inf))
    return sides_SN[0], sides_SN[1]


def apart(
    one: tuple[Floats, Floats], other: tuple[Floats, Floats], correlation: Floats | float
) -> Floats:
    """Distance from a difference to its end.

    Errors with a positive correlation share a part that moves both agents the same way; it changes the
    difference by what one of them goes farther. A shared part with opposite signs adds up.

    Args:
        one: distances of the agents to their ends, towards the end in question and back.
        other: of their opponents, away from it and back.
        correlation: of the two errors.
    """
    unknown = np.isinf(one[0]) | np.isinf(other[0])
    a, a_back = (np.where(unknown, 0.0, side) for side in one)
    b, b_back = (np.where(unknown, 0.0, side) for side in other)
    together = np.maximum(np.maximum(a - b_back, b - a_back), 0.0)
    shared = np.where(np.asarray(correlation) > 0, together, a + b)
    size = np.abs(correlation)
    width: Floats = np.sqrt((1 - size) * (a**2 + b**2) + size * shared**2)
    return np.where(unknown, np.inf, width)


def gaps(down_N: Floats, up_N: Floats, correlation_NN: Floats) -> Floats:
    """(N, N) smallest distance by which the row's agent is surely better than the column's."""
    return apart((down_N[:, None], up_N[:, None]), (up_N[None, :], down_N[None, :]), correlation_NN)


class _Doubt:
    """What speaks against moves, as a deviate, and where it reaches its limit."""

    def __init__(self, own: OwnGames, variance_N: Floats, allowed: Limits, prior: Prior) -> None:
        self._tails, self._allowed, self._variance_N = ResultTails(own), allowed, variance_N
        self._saved_N = allowed.half_N - allowed.whole_N
        stay_SN = np.zeros((2, variance_N.size))
        slope = self._tails.slope(stay_SN[0])
        self._rest_N = np.maximum(1 / variance_N - slope.second_N, 0.0)
        self._slope_N = slope.first_N  # the rest has the opposite one: the fit is the top
        self._prior, self._opposed_SN = prior, self._tails.opposed_SN
        deviate_SN, extreme_SN = self._tails.deviates(stay_SN)
        self._start_SN = stay_SN, -np.sqrt(self._limit(extreme_SN))
        self._fitted_SN = deviate_SN**2

    def ends(self) -> Floats:
        """(2, N) moves at which the doubt reaches its limit: bracketed, then by regula falsi."""
        near_SN, near_miss_SN = self._start_SN
        far_SN = np.array([[-1.0], [1.0]]) * np.sqrt(self._allowed.half_N * self._variance_N)
        far_miss_SN = self._miss(far_SN)
        for _ in range(_TURNS):
            inside = far_miss_SN <= 0
            if not inside.any():
                break
            near_SN = np.where(inside, far_SN, near_SN)
            near_miss_SN = np.where(inside, far_miss_SN, near_miss_SN)
            far_SN = np.where(inside, 1.5 * far_SN, far_SN)
            far_miss_SN = self._miss(far_SN)
        return self._between((near_SN, near_miss_SN), (far_SN, far_miss_SN))

    def _between(self, near: tuple[Floats, Floats], far: tuple[Floats, Floats]) -> Floats:
        """Between moves and their misses; a side that stays twice counts half."""
        (near_SN, near_miss_SN), (far_SN, far_miss_SN) = near, far
        stayed_SN, last_SN = np.zeros(near_SN.shape), far_SN
        for _ in range(_TURNS):
            share_SN = near_miss_SN / (near_miss_SN - far_miss_SN)
            move_SN = near_SN + share_SN * (far_SN - near_SN)
            if (np.abs(move_SN - last_SN) <= _CLOSE * np.abs(move_SN)).all():
                break
            miss_SN = self._miss(move_SN)
            beyond = miss_SN > 0
            far_SN, near_SN = np.where(beyond, move_SN, far_SN), np.where(beyond, near_SN, move_SN)
            near_miss_SN = np.where(
                beyond, near_miss_SN * np.where(stayed_SN > 0, 0.5, 1.0), miss_SN
            )
            far_miss_SN = np.where(beyond, miss_SN, far_miss_SN * np.where(stayed_SN < 0, 0.5, 1.0))
            stayed_SN, last_SN = np.where(beyond, 1.0, -1.0), move_SN
        return move_SN

    def _miss(self, moves_SN: Floats) -> Floats:
        """(2, N) doubt above the limit, in deviates: nearly straight in the move."""
        deviate_SN, extreme_SN = self._tails.deviates(moves_SN)
        rest_SN = moves_SN * (self._rest_N * moves_SN - 2 * self._slope_N)
        prior_SN = moves_SN * (self._prior.curvature_N * moves_SN + 2 * self._prior.slope_N)
        rest_SN -= np.where(self._opposed_SN, np.maximum(prior_SN, 0.0), 0.0)
        doubt_SN = deviate_SN**2 - self._fitted_SN + rest_SN
        found: Floats = np.sign(doubt_SN) * np.sqrt(np.abs(doubt_SN))
        return found - np.sqrt(self._limit(extreme_SN))

    def _limit(self, extreme_SN: Floats) -> Floats:
        """(2, N) squared deviates that end the interval.

        The opposite end misses, if at all, when the most extreme results come, of which half count. While
        these have more than its share of the probability it cannot miss, and this end has both shares.
        """
        above_SN = (extreme_SN - np.log(_MISSED)) / np.log(_HANDOVER)
        spare_SN = np.minimum(np.maximum(above_SN, 0.0), 1.0)
        limit_SN: Floats = self._allowed.half_N - spare_SN * self._saved_N
        return limit_SN


def _t(degrees_N: Floats, probability: float) -> Floats:
    """Quantile of Student's t for degrees of freedom of 1 or more, straight between whole ones in 1 / df."""
    whole_N = np.floor(np.minimum(degrees_N, 1e6)).astype(np.int64)
    values, place = np.unique(whole_N, return_inverse=True)
    low = np.array([t_quantile(int(v), probability) for v in values])[place]
    high = np.array([t_quantile(int(v) + 1, probability) for v in values])[place]
    share = (1 / whole_N - 1 / np.maximum(degrees_N, 1.0)) / (1 / whole_N - 1 / (whole_N + 1))
    quantiles: Floats = low + np.clip(share, 0.0, 1.0) * (high - low)
    return quantiles


def with_lent_clusters(observed_NN: Floats, expected_NN: Floats, clusters: int) -> Floats:
    """(N, N) covariance by the scatter between clusters, as if some more had agreed with the model."""
    own = (clusters - 1) / (clusters - 1 + LENT_CLUSTERS)
    found_NN: Floats = own * observed_NN + (1 - own) * expected_NN
    return found_NN


def correlations(covariance_NN: Floats) -> Floats:
    """(N, N) of a covariance; 0 where an agent has no variance."""
    deviation_N = np.sqrt(np.maximum(np.diag(covariance_NN), 0.0))
    known_N = deviation_N > _FIXED**0.5
    scale_N = np.where(known_N, 1 / np.where(known_N, deviation_N, 1.0), 0.0)
    found: Floats = np.clip(covariance_NN * scale_N[:, None] * scale_N[None, :], -1.0, 1.0)
    return found
