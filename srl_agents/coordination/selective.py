"""Selective updates: only the best learners step, or only entries of gradients whose signs agree do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from srl_agents.coordination.coordinator import Coordinator, gradients_of
from srl_agents.coordination.gradients import agreeing_entries, agreement
from srl_agents.coordination.members import Decision, Member, Tensors, require_alike
from srl_agents.coordination.performance import Performance, top
from srl_agents.coordination.settings import CoordinationSettings, PerformanceSettings, check_value
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import refuse_unread


@dataclass(frozen=True, kw_only=True)
class SelectiveSettings(CoordinationSettings, PerformanceSettings):
    """Which gradients count: those of the best learners, or entries on which learners agree."""

    kind: str = "selective"
    select: Literal["top", "signs"] = "top"
    """The best learners step, or only entries of the gradient whose signs agree do."""
    top_k: int = 1
    """Only top: how many step; those that tie with the last of them step too."""
    sign_agreement: float = 1.0
    """Only signs: |sum of signs| / learners that an entry needs, in (0, 1]."""

    def __post_init__(self) -> None:
        PerformanceSettings.__post_init__(self)
        share = self.sign_agreement
        check_value("top_k", self.top_k, self.top_k >= 1, "1 or more")
        check_value("sign_agreement", share, 0 < share <= 1, "more than 0, at most 1")
        unread = {"top": ("sign_agreement",), "signs": ("top_k", "performance_decay")}
        refuse_unread(
            self, *unread[self.select], because=f"select {self.select!r} does not read it"
        )

    @property
    def starts_alike(self) -> bool:
        """See `CoordinationSettings`; signs mean the same only where the factors do."""
        return self.select == "signs"

    @property
    def within_a_base(self) -> bool:
        """See `CoordinationSettings`."""
        return self.select == "signs"

    def make_coordinator(self) -> Coordinator:
        """See `CoordinationSettings`."""
        if self.select == "top":
            return BestStep(self.top_k, self.performance_decay)
        return AgreedEntries(self.sign_agreement)

    def check(self, *, learners: int, parameters: Literal["lora", "full"]) -> None:
        """See `CoordinationSettings`; a selection must leave out at least one learner."""
        CoordinationSettings.check(self, learners=learners, parameters=parameters)
        if self.select == "top" and self.top_k >= learners:
            raise ConfigError(
                f"top_k={self.top_k} of {learners} learners leaves no learner out: use fewer."
            )


class BestStep(Coordinator):
    """Lets the best learners step; the chosen ones step to the end of the update.

    Args:
        top_k: how many.
        decay: of the running means of reward.
    """

    def __init__(self, top_k: int, decay: float) -> None:
        self._top_k = top_k
        self._performance = Performance(decay)
        self._chosen: frozenset[str] = frozenset()

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        """See `Coordinator`."""
        own = gradients_of(members)
        if first and own:
            self._chosen = frozenset(top(self._performance.of(list(own)), self._top_k))
        changes = {name: gradient for name, gradient in own.items() if name in self._chosen}
        return Decision(changes=changes, learners=_stepped(members, changes) if first else {})

    def observe(self, rewards: Mapping[str, float]) -> None:
        """See `Coordinator`."""
        self._performance.observe(rewards)

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """See `Coordinator`."""
        return {}, {"performance": self._performance.state()}

    def load_state(self, tensors: Tensors, state: Mapping[str, Any], like: Tensors) -> None:
        """See `Coordinator`."""
        self._performance.load_state(state["performance"])


class AgreedEntries(Coordinator):
    """Lets the entries step on whose signs enough learners agree.

    Once a learner has run out of rows within an update, too few signs are left to compare.

    Args:
        share: of the learners that must agree, in (0, 1].
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._compared = 0
        """Gradients that this update could compare."""

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        """See `Coordinator`."""
        require_alike(members)
        own = gradients_of(members)
        decision = Decision(changes=dict(own), run=agreement(own))
        if first and own:
            self._compared = len(own)
        if own and len(own) < self._compared:
            decision.changes = {}
        elif len(own) > 1:
            self._mask(own, decision)
        if first:
            decision.learners = _stepped(members, decision.changes)
        return decision

    def _mask(self, own: Mapping[str, Tensors], decision: Decision) -> None:
        masks = agreeing_entries(list(own.values()), self._share)
        decision.changes = {
            name: {key: tensor * masks[key] for key, tensor in gradients.items()}
            for name, gradients in own.items()
        }
        kept = sum(int(mask.sum()) for mask in masks.values())
        decision.run["sign_share"] = kept / sum(mask.numel() for mask in masks.values())


def _stepped(
    members: Sequence[Member], changes: Mapping[str, Tensors]
) -> dict[str, dict[str, float]]:
    return {m.name: {"stepped": float(m.name in changes)} for m in members}
