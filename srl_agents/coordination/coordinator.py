"""Coordination, one method before the step and one after it; and groups of learners with one each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from srl_agents.coordination.members import Decision, Member, Tensors
from srl_agents.credit.token_weights import Teaching


class Coordinator:
    """What a kind does; as it is, nothing, so a kind writes the methods in which it acts.

    One update is `teaching` (before gradients), `before_step`, the steps, `after_step`, `observe`.
    Decisions of an update rest on the rewards of earlier ones. Members are read and never written.
    """

    def teaching(self, learner: str, learners: Sequence[str]) -> Teaching | None:
        """The teacher of a learner in this update, if it has one.

        Args:
            learner: who may be taught.
            learners: all of them, in training order.
        """
        return None

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        """Which gradients the learners step along.

        Args:
            members: all learners in training order.
            first: of the steps of an update.

        Raises:
            ModelError: the kind combines tensors and the adapters do not fit each other.
        """
        return Decision(changes=gradients_of(members))

    def after_step(self, members: Sequence[Member]) -> Decision:
        """Which weights change after the optimizer steps of one update.

        Args:
            members: all learners in training order.

        Raises:
            ModelError: the kind combines tensors and the adapters do not fit each other.
        """
        return Decision()

    def observe(self, rewards: Mapping[str, float]) -> None:
        """Take in the mean training reward of each learner in this update.

        Args:
            rewards: by learner; one that played no valid episode is absent.
        """

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """What later updates depend on: tensors (copies on the CPU) and JSON values."""
        return {}, {}

    def load_state(self, tensors: Tensors, state: Mapping[str, Any], like: Tensors) -> None:
        """The inverse of `state`; tensors go to the devices of ``like``, any learner's adapter."""


def gradients_of(members: Sequence[Member]) -> dict[str, Tensors]:
    """The gradients of those that have some."""
    return {m.name: m.gradients for m in members if m.gradients is not None}


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
