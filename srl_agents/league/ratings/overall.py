"""One rating over several games in which every game counts alike, whatever was played of it.

Each game has its own table, with its own tie parameter and its own intervals (a sandwich clustered by seed).
The overall strengths s are the least-squares fit to the tables' differences:

    minimise sum_g || C_g (t_g - s) ||^2

with t_g the Elo of game g and C_g what removes the mean over the agents of g. Where all agents played all
games s is the mean of the tables. An agent that played some games is compared with the others of those games
only, so a game that was left out neither costs nor brings anything; how strong it would be there is not
guessed. The covariance follows from those of the tables, which are independent: equal seeds of two games draw
different instances. Intervals therefore say how sure the strengths in *these* games are, and nothing of
other games.

Bots are left out: a name plays differently in each game. Array axes: ``N`` agents, ``G`` of one game.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.ratings.intervals import Floats, Ints, t_quantile
from srl_agents.league.ratings.tables import Rating, RatingTable
from srl_agents.league.ratings.transfer import BOT

_WIDE_ELO = 5000.0
"""Half-width that stands for an infinite one: such a game decides nothing."""


def overall(tables: Mapping[str, RatingTable]) -> RatingTable | None:
    """The table over all games; the mean of its agents is 0 Elo.

    Args:
        tables: game -> its table, on the same agents or some of them.

    Returns:
        None where no game has two agents that are not bots.
    """
    shared = {
        game: agents
        for game, table in tables.items()
        if len(agents := [name for name in table.agents if not name.startswith(BOT)]) > 1
    }
    names = sorted({name for agents in shared.values() for name in agents})
    if not names:
        return None
    found = _fit(tables, shared, names)
    rows = [_row(found, i, tables, shared) for i in range(len(names))]
    order = sorted(range(len(names)), key=lambda i: (-rows[i].elo, rows[i].agent))
    scale_NN = np.outer(found.error_N, found.error_N)
    correlation_NN = np.divide(
        found.covariance_NN, scale_NN, out=np.eye(len(names)), where=scale_NN > 0
    )
    return RatingTable(
        ratings=tuple(rows[i] for i in order),
        anchors=tuple(names),
        ridge=0.0,
        tie_nu=float(np.mean([tables[game].tie_nu for game in shared])),
        games=sum(tables[game].games for game in shared),
        clusters=int(found.clusters_N.min()),
        correlation_NN=correlation_NN[np.ix_(order, order)],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """Strengths over all games."""

    names: list[str]
    elo_N: Floats
    """Strengths in Elo, which sum to 0."""
    covariance_NN: Floats
    """Covariance of the distances to the mean of all agents."""
    joined_NN: NDArray[np.bool_]
    """Whether a chain of games joins two agents."""
    clusters_N: Ints
    """Fewest clusters that an agent has in any of its games."""

    @property
    def error_N(self) -> Floats:
        """Standard errors of the strengths."""
        found: Floats = np.sqrt(np.maximum(np.diag(self.covariance_NN), 0.0))
        return found

    def quantile(self, clusters: int) -> float:
        """Quantile of Student's t for an interval from so many clusters."""
        return t_quantile(max(1, clusters - 1))

    def ahead(self, i: int, j: int) -> bool:
        """Whether one agent is resolved to be better than another."""
        if i == j or not self.joined_NN[i, j]:
            return False
        covariance = self.covariance_NN
        variance = float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])
        clusters = int(min(self.clusters_N[i], self.clusters_N[j]))
        margin = self.quantile(clusters) * math.sqrt(max(0.0, variance))
        return bool(self.elo_N[i] - self.elo_N[j] > margin)


def _fit(
    tables: Mapping[str, RatingTable], shared: Mapping[str, list[str]], names: list[str]
) -> _Fitted:
    """Least squares on the tables' differences."""
    n = len(names)
    weight_NN, pull_N, meat_NN = np.zeros((n, n)), np.zeros(n), np.zeros((n, n))
    for game, agents in shared.items():
        at_G = np.array([names.index(name) for name in agents])
        centre_GG = np.eye(len(agents)) - 1 / len(agents)
        elo_G, covariance_GG = _of_game(tables[game], agents)
        weight_NN[np.ix_(at_G, at_G)] += centre_GG
        pull_N[at_G] += centre_GG @ elo_G
        meat_NN[np.ix_(at_G, at_G)] += centre_GG @ covariance_GG @ centre_GG
    inverse_NN = np.linalg.pinv(weight_NN, hermitian=True)
    elo_N: Floats = inverse_NN @ pull_N
    shift_NN = np.eye(n) - 1 / n
    clusters_N = [
        min(tables[game][name].clusters for game in shared if name in shared[game])
        for name in names
    ]
    return _Fitted(
        names=names,
        elo_N=elo_N - elo_N.mean(),
        covariance_NN=shift_NN @ inverse_NN @ meat_NN @ inverse_NN @ shift_NN,
        joined_NN=_joined(weight_NN),
        clusters_N=np.array(clusters_N, dtype=np.int64),
    )


def _of_game(table: RatingTable, agents: list[str]) -> tuple[Floats, Floats]:
    """Elo of some agents of a table, and the covariance of its errors."""
    rows = [table[name] for name in agents]
    at_G = [table.agents.index(name) for name in agents]
    errors_G = np.array(
        [min(row.half_width, _WIDE_ELO) / t_quantile(max(1, row.clusters - 1)) for row in rows]
    )
    correlation_GG = table.correlation_NN[np.ix_(at_G, at_G)]
    return np.array([row.elo for row in rows]), correlation_GG * np.outer(errors_G, errors_G)


def _row(
    found: _Fitted, i: int, tables: Mapping[str, RatingTable], shared: Mapping[str, list[str]]
) -> Rating:
    """One agent of the table."""
    name, n = found.names[i], len(found.names)
    own = [tables[game][name] for game in shared if name in shared[game]]
    clusters = int(found.clusters_N[i])
    whole = bool(found.joined_NN.all())
    half = found.quantile(clusters) * float(found.error_N[i]) if whole else math.inf
    reasons = dict.fromkeys(reason for row in own for reason in row.provisional)
    if len(own) < len(shared):
        reasons[f"played {len(own)} of {len(shared)} games"] = None
    if not whole:
        reasons["no chain of games joins all agents"] = None
    elo = float(found.elo_N[i])
    return Rating(
        agent=name,
        elo=elo,
        low=elo - half,
        high=elo + half,
        best_rank=1 + sum(found.ahead(j, i) for j in range(n)),
        worst_rank=n - sum(found.ahead(i, j) for j in range(n)),
        games=sum(row.games for row in own),
        wins=sum(row.wins for row in own),
        draws=sum(row.draws for row in own),
        losses=sum(row.losses for row in own),
        clusters=clusters,
        field_score=float(np.mean([row.field_score for row in own])),
        provisional=tuple(reasons),
    )


def _joined(weight_NN: Floats) -> NDArray[np.bool_]:
    """(N, N) whether a chain of games joins two agents."""
    reach: NDArray[np.bool_] = weight_NN != 0
    for _ in range(len(weight_NN)):
        further: NDArray[np.bool_] = (reach.astype(float) @ reach.astype(float)) > 0
        if (further == reach).all():
            break
        reach = further
    return reach
