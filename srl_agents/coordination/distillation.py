"""Distillation between learners: the best so far pulls the others towards itself on their own tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from srl_agents.coordination.coordinator import Coordinator
from srl_agents.coordination.members import Tensors
from srl_agents.coordination.performance import REMOVED, TIE, Performance
from srl_agents.coordination.settings import CoordinationSettings, check_value
from srl_agents.credit.token_weights import Teaching
from srl_envs.reading.settings import Removed

TEACHER_LIMIT = 5.0
"""Nats; most that one token's divergence counts, so that one surprise does not fill the whole gradient."""


@dataclass(frozen=True, kw_only=True)
class DistillationSettings(CoordinationSettings):
    """How much the best learner's opinion weighs; see `srl_agents.credit.token_weights`.

    Source: arXiv:2306.13649 section 3, arXiv:2306.08543 equation 2. Difference: advantages per token.
    """

    kind: str = "distillation"
    teacher_weight: float = 0.1
    """Weight of the divergence from the best learner, per token."""

    removed: ClassVar[Removed] = {
        **REMOVED,
        "teacher_limit": (TEACHER_LIMIT, "set coordination.teacher_weight"),
    }

    def __post_init__(self) -> None:
        weight = self.teacher_weight
        check_value("teacher_weight", weight, weight >= 0, "0 or more")

    @property
    def teaches(self) -> bool:
        """See `CoordinationSettings`."""
        return True

    def make_coordinator(self) -> Distillation:
        """See `CoordinationSettings`."""
        return Distillation(self)


class Distillation(Coordinator):
    """Names the best so far as teacher of those that are worse.

    Args:
        settings: what the teacher's opinion weighs.
    """

    def __init__(self, settings: DistillationSettings) -> None:
        self._settings = settings
        self._performance = Performance()

    def teaching(self, learner: str, learners: Sequence[str]) -> Teaching | None:
        """See `Coordinator`."""
        settings = self._settings
        performance = self._performance.of(learners)
        best = max(learners, key=lambda name: performance[name])  # the first of equals
        if not settings.teacher_weight or performance[best] <= performance[learner] + TIE:
            return None
        return Teaching(teacher=best, weight=settings.teacher_weight, limit=TEACHER_LIMIT)

    def observe(self, rewards: Mapping[str, float]) -> None:
        """See `Coordinator`."""
        self._performance.observe(rewards)

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """See `Coordinator`."""
        return {}, {"performance": self._performance.state()}

    def load_state(self, tensors: Tensors, state: Mapping[str, Any], like: Tensors) -> None:
        """See `Coordinator`."""
        self._performance.load_state(state["performance"])
