"""Federated learners: every few updates each moves towards a weighted average of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from srl_agents.coordination.coordinator import Coordinator, gradients_of
from srl_agents.coordination.gradients import agreement
from srl_agents.coordination.members import (
    Decision,
    Member,
    Tensors,
    require_alike,
    require_one_base,
)
from srl_agents.coordination.performance import REMOVED, Performance
from srl_agents.coordination.settings import (
    CoordinationSettings,
    MergeSettings,
    check_merge,
    check_value,
)
from srl_envs.reading.settings import Removed, refuse_unread


@dataclass(frozen=True, kw_only=True)
class FederatedSettings(CoordinationSettings, MergeSettings):
    """theta_i <- local_share * theta_i + (1 - local_share) * sum over j of w_j theta_j.

    Source: arXiv:1602.05629 algorithm 1. Differences: weights also from reward; a local share stays.
    """

    kind: str = "federated"
    every: int = 5
    """Updates between two merges."""
    local_share: float = 0.5
    """Share of its own weights that a learner keeps, in [0, 1]."""
    weights: Literal["performance", "rows", "even"] = "performance"
    """What a learner's share of the common part follows: its running mean of reward, the rows it
    trained on since the last merge, or nothing."""
    temperature: float = 0.2
    """Only by performance: weights are softmax(performance / temperature); in reward units."""

    removed: ClassVar[Removed] = REMOVED

    def __post_init__(self) -> None:
        check_value("every", self.every, self.every >= 1, "1 or more")
        check_value("local_share", self.local_share, 0 <= self.local_share <= 1, "0 to 1")
        check_value("temperature", self.temperature, self.temperature > 0, "more than 0")
        if self.weights != "performance":
            because = f"weights {self.weights!r} do not follow performance"
            refuse_unread(self, "temperature", because=because)

    @property
    def starts_alike(self) -> bool:
        """See `CoordinationSettings`."""
        return True

    @property
    def across_bases(self) -> bool:
        """See `CoordinationSettings`."""
        return self.merge == "across"

    def make_coordinator(self) -> Federated:
        """See `CoordinationSettings`."""
        return Federated(self)

    def check(self, *, learners: int, parameters: Literal["lora", "full"]) -> None:
        """See `CoordinationSettings`."""
        CoordinationSettings.check(self, learners=learners, parameters=parameters)
        check_merge(self.merge, parameters)


class Federated(Coordinator):
    """Counts updates and rows, and merges when it is time.

    Args:
        settings: of the merges.
    """

    def __init__(self, settings: FederatedSettings) -> None:
        self._settings = settings
        self._performance = Performance()
        self._updates = 0
        self._rows: dict[str, int] = {}
        """Trained on since the last merge."""

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        """See `Coordinator`; every learner steps along its own gradient."""
        self._require_fit(members)
        own = gradients_of(members)
        return Decision(changes=own, run={} if self._settings.across_bases else agreement(own))

    def after_step(self, members: Sequence[Member]) -> Decision:
        """See `Coordinator`."""
        self._updates += 1
        for m in members:
            self._rows[m.name] = self._rows.get(m.name, 0) + m.rows
        if self._updates % self._settings.every:
            return Decision()
        self._require_fit(members)
        return self._merged(members)

    def observe(self, rewards: Mapping[str, float]) -> None:
        """See `Coordinator`."""
        self._performance.observe(rewards)

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """See `Coordinator`."""
        return {}, {
            "updates": self._updates,
            "rows": dict(self._rows),
            "performance": self._performance.state(),
        }

    def load_state(self, tensors: Tensors, state: Mapping[str, Any], like: Tensors) -> None:
        """See `Coordinator`."""
        self._updates = int(state["updates"])
        self._rows = {name: int(rows) for name, rows in state["rows"].items()}
        self._performance.load_state(state["performance"])

    def _require_fit(self, members: Sequence[Member]) -> None:
        if self._settings.across_bases:
            require_one_base(members)
        else:
            require_alike(members)

    def _merged(self, members: Sequence[Member]) -> Decision:
        from srl_agents.coordination.merging import (  # noqa: PLC0415 - torch; recipes stay light
            in_units_of,
            merge_entries,
            merge_gap,
            merge_of,
        )

        settings = self._settings
        decision = Decision(reset_moments=True)
        merge = merge_of(members[0].shape.rank, by_product=settings.merge != "factors")
        weights, local = self._merge_weights(members), settings.local_share
        gaps, crossed = [], []
        for m in members:
            adapters = [in_units_of(m, o) for o in members]
            mix = [(1 - local) * weights[o.name] + local * (o is m) for o in members]
            decision.changes[m.name] = merge(adapters, mix, m.adapter)
            decision.learners[m.name] = {"merge_weight": weights[m.name]}
            if m.shape.rank is not None:  # the average of whole weights misses nothing
                gaps.append(merge_gap(adapters, mix, decision.changes[m.name]))
                if not settings.across_bases:
                    crossed.append(merge_gap(adapters, mix, merge_entries(adapters, mix)))
        for name, found in (("merge_gap", gaps), ("factor_gap", crossed)):
            if found:
                decision.run[name] = sum(found) / len(found)
        return decision

    def _merge_weights(self, members: Sequence[Member]) -> dict[str, float]:
        """w_j: from performance, from the rows trained on since the last merge, or even."""
        from srl_agents.coordination.merging import softmax_weights  # noqa: PLC0415 - as above

        names = [m.name for m in members]
        rows, self._rows = self._rows, {}
        total = sum(rows.values())
        if self._settings.weights == "performance":
            return softmax_weights(self._performance.of(names), self._settings.temperature)
        if self._settings.weights == "rows" and total:
            return {name: rows[name] / total for name in names}
        return dict.fromkeys(names, 1 / len(names))
