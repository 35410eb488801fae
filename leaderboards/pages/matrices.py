"""Results of pairs of agents: points, games and surprises of the best agents, cross-play, and diagnostics.

A matrix of all agents would have a hundred million cells on a large board, so each shows the best
of the table only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from leaderboards.pages.standings import finite
from srl_agents.league.ratings.diagnostics import diagnose
from srl_agents.league.ratings.focal_returns import CrossPlay
from srl_agents.league.ratings.intervals import Floats
from srl_agents.league.ratings.pairs import Pairs, WinMatrix, count_results, win_matrix
from srl_agents.league.ratings.tables import expected_score, rate

MATRIX_AGENTS = 60
DIAGNOSED_AGENTS = 40
SURPRISE_Z = 3.0
"""Standard errors between a pair's score and what the ratings expect of it that are marked."""
_INTERVAL_Z = 1.96


def compared(order: Sequence[str], anchors: Collection[str], most: int) -> list[str]:
    """The best agents and the anchors, in the order of the table; entrants of a board meet only those.

    Args:
        order: agents from best to worst.
        anchors: agents that everybody met.
        most: how many agents; anchors take at most half of the places.
    """
    met = [name for name in order if name in anchors][: most // 2]
    best = [name for name in order if name not in met][: most - len(met)]
    chosen = {*met, *best}
    return [name for name in order if name in chosen]


def among(pairs: Pairs, names: Collection[str]) -> Pairs:
    """Only the results between these agents; agents without any stay in the field."""
    kept = np.array([name in set(names) for name in pairs.agents], dtype=bool)
    number_N = np.cumsum(kept) - 1
    rows = kept[pairs.a_M] & kept[pairs.b_M]
    return Pairs(
        agents=tuple(name for name, is_kept in zip(pairs.agents, kept, strict=True) if is_kept),
        a_M=number_N[pairs.a_M[rows]],
        b_M=number_N[pairs.b_M[rows]],
        score_M=pairs.score_M[rows],
        cluster_M=pairs.cluster_M[rows],
    )


def win_cells(
    pairs: Pairs, order: Sequence[str], elo: Mapping[str, float], tie_nu: float
) -> dict[str, Any]:
    """Points, intervals, games, wins, draws and surprises between the agents of ``order``.

    ``surprise`` is how many standard errors a pair's score lies above what the ratings expect, with
    one observation per seed: large values are pairs that no ranking explains.
    """
    some = among(pairs, order)
    matrix = win_matrix(some, order)
    pick = np.array([some.agents.index(name) for name in order], dtype=np.int64)
    wins_NN, ties_NN = (counts[np.ix_(pick, pick)] for counts in count_results(some))
    return {
        "agents": list(order),
        "score": _cells(matrix.score_NN),
        "low": _cells(matrix.low_NN),
        "high": _cells(matrix.high_NN),
        "games": matrix.games_NN.tolist(),
        "wins": wins_NN.astype(int).tolist(),
        "draws": ties_NN.astype(int).tolist(),
        "surprise": _cells(surprises(matrix, elo, tie_nu), 2),
    }


def surprises(matrix: WinMatrix, elo: Mapping[str, float], tie_nu: float) -> Floats:
    """(N, N) score minus expectation in standard errors; NaN where two agents never met."""
    n = len(matrix.agents)
    z_NN = np.full((n, n), math.nan)
    for i, one in enumerate(matrix.agents):
        for j, other in enumerate(matrix.agents):
            if i == j or not matrix.games_NN[i, j]:
                continue
            gap = matrix.score_NN[i, j] - expected_score(elo[one] - elo[other], tie_nu)
            # the interval's end on the side of the expectation
            end = matrix.low_NN[i, j] if gap > 0 else matrix.high_NN[i, j]
            error = abs(matrix.score_NN[i, j] - end) / _INTERVAL_Z
            z_NN[i, j] = gap / error if error > 0 else 0.0
    return z_NN


def partner_cells(partners: CrossPlay) -> dict[str, Any]:
    """Mean returns of the best partners with each other; the diagonal is self-play."""
    top = slice(0, MATRIX_AGENTS)
    return {
        "agents": list(partners.agents[top]),
        "mean": _cells(partners.mean_NN[top, top]),
        "half_width": _cells(partners.half_width_NN[top, top]),
        "games": partners.games_NN[top, top].tolist(),
    }


def diagnostics(
    pairs: Pairs, names: Collection[str], steps: Mapping[str, int]
) -> dict[str, Any] | None:
    """Equilibrium, cyclic share and exploitability among some agents; None where none met."""
    some = among(pairs, names)
    if some.a_M.size == 0:
        return None
    found = diagnose(some, steps=steps)
    place = {name: k for k, name in enumerate(found.agents)}
    bounds = {row.agent: row for row in found.exploitability}
    table = rate(some)
    return {
        "cyclic_share": finite(found.cyclic_share, 3),
        "noise_share": finite(found.noise_share, 3),
        "agents": [
            {
                "agent": name,
                "nash": finite(found.nash_N[place[name]], 4),
                "nash_frequency": finite(found.nash_frequency_N[place[name]], 3),
                "exploiter": bounds[name].exploiter,
                "bound": finite(bounds[name].bound, 3),
                "budget": bounds[name].budget,
            }
            for name in table.agents
        ],
    }


def _cells(values_NN: Floats, digits: int = 4) -> list[list[float | None]]:
    return [[finite(x, digits) for x in row] for row in values_NN.tolist()]
