"""Who meets whom: a league of learners, their frozen past, and bots.

Every schedule is a function of (league seed, position): asking twice, or after a crash, gives the
same matches. What may change the answer, the pool of snapshots and the results so far, is the
league's `state`, and travels with the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from srl_agents.league.sampling import SAMPLERS, OpponentView
from srl_agents.league.settings import OpponentSettings
from srl_agents.records import Episode, MatchSpec, Purpose, Split

FINAL_SEEDS = 1_000_000
"""Eval seeds from here on are kept for final tables; looks during training use those from 0."""
BOT = "bot:"


@dataclass(frozen=True, kw_only=True, slots=True)
class Arena:
    """Where the matches are played."""

    env_id: str
    options: dict[str, Any]
    seats: int


class League:
    """Schedules training and evaluation matches.

    Args:
        arena: the environment.
        learners: names, in training order.
        start: policy id that every learner starts as (the base model).
        opponents: how training opponents are drawn.
        seed: root of all schedules.
    """

    def __init__(
        self,
        *,
        arena: Arena,
        learners: Sequence[str],
        start: str,
        opponents: OpponentSettings,
        seed: int,
    ) -> None:
        self.arena = arena
        self.learners = tuple(learners)
        self.start = start
        self.opponents = opponents
        self.seed = seed
        self.versions: dict[str, int] = dict.fromkeys(learners, 0)
        self.past: list[str] = [start]
        self._games: dict[str, dict[str, list[float]]] = {name: {} for name in learners}

    def live(self, learner: str) -> str:
        """Policy id of a learner's present version."""
        return version_id(learner, self.versions[learner])

    def freeze(self, learner: str) -> tuple[str, list[str]]:
        """Put the learner's present version into the pool.

        Returns:
            Its id, and the ids that left the pool because it is full.
        """
        frozen = self.live(learner)
        if frozen not in self.past:
            self.past.append(frozen)
        mine = [v for v in self.past if v != self.start and lineage(v) == learner]
        dropped = mine[: -self.opponents.past_limit]
        self.past = [v for v in self.past if v not in dropped]
        for games in self._games.values():
            for version in dropped:
                games.pop(version, None)
        return frozen, dropped

    def training_matches(self, update: int, start_states: int, attempts: int) -> list[MatchSpec]:
        """Groups of matches for one update of every learner.

        Each start state is played ``attempts`` times by the same policies in the same seats; live
        learners in any seat of it learn.
        """
        matches = []
        for index, learner in enumerate(self.learners):
            for state in range(start_states):
                rng = self._rng(update, index, state)
                seat = (state + update) % self.arena.seats
                kind, others = self._draw_opponents(rng, learner)
                seats = [*others[:seat], self.live(learner), *others[seat:]]
                seed = int(rng.integers(2**31))
                matches += [
                    self._match(
                        seats,
                        seed,
                        split="train",
                        purpose=kind,
                        schedule=f"train/{learner}",
                        number=update * start_states + state,
                        attempt=attempt,
                    )
                    for attempt in range(attempts)
                ]
        return matches

    def evaluation_matches(
        self, schedule: str, pairings: Sequence[tuple[str, str]], seeds: range
    ) -> list[MatchSpec]:
        """Mirrored matches: every pairing on every seed in all seat rotations.

        With more than two seats, the first agent of a pairing holds one seat and the second the
        others.
        """
        n = self.arena.seats
        return [
            self._match(
                _rotated([a, *[b] * (n - 1)], turn),
                seed,
                split="eval",
                purpose="eval",
                schedule=schedule,
                number=number,
            )
            for number, (a, b) in enumerate(pairings)
            for seed in seeds
            for turn in range(n)
        ]

    def round_robin(self, schedule: str, agents: Sequence[str], pairs: int) -> list[MatchSpec]:
        """The final table: every two agents meet in ``pairs`` mirrored pairs on fresh eval seeds."""
        seeds = range(FINAL_SEEDS, FINAL_SEEDS + pairs)
        return self.evaluation_matches(schedule, list(combinations(agents, 2)), seeds)

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Count training results against the past, for the choice among it."""
        for episode in episodes:
            if not episode.valid or episode.spec.split != "train":
                continue
            for seat in episode.spec.learner_seats:
                me = episode.trajectories[seat]
                for other in episode.trajectories:
                    if other.seat == seat or other.policy not in self.past:
                        continue
                    cell = self._games[lineage(me.policy)].setdefault(other.policy, [0.0, 0.0])
                    cell[0] += 1
                    cell[1] += (1 + np.sign(me.outcome - other.outcome)) / 2

    def state(self) -> dict[str, Any]:
        """What schedules depend on, as JSON values."""
        return {"versions": self.versions, "past": self.past, "games": self._games}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self.versions = {name: int(state["versions"][name]) for name in self.learners}
        self.past = list(state["past"])
        self._games = {name: dict(state["games"][name]) for name in self.learners}

    def _draw_opponents(self, rng: np.random.Generator, learner: str) -> tuple[Purpose, list[str]]:
        """The kind of opponent, and who sits in the other seats."""
        settings = self.opponents
        kinds = {"mirror": settings.mirror, "live": settings.live, "past": settings.past}
        if len(self.learners) == 1:
            kinds["mirror"] += kinds.pop("live")
        kinds |= {f"{BOT}{name}": weight for name, weight in settings.bots.items()}
        names, weights = list(kinds), np.array(list(kinds.values()))
        kind = names[int(rng.choice(len(names), p=weights / weights.sum()))]
        free = self.arena.seats - 1
        if kind == "mirror":
            return "self", [self.live(learner)] * free
        if kind == "live":
            peers = [name for name in self.learners if name != learner]
            return "self", [self.live(peers[int(rng.integers(len(peers)))]) for _ in range(free)]
        if kind == "past":
            chances = self._past_chances(learner)
            return "past", [
                self.past[int(rng.choice(len(chances), p=chances))] for _ in range(free)
            ]
        return "bot", [kind] * free

    def _past_chances(self, learner: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        games = self._games[learner]
        counts = np.array([games.get(name, [0.0, 0.0]) for name in self.past], dtype=np.float64)
        view = OpponentView(opponents=tuple(self.past), games_N=counts[:, 0], points_N=counts[:, 1])
        return SAMPLERS[self.opponents.past_sampler](view)

    def _match(
        self,
        seats: Sequence[str],
        seed: int,
        *,
        split: Split,
        purpose: Purpose,
        schedule: str,
        number: int,
        attempt: int = 0,
    ) -> MatchSpec:
        live = {self.live(name) for name in self.learners}
        return MatchSpec(
            env_id=self.arena.env_id,
            options=self.arena.options,
            seed=seed,
            split=split,
            seats=tuple(seats),
            learner_seats=tuple(
                s for s, name in enumerate(seats) if split == "train" and name in live
            ),
            purpose=purpose,
            cluster=f"{split}/{seed}",
            schedule=schedule,
            number=number,
            attempt=attempt,
        )

    def _rng(self, *position: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self.seed, *position])))


def version_id(learner: str, version: int) -> str:
    """Policy id of one version of a learner."""
    return f"{learner}@{version}"


def lineage(policy: str) -> str:
    """The learner that a version belongs to; other policies are their own lineage."""
    return policy.partition("@")[0]


def _rotated(seats: list[str], by: int) -> list[str]:
    return seats[-by:] + seats[:-by] if by else seats
