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

from srl_agents.league.davidson import probabilities
from srl_agents.league.intervals import Floats, Ints, t_quantile, totals

BORROWED = 1.0
"""Information, in squared log-odds, that every design effect borrows from the field."""
_FIXED = 1e-12
"""Variance below which a rating is where it is by definition: the only anchor's."""
_TURNS = 80


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
class OwnGames:
    """Every agent's match-ups, one entry per agent of a match-up."""

    agent_R: Ints
    d_R: Floats
    """Strength of the first side above the second at the fit."""
    move_R: Floats
    """Its change per unit by which the entry's agent moves."""
    win_R: Floats
    tie_R: Floats
    loss_R: Floats
    nu: float
    """Tie parameter at the fit; 0 without ties."""
    nu_move_N: Floats
    """Change of log nu per unit by which the agent moves."""


def thresholds(found: Evidence) -> Floats:
    """(N,) twice the loss of log-likelihood at an end of a 95 % interval; infinite below 2 clusters."""
    known = (found.clusters_N > 1) & (found.variance_N > _FIXED)
    squared = np.where(known, found.variance_N, 1.0) ** 2
    information_N = np.where(known, found.expected_N / squared, 0.0)
    scatter_N = np.where(known, found.observed_N / squared, 0.0)
    field = max(1.0, float(scatter_N.sum()) / max(float(information_N.sum()), _FIXED))
    effect_N = (scatter_N + BORROWED * field) / (information_N + BORROWED)
    spare_N = np.maximum(found.clusters_N - 1.0, 1.0)
    own_N = information_N / (information_N + BORROWED)
    # relative variance of the effect: few clusters, and few events in them (a Poisson's kurtosis)
    noise_N = (2 / spare_N + 1 / np.maximum(information_N, _FIXED)) * own_N**2
    degrees_N = np.minimum(spare_N, 2 / np.maximum(noise_N, _FIXED))
    return np.where(found.clusters_N > 1, _t(degrees_N) ** 2 * effect_N, np.inf)


def ends(own: OwnGames, variance_N: Floats, threshold_N: Floats) -> tuple[Floats, Floats]:
    """(N,) distances from the estimate to the lower and to the upper end, log-odds."""
    fixed = variance_N <= _FIXED
    solvable = ~fixed & np.isfinite(threshold_N)
    target_N = np.where(solvable, threshold_N, 1.0)
    rest_N = 1 / np.where(fixed, 1.0, variance_N)
    sides = []
    for sign in (-1.0, 1.0):
        side = np.abs(_end(own, rest_N, target_N, sign))
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


def _end(own: OwnGames, stiffness_N: Floats, threshold_N: Floats, sign: float) -> Floats:
    """(N,) moves at which the loss reaches half the threshold: Newton's method on convex losses."""
    n = stiffness_N.size
    start, slope, curvature = _own_loss(own, np.zeros(n))
    rest_N = np.maximum(stiffness_N - curvature, 0.0)
    move = sign * np.sqrt(threshold_N / stiffness_N)
    for _ in range(_TURNS):
        loss, rise, _ = _own_loss(own, move)
        miss = loss - start - slope * move + rest_N * move**2 / 2 - threshold_N / 2
        steep = np.abs(rise - slope + rest_N * move)
        # the first step may leave a flat stretch; from outside, the steps shrink by themselves
        step = np.clip(miss / np.maximum(steep, 1e-300), -np.abs(move), np.abs(move) / 2)
        move = move - sign * step
        if (np.abs(step) <= 1e-12 * np.abs(move)).all():
            break
    return move


def _own_loss(own: OwnGames, move_N: Floats) -> tuple[Floats, Floats, Floats]:
    """(N,) negative log-likelihood of own match-ups after a move, its slope and its curvature."""
    n = move_N.size
    by_R = move_N[own.agent_R]
    half_R = (own.d_R + by_R * own.move_R) / 2
    tilt_R = by_R * own.nu_move_N[own.agent_R] + np.log(own.nu) if own.nu else -np.inf
    nu_R = np.exp(tilt_R)
    win_R, loss_R, tie_R = probabilities(2 * half_R, nu_R)
    top_R = np.abs(half_R)
    total_R = top_R + np.log1p(np.exp(-2 * top_R) + nu_R * np.exp(-top_R))
    games_R = own.win_R + own.tie_R + own.loss_R
    value_R = games_R * total_R - (own.win_R - own.loss_R) * half_R
    pull_R, tied_R = own.move_R / 2, own.nu_move_N[own.agent_R]
    mean_R = (win_R - loss_R) * pull_R + tie_R * tied_R
    slope_R = games_R * mean_R - (own.win_R - own.loss_R) * pull_R - own.tie_R * tied_R
    square_R = (win_R + loss_R) * pull_R**2 + tie_R * tied_R**2
    curvature_R = games_R * (square_R - mean_R**2)
    if own.nu:
        value_R -= own.tie_R * tilt_R
    sums = [totals(own.agent_R, x_R, n) for x_R in (value_R, slope_R, curvature_R)]
    return sums[0], sums[1], sums[2]


def _t(degrees_N: Floats) -> Floats:
    """Quantile of Student's t for degrees of freedom of 1 or more, straight between whole ones in 1 / df."""
    whole_N = np.floor(np.minimum(degrees_N, 1e6)).astype(np.int64)
    values, place = np.unique(whole_N, return_inverse=True)
    low = np.array([t_quantile(int(v)) for v in values])[place]
    high = np.array([t_quantile(int(v) + 1) for v in values])[place]
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
