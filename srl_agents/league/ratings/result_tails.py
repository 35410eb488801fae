"""Tail probability of an agent's own results under a candidate skill.

The results of one agent are an exponential family along its move: the log-odds of a match-up change by
``move_R`` per unit and the log of the tie parameter by ``nu_move_N``. One sum is sufficient, the
*statistic*: points, each weighted with how much the odds of its match-up move. The normal deviate of its
tail is Barndorff-Nielsen's

    r* = r + log(u / r) / r.

``r`` is the signed root of the likelihood ratio against the best move. ``u`` is the distance to that move in
standard errors; a hyperbolic tangent in it accounts for whole results, of which the one at hand counts half
(mid-P). In the body the tail is right within a tenth of itself, far out within a fifth. If the results are
the most extreme ones possible, no best move exists, and the tail is half their probability.

Array axes: ``N`` agents, ``R`` (match-up, agent) entries, ``S`` sides: downwards, upwards.

Sources: Barndorff-Nielsen, Biometrika 73 (1986) for r*; Daniels, International Statistical Review 55
(1987) for sums on a lattice; Lancaster, JASA 56 (1961) for mid-P.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.ratings.davidson import probabilities, totals
from srl_agents.league.ratings.intervals import Floats, Ints

MOVED = 0.4
"""Part of an agent's largest move from which a match-up counts as moving with it. Not a half or a third,
which are exact in balanced fields: rounding would decide."""
_TURNS = 100
_CLOSE = 1e-9
"""Error of a best move, log-odds or, beyond 1, relative."""
_FARTHEST = 60.0
"""Log-odds beyond which no best move is looked for."""
_NEAR = 0.01
"""Squared deviate below which the correction of a tail fades out: it is 0 / 0 at the best move."""
_TINY = 1e-300
_MOST_TIED = 500.0
"""Log of a tie parameter that no longer overflows."""
_normal_quantile = NormalDist().inv_cdf


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OwnGames:
    """Match-ups that count by their tails, one entry per agent for which they do: at least its own."""

    agent_R: Ints
    d_R: Floats
    """Strength of the first side above the second at the fit."""
    move_R: Floats
    """Change of ``d_R`` per unit by which the entry's agent moves."""
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


@dataclass(frozen=True, slots=True, eq=False)
class _Best:
    """The fit of an agent's own results."""

    move_N: Floats
    """Infinite for the most extreme results possible."""
    loss_N: Floats
    """Negative log-likelihood there; 0 at infinity."""
    width_N: Floats
    """Square root of its curvature there; 1 at infinity."""


class ResultTails:
    """Tails of all agents' own results, as functions of their moves."""

    def __init__(self, games: OwnGames) -> None:
        self._games = games
        self._agents = games.nu_move_N.size
        self._played_R = games.win_R + games.tie_R + games.loss_R
        self._margin_R = games.win_R - games.loss_R
        self._ties_N = self._sum(games.tie_R)

    def deviates(self, moves_SN: Floats) -> tuple[Floats, Floats]:
        """Tails after a move, and what could lie in the opposite ones.

        Args:
            moves_SN: (2, N) moves, for the lower ends and for the upper ones.

        Returns:
            (2, N) normal deviates with the tails, positive where results are better than predicted;
            (2, N) log-probabilities of the worst results possible, and of the best ones.
        """
        best = self._best
        half_SR, total_SR = self._odds(moves_SN)
        loss_SN = self._loss(moves_SN, half_SR, total_SR)
        inside_N = np.isfinite(best.move_N)
        gap_SN = np.where(inside_N, best.move_N, moves_SN) - moves_SN
        r_SN = np.sign(gap_SN) * np.sqrt(2 * np.maximum(loss_SN - best.loss_N, 0.0))
        u_SN = best.width_N * np.tanh(gap_SN * self._step_N / 2) * 2 / self._step_N
        ratio_SN = np.where(r_SN == 0, 1.0, u_SN / np.where(r_SN == 0, 1.0, r_SN))
        deviate_SN = r_SN + r_SN * np.log(np.maximum(ratio_SN, _TINY)) / (r_SN**2 + _NEAR)
        for k in np.flatnonzero(~inside_N):
            tail_S = np.maximum(np.exp(-loss_SN[:, k]) / 2, _TINY)
            size_S = np.array([-_normal_quantile(t) for t in tail_S.tolist()])
            deviate_SN[:, k] = np.sign(best.move_N[k]) * size_S
        return deviate_SN, self._sum(self._toward_SR * half_SR - self._heavy_R * total_SR)

    def slope(self, move_N: Floats) -> Slope:
        """(N,) derivatives of the loss."""
        games = self._games
        half_R, total_R = self._odds(move_N)
        win_R, loss_R = np.exp(half_R - total_R), np.exp(-half_R - total_R)
        decided_R, lead_R = win_R + loss_R, win_R - loss_R
        pull_R, tied_R = games.move_R / 2, games.nu_move_N[games.agent_R]
        mean_R = lead_R * pull_R + (1 - decided_R) * tied_R
        square_R = decided_R * pull_R**2 + (1 - decided_R) * tied_R**2
        return Slope(
            self._sum(self._played_R * mean_R) - self._statistic_N,
            self._sum(self._played_R * (square_R - mean_R**2)),
        )

    def _loss(self, move: Floats, half: Floats, total: Floats) -> Floats:
        """(..., N) negative log-likelihood of own results after a move, of what `_odds` returns."""
        lost = self._sum(self._played_R * total - self._margin_R * half)
        return lost - self._ties_N * self._log_nu(move) if self._games.nu else lost

    def _odds(self, move: Floats) -> tuple[Floats, Floats]:
        """(..., R) half the log-odds, and the log of the sum of the three outcomes' weights."""
        games = self._games
        half = (games.d_R + move[..., games.agent_R] * games.move_R) / 2
        top = np.abs(half)
        small = np.exp(-top)
        if not games.nu:
            return half, top + np.log1p(small**2)
        nu = np.exp(np.minimum(self._log_nu(move), _MOST_TIED))
        return half, top + np.log1p(small * (small + nu[..., games.agent_R]))

    def _log_nu(self, move: Floats) -> Floats:
        """(..., N) log of the tie parameter after a move."""
        tilt: Floats = move * self._games.nu_move_N + np.log(self._games.nu)
        return tilt

    def _sum(self, value: Floats) -> Floats:
        """(..., N) of (..., R)."""
        if value.ndim == 1:
            return totals(self._games.agent_R, value, self._agents)
        return np.stack([self._sum(row) for row in value])

    @cached_property
    def _heavy_R(self) -> Floats:
        """(R,) games, times their information in that of the agent's most informative ones.

        So that games with little information about the agent do not make its worst results look impossible.
        """
        games = self._games
        heaviest_N = np.full(self._agents, _TINY)
        np.maximum.at(heaviest_N, games.agent_R, np.abs(games.move_R))
        heavy_R: Floats = self._played_R * (games.move_R / heaviest_N[games.agent_R]) ** 2
        return heavy_R

    @cached_property
    def _toward_SR(self) -> Floats:
        """(2, R) the same with the sign of a loss of the entry's agent, and of a win."""
        return np.array([[-1.0], [1.0]]) * np.sign(self._games.move_R) * self._heavy_R

    @cached_property
    def _statistic_N(self) -> Floats:
        games = self._games
        tied_R = games.nu_move_N[games.agent_R]
        return self._sum(self._margin_R * games.move_R / 2 + games.tie_R * tied_R)

    @cached_property
    def opposed_SN(self) -> NDArray[np.bool_]:
        """(2, N) whether a result speaks against far moves downwards, and upwards: it can end the side."""
        games = self._games
        telling_R = self._heavy_R > MOVED**2 * self._played_R
        up_R, down_R = (
            np.where(games.move_R > 0, *parts)
            for parts in ((games.win_R, games.loss_R), (games.loss_R, games.win_R))
        )
        against = [self._sum(telling_R * (part_R + games.tie_R)) for part_R in (up_R, down_R)]
        return np.stack(against) > 0

    @cached_property
    def _extremes(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(N,) whether the results are the worst possible, and the best."""
        games = self._games
        most_R, tied_R = np.abs(games.move_R) / 2, games.nu_move_N[games.agent_R]
        best_R = np.maximum(most_R, tied_R) if games.nu else most_R
        worst_R = np.minimum(-most_R, tied_R) if games.nu else -most_R
        best_N, worst_N = self._sum(self._played_R * best_R), self._sum(self._played_R * worst_R)
        slack_N = 1e-9 * (best_N - worst_N)
        return self._statistic_N - worst_N <= slack_N, best_N - self._statistic_N <= slack_N

    @cached_property
    def _best(self) -> _Best:
        """By Newton's method, halving where a step leaves what is left of the range."""
        worst_N, best_N = self._extremes
        inside_N = ~(worst_N | best_N)
        move_N, low_N, high_N = (np.full(self._agents, x) for x in (0.0, -_FARTHEST, _FARTHEST))
        for _ in range(_TURNS):
            slope = self.slope(move_N)
            step_N = slope.first_N / np.maximum(slope.second_N, _TINY)
            moving_N = inside_N & (np.abs(step_N) > _CLOSE * np.maximum(np.abs(move_N), 1.0))
            if not moving_N.any():
                break
            low_N = np.where(slope.first_N < 0, move_N, low_N)
            high_N = np.where(slope.first_N < 0, high_N, move_N)
            next_N = move_N - step_N
            within_N = (low_N < next_N) & (next_N < high_N)
            next_N = np.where(within_N, next_N, (low_N + high_N) / 2)
            move_N = np.where(moving_N, next_N, move_N)
        loss_N, curvature_N = self._loss(move_N, *self._odds(move_N)), self.slope(move_N).second_N
        return _Best(
            np.where(inside_N, move_N, np.where(best_N, np.inf, -np.inf)),
            np.where(inside_N, loss_N, 0.0),
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
