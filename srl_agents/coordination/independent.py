"""Independent learners: they share no weights and no gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from srl_agents.coordination.coordinator import Coordinator
from srl_agents.coordination.settings import CoordinationSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class IndependentSettings(CoordinationSettings):
    """Every learner steps along its own gradient; one learner is enough."""

    kind: str = "independent"

    @property
    def within_a_base(self) -> bool:
        """See `CoordinationSettings`."""
        return False

    def make_coordinator(self) -> Coordinator:
        """See `CoordinationSettings`."""
        return Coordinator()

    def check(self, *, learners: int, parameters: Literal["lora", "full"]) -> None:
        """Accepts every recipe."""
