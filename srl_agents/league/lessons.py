"""Which game each start state of an update is of: the curriculum at work, and what it goes by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from srl_agents.league.agent_names import lineage
from srl_agents.league.arenas import Arena, Arenas, apportion
from srl_agents.league.curricula import CurriculumSettings, State
from srl_agents.records import Episode

_GAMES = 7
"""Last word of the seed of what draws games; a league's other draws have shorter seeds."""


class Lessons:
    """Draws games for learners, each by its own scores.

    Args:
        arenas: the games.
        curriculum: shares them out.
        learners: names, in training order.
        seed: of the league.
    """

    def __init__(
        self,
        arenas: Arenas,
        curriculum: CurriculumSettings,
        learners: Sequence[str],
        seed: int,
    ) -> None:
        self._arenas, self._curriculum = arenas, curriculum
        self._learners, self._seed = tuple(learners), seed
        self._states: dict[str, State] = {name: {} for name in learners}
        self._arms = arenas.as_arms()
        self._number = {(arena.title, level): k for k, (arena, level) in enumerate(arenas.arms)}

    def arm(self, update: int, index: int, state: int, start_states: int) -> tuple[Arena, int]:
        """The game and level of one start state; those of one update are shared out at once.

        Args:
            update: from 0.
            index: of the learner.
            state: from 0; from ``start_states`` on, spare ones, which are shared out again.
            start_states: of the learner in the update.
        """
        arms = self._arenas.arms
        if len(arms) == 1:
            return arms[0]
        chances_A = self._curriculum.chances(self._arms, self._states[self._learners[index]])
        entropy = [self._seed, update, index, state // start_states, _GAMES]
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))
        return arms[apportion(chances_A, start_states, float(rng.random()))[state % start_states]]

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Learn what learners scored in training.

        Rivals that learn together score one half between them whatever they learn, so of such matches
        nothing is noted.
        """
        found: dict[str, dict[int, list[float]]] = {name: {} for name in self._learners}
        for episode in episodes:
            arena, level = self._arenas.arm_of(episode.spec)
            if episode.spec.purpose == "self" and arena.mode == "competitive" and arena.seats > 1:
                continue
            for seat in episode.spec.learner_seats:
                mine = episode.trajectories[seat]
                number = self._number[arena.title, level]
                scores = found[lineage(mine.policy)].setdefault(number, [])
                scores.append(min(max((1 + mine.outcome) / 2, 0.0), 1.0))
        self._states = {
            name: self._curriculum.observed(self._arms, self._states[name], scores)
            for name, scores in found.items()
        }

    def shares(self, learner: str) -> dict[str, float]:
        """Game -> share of the learner's next matches that are of it, all levels together."""
        chances_A = self._curriculum.chances(self._arms, self._states[learner])
        shares = dict.fromkeys((arm.game for arm in self._arms), 0.0)
        for arm, chance in zip(self._arms, chances_A, strict=True):
            shares[arm.game] += float(chance)
        return shares

    def levels(self, learner: str) -> dict[str, float]:
        """Game with levels -> mean level of the learner's next matches in it, from 0."""
        chances_A = self._curriculum.chances(self._arms, self._states[learner])
        found: dict[str, list[float]] = {}
        for arm, chance in zip(self._arms, chances_A, strict=True):
            if arm.levels > 1 and arm.weight > 0:
                total = found.setdefault(arm.game, [0.0, 0.0])
                total[0] += float(chance)
                total[1] += float(chance) * arm.level
        return {game: level / share for game, (share, level) in found.items() if share > 0}

    def state(self) -> dict[str, State]:
        """By learner, as JSON values."""
        return self._states

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._states = {name: dict(state[name]) for name in self._learners}
