"""Interface of coordination: one method before the step, one after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
