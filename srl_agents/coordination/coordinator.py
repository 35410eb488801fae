"""The one seam: what happens between the gradients and the step, and right after the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srl_agents.coordination.gradients import agreeing_entries, mean_gradient, pairwise_cosine
from srl_agents.coordination.members import Decision, Member, Tensors, require_alike
from srl_agents.coordination.merging import (
    Merge,
    merge_entries,
    merge_gap,
    merge_of,
    softmax_weights,
)
from srl_agents.coordination.performance import TIE, Performance, top
from srl_agents.coordination.settings import CoordinationSettings
from srl_agents.coordination.shared_adapter import SharedAdapter


class Coordinator:
    """Decides by the recipe's kind; holds what the kind remembers between updates.

    One update is ``teacher_of`` (before gradients), ``before_step``, the steps, ``after_step``,
    ``observe``. Decisions of an update rest on the performance of earlier ones.

    Args:
        settings: the kind and its numbers.
    """

    def __init__(self, settings: CoordinationSettings) -> None:
        self.settings = settings
        self.performance = Performance(settings.performance_decay)
        self.shared = SharedAdapter(settings.mixing, settings.staleness_power, settings.ready_rows)
        self._updates = 0
        self._rows: dict[str, int] = {}
        self._chosen: frozenset[str] = frozenset()
        self._compared = 0
        """Within an update: whom ``selective`` chose, and how many gradients it could compare."""

    def teacher_of(self, learner: str, learners: Sequence[str]) -> str | None:
        """Who teaches a learner in this update: the best so far, if it is better and has a weight."""
        if self.settings.kind != "distillation" or not self.settings.teacher_weight:
            return None
        performance = self.performance.of(learners)
        best = max(learners, key=lambda name: performance[name])  # the first of equals
        return best if performance[best] > performance[learner] + TIE else None

    def before_step(self, members: Sequence[Member], *, first: bool = True) -> Decision:
        """Which gradients the learners step along.

        Args:
            members: all learners in training order.
            first: of the steps of an update. Whom ``selective`` chooses then steps to the end of
                it, and once a learner has run out of rows there are no signs left to compare.

        Raises:
            ModelError: the kind combines tensors and the adapters do not fit each other.
        """
        settings = self.settings
        own = {m.name: m.gradients for m in members if m.gradients is not None}
        decision = Decision(changes=dict(own))
        if settings.kind == "independent":
            return decision
        if settings.starts_alike:
            require_alike(members)
        if settings.kind == "asynchronous":
            self.shared.start(members[0].adapter)
        if settings.kind == "synchronized" and own:
            mean = mean_gradient(list(own.values()))
            decision.changes = {
                m.name: {key: tensor.clone() for key, tensor in mean.items()} for m in members
            }
        elif settings.kind == "selective" and own:
            self._select(own, decision, first=first)
        if len(own) > 1 and settings.starts_alike:  # elsewhere entries mean different things
            decision.run["gradient_agreement"] = pairwise_cosine(list(own.values()))
        if settings.kind == "selective" and first:
            for m in members:
                decision.learners[m.name] = {"stepped": float(m.name in decision.changes)}
        return decision

    def after_step(self, members: Sequence[Member]) -> Decision:
        """Which weights change after the optimizer steps of one update.

        Raises:
            ModelError: the kind combines tensors and the adapters do not fit each other.
        """
        self._updates += 1
        for m in members:
            self._rows[m.name] = self._rows.get(m.name, 0) + m.rows
        if self.settings.kind == "federated" and self._updates % self.settings.every == 0:
            require_alike(members)
            return self._federate(members)
        if self.settings.kind == "asynchronous":
            return self._merge_ready(members)
        return Decision()

    def observe(self, rewards: Mapping[str, float]) -> None:
        """Take in the mean training reward of each learner in this update."""
        self.performance.observe(rewards)

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """What later updates depend on: tensors (copies on the CPU) and JSON values."""
        tensors, shared = self.shared.state()
        return tensors, {
            "updates": self._updates,
            "rows": dict(self._rows),
            "performance": self.performance.state(),
            "shared": shared,
        }

    def load_state(self, tensors: Tensors, state: Mapping[str, Any], like: Tensors) -> None:
        """The inverse of `state`; tensors go to the devices of ``like``, any learner's adapter."""
        self._updates = int(state["updates"])
        self._rows = {name: int(rows) for name, rows in state["rows"].items()}
        self.performance.load_state(state["performance"])
        self.shared.load_state(tensors, state["shared"], like)

    # --- selecting ---------------------------------------------------------------------------

    def _select(self, own: Mapping[str, Tensors], decision: Decision, *, first: bool) -> None:
        """Let through the gradients of the best, or the entries on whose signs enough agree."""
        settings = self.settings
        if settings.select == "top":
            if first:
                self._chosen = frozenset(top(self.performance.of(list(own)), settings.top_k))
            decision.changes = {name: g for name, g in own.items() if name in self._chosen}
            return
        if first:
            self._compared = len(own)
        if len(own) < self._compared:
            decision.changes = {}
        elif len(own) > 1:
            masks = agreeing_entries(list(own.values()), settings.sign_agreement)
            decision.changes = {
                name: {key: tensor * masks[key] for key, tensor in gradients.items()}
                for name, gradients in own.items()
            }
            kept = sum(int(mask.sum()) for mask in masks.values())
            decision.run["sign_share"] = kept / sum(mask.numel() for mask in masks.values())

    # --- merging -----------------------------------------------------------------------------

    def _federate(self, members: Sequence[Member]) -> Decision:
        """theta_i <- local_share * theta_i + (1 - local_share) * sum over j of w_j theta_j."""
        settings, decision = self.settings, Decision()
        weights, merge = self._merge_weights(members), self._merge(members)
        adapters = [m.adapter for m in members]
        gaps, crossed = [], []
        for m in members:
            local = settings.local_share
            mix = [(1 - local) * weights[o.name] + local * (o is m) for o in members]
            decision.changes[m.name] = merge(adapters, mix, m.adapter)
            decision.learners[m.name] = {"merge_weight": weights[m.name]}
            if m.shape.rank is not None:  # the average of whole weights misses nothing
                gaps.append(merge_gap(adapters, mix, decision.changes[m.name]))
                crossed.append(merge_gap(adapters, mix, merge_entries(adapters, mix)))
        if gaps:
            decision.run["merge_gap"] = sum(gaps) / len(gaps)
            decision.run["factor_gap"] = sum(crossed) / len(crossed)
        return decision

    def _merge(self, members: Sequence[Member]) -> Merge:
        """How the members' kind of weights is averaged."""
        return merge_of(members[0].shape.rank, by_product=self.settings.merge == "product")

    def _merge_weights(self, members: Sequence[Member]) -> dict[str, float]:
        """w_j: from performance, from the rows trained on since the last merge, or even."""
        names = [m.name for m in members]
        rows, self._rows = self._rows, {}
        total = sum(rows.values())
        if self.settings.weights == "performance":
            return softmax_weights(self.performance.of(names), self.settings.temperature)
        if self.settings.weights == "rows" and total:
            return {name: rows[name] / total for name in names}
        return dict.fromkeys(names, 1 / len(names))

    def _merge_ready(self, members: Sequence[Member]) -> Decision:
        """Whoever has trained on enough rows merges, in training order."""
        decision, merge = Decision(), self._merge(members)
        for m in members:
            if self.shared.trained(m.name, m.rows):
                decision.changes[m.name], staleness, weight = self.shared.merge(
                    m.name, m.adapter, merge
                )
                decision.learners[m.name] = {"staleness": float(staleness), "merge_weight": weight}
        return decision
