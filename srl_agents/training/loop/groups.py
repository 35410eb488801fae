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
        apart: learners of no group, each of whom steps by itself.
    """

    def __init__(
        self,
        groups: Mapping[str, Sequence[str]],
        make: Callable[[str], Coordinator],
        apart: Sequence[str] = (),
    ) -> None:
        self._several = len(groups) > 1
        self._learners = {name: tuple(own) for name, own in groups.items()}
        self._learners |= {name: (name,) for name in apart}
        self._coordinators = {name: make(name) for name in groups}
        self._coordinators |= {name: Coordinator() for name in apart}
        self._of = {learner: name for name, own in self._learners.items() for learner in own}

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
        whole = Decision(reset_moments=any(one.reset_moments for one in decisions.values()))
        for group, one in decisions.items():
            whole.changes |= one.changes
            whole.learners |= one.learners
            whole.run |= {f"{k}:{group}" if self._several else k: v for k, v in one.run.items()}
        return whole


def coordination_of(recipe: LeagueRecipe) -> CoordinationGroups:
    """Coordination of a recipe: kinds that combine weights act within each base that has two learners."""
    settings, groups = recipe.coordination, recipe.coordinated
    single = {name for name, own in groups.items() if len(own) == 1 and len(recipe.learners) > 1}
    together = [name for own in groups.values() for name in own]
    return CoordinationGroups(
        groups,
        lambda name: Coordinator() if name in single else settings.make_coordinator(),
        [name for name in recipe.learners if name not in together],
    )


def said_of_groups(recipe: LeagueRecipe) -> str:
    """Who is coordinated with whom, in words; empty where there is one base or a kind that looks at all."""
    bases, kind, groups = recipe.bases, recipe.coordination, recipe.coordinated
    together = [name for own in groups.values() for name in own]
    apart = ", ".join(name for name in recipe.learners if name not in together)
    rest = f"; without the exploiters {apart}" if apart else ""
    if len(bases) == 1 or not kind.within_a_base:
        return f"coordination {kind.kind!r} acts among {', '.join(together)}{rest}" if rest else ""
    words = [
        f"{', '.join(own)} on {name}" + (" (one learner)" if len(own) == 1 else "")
        for name, own in groups.items()
    ]
    where = "across models of one base" if kind.across_bases else "within each base"
    return f"coordination {kind.kind!r} acts {where}: {'; '.join(words)}{rest}"
