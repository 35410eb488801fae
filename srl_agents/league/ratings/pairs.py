"""Results between two agents as arrays, and statistics of them without a model.

Array axes: ``N`` agents, ``M`` results (one per pair of seats).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.ratings.intervals import Floats, Interval, Ints, paired_interval, wilson
from srl_envs.errors import ConfigError, ShapeError


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Results between two agents. A match with more than two seats is one row per pair of seats."""

    agents: tuple[str, ...]
    a_M: Ints
    """Index into ``agents``."""
    b_M: Ints
    score_M: Floats
    """Points of ``a``: 1 win, 0.5 tie, 0 loss."""
    cluster_M: Ints
    """Rows with the same number share their randomness."""

    def __post_init__(self) -> None:
        shapes = {x.shape for x in (self.a_M, self.b_M, self.score_M, self.cluster_M)}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise ShapeError(f"columns of shapes {shapes}: give four arrays of one length.")
        if self.a_M.size == 0:
            return
        least = min(int(self.a_M.min()), int(self.b_M.min()))
        most = max(int(self.a_M.max()), int(self.b_M.max()))
        if least < 0 or most >= len(self.agents):
            raise ShapeError(f"agent numbers {least}..{most} do not fit {len(self.agents)} agents.")
        if (self.a_M == self.b_M).any():
            raise ConfigError("an agent cannot be rated against itself: leave such rows out.")
        score_M = self.score_M
        if not ((score_M == 1) | (score_M == 0.5) | (score_M == 0)).all():
            raise ConfigError("a score is 1 (win), 0.5 (tie) or 0 (loss).")

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str, float, str]], agents: Iterable[str] = ()) -> Pairs:
        """Build from (agent, opponent, score, cluster) rows.

        Args:
            rows: one per result.
            agents: agents to rate even if they have no row.
        """
        table = list(rows)
        names = sorted({*agents, *(r[0] for r in table), *(r[1] for r in table)})
        clusters = {c: k for k, c in enumerate(sorted({r[3] for r in table}))}
        number = {name: k for k, name in enumerate(names)}
        return cls(
            agents=tuple(names),
            a_M=np.array([number[r[0]] for r in table], dtype=np.int64),
            b_M=np.array([number[r[1]] for r in table], dtype=np.int64),
            score_M=np.array([r[2] for r in table], dtype=np.float64),
            cluster_M=np.array([clusters[r[3]] for r in table], dtype=np.int64),
        )

    def take(self, rows_m: Ints, agents: Sequence[int]) -> Pairs:
        """These rows, which name only these agents; clusters keep their numbers."""
        number_N = np.full(len(self.agents), -1)
        number_N[list(agents)] = np.arange(len(agents))
        return Pairs(
            tuple(self.agents[k] for k in agents),
            number_N[self.a_M[rows_m]],
            number_N[self.b_M[rows_m]],
            self.score_M[rows_m],
            self.cluster_M[rows_m],
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WinMatrix:
    """Observed points between agents, in the order of ``agents``."""

    agents: tuple[str, ...]
    points_NN: Floats
    """Points the row agent took from the column agent; a tie is half a point for both."""
    games_NN: Ints
    score_NN: Floats
    """points / games, NaN where two agents never met."""
    low_NN: Floats
    """95 % Wilson interval with one observation per cluster (wide rather than narrow)."""
    high_NN: Floats


def win_matrix(pairs: Pairs, order: Collection[str] = ()) -> WinMatrix:
    """Observed scores between all agents.

    Args:
        pairs: results.
        order: agents in the order of rows and columns; all agents by default.
    """
    agents = tuple(order) or pairs.agents
    pick = np.array([pairs.agents.index(a) for a in agents], dtype=np.int64)
    wins_NN, ties_NN = count_results(pairs)
    points_NN = (wins_NN + ties_NN / 2)[np.ix_(pick, pick)]
    games_NN = (wins_NN + wins_NN.T + ties_NN)[np.ix_(pick, pick)]
    met = games_NN > 0
    score_NN = np.full(points_NN.shape, np.nan)
    score_NN[met] = points_NN[met] / games_NN[met]
    low_NN, high_NN = wilson(score_NN, _clusters_per_pair(pairs)[np.ix_(pick, pick)])
    return WinMatrix(
        agents=agents,
        points_NN=points_NN,
        games_NN=games_NN.astype(np.int64),
        score_NN=score_NN,
        low_NN=low_NN,
        high_NN=high_NN,
    )


def head_to_head(pairs: Pairs, agent: str, opponent: str) -> Interval:
    """Mean score difference per game between two agents, only from their own games.

    With mirrored pairs (same seed, seats swapped) the advantage of a seat cancels.

    Returns:
        Points of ``agent`` minus points of ``opponent`` per game, in [-1, 1]; above 0 it is better.

    Raises:
        ConfigError: the two never met.
    """
    known = set(pairs.agents)
    if not {agent, opponent} <= known:
        missing = sorted({agent, opponent} - known)
        raise ConfigError(
            f"no results of {', '.join(map(repr, missing))}: play matches with them first."
        )
    i, j = pairs.agents.index(agent), pairs.agents.index(opponent)
    forward, backward = _between(pairs, i, j), _between(pairs, j, i)
    scores = np.where(forward, 2 * pairs.score_M - 1, 1 - 2 * pairs.score_M)
    chosen = forward | backward
    return paired_interval(scores[chosen], pairs.cluster_M[chosen])


def count_results(pairs: Pairs) -> tuple[Floats, Floats]:
    """(N, N) wins of row over column, and (N, N) symmetric ties."""
    n = len(pairs.agents)
    forward, backward = pairs.a_M * n + pairs.b_M, pairs.b_M * n + pairs.a_M
    wins = np.bincount(forward[pairs.score_M == 1.0], minlength=n * n)
    wins = wins + np.bincount(backward[pairs.score_M == 0.0], minlength=n * n)
    ties = np.bincount(forward[pairs.score_M == 0.5], minlength=n * n).reshape(n, n)
    return wins.reshape(n, n).astype(np.float64), (ties + ties.T).astype(np.float64)


def _clusters_per_pair(pairs: Pairs) -> Ints:
    """(N, N) number of clusters in which two agents met."""
    n = len(pairs.agents)
    span = int(pairs.cluster_M.max(initial=0)) + 1
    lower, upper = np.minimum(pairs.a_M, pairs.b_M), np.maximum(pairs.a_M, pairs.b_M)
    met = np.unique((lower * n + upper) * span + pairs.cluster_M) // span
    half = np.bincount(met, minlength=n * n).reshape(n, n)
    return half + half.T


def _between(pairs: Pairs, i: int, j: int) -> NDArray[np.bool_]:
    chosen: NDArray[np.bool_] = (pairs.a_M == i) & (pairs.b_M == j)
    return chosen
