"""Davidson's model of wins, ties and losses: fit by Newton's method, with the fit's uncertainty.

A side's strength is the sum of its members' skills t; with d the difference of two sides, the
log-probabilities of win, tie and loss are d/2, log nu and -d/2 up to a constant. The fit is the
maximum of a posterior whose prior (a ridge) keeps undefeated agents finite.

Array axes: ``N`` agents, ``U`` match-ups (two sides, whatever the number of games between them),
``S`` seats of a match-up, ``M`` results.

Sources: Davidson, "On Extending the Bradley-Terry Model to Accommodate Ties", JASA 65 (1970);
Liang and Zeger, "Longitudinal data analysis using generalized linear models", Biometrika 73
(1986) for the scatter between clusters. Difference: a ridge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from srl_agents.league.ratings.intervals import Floats, Ints

BLOCK_ROWS = 100_000
"""Results that are worked on at once while intervals are computed; bounds the memory."""
SPARSE_SHARE = 16
"""Cluster scores are multiplied entry by entry while that is this many times less work than as
full rows: a matrix product handles a number about 16 times faster."""


@dataclass(frozen=True, slots=True, eq=False)
class MatchUps:
    """Numbers of matches and results, one row per pair of sides."""

    agents: int
    """Number of agents, N."""
    seat_US: Ints
    """Agent number per seat; any number where the sign is 0."""
    sign_S: Floats
    """+1 for the seats of the first side, -1 for those of the second, 0 for an empty seat."""
    win_U: Floats
    """Games that the first side won."""
    tie_U: Floats
    loss_U: Floats

    @property
    def level(self) -> bool:
        """Whether raising all skills alike changes no prediction: all sides are equally large."""
        return float(self.sign_S.sum()) == 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Single results, for the spread between clusters."""

    row_M: Ints
    """Match-up of each result."""
    score_M: Floats
    """Points of the first side: 1, 0.5 or 0."""
    cluster_M: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Mode of the posterior: skills and tie parameter."""

    t_N: Floats
    """Skills in log-odds; sum 0 where only differences count."""
    nu: float
    """Tie parameter; 0 without ties."""
    hessian: Floats
    """(N, N), or (N + 1, N + 1) with log nu last when there are ties; includes the ridge."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """What is known about the fit; covariances in squared log-odds, right for differences."""

    inverse_PP: Floats
    """A⁻¹ of the Hessian A; the covariance if the model is right and the prior, too."""
    observed_NN: Floats
    """A⁻¹ c B A⁻¹: the results' share of the covariance, by the scatter between clusters."""
    expected_NN: Floats
    """A⁻¹ (A - ridge I) A⁻¹: the same share as the model has it."""
    clusters_N: Ints
    """Clusters in which each agent has a result."""
    clusters: int


def fit(games: MatchUps, ridge: float) -> Fit:
    """Damped Newton on a convex function.

    Without ties nu is 0. With ties log nu has the same prior precision as a skill, so that a
    field which only ever tied still has a finite fit.
    """
    n = games.agents
    theta = np.zeros(n + 1 if games.tie_U.any() else n)
    loss = negative_log_posterior(theta, games, ridge)
    for _ in range(200):
        gradient, hessian = _slope(theta, games, ridge)
        step = -np.linalg.solve(_gauged(hessian, games), gradient)
        length = 1.0
        while True:
            candidate = theta + length * step
            if games.level:
                candidate[:n] -= candidate[:n].mean()
            trial = negative_log_posterior(candidate, games, ridge)
            if trial <= loss + 1e-12 * abs(loss) or length < 1e-6:
                break
            length /= 2
        moved = float(np.abs(candidate - theta).max())
        theta, loss = candidate, trial
        if moved < 1e-11 * max(1.0, float(np.abs(theta).max())):
            break
    nu = math.exp(theta[n]) if theta.size > n else 0.0
    return Fit(theta[:n], nu, _slope(theta, games, ridge)[1])


def spread(games: MatchUps, results: Results, found: Fit, ridge: float) -> Spread:
    """Covariances of the fit, with the products B of clusters' scores and c = C / (C - 1).

    The direction "all up" has a made-up variance, which a shift to the anchors removes.
    """
    n = games.agents
    gauged = _gauged(found.hessian, games)
    inverse: Floats = np.linalg.inv(gauged).astype(np.float64, copy=False)
    meat, clusters_N, clusters = _score_products(games, results, found)
    correction = clusters / (clusters - 1) if clusters > 1 else 1.0  # widths are infinite at 1
    observed = correction * inverse @ meat @ inverse
    expected: Floats = inverse - ridge * inverse @ inverse
    return Spread(inverse, observed[:n, :n], expected[:n, :n], clusters_N, clusters)


def difference(t_N: Floats, games: MatchUps) -> Floats:
    """(U,) strength of the first side above the second."""
    found: Floats = t_N[games.seat_US] @ games.sign_S
    return found


def probabilities(d_U: Floats, nu: float | Floats) -> tuple[Floats, Floats, Floats]:
    """(U,) probabilities that the first side wins, loses, ties."""
    half = d_U / 2
    top = np.abs(half)
    win, loss, tie = np.exp(half - top), np.exp(-half - top), nu * np.exp(-top)
    total = win + loss + tie
    return win / total, loss / total, tie / total


def negative_log_posterior(theta: Floats, games: MatchUps, ridge: float) -> float:
    """Negative log-posterior; ``theta`` is t, then log nu if there are ties."""
    n = games.agents
    half = difference(theta[:n], games) / 2
    total = np.logaddexp(half, -half)
    likelihood = 0.0
    if theta.size > n:
        total = np.logaddexp(total, theta[n])
        likelihood = float((games.tie_U * (theta[n] - total)).sum())
    likelihood += float((games.win_U * (half - total) - games.loss_U * (half + total)).sum())
    return ridge / 2 * float(theta @ theta) - likelihood


def _slope(theta: Floats, games: MatchUps, ridge: float) -> tuple[Floats, Floats]:
    """Gradient and Hessian of `negative_log_posterior`."""
    n = games.agents
    nu = math.exp(theta[n]) if theta.size > n else 0.0
    win, loss, tie = probabilities(difference(theta[:n], games), nu)
    played_U = games.win_U + games.tie_U + games.loss_U
    gradient = ridge * theta
    gradient[:n] -= per_agent(games, (games.win_U - games.loss_U - played_U * (win - loss)) / 2)
    hessian = ridge * np.eye(theta.size)
    curvature_U = played_U * (win + loss - (win - loss) ** 2) / 4
    for s, one in enumerate(games.sign_S):
        for r, other in enumerate(games.sign_S):
            key = games.seat_US[:, s] * n + games.seat_US[:, r]
            block = totals(key, one * other * curvature_U, n * n)
            hessian[:n, :n] += block.reshape(n, n)
    if theta.size > n:
        gradient[n] -= (games.tie_U - played_U * tie).sum()
        hessian[:n, n] = per_agent(games, -played_U * tie * (win - loss) / 2)
        hessian[n, :n] = hessian[:n, n]
        hessian[n, n] += (played_U * tie * (1 - tie)).sum()
    return gradient, hessian


def per_agent(games: MatchUps, value_U: Floats) -> Floats:
    """(N,) sum of a value over each agent's match-ups, with the sign of its side."""
    total = np.zeros(games.agents)
    for s, sign in enumerate(games.sign_S):
        total += totals(games.seat_US[:, s], sign * value_U, games.agents)
    return total


def _gauged(hessian: Floats, games: MatchUps) -> Floats:
    """Give the direction "all skills up by the same amount" a firm curvature.

    Only the ridge holds that direction; rounding noise divided by a small ridge would leak
    into every standard error.
    """
    gauged = hessian.copy()
    if games.level:
        n = games.agents
        gauged[:n, :n] += max(1.0, float(np.trace(hessian)) / n) / n
    return gauged


def _score_products(games: MatchUps, results: Results, found: Fit) -> tuple[Floats, Ints, int]:
    """Sum over clusters of u uᵀ, where u is the gradient of the cluster's log-likelihood.

    Returns:
        The sum, the number of clusters of each agent, and the number of clusters.
    """
    n, size = games.agents, found.hessian.shape[0]
    win, loss, tie = probabilities(difference(found.t_N, games), found.nu)
    products, clusters_N, clusters = np.zeros((size, size)), np.zeros(n, dtype=np.int64), 0
    for rows, local in cluster_blocks(results.cluster_M):
        up, score = results.row_M[rows], results.score_M[rows]
        skill = score - 0.5 - (win[up] - loss[up]) / 2
        here = int(local[-1]) + 1
        signed = [(s, sign) for s, sign in enumerate(games.sign_S) if sign]
        sums = sums_per_cluster(
            np.concatenate([local] * len(signed)),
            np.concatenate([games.seat_US[up, s] for s, _ in signed]),
            np.concatenate([sign * skill for _, sign in signed]),
            n,
        )
        tied = (score == 0.5) - tie[up]
        tied_C = totals(local, tied, here) if size > n else None
        products += _block_products(sums, tied_C, n, here)
        clusters_N += np.bincount(sums.agent_E, minlength=n)
        clusters += here
    return products, clusters_N, clusters


def cluster_blocks(cluster_M: Ints) -> Iterator[tuple[Ints | slice, Ints]]:
    """(rows, number of their cluster within the block), whole clusters at a time."""
    ordered = bool((cluster_M[1:] >= cluster_M[:-1]).all())
    order = None if ordered else np.argsort(cluster_M)
    label_M = cluster_M if order is None else cluster_M[order]
    start, total = 0, label_M.size
    while start < total:
        last = label_M[min(start + BLOCK_ROWS, total) - 1]
        stop = int(np.searchsorted(label_M, last, side="right"))
        labels = label_M[start:stop]
        local = np.zeros(labels.size, dtype=np.int64)
        np.cumsum(labels[1:] != labels[:-1], out=local[1:])
        yield slice(start, stop) if order is None else order[start:stop], local
        start = stop


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums per cluster and agent, sorted by cluster; E of them."""

    cluster_E: Ints
    agent_E: Ints
    value_E: Floats


def sums_per_cluster(cluster_R: Ints, agent_R: Ints, value_R: Floats, n: int) -> Sums:
    """Add up what one agent has in one cluster."""
    key_R = cluster_R * n + agent_R
    order = np.argsort(key_R)
    key_R = key_R[order]
    first = np.flatnonzero(np.concatenate([[True], key_R[1:] != key_R[:-1]]))
    picked = order[first]
    return Sums(cluster_R[picked], agent_R[picked], np.add.reduceat(value_R[order], first))


def _block_products(sums: Sums, tied_C: Floats | None, n: int, clusters: int) -> Floats:
    """One block's share of `_score_products`."""
    size = n if tied_C is None else n + 1
    products = np.zeros((size, size))
    held_C = np.bincount(sums.cluster_E, minlength=clusters)
    if SPARSE_SHARE * float(held_C @ held_C) > clusters * n * n:
        u = np.zeros((clusters, n))
        u[sums.cluster_E, sums.agent_E] = sums.value_E
        products[:n, :n] = u.T @ u
    else:
        products[:n, :n] = _sparse_products(sums, n, int(held_C.max()))
    if tied_C is not None:
        weights = sums.value_E * tied_C[sums.cluster_E]
        products[:n, n] = products[n, :n] = totals(sums.agent_E, weights, n)
        products[n, n] = float(tied_C @ tied_C)
    return products


def _sparse_products(sums: Sums, n: int, longest: int) -> Floats:
    """Sum of u uᵀ entry by entry, ``longest`` of them in one cluster at most."""
    cluster_E, agent_E, value_E = sums.cluster_E, sums.agent_E, sums.value_E
    total = np.diag(totals(agent_E, value_E**2, n))
    for lag in range(1, longest):
        near = np.flatnonzero(cluster_E[lag:] == cluster_E[:-lag])
        key = agent_E[near] * n + agent_E[near + lag]
        product = value_E[near] * value_E[near + lag]
        upper = totals(key, product, n * n).reshape(n, n)
        total += upper + upper.T
    return total


def totals(index: Ints, weights: Floats | Ints, length: int) -> Floats:
    """(length,) sum of the weights at each index."""
    return np.bincount(index, weights=weights, minlength=length).astype(np.float64, copy=False)
