"""Asynchronous learners: each ready learner writes to one set of shared weights and continues from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from srl_agents.coordination.coordinator import Coordinator, gradients_of
from srl_agents.coordination.gradients import agreement
from srl_agents.coordination.members import Decision, Member, Tensors, require_alike
from srl_agents.coordination.settings import (
    CoordinationSettings,
    MergeSettings,
    check_merge,
    check_value,
)
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import Removed

if TYPE_CHECKING:
    from srl_agents.coordination.merging import Merge

_TENSORS = "shared/"
STALENESS_POWER = 0.5
"""How fast staleness takes weight away; the middle of what arXiv:1903.03934 tried."""


@dataclass(frozen=True, kw_only=True)
class AsynchronousSettings(CoordinationSettings, MergeSettings):
    """When a learner is ready, and what weight it gets; see `SharedAdapter`.

    Source: arXiv:1903.03934 algorithm 1, without its proximal term.
    """

    kind: str = "asynchronous"
    ready_rows: int = 64
    """Rows that a learner trains on before it merges."""
    mixing: float = 0.5
    """Weight in [0, 1] of a learner that is not stale; staleness s divides it by the root of 1 + s."""

    removed: ClassVar[Removed] = {"staleness_power": (STALENESS_POWER, "set coordination.mixing")}

    def __post_init__(self) -> None:
        check_value("ready_rows", self.ready_rows, self.ready_rows >= 1, "1 or more")
        check_value("mixing", self.mixing, 0 <= self.mixing <= 1, "0 to 1")

    @property
    def starts_alike(self) -> bool:
        """See `CoordinationSettings`."""
        return True

    def make_coordinator(self) -> Asynchronous:
        """See `CoordinationSettings`."""
        return Asynchronous(self)

    def check(self, *, learners: int, parameters: Literal["lora", "full"]) -> None:
        """See `CoordinationSettings`."""
        CoordinationSettings.check(self, learners=learners, parameters=parameters)
        check_merge(self.merge, parameters)
        if self.merge == "across":
            raise ConfigError(
                "coordination.merge 'across': the shared adapter has one rank. Use kind 'federated'."
            )


class Asynchronous(Coordinator):
    """Merges every learner that has trained on enough rows, in training order.

    Args:
        settings: of the merges.
    """

    def __init__(self, settings: AsynchronousSettings) -> None:
        self._settings = settings
        self._shared = SharedAdapter(settings.mixing, STALENESS_POWER, settings.ready_rows)

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        """See `Coordinator`; every learner steps along its own gradient."""
        require_alike(members)
        self._shared.start(members[0].adapter)
        own = gradients_of(members)
        return Decision(changes=own, run=agreement(own))

    def after_step(self, members: Sequence[Member]) -> Decision:
        """See `Coordinator`."""
        from srl_agents.coordination.merging import merge_of  # noqa: PLC0415 - torch; recipes stay light

        settings = self._settings
        decision = Decision(reset_moments=True)
        merge = merge_of(members[0].shape.rank, by_product=settings.merge == "product")
        for m in members:
            if self._shared.trained(m.name, m.rows):
                decision.changes[m.name], staleness, weight = self._shared.merge(
                    m.name, m.adapter, merge
                )
                decision.learners[m.name] = {"staleness": float(staleness), "merge_weight": weight}
        return decision

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """See `Coordinator`."""
        return self._shared.state()

    def load_state(self, tensors: Tensors, state: Mapping[str, Any], like: Tensors) -> None:
        """See `Coordinator`."""
        self._shared.load_state(tensors, state, like)


def staleness_weight(mixing: float, staleness: int, power: float) -> float:
    """mixing * (1 + staleness)^-power. Source: arXiv:1903.03934 section 5.2 (polynomial)."""
    return float(mixing * (1 + staleness) ** -power)


class SharedAdapter:
    """The shared weights x and who took which version of them.

    When a learner has trained on enough rows, x <- (1 - a) x + a theta with
    a = mixing * (1 + s)^-power, and the learner continues from x. Its staleness s is the number of
    merges by others since it last took x. Readiness counts rows, not time, so that a run repeats.
    Source: arXiv:1903.03934 algorithm 1, without its proximal term.

    Args:
        mixing: weight of a learner that is not stale.
        power: how fast staleness takes weight away.
        ready_rows: rows between two merges of one learner.
    """

    def __init__(self, mixing: float, power: float, ready_rows: int) -> None:
        self.mixing, self.power, self.ready_rows = mixing, power, ready_rows
        self.version = 0
        self.weights: Tensors = {}
        self._taken: dict[str, int] = {}
        self._rows: dict[str, int] = {}

    def start(self, adapter: Tensors) -> None:
        """Begin with these weights, unless begun."""
        if not self.weights:
            self.weights = {key: tensor.clone() for key, tensor in adapter.items()}

    def trained(self, learner: str, rows: int) -> bool:
        """Count rows that the learner trained on; whether it is ready to merge."""
        self._rows[learner] = self._rows.get(learner, 0) + rows
        return self._rows[learner] >= self.ready_rows

    def merge(self, learner: str, adapter: Tensors, merge: Merge) -> tuple[Tensors, int, float]:
        """Mix the learner in.

        Args:
            learner: who is ready.
            adapter: its weights.
            merge: how weights of its kind are averaged.

        Returns:
            Copies of the new shared weights, the learner's staleness, and the weight it got.
        """
        staleness = self.version - self._taken.get(learner, 0)
        weight = staleness_weight(self.mixing, staleness, self.power)
        pair = [self.weights, adapter]
        if weight > 0:
            self.weights = merge(pair, [1 - weight, weight], adapter)
        self.version += 1
        self._taken[learner] = self.version
        self._rows[learner] = 0
        return {key: tensor.clone() for key, tensor in self.weights.items()}, staleness, weight

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """Tensors and JSON values."""
        tensors = {
            f"{_TENSORS}{key}": t.detach().to("cpu", copy=True) for key, t in self.weights.items()
        }
        return tensors, {
            "version": self.version,
            "taken": dict(self._taken),
            "rows": dict(self._rows),
        }

    def load_state(self, tensors: Tensors, state: Mapping[str, Any], like: Tensors) -> None:
        """The inverse of `state`; tensors go to the devices of ``like``."""
        self.weights = {
            key.removeprefix(_TENSORS): t.to(like[key.removeprefix(_TENSORS)].device, copy=True)
            for key, t in tensors.items()
        }
        self.version = int(state["version"])
        self._taken = {name: int(v) for name, v in state["taken"].items()}
        self._rows = {name: int(v) for name, v in state["rows"].items()}
