"""Ratings of a board: references from their own results, every other agent only against references.

In one fit of all results an entrant that loses to a weak reference and beats a strong one moves both, and
with them every other entrant. Here nothing that one entrant does moves another's number.

Array axes: ``N`` agents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from srl_agents.league.ratings.interval_ends import gaps
from srl_agents.league.ratings.intervals import Floats
from srl_agents.league.ratings.pairs import Pairs
from srl_agents.league.ratings.tables import DEFAULT_RIDGE, Rating, RatingTable, rate
from srl_envs.errors import ConfigError


def separate_ratings(
    pairs: Pairs,
    references: Collection[str],
    *,
    anchors: Collection[str],
    ridge: float = DEFAULT_RIDGE,
) -> Iterator[tuple[RatingTable, str]]:
    """The fit of the references, then one fit per other agent with them.

    Args:
        pairs: results; those between two agents outside the references are left out.
        references: agents that are rated from the results among themselves.
        anchors: references whose mean rating is 0 Elo.
        ridge: as in `rate`.

    Yields:
        (table, agent that it is for); the first is for the references and names none.

    Raises:
        ConfigError: no results among the references.
    """
    fixed = [k for k, name in enumerate(pairs.agents) if name in set(references)]
    a_fixed_M, b_fixed_M = np.isin(pairs.a_M, fixed), np.isin(pairs.b_M, fixed)
    among_M = np.flatnonzero(a_fixed_M & b_fixed_M)
    if not among_M.size:
        raise ConfigError(
            "no match between two references: a bundle holds all of them, so give whole bundles."
        )
    yield rate(pairs.take(among_M, fixed), anchors=anchors, ridge=ridge), ""
    mixed_M = np.flatnonzero(a_fixed_M ^ b_fixed_M)
    other_M = np.where(a_fixed_M[mixed_M], pairs.b_M[mixed_M], pairs.a_M[mixed_M])
    order_M = np.argsort(other_M, kind="stable")
    numbers, starts = np.unique(other_M[order_M], return_index=True)
    for k, number in enumerate(numbers.tolist()):
        start, end = np.append(starts, order_M.size)[k : k + 2]
        rows = np.concatenate([among_M, mixed_M[order_M[start:end]]])
        table = rate(pairs.take(rows, [*fixed, number]), anchors=anchors, ridge=ridge)
        yield table, pairs.agents[number]


def rate_separately(
    pairs: Pairs,
    references: Collection[str],
    *,
    anchors: Collection[str],
    ridge: float = DEFAULT_RIDGE,
) -> RatingTable:
    """The rows of `separate_ratings` in one table, whose arguments it has.

    Errors of two agents outside the references count as independent, which makes their difference look
    less certain than it is, never more. (N, N) in memory.

    Raises:
        ConfigError: no results among the references.
    """
    fits = separate_ratings(pairs, references, anchors=anchors, ridge=ridge)
    base, _ = next(fits)
    rows = {rating.agent: (rating, base) for rating in base.ratings}
    rows |= {name: (table[name], table) for table, name in fits}
    order = sorted(rows, key=lambda name: (-rows[name][0].elo, name))
    place = {name: k for k, name in enumerate(order)}
    correlation_NN = np.eye(len(order))
    for name, (_, table) in rows.items():
        known = [place[other] for other in table.agents]
        own_N = table.correlation_NN[table.agents.index(name)]
        correlation_NN[place[name], known] = correlation_NN[known, place[name]] = own_N
    return replace(
        base,
        ratings=tuple(_ranked([rows[name][0] for name in order], correlation_NN)),
        games=int(pairs.a_M.size),
        clusters=int(np.unique(pairs.cluster_M).size),
        correlation_NN=correlation_NN,
    )


def _ranked(order: list[Rating], correlation_NN: Floats) -> list[Rating]:
    """The rows with the ranks that their intervals leave open."""
    elo_N, low_N, high_N = (
        np.array([getattr(rating, name) for rating in order]) for name in ("elo", "low", "high")
    )
    down_N, up_N = elo_N - low_N, high_N - elo_N
    ahead_NN = elo_N[:, None] - elo_N[None, :] > gaps(down_N, up_N, correlation_NN)
    np.fill_diagonal(ahead_NN, False)
    return [
        replace(
            rating,
            best_rank=1 + int(ahead_NN[:, k].sum()),
            worst_rank=len(order) - int(ahead_NN[k].sum()),
        )
        for k, rating in enumerate(order)
    ]
