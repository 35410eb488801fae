"""Synchronized learners: all step along the mean of all gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srl_agents.coordination.coordinator import Coordinator, gradients_of
from srl_agents.coordination.gradients import agreement, mean_gradient
from srl_agents.coordination.members import Decision, Member, require_alike
from srl_agents.coordination.settings import CoordinationSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class SynchronizedSettings(CoordinationSettings):
    """g = (1/N) * sum over j of g_j for all, clipped after averaging.

    Source: FedSGD in arXiv:1602.05629 section 2, with equal weights.
    """

    kind: str = "synchronized"

    @property
    def starts_alike(self) -> bool:
        """See `CoordinationSettings`."""
        return True

    @property
    def stays_equal(self) -> bool:
        """See `CoordinationSettings`."""
        return True

    def make_coordinator(self) -> Synchronized:
        """See `CoordinationSettings`."""
        return Synchronized()


class Synchronized(Coordinator):
    """Gives every learner the mean gradient; has no state."""

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        """See `Coordinator`; who brings no gradient steps along the others' mean."""
        require_alike(members)
        own = gradients_of(members)
        if not own:
            return Decision()
        mean = mean_gradient(list(own.values()))
        return Decision(
            changes={m.name: {key: t.clone() for key, t in mean.items()} for m in members},
            run=agreement(own),
        )
