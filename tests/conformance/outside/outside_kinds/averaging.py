"""Averaging: every few updates all learners go on from the plain mean of their tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from srl_agents.coordination.coordinator import Coordinator
from srl_agents.coordination.members import Decision, Member, require_alike
from srl_agents.coordination.settings import CoordinationSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class AveragingSettings(CoordinationSettings):
    """When to average."""

    every: int = 2
    """Updates between two averages."""

    @property
    def starts_alike(self) -> bool:
        return True

    def make_coordinator(self) -> Averaging:
        return Averaging(self.every)


class Averaging(Coordinator):
    """Counts updates."""

    def __init__(self, every: int) -> None:
        self.every, self.updates = every, 0

    def after_step(self, members: Sequence[Member]) -> Decision:
        self.updates += 1
        if self.updates % self.every:
            return Decision()
        require_alike(members)
        mean = {
            key: torch.stack([m.adapter[key] for m in members]).mean(0)
            for key in members[0].adapter
        }
        return Decision(
            changes={m.name: {key: t.clone() for key, t in mean.items()} for m in members},
            run={"averaged": 1.0},
        )

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {"updates": self.updates}

    def load_state(self, tensors: Any, state: Mapping[str, Any], like: Any) -> None:
        self.updates = int(state["updates"])
