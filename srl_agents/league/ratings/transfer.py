"""Gain of each learner over its start in every game, also in games it was not trained on.

A *return* is (1 + outcome) / 2, in [0, 1]. Learner and start are compared with the same opponents, or
partners, in the same seats on the same seeds, so the table means the same in games of every mode. In a
game of one seat they are compared on the same seeds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from srl_agents.league.ratings.focal_returns import SeatedResult
from srl_agents.league.ratings.intervals import Interval, paired_interval

BOT = "bot:"


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredGame:
    """One column of the table."""

    name: str
    mode: str
    trained: bool
    results: Sequence[SeatedResult]
    """Results of the final table."""
    one_seat: bool = False
    """As in `srl_agents.league.ratings.focal_returns.focal_returns`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gain:
    """One learner in one game."""

    learner: str
    """Agent id."""
    game: str
    mode: str
    trained: bool
    score: float
    """Mean return with the opponents that its start met, too."""
    start_score: float
    gain: Interval
    """Interval of the difference, clustered by seed."""

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "learner": self.learner,
            "game": self.game,
            "mode": self.mode,
            "trained": self.trained,
            "score": self.score,
            "start_score": self.start_score,
            "gain": self.gain.estimate,
            "low": self.gain.low,
            "high": self.gain.high,
            "seeds": self.gain.clusters,
        }


def transfer_table(games: Sequence[MeasuredGame], starts: Mapping[str, str]) -> list[Gain]:
    """A row per learner and game, in the order of both; none where the two share no opponent.

    Args:
        games: all that were measured.
        starts: learner's agent id -> that of what it began as.
    """
    rows = []
    for learner, start in starts.items():
        for game in games:
            own, before = (_returns(game, agent) for agent in (learner, start))
            common = sorted(
                key for key in own.keys() & before.keys() if key[1] not in (learner, start)
            )
            if not common:
                continue
            now_K = np.array([np.mean(own[key]) for key in common])
            then_K = np.array([np.mean(before[key]) for key in common])
            clusters = np.array([cluster for cluster, _, _ in common])
            rows.append(
                Gain(
                    learner=learner,
                    game=game.name,
                    mode=game.mode,
                    trained=game.trained,
                    score=float(now_K.mean()),
                    start_score=float(then_K.mean()),
                    gain=paired_interval(now_K - then_K, clusters),
                )
            )
    return rows


def over_games(rows: Sequence[Gain], *, trained: bool) -> dict[str, Interval]:
    """Learner -> mean gain over the games that it was trained on, or over the others.

    Games count alike and are taken to err independently.
    """
    own: dict[str, list[Interval]] = defaultdict(list)
    for row in rows:
        if row.trained == trained:
            own[row.learner].append(row.gain)
    return {learner: mean_of_independent(gains) for learner, gains in own.items()}


def mean_of_independent(intervals: Sequence[Interval]) -> Interval:
    """The interval of the mean of estimates that err independently, each with the same weight."""
    return Interval.around(
        float(np.mean([own.estimate for own in intervals])),
        math.sqrt(sum(own.half_width**2 for own in intervals)) / len(intervals),
        min(own.clusters for own in intervals),
    )


_Met = tuple[str, str, tuple[int, ...]]
"""Seed, opponent (empty where there is none), and the agent's seats."""


def _returns(game: MeasuredGame, agent: str) -> dict[_Met, list[float]]:
    """The agent's mean return in each match that it had with one other, or in a game of one seat."""
    found: dict[_Met, list[float]] = defaultdict(list)
    for result in game.results:
        if game.one_seat and result.seats.count(agent) > 1:
            continue
        others = set(result.seats) - {agent}
        only = len(result.seats) == 1
        if agent in result.seats and (only or len(others) == 1):
            own_returns = [
                (1 + outcome) / 2
                for seat, outcome in zip(result.seats, result.outcomes, strict=True)
                if seat == agent
            ]
            held = tuple(seat for seat, name in enumerate(result.seats) if name == agent)
            found[result.cluster, "" if only else others.pop(), held].append(
                float(np.mean(own_returns))
            )
    return found
