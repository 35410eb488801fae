"""Ratings of fields too large for an N x N matrix, where all agents have met members of a small pool.

The fit and the intervals are those of `ratings.rate`, computed another way. Agents that never met
each other share no entry of the Hessian A. With the pool (*hubs*, a set that has one side of every
match-up) and log nu last, A is diagonal but for the hubs' rows, so its inverse is

    A⁻¹ = D + U K Uᵀ,   U = [D E; -I],   K = (A_HH - Eᵀ D E)⁻¹

with D the inverse diagonal of the others (0 for hubs) and E their columns to the hubs. Everything
below is products with these, in memory of N times hubs.

Three things differ from `rate`: ranks take the errors of two agents as independent, which they nearly
are in a large field; only an agent's own match-ups count by their tails; and an agent is linked if
chains of wins join it with the agent that played most, in a group of more than half of the field.

Array axes: ``N`` agents, ``P`` parameters (agents, then log nu if there are ties), ``H`` hubs (log
nu last), ``U`` match-ups, ``M`` results, ``E`` (cluster, agent) entries.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.ratings.davidson import (
    MatchUps,
    Sums,
    cluster_blocks,
    negative_log_posterior,
    per_agent,
    probabilities,
    sums_per_cluster,
    totals,
)
from srl_agents.league.ratings.interval_ends import Evidence, Prior, ends, limits
from srl_agents.league.ratings.intervals import Floats, Ints
from srl_agents.league.ratings.pairs import Pairs
from srl_agents.league.ratings.result_tails import OwnGames
from srl_agents.league.ratings.tables import DEFAULT_RIDGE, ELO_PER_NAT, Rating, doubts
from srl_envs.errors import ConfigError

MOST_HUBS = 2000
"""Larger pools need matrices that no longer fit."""
_RANKED_AT_ONCE = 500
_ENTRIES_AT_ONCE = 50_000
_MEDIAN_OF = 1000
"""Agents whose pairs the resolution is the median of."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LargeTable:
    """Rating table of a large field, agents from best to worst."""

    ratings: tuple[Rating, ...]
    tie_nu: float
    games: int
    clusters: int
    resolution: float
    """Median over pairs of the smallest difference in Elo that counts as one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Inverse:
    """A⁻¹, held as factors instead of an N x N matrix."""

    d_P: Floats
    """1 / A's diagonal; 0 for hubs."""
    u_PH: Floats
    k_HH: Floats

    @classmethod
    def of(cls, diagonal_P: Floats, columns_PH: Floats, hubs_H: Ints) -> _Inverse:
        """From A's diagonal and its columns at the hubs."""
        d_P = 1 / diagonal_P
        d_P[hubs_H] = 0.0
        u_PH = d_P[:, None] * columns_PH
        schur_HH = columns_PH[hubs_H] - columns_PH.T @ u_PH
        u_PH[hubs_H] = -np.eye(len(hubs_H))
        k_HH = np.linalg.inv(schur_HH).astype(np.float64, copy=False)
        return cls(d_P, u_PH, k_HH)

    def times(self, x_P: Floats) -> Floats:
        """The product A⁻¹ x."""
        product: Floats = self.d_P * x_P + self.u_PH @ (self.k_HH @ (self.u_PH.T @ x_P))
        return product

    def entries(self, row_R: Ints, column_R: Ints) -> Floats:
        """Entries of A⁻¹ at the given rows and columns."""
        uk_PH = self.u_PH @ self.k_HH
        found_R = np.where(row_R == column_R, self.d_P[row_R], 0.0)
        for start in range(0, row_R.size, _ENTRIES_AT_ONCE):
            part = slice(start, start + _ENTRIES_AT_ONCE)
            found_R[part] += np.einsum("rh,rh->r", uk_PH[row_R[part]], self.u_PH[column_R[part]])
        return found_R


def rate_large(pairs: Pairs, *, anchors: Collection[str] = ()) -> LargeTable:
    """Fit all agents at once, with the default ridge; arguments and meaning as in `ratings.rate`.

    Raises:
        ConfigError: no result, or so many agents met so many others that no small pool is in all
            match-ups.
    """
    if not pairs.a_M.size:
        raise ConfigError("no result to rate: play evaluation matches between two agents first.")
    games, row_M, score_M = _match_ups(pairs)
    hubs_H = _hubs(games)
    theta_P, inverse = _fit(games, hubs_H, DEFAULT_RIDGE)
    n = games.agents
    nu = math.exp(theta_P[n]) if theta_P.size > n else 0.0
    zero_P = np.zeros(theta_P.size)
    chosen_N = np.isin(pairs.agents, sorted(anchors)) if anchors else np.zeros(n, dtype=bool)
    zero_P[:n] = chosen_N / chosen_N.sum() if chosen_N.any() else 1 / n
    elo_N = ELO_PER_NAT * (theta_P[:n] - zero_P @ theta_P)
    spread = _Spread(inverse, games, theta_P, nu)
    for rows, local in cluster_blocks(pairs.cluster_M):
        spread.add(row_M[rows], score_M[rows], local)
    down_N, up_N = _widths(games, theta_P, zero_P, spread, DEFAULT_RIDGE)
    return LargeTable(
        ratings=tuple(_rows(pairs, games, elo_N, (down_N, up_N), spread.clusters_N)),
        tie_nu=nu,
        games=int(row_M.size),
        clusters=spread.clusters,
        resolution=_resolution(elo_N, down_N, up_N),
    )


def _widths(
    games: MatchUps, theta_P: Floats, zero_P: Floats, spread: _Spread, ridge: float
) -> tuple[Floats, Floats]:
    """Distances to the lower and the upper ends, Elo; see `ratings.rate`."""
    n, every, inverse = games.agents, np.arange(theta_P.size), spread.inverse
    solved_P = inverse.times(zero_P)
    variance_P = inverse.entries(every, every) - 2 * solved_P + float(zero_P @ solved_P)
    variance_N = np.maximum(variance_P[:n], 0.0)
    prior_N, observed_N = (
        spread.variances(zero_P, results=results)[:n] for results in (False, True)
    )
    allowed = limits(
        Evidence(
            variance_N=variance_N,
            observed_N=observed_N,
            expected_N=variance_N - ridge * prior_N,
            clusters_N=spread.clusters_N,
        )
    )
    divisor_N = np.maximum(variance_N, 1e-300)
    own = _own_games(games, theta_P, solved_P, inverse, divisor_N)
    shrunk_P = inverse.times(theta_P)
    prior = Prior(
        slope_N=ridge * (shrunk_P[:n] - float(zero_P @ shrunk_P)) / divisor_N,
        curvature_N=ridge * prior_N / divisor_N**2,
    )
    down_N, up_N = ends(own, variance_N, allowed, prior)
    return ELO_PER_NAT * down_N, ELO_PER_NAT * up_N


def _own_games(
    games: MatchUps, theta_P: Floats, solved_P: Floats, inverse: _Inverse, variance_N: Floats
) -> OwnGames:
    """Every match-up twice, with how its difference changes while one of the two moves."""
    n = games.agents
    a_U, b_U = games.seat_US.T
    agent_R, other_R = np.concatenate([a_U, b_U]), np.concatenate([b_U, a_U])
    path_R = inverse.entries(agent_R, agent_R) - inverse.entries(other_R, agent_R)
    path_R = (path_R - solved_P[agent_R] + solved_P[other_R]) / variance_N[agent_R]
    ties = theta_P.size > n
    nu_N, every = np.zeros(n), np.arange(n)
    if ties:
        nu_N = (inverse.entries(np.full(n, n), every) - solved_P[n]) / variance_N
    return OwnGames(
        agent_R=agent_R,
        d_R=np.tile(theta_P[a_U] - theta_P[b_U], 2),
        move_R=np.concatenate([path_R[: a_U.size], -path_R[a_U.size :]]),
        win_R=np.tile(games.win_U, 2),
        tie_R=np.tile(games.tie_U, 2),
        loss_R=np.tile(games.loss_U, 2),
        nu=math.exp(theta_P[n]) if ties else 0.0,
        nu_move_N=nu_N,
    )


def _match_ups(pairs: Pairs) -> tuple[MatchUps, Ints, Floats]:
    """Counts per pair that met, the match-up of each result, and its score as the first sees it."""
    n = len(pairs.agents)
    swapped_M = pairs.a_M > pairs.b_M
    key_M = np.minimum(pairs.a_M, pairs.b_M) * n + np.maximum(pairs.a_M, pairs.b_M)
    key_U, row_M = np.unique(key_M, return_inverse=True)
    score_M = np.where(swapped_M, 1 - pairs.score_M, pairs.score_M)
    counts = [totals(row_M, score_M == score, key_U.size) for score in (1.0, 0.5, 0.0)]
    games = MatchUps(
        agents=n,
        seat_US=np.stack([key_U // n, key_U % n], axis=1),
        sign_S=np.array([1.0, -1.0]),
        win_U=counts[0],
        tie_U=counts[1],
        loss_U=counts[2],
    )
    return games, row_M, score_M


def _hubs(games: MatchUps) -> Ints:
    """(H,) agents of whom one is in every match-up, those with most opponents first; log nu last."""
    n = games.agents
    a_U, b_U = games.seat_US.T
    met_N = np.bincount(games.seat_US.ravel(), minlength=n)
    open_U, hubs = np.ones(a_U.size, dtype=bool), []
    for agent in np.argsort(-met_N, kind="stable"):
        mine_U = open_U & ((a_U == agent) | (b_U == agent))
        if not mine_U.any():
            continue
        hubs.append(int(agent))
        open_U &= ~mine_U
        if not open_U.any():
            break
        if len(hubs) > MOST_HUBS:
            raise ConfigError(
                f"{n} agents cannot be rated at once: no {MOST_HUBS} of them "
                "are in all match-ups. Play them against a fixed pool of opponents."
            )
    return np.array([*hubs, n] if games.tie_U.any() else hubs, dtype=np.int64)


def _fit(games: MatchUps, hubs_H: Ints, ridge: float) -> tuple[Floats, _Inverse]:
    """The top of the posterior, and the inverse Hessian there; see `davidson.fit`."""
    n = games.agents
    theta_P = np.zeros(n + 1 if games.tie_U.any() else n)
    loss = negative_log_posterior(theta_P, games, ridge)
    for _ in range(200):
        gradient_P, inverse = _slope(theta_P, games, hubs_H, ridge)
        step_P, length = -inverse.times(gradient_P), 1.0
        while True:
            candidate_P = theta_P + length * step_P
            candidate_P[:n] -= candidate_P[:n].mean()
            trial = negative_log_posterior(candidate_P, games, ridge)
            if trial <= loss + 1e-12 * abs(loss) or length < 1e-6:
                break
            length /= 2
        moved = float(np.abs(candidate_P - theta_P).max())
        theta_P, loss = candidate_P, trial
        if moved < 1e-10 * max(1.0, float(np.abs(theta_P).max())):
            break
    return theta_P, _slope(theta_P, games, hubs_H, ridge)[1]


def _slope(theta_P: Floats, games: MatchUps, hubs_H: Ints, ridge: float) -> tuple[Floats, _Inverse]:
    """Gradient of the negative log-posterior, and its inverse Hessian."""
    n, size = games.agents, theta_P.size
    a_U, b_U = games.seat_US.T
    nu = math.exp(theta_P[n]) if size > n else 0.0
    win, loss, tie = probabilities(theta_P[a_U] - theta_P[b_U], nu)
    played_U = games.win_U + games.tie_U + games.loss_U
    gradient_P = ridge * theta_P
    gradient_P[:n] -= per_agent(games, (games.win_U - games.loss_U - played_U * (win - loss)) / 2)
    curvature_U = played_U * (win + loss - (win - loss) ** 2) / 4
    diagonal_P = np.full(size, ridge)
    diagonal_P[:n] += totals(a_U, curvature_U, n) + totals(b_U, curvature_U, n)
    place_P = np.full(size, -1)
    place_P[hubs_H] = np.arange(len(hubs_H))
    columns_PH = np.zeros((size, len(hubs_H)))
    for one_U, other_U in ((a_U, b_U), (b_U, a_U)):
        held = place_P[other_U] >= 0
        np.add.at(columns_PH, (one_U[held], place_P[other_U[held]]), -curvature_U[held])
    if size > n:
        gradient_P[n] -= (games.tie_U - played_U * tie).sum()
        columns_PH[:n, -1] = per_agent(games, -played_U * tie * (win - loss) / 2)
        columns_PH[n, :] = columns_PH[hubs_H, -1]
        diagonal_P[n] += (played_U * tie * (1 - tie)).sum()
    columns_PH[hubs_H, np.arange(len(hubs_H))] = diagonal_P[hubs_H]
    return gradient_P, _Inverse.of(diagonal_P, columns_PH, hubs_H)


class _Spread:
    """A⁻¹ c B A⁻¹ with B the sum over clusters of g gᵀ.

    Kept of B: its diagonal, B U, Uᵀ B U and B (A⁻¹ z), which is all that variances need.
    """

    def __init__(self, inverse: _Inverse, games: MatchUps, theta_P: Floats, nu: float) -> None:
        n, size = games.agents, theta_P.size
        a_U, b_U = games.seat_US.T
        self.inverse, self._games, self._size = inverse, games, size
        self._expected = probabilities(theta_P[a_U] - theta_P[b_U], nu)
        self._diagonal_P = np.zeros(size)
        self._bu_PH = np.zeros(inverse.u_PH.shape)
        self._ubu_HH = np.zeros(inverse.k_HH.shape)
        self._blocks: list[Sums] = []
        self._tied: list[Floats] = []
        self.clusters_N = np.zeros(n, dtype=np.int64)
        self.clusters = 0

    def add(self, up_R: Ints, score_R: Floats, local_R: Ints) -> None:
        """Results of whole clusters: their match-ups, scores and clusters' numbers from 0."""
        win, loss, tie = self._expected
        n, here = self._games.agents, int(local_R[-1]) + 1
        skill_R = score_R - 0.5 - (win[up_R] - loss[up_R]) / 2
        a_U, b_U = self._games.seat_US.T
        sums = sums_per_cluster(
            np.concatenate([local_R, local_R]),
            np.concatenate([a_U[up_R], b_U[up_R]]),
            np.concatenate([skill_R, -skill_R]),
            n,
        )
        tied_C = totals(local_R, (score_R == 0.5) - tie[up_R], here)
        self._fold(sums, tied_C, here)
        self._blocks.append(sums)
        self._tied.append(tied_C)
        self.clusters_N += np.bincount(sums.agent_E, minlength=n)
        self.clusters += here

    def _fold(self, sums: Sums, tied_C: Floats, here: int) -> None:
        n, u_PH = self._games.agents, self.inverse.u_PH
        ug_CH = np.zeros((here, u_PH.shape[1]))  # Uᵀ g of each cluster
        np.add.at(ug_CH, sums.cluster_E, sums.value_E[:, None] * u_PH[sums.agent_E])
        self._diagonal_P[:n] += totals(sums.agent_E, sums.value_E**2, n)
        if self._size > n:
            ug_CH += tied_C[:, None] * u_PH[n]
            self._bu_PH[n] += tied_C @ ug_CH
        np.add.at(self._bu_PH, sums.agent_E, sums.value_E[:, None] * ug_CH[sums.cluster_E])
        self._ubu_HH += ug_CH.T @ ug_CH

    def _b_times(self, x_P: Floats) -> Floats:
        n, product_P = self._games.agents, np.zeros(self._size)
        for sums, tied_C in zip(self._blocks, self._tied, strict=True):
            along_C = totals(sums.cluster_E, sums.value_E * x_P[sums.agent_E], tied_C.size)
            if self._size > n:
                along_C += tied_C * x_P[n]
                product_P[n] += float(tied_C @ along_C)
            product_P[:n] += totals(sums.agent_E, sums.value_E * along_C[sums.cluster_E], n)
        return product_P

    def variances(self, zero_P: Floats, *, results: bool) -> Floats:
        """(P,) zᵀ A⁻¹ M A⁻¹ z with z an agent minus ``zero_P``.

        Args:
            zero_P: weights of the anchors.
            results: whether M is c B, the scatter between clusters, or the unit matrix.
        """
        d_P, u_PH, k_HH = self.inverse.d_P, self.inverse.u_PH, self.inverse.k_HH
        factor = self.clusters / (self.clusters - 1) if self.clusters > 1 else 1.0
        solved_P = self.inverse.times(zero_P)
        if results:
            diagonal_P, mu_PH = factor * self._diagonal_P, factor * self._bu_PH  # of M, and M U
            umu_HH, with_zero_P = factor * self._ubu_HH, factor * self._b_times(solved_P)
        else:
            diagonal_P, mu_PH = np.ones(self._size), u_PH
            umu_HH, with_zero_P = u_PH.T @ u_PH, solved_P
        uk_PH = u_PH @ k_HH
        own_P = d_P**2 * diagonal_P + 2 * d_P * np.einsum("ph,ph->p", mu_PH, uk_PH)
        own_P += np.einsum("ph,ph->p", uk_PH @ umu_HH, uk_PH)
        with_zero_P = self.inverse.times(with_zero_P)
        variance_P: Floats = own_P - 2 * with_zero_P + float(zero_P @ with_zero_P)
        return variance_P


def _rows(
    pairs: Pairs,
    games: MatchUps,
    elo_N: Floats,
    widths: tuple[Floats, Floats],
    clusters_N: Ints,
) -> list[Rating]:
    n, (down_N, up_N) = games.agents, widths
    width_N = np.maximum(down_N, up_N)
    a_U, b_U = games.seat_US.T
    played_U = games.win_U + games.tie_U + games.loss_U
    share_U = (games.win_U + games.tie_U / 2) / played_U
    wins_N = totals(a_U, games.win_U, n) + totals(b_U, games.loss_U, n)
    ties_N = totals(a_U, games.tie_U, n) + totals(b_U, games.tie_U, n)
    losses_N = totals(a_U, games.loss_U, n) + totals(b_U, games.win_U, n)
    met_N = np.bincount(games.seat_US.ravel(), minlength=n)
    score_N = totals(a_U, share_U, n) + totals(b_U, 1 - share_U, n)
    linked_N = _linked(games)
    order_N = np.lexsort((np.arange(n), -elo_N))
    ahead_N, behind_N = _apart(elo_N[order_N], down_N[order_N], up_N[order_N])
    return [
        Rating(
            agent=pairs.agents[k],
            elo=float(elo_N[k]),
            low=float(elo_N[k] - down_N[k]),
            high=float(elo_N[k] + up_N[k]),
            best_rank=1 + int(ahead),
            worst_rank=n - int(behind),
            games=int(wins_N[k] + ties_N[k] + losses_N[k]),
            wins=int(wins_N[k]),
            draws=int(ties_N[k]),
            losses=int(losses_N[k]),
            clusters=int(clusters_N[k]),
            field_score=float(score_N[k] / met_N[k]) if met_N[k] else math.nan,
            provisional=doubts(float(width_N[k]), int(clusters_N[k]), bool(linked_N[k])),
        )
        for k, ahead, behind in zip(order_N.tolist(), ahead_N, behind_N, strict=True)
    ]


def _apart(elo_N: Floats, down_N: Floats, up_N: Floats) -> tuple[Ints, Ints]:
    """(N,) how many agents are surely better, and how many surely worse."""
    ahead, behind = [], []
    down_N, up_N = down_N**2, up_N**2
    for start in range(0, elo_N.size, _RANKED_AT_ONCE):
        rows = slice(start, start + _RANKED_AT_ONCE)
        gap = elo_N[None, :] - elo_N[rows, None]
        gap *= np.abs(gap)
        ahead.append((gap > down_N[None, :] + up_N[rows, None]).sum(axis=1))
        behind.append((-gap > up_N[None, :] + down_N[rows, None]).sum(axis=1))
    return np.concatenate(ahead), np.concatenate(behind)


def _resolution(elo_N: Floats, down_N: Floats, up_N: Floats) -> float:
    order_N = np.argsort(-elo_N, kind="stable")
    known_N = order_N[np.isfinite(down_N[order_N]) & np.isfinite(up_N[order_N])]
    some = known_N[:: max(1, known_N.size // _MEDIAN_OF)]
    rows, columns = np.triu_indices(some.size, k=1)  # better agents come first
    widths = np.hypot(down_N[some[rows]], up_N[some[columns]])
    return float(np.median(widths)) if rows.size else math.nan


def _linked(games: MatchUps) -> NDArray[np.bool_]:
    """(N,) True where wins lead to and from the agent that played most, in most of the field."""
    a_U, b_U = games.seat_US.T
    first_U, second_U = games.win_U + games.tie_U > 0, games.loss_U + games.tie_U > 0
    winner = np.concatenate([a_U[first_U], b_U[second_U]])
    loser = np.concatenate([b_U[first_U], a_U[second_U]])
    start = int(np.bincount(games.seat_US.ravel(), minlength=games.agents).argmax())
    group_N = _reached(winner, loser, start, games.agents)
    group_N &= _reached(loser, winner, start, games.agents)
    return group_N if 2 * group_N.sum() > games.agents else np.zeros(games.agents, dtype=bool)


def _reached(source: Ints, target: Ints, start: int, n: int) -> NDArray[np.bool_]:
    """(N,) agents that a chain of edges leads to, ``start`` included."""
    seen_N = np.zeros(n, dtype=bool)
    seen_N[start], count = True, 0
    while int(seen_N.sum()) > count:
        count = int(seen_N.sum())
        seen_N[target[seen_N[source]]] = True
    return seen_N
