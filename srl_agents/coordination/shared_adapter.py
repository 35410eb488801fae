"""One set of weights that learners write to and continue from, each when it is ready."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srl_agents.coordination.members import Tensors
from srl_agents.coordination.merging import Merge

_TENSORS = "shared/"


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
