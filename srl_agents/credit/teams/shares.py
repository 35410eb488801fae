"""Each seat's share of its team's result, from replays in which team mates are idle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from srl_agents.credit.teams.coalitions import (
    EXACT_LIMIT,
    difference_rewards,
    sampled_shapley_shares,
    shapley_shares,
)
from srl_agents.records import Episode

Replayed = Callable[[Episode, frozenset[int]], Sequence[float]]
"""(episode, idle seats) -> outcome of each seat had those left every choice to the game."""

_ORDERS = 8
"""Pairs of orders where there are too many mates for exact Shapley shares."""


def difference_shares(
    episode: Episode, mates: Sequence[int], replayed: Replayed
) -> dict[int, float]:
    """Difference rewards: the loss of the team's mean outcome if the seat had been idle.

    Has the gradient of the team's mean wherever the others' replies do not answer the seat's, because
    what it takes away does not depend on the seat: the same direction with less noise.
    """
    value = _team_sum(episode, mates, replayed)
    return _by_seat(mates, difference_rewards(len(mates), value) / len(mates))


def shapley_seat_shares(
    episode: Episode, mates: Sequence[int], replayed: Replayed
) -> dict[int, float]:
    """Shapley shares of the team's summed outcome; they sum to it, less that of an idle team.

    Exact up to `EXACT_LIMIT` mates, else over random orders that depend only on the match.
    """
    value = _team_sum(episode, mates, replayed)
    if len(mates) <= EXACT_LIMIT:
        return _by_seat(mates, shapley_shares(len(mates), value))
    rng = np.random.default_rng(int(episode.spec.match_id, 16))
    return _by_seat(mates, sampled_shapley_shares(len(mates), value, _ORDERS, rng))


def _team_sum(
    episode: Episode, mates: Sequence[int], replayed: Replayed
) -> Callable[[frozenset[int]], float]:
    """Worth of a coalition of places in ``mates``: the team's sum with the other mates idle."""

    @cache
    def value(playing: frozenset[int]) -> float:
        idle = frozenset(seat for place, seat in enumerate(mates) if place not in playing)
        outcomes = replayed(episode, idle) if idle else [t.outcome for t in episode.trajectories]
        return float(sum(outcomes[seat] for seat in mates))

    return value


def _by_seat(mates: Sequence[int], shares_N: np.ndarray) -> dict[int, float]:
    return {seat: float(share) for seat, share in zip(mates, shares_N, strict=True)}
