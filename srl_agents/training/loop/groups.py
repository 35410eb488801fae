"""Coordination where learners are on several bases: one coordinator for all, or one within each base."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from srl_agents.coordination.coordinator import Coordinator
from srl_agents.coordination.members import Decision, Member, Tensors
from srl_agents.credit.token_weights import Teaching
from srl_agents.recipes.settings import LeagueRecipe


class CoordinationGroups:
    """Coordinators of groups of learners. Groups do not hear of each other.

    Args:
        groups: name of a group -> its learners, each in one group.
        make: makes a coordinator with nothing remembered.
    """

    def __init__(
        self, groups: Mapping[str, Sequence[str]], make: Callable[[str], Coordinator]
    ) -> None:
        self._learners = {name: tuple(own) for name, own in groups.items()}
        self._coordinators = {name: make(name) for name in groups}
        self._of = {learner: name for name, own in groups.items() for learner in own}

    def teaching(self, learner: str) -> Teaching | None:
        """The teachers of a learner in this update, if it has any."""
        group = self._of[learner]
        return self._coordinators[group].teaching(learner, list(self._learners[group]))

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        """See `Coordinator`."""
        return self._joined(
            {
                group: self._coordinators[group].before_step(own, first=first)
                for group, own in self._split(members).items()
            }
        )

    def after_step(self, members: Sequence[Member]) -> Decision:
        """See `Coordinator`."""
        return self._joined(
            {
                group: self._coordinators[group].after_step(own)
                for group, own in self._split(members).items()
            }
        )

    def observe(self, rewards: Mapping[str, float]) -> None:
        """See `Coordinator`."""
        for group, coordinator in self._coordinators.items():
            own = self._learners[group]
            coordinator.observe({name: rewards[name] for name in own if name in rewards})

    def state(self) -> tuple[dict[str, Tensors], dict[str, Any]]:
        """By group, what later updates depend on: tensors, where there are some, and JSON values."""
        states = {group: one.state() for group, one in self._coordinators.items()}
        tensors = {group: shared for group, (shared, _) in states.items() if shared}
        return tensors, {group: own for group, (_, own) in states.items()}

    def load_state(
        self,
        tensors: Mapping[str, Tensors],
        state: Mapping[str, Any],
        like: Callable[[str], Tensors],
    ) -> None:
        """The inverse of `state`; ``like`` gives a learner's tensors, whose devices are taken."""
        for group, coordinator in self._coordinators.items():
            first = self._learners[group][0]
            coordinator.load_state(tensors.get(group, {}), state[group], like=like(first))

    def _split(self, members: Sequence[Member]) -> dict[str, list[Member]]:
        return {
            group: [member for member in members if member.name in own]
            for group, own in self._learners.items()
        }

    def _joined(self, decisions: Mapping[str, Decision]) -> Decision:
        """One decision; metrics of the run end in their group's name where there are several."""
        several = len(self._learners) > 1
        whole = Decision(reset_moments=any(one.reset_moments for one in decisions.values()))
        for group, one in decisions.items():
            whole.changes |= one.changes
            whole.learners |= one.learners
            whole.run |= {f"{k}:{group}" if several else k: v for k, v in one.run.items()}
        return whole


def coordination_of(recipe: LeagueRecipe) -> CoordinationGroups:
    """Coordination of a recipe: kinds that combine weights act within each base that has two learners."""
    bases, settings = recipe.bases, recipe.coordination
    if len(bases) == 1 or not settings.within_a_base:
        return CoordinationGroups({"all": recipe.learners}, lambda _: settings.make_coordinator())
    single = {base.name for base in bases if len(base.learners) == 1}
    return CoordinationGroups(
        {base.name: base.learners for base in bases},
        lambda name: Coordinator() if name in single else settings.make_coordinator(),
    )


def said_of_groups(recipe: LeagueRecipe) -> str:
    """Who is coordinated with whom, in words; empty where there is one base or a kind that looks at all."""
    bases, kind = recipe.bases, recipe.coordination
    if len(bases) == 1 or not kind.within_a_base:
        return ""
    groups = [
        f"{', '.join(base.learners)} on {base.name}"
        + (" (one learner)" if len(base.learners) == 1 else "")
        for base in bases
    ]
    return f"coordination {kind.kind!r} acts within each base: {'; '.join(groups)}"
