"""Settings of a kind of coordination, and the registry of kinds; frozen, checked when made, without torch.

A kind is one settings class of `KINDS`: its fields are the keys of a recipe's ``coordination`` section, and
it makes the coordinator that acts around the optimizer steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from srl_agents.kinds import Kinds, KindSettings, Section, settings_of
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import Removed

if TYPE_CHECKING:
    from srl_agents.coordination.coordinator import Coordinator

Merging = Literal["product", "factors", "across"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CoordinationSettings(KindSettings, ABC):
    """How the updates of several learners are combined: the base of every kind's settings."""

    @abstractmethod
    def make_coordinator(self) -> Coordinator:
        """What acts around the optimizer steps, with nothing remembered yet."""

    @property
    def starts_alike(self) -> bool:
        """Whether all learners get the same initial weights.

        Gradients and signs of factors mean the same only where the factors are the same to begin
        with; merged learners then have one origin. Copies of whole weights begin as the base anyway.
        """
        return False

    @property
    def stays_equal(self) -> bool:
        """Whether learners that start alike never differ, as all step along one gradient."""
        return False

    @property
    def within_a_base(self) -> bool:
        """Whether it combines weights, or reads one learner's tokens with another's: such learners are on
        one base, and where there are several the kind acts within each."""
        return True

    @property
    def across_bases(self) -> bool:
        """Whether learners of two entries of ``models`` with the same base are combined, too, whatever the
        ranks of their adapters."""
        return False

    @property
    def teaches(self) -> bool:
        """Whether one learner's opinion weighs the tokens of another."""
        return False

    def check(self, *, learners: int, parameters: Literal["lora", "full"]) -> None:
        """Refuse a recipe that the kind cannot coordinate.

        Args:
            learners: how many there are.
            parameters: what each of them owns.

        Raises:
            ConfigError: there is one learner, or what the kind adds.
        """
        if learners < 2:
            raise ConfigError(
                f"kind={self.kind!r} coordinates several learners, and there is {learners}: "
                "add another or use 'independent'."
            )


@dataclass(frozen=True, kw_only=True)
class MergeSettings:
    """How weights of several learners are merged. No slots: a kind may derive from it beside others."""

    merge: Merging = "product"
    """Average what the learners' weights do, which of LoRA adapters means B @ A, factored again, and
    of whole weights every entry; or, only for LoRA, average A and B apart. ``across``, only for LoRA and
    kind ``federated``: products, also of learners of several ``models`` with one base and other ranks."""

    removed: ClassVar[Removed] = {"moments": ("reset", "raise coordination.every")}


def check_value(name: str, value: float, fits: bool, allowed: str) -> None:
    """Raise ConfigError, with what is allowed, for a value that does not fit."""
    if not fits:
        raise ConfigError(f"{name}={value}: use {allowed}.")


def check_merge(merge: Merging, parameters: Literal["lora", "full"]) -> None:
    """Raise ConfigError for factors or ranks of whole weights."""
    if merge != "product" and parameters == "full":
        raise ConfigError(
            f"coordination.merge {merge!r}: parameters 'full' have no factors, and weights "
            "are averaged entry by entry; leave it out."
        )


KINDS: Kinds[type[CoordinationSettings]] = Kinds(
    what="coordination kind",
    group="srl_agents.coordination",
    built_in={
        "independent": "srl_agents.coordination.independent:IndependentSettings",
        "synchronized": "srl_agents.coordination.synchronized:SynchronizedSettings",
        "federated": "srl_agents.coordination.federated:FederatedSettings",
        "selective": "srl_agents.coordination.selective:SelectiveSettings",
        "asynchronous": "srl_agents.coordination.asynchronous:AsynchronousSettings",
        "distillation": "srl_agents.coordination.distillation:DistillationSettings",
    },
    fault=settings_of(CoordinationSettings, "kind"),
)
COORDINATION = Section(kinds=KINDS, key="kind", default="independent")
"""How a recipe's ``coordination`` section is read."""
