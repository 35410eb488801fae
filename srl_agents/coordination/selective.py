"""Selective updates: only the best learners step, or only entries of gradients whose signs agree do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from srl_agents.coordination.coordinator import Coordinator, gradients_of
from srl_agents.coordination.gradients import agreeing_entries, agreement
from srl_agents.coordination.members import Decision, Member, Tensors, require_alike
from srl_agents.coordination.performance import REMOVED, Performance, top
from srl_agents.coordination.settings import CoordinationSettings, check_value
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import Removed, refuse_unread


@dataclass(frozen=True, kw_only=True)
class SelectiveSettings(CoordinationSettings):
    """Which gradients count: those of the best learners, or entries on which learners agree.

    Source: of entries, the AND-mask of arXiv:2009.00329 section 3; the best learners are those of highest
    `Performance`, p <- d * p + (1 - d) * reward, a rule of ours.
    """

    kind: str = "selective"
    select: Literal["top", "signs"] = "top"
    """The best learners step, or only entries of the gradient whose signs agree do."""
    top_k: int = 1
    """Only top: how many step; those that tie with the last of them step too."""

    removed: ClassVar[Removed] = {
        **REMOVED,
        "sign_agreement": (1.0, "set coordination.select: top"),
    }

    def __post_init__(self) -> None:
        check_value("top_k", self.top_k, self.top_k >= 1, "1 or more")
        if self.select == "signs":
            refuse_unread(self, "top_k", because="select 'signs' does not read it")

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
            return BestStep(self.top_k)
        return AgreedEntries()

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
    """

    def __init__(self, top_k: int) -> None:
        self._top_k = top_k
        self._performance = Performance()
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
    """

    def __init__(self) -> None:
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
        masks = agreeing_entries(list(own.values()))
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
