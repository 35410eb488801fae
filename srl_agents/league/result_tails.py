"""How far an agent's own results lie in the tail that a candidate skill predicts for them.

The results of one agent are an exponential family along its move: the log-odds of a match-up change by
``move_R`` per unit and the log of the tie parameter by ``nu_move_N``. What counts is one sum, the
statistic: points, weighted with how much each match-up's odds move. Its tail is that of Barndorff-Nielsen,

    r* = r + log(u / r) / r,

with ``r`` the signed root of the likelihood ratio and ``u`` the distance to the best move in standard
errors. Results are whole numbers, so ``u`` has a hyperbolic tangent instead of the distance, by which the
result at hand counts half (mid-P). Within a tenth of the exact tail even for a single surprising result.

Results that are the most extreme ones possible have no best move; their tail is half their probability.

Array axes: ``N`` agents, ``R`` (match-up, agent) entries.

Sources: Barndorff-Nielsen, Biometrika 73 (1986) for r*; Daniels, International Statistical Review 55
(1987) for sums on a lattice; Lancaster, JASA 56 (1961) for mid-P.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.davidson import probabilities
from srl_agents.league.intervals import Floats, Ints, totals

_TURNS = 100
_FARTHEST = 60.0
"""Log-odds beyond which no best move is looked for."""
_NEAR = 0.01
"""Squared deviate below which the correction of a tail fades out: it is 0 / 0 at the best move."""
_TINY = 1e-300
_normal_quantile = NormalDist().inv_cdf


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


@dataclass(frozen=True, slots=True, eq=False)
class Slope:
    """(N,) derivatives of the negative log-likelihood of own results after a move."""

    first_N: Floats
    second_N: Floats


class ResultTails:
    """Tails of all agents' own results, as functions of their moves."""

    def __init__(self, games: OwnGames) -> None:
        self._games = games
        self._played_R = games.win_R + games.tie_R + games.loss_R
        self._margin_R = games.win_R - games.loss_R
        self._agents = games.nu_move_N.size

    def deviate(self, move_N: Floats) -> Floats:
        """(N,) normal deviate with the results' tail: positive where they are better than predicted."""
        best_N, least_N, width_N = self._best
        inside_N = np.isfinite(best_N)
        loss_N = self._loss(move_N)
        gap_N = np.where(inside_N, best_N, move_N) - move_N
        r_N = np.sign(gap_N) * np.sqrt(2 * np.maximum(loss_N - least_N, 0.0))
        u_N = width_N * np.tanh(gap_N * self._step_N / 2) * 2 / self._step_N
        ratio_N = np.where(r_N == 0, 1.0, u_N / np.where(r_N == 0, 1.0, r_N))
        found_N: Floats = r_N + r_N * np.log(np.maximum(ratio_N, _TINY)) / (r_N**2 + _NEAR)
        for k in np.flatnonzero(~inside_N):
            tail = max(float(np.exp(-loss_N[k])) / 2, _TINY)
            found_N[k] = np.sign(best_N[k]) * abs(_normal_quantile(tail))
        return found_N

    def extreme(self, move_N: Floats, sign: float) -> Floats:
        """(N,) log-probability of the best (``sign`` 1) or the worst (-1) results possible."""
        half_R, _, total_R = self._odds(move_N)
        toward_R = sign * np.sign(self._games.move_R)
        return self._sum(self._played_R * (toward_R * half_R - total_R))

    def slope(self, move_N: Floats) -> Slope:
        """(N,) derivatives of the loss."""
        games = self._games
        half_R, tilt_R, total_R = self._odds(move_N)
        win_R, loss_R, tie_R = (np.exp(x_R - total_R) for x_R in (half_R, -half_R, tilt_R))
        pull_R, tied_R = games.move_R / 2, games.nu_move_N[games.agent_R]
        mean_R = (win_R - loss_R) * pull_R + tie_R * tied_R
        square_R = (win_R + loss_R) * pull_R**2 + tie_R * tied_R**2
        return Slope(
            self._sum(self._played_R * mean_R) - self._statistic_N,
            self._sum(self._played_R * (square_R - mean_R**2)),
        )

    def _loss(self, move_N: Floats) -> Floats:
        """(N,) negative log-likelihood of own results."""
        half_R, tilt_R, total_R = self._odds(move_N)
        value_R = self._played_R * total_R - self._margin_R * half_R
        if self._games.nu:
            value_R -= self._games.tie_R * tilt_R
        return self._sum(value_R)

    def _odds(self, move_N: Floats) -> tuple[Floats, Floats, Floats]:
        """(R,) half the log-odds, log nu, and the log of the sum of the three outcomes' weights."""
        games = self._games
        by_R = move_N[games.agent_R]
        half_R = (games.d_R + by_R * games.move_R) / 2
        log_nu = np.log(games.nu) if games.nu else -np.inf
        tilt_R = by_R * games.nu_move_N[games.agent_R] + log_nu
        top_R = np.abs(half_R)
        total_R = np.logaddexp(top_R + np.log1p(np.exp(-2 * top_R)), tilt_R)
        return half_R, tilt_R, total_R

    def _sum(self, value_R: Floats) -> Floats:
        return totals(self._games.agent_R, value_R, self._agents)

    @cached_property
    def _statistic_N(self) -> Floats:
        games = self._games
        tied_R = games.nu_move_N[games.agent_R]
        return self._sum(self._margin_R * games.move_R / 2 + games.tie_R * tied_R)

    @cached_property
    def _at_an_end(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(N,) whether the results are the worst possible, and the best."""
        games = self._games
        most_R, tied_R = np.abs(games.move_R) / 2, games.nu_move_N[games.agent_R]
        best_R = np.maximum(most_R, tied_R) if games.nu else most_R
        worst_R = np.minimum(-most_R, tied_R) if games.nu else -most_R
        best_N, worst_N = self._sum(self._played_R * best_R), self._sum(self._played_R * worst_R)
        slack_N = 1e-9 * (best_N - worst_N)
        return self._statistic_N - worst_N <= slack_N, best_N - self._statistic_N <= slack_N

    @cached_property
    def _best(self) -> tuple[Floats, Floats, Floats]:
        """(N,) moves that fit the own results best, the loss there and the root of its curvature.

        Infinite moves, losses of 0 and curvatures of 1 for results at an end.
        """
        worst_N, best_N = self._at_an_end
        inside_N = ~(worst_N | best_N)
        move_N, low_N, high_N = (np.full(self._agents, x) for x in (0.0, -_FARTHEST, _FARTHEST))
        for _ in range(_TURNS):
            slope = self.slope(move_N)
            low_N = np.where(slope.first_N < 0, move_N, low_N)
            high_N = np.where(slope.first_N < 0, high_N, move_N)
            next_N = move_N - slope.first_N / np.maximum(slope.second_N, _TINY)
            outside_N = (next_N <= low_N) | (next_N >= high_N)
            next_N = np.where(outside_N, (low_N + high_N) / 2, next_N)
            settled_N = np.abs(next_N - move_N) <= 1e-12 * np.maximum(np.abs(move_N), 1.0)
            move_N = next_N
            if (settled_N | ~inside_N).all():
                break
        move_N = np.where(inside_N, move_N, 0.0)
        curvature_N = self.slope(move_N).second_N
        return (
            np.where(inside_N, move_N, np.where(best_N, np.inf, -np.inf)),
            np.where(inside_N, self._loss(move_N), 0.0),
            np.where(inside_N, np.sqrt(np.maximum(curvature_N, _TINY)), 1.0),
        )

    @cached_property
    def _step_N(self) -> Floats:
        """(N,) by how much a surprising result moves the statistic, mean over what may surprise."""
        games = self._games
        win_R, loss_R, tie_R = probabilities(games.d_R, games.nu)
        size_R = np.abs(games.move_R)
        upset_R, tied_R = self._played_R * np.minimum(win_R, loss_R), self._played_R * tie_R
        cube_N = self._sum(upset_R * size_R**3 + tied_R * (size_R / 2) ** 3)
        square_N = self._sum(upset_R * size_R**2 + tied_R * (size_R / 2) ** 2)
        return np.maximum(cube_N / np.maximum(square_N, _TINY), 1e-6)
