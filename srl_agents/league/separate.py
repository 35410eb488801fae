"""Ratings of a board: references from their own results, everybody else with these and nobody else.

In one fit of all results an entrant that loses to a weak reference and beats a strong one moves both, and
with them every other entrant. Here nothing that one entrant does moves another's number.

Array axes: ``N`` agents.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from srl_agents.league.pairs import Pairs
from srl_agents.league.rating_intervals import apart
from srl_agents.league.ratings import DEFAULT_RIDGE, Rating, RatingTable, rate
from srl_envs.errors import ConfigError


def rate_separately(
    pairs: Pairs,
    references: Collection[str],
    *,
    anchors: Collection[str],
    ridge: float = DEFAULT_RIDGE,
) -> RatingTable:
    """One table from one fit per agent that is no reference.

    Args:
        pairs: results; those between two agents that are no references are left out.
        references: agents that are rated from the results among themselves.
        anchors: references whose mean rating is 0 Elo.
        ridge: as in `rate`.

    Returns:
        A row per agent as its own fit has it. Errors of two agents that are no references count as
        independent, which makes their difference look less certain than it is, never more.

    Raises:
        ConfigError: no results among the references.
    """
    fixed = [name for name in pairs.agents if name in set(references)]
    among = pairs.among(fixed)
    if not among.a_M.size:
        raise ConfigError("the references never met: their matches are part of every bundle.")
    base = rate(among, anchors=anchors, ridge=ridge)
    rows = {rating.agent: rating for rating in base.ratings}
    correlation = {
        (one, other): float(base.correlation_NN[i, j])
        for i, one in enumerate(base.agents)
        for j, other in enumerate(base.agents)
    }
    for name in pairs.agents:
        if name not in rows:
            own = rate(pairs.among([*fixed, name]), anchors=anchors, ridge=ridge)
            rows[name] = own[name]
            for other, value in zip(
                own.agents, own.correlation_NN[own.agents.index(name)], strict=True
            ):
                correlation[name, other] = correlation[other, name] = float(value)
    order = sorted(rows.values(), key=lambda r: (-r.elo, r.agent))
    correlation_NN = np.array(
        [[correlation.get((a.agent, b.agent), 0.0) for b in order] for a in order]
    )
    return replace(
        base,
        ratings=tuple(_ranked(order, correlation_NN)),
        games=int(pairs.a_M.size),
        clusters=int(np.unique(pairs.cluster_M).size),
        correlation_NN=correlation_NN,
    )


def _ranked(order: list[Rating], correlation_NN: np.ndarray) -> list[Rating]:
    """The rows with the ranks that their intervals leave open."""
    elo_N, low_N, high_N = (
        np.array([getattr(rating, name) for rating in order]) for name in ("elo", "low", "high")
    )
    down_N, up_N = elo_N - low_N, high_N - elo_N
    ahead_NN = elo_N[:, None] - elo_N[None, :] > apart(
        down_N[:, None], up_N[None, :], correlation_NN
    )
    np.fill_diagonal(ahead_NN, False)
    return [
        replace(
            rating,
            best_rank=1 + int(ahead_NN[:, k].sum()),
            worst_rank=len(order) - int(ahead_NN[k].sum()),
        )
        for k, rating in enumerate(order)
    ]
