"""The game and level of each start state of an update, chosen by the curriculum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from srl_agents.league.agents import lineage
from srl_agents.league.curricula import CurriculumSettings, FixedShares, State
from srl_agents.league.matchmaking.arenas import Arena, Arenas, apportion
from srl_agents.league.matchmaking.row_passes import rows_of_match
from srl_agents.league.ratings.intervals import Floats
from srl_agents.records import Episode

_GAMES = 7
"""Last word of the seed that draws games; a league's other draws have shorter seeds."""
_ROWS = 11
"""Last word of the seed that draws rows."""
_REMEMBERED = 256
"""Updates whose counts of rows are kept: those that may be drawn again, which are few."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LessonPlan:
    """Games and curriculum of one learner, where they are not the league's."""

    weights: Mapping[str, float] | None = None
    """Game -> share of training matches, relative to the others'; absent games are not trained. None: the
    league's."""
    curriculum: CurriculumSettings | None = None
    """Curriculum of this learner; None takes the league's."""


class Lessons:
    """Draws games for learners, each by its own scores.

    Args:
        arenas: the games.
        curriculum: shares them out.
        learners: names, in training order.
        seed: of the league.
        plans: of learners with games or a curriculum of their own.
    """

    def __init__(
        self,
        arenas: Arenas,
        curriculum: CurriculumSettings,
        learners: Sequence[str],
        seed: int,
        plans: Mapping[str, LessonPlan] | None = None,
    ) -> None:
        self._arenas = arenas
        own = {name: (plans or {}).get(name, LessonPlan()) for name in learners}
        self._curricula = {name: plan.curriculum or curriculum for name, plan in own.items()}
        self._fixed = all(isinstance(one, FixedShares) for one in self._curricula.values())
        self._learners, self._seed = tuple(learners), seed
        self._states: dict[str, State] = {name: {} for name in learners}
        self._arms_of = {name: arenas.as_arms(plan.weights) for name, plan in own.items()}
        self._arms = arenas.as_arms()
        self.rows_asked: dict[str, dict[str, dict[str, int]]] = {}
        """Learner -> update -> arm -> matches of it before this update; JSON values, for a checkpoint."""
        self._number = {(arena.title, level): k for k, (arena, level) in enumerate(arenas.arms)}

    def trains_in(self, learner: str, arena: Arena) -> bool:
        """Whether a learner learns from its matches in a game."""
        return any(arm.weight > 0 for arm in self._arms_of[learner] if arm.game == arena.title)

    def arm(self, update: int, index: int, state: int, start_states: int) -> tuple[Arena, int]:
        """The game and level of one start state; those of one update are shared out at once.

        Args:
            update: from 0.
            index: of the learner.
            state: from 0; from ``start_states`` on, spare ones, which are shared out again.
            start_states: of the learner in the update.
        """
        round_, place = divmod(state, start_states)
        return self._arenas.arms[self._slots(update, index, round_, start_states)[place]]

    def rows(self, update: int, index: int, state: int, start_states: int) -> tuple[int, ...]:
        """Places of the rows that a start state asks, where its tasks are rows; empty where they are not,
        and of spare ones. Arguments as of `arm`.

        A learner is asked each row of a game once in a pass over all, in another order every pass.
        """
        if state >= start_states:
            return ()
        slots = self._slots(update, index, 0, start_states)
        number = slots[state]
        arena, level = self._arenas.arms[number]
        rows = arena.training_rows(level)
        if not rows.total:
            return ()
        before = self._asked_before(update, index).get(self._arms[number].key, 0)
        match = before + slots[:state].count(number)
        return rows_of_match((self._seed, index, number, _ROWS), rows, match)

    def count_rows(self, update: int, start_states: int) -> None:
        """The matches of an update are drawn: those of the next one go on behind their rows."""
        keys = {
            number: self._arms[number].key
            for number, (arena, level) in enumerate(self._arenas.arms)
            if arena.training_rows(level).total
        }
        if not keys:
            return
        for index, name in enumerate(self._learners):
            slots = self._slots(update, index, 0, start_states)
            before = self._asked_before(update, index)
            known = self.rows_asked.setdefault(name, {})
            known[str(update + 1)] = {
                key: before.get(key, 0) + slots.count(number) for number, key in keys.items()
            }
            for old in sorted(map(int, known))[:-_REMEMBERED]:
                del known[str(old)]

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Learn what learners scored in training.

        Rivals that learn together score one half between them whatever they learn, so of such matches
        nothing is noted.
        """
        if self._fixed:
            return
        found: dict[str, dict[int, list[float]]] = {name: {} for name in self._learners}
        for episode in episodes:
            arena, level = self._arenas.arm_of(episode.spec)
            if episode.spec.purpose == "self" and arena.mode == "competitive" and arena.seats > 1:
                continue
            for seat in episode.spec.learner_seats:
                trajectory = episode.trajectories[seat]
                number = self._number[arena.title, level]
                scores = found[lineage(trajectory.policy)].setdefault(number, [])
                scores.append(min(max((1 + trajectory.outcome) / 2, 0.0), 1.0))
        self._states = {
            name: self._curricula[name].observed(self._arms_of[name], self._states[name], scores)
            for name, scores in found.items()
        }

    def shares(self, learner: str) -> dict[str, float]:
        """Game -> share of the learner's next matches that are of it, all levels together."""
        chances_A = self._chances(learner)
        shares = dict.fromkeys((arm.game for arm in self._arms), 0.0)
        for arm, chance in zip(self._arms, chances_A, strict=True):
            shares[arm.game] += float(chance)
        return shares

    def levels(self, learner: str) -> dict[str, float]:
        """Game with levels -> mean level of the learner's next matches in it, from 0."""
        chances_A = self._chances(learner)
        found: dict[str, list[float]] = {}
        for arm, chance in zip(self._arms_of[learner], chances_A, strict=True):
            if arm.levels > 1 and arm.weight > 0:
                total = found.setdefault(arm.game, [0.0, 0.0])
                total[0] += float(chance)
                total[1] += float(chance) * arm.level
        return {game: level / share for game, (share, level) in found.items() if share > 0}

    def _slots(self, update: int, index: int, round_: int, start_states: int) -> list[int]:
        """The number of the arm of each start state of an update; in round 0 of those that it has, then of
        spare ones."""
        if len(self._arms) == 1:
            return [0] * start_states
        chances_A = self._chances(self._learners[index])
        entropy = [self._seed, update, index, round_, _GAMES]
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))
        return apportion(chances_A, start_states, float(rng.random()))

    def _chances(self, learner: str) -> Floats:
        """(A,) chances of the arms for a learner's next matches."""
        return self._curricula[learner].chances(self._arms_of[learner], self._states[learner])

    def _asked_before(self, update: int, index: int) -> Mapping[str, int]:
        """Matches of each arm with rows before an update, as far as they were drawn."""
        known = self.rows_asked.get(self._learners[index], {})
        drawn = [number for number in map(int, known) if number <= update]
        return known[str(max(drawn))] if drawn else {}

    def state(self) -> dict[str, State]:
        """By learner, as JSON values."""
        return self._states

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._states = {name: dict(state[name]) for name in self._learners}
