"""Performance of each learner: running means of training reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srl_envs.reading.settings import Removed

TIE = 1e-9
"""Performances closer than this are equal."""
DECAY = 0.8
"""Share of the old mean that one update leaves: a mean over about five updates."""
REMOVED: Removed = {
    "performance_decay": (DECAY, "compare learners by other numbers, as federated weights: rows")
}
"""For settings of kinds that compare learners."""


class Performance:
    """p <- d * p + (1 - d) * reward, d = `DECAY`, divided by 1 - d^updates: the first value is the reward.

    Training rewards depend on the opponents that a learner met, so a mean over several updates is compared,
    not one. Learners without a value yet count as the mean of the others.

    """

    def __init__(self) -> None:
        self._means: dict[str, tuple[float, int]] = {}

    def observe(self, rewards: Mapping[str, float]) -> None:
        """Take in one update."""
        for name, reward in rewards.items():
            total, count = self._means.get(name, (0.0, 0))
            self._means[name] = (DECAY * total + (1 - DECAY) * reward, count + 1)

    def of(self, names: Sequence[str]) -> dict[str, float]:
        """Values of some learners; all 0 before anything was observed."""
        known = {
            name: self._means[name][0] / (1 - DECAY ** self._means[name][1])
            for name in names
            if name in self._means
        }
        mean = sum(known.values()) / len(known) if known else 0.0
        return {name: known.get(name, mean) for name in names}

    def state(self) -> dict[str, list[float]]:
        """JSON values."""
        return {name: [total, count] for name, (total, count) in self._means.items()}

    def load_state(self, state: Mapping[str, Sequence[float]]) -> None:
        """The inverse of `state`."""
        self._means = {name: (float(v[0]), int(v[1])) for name, v in state.items()}


def top(performance: Mapping[str, float], k: int) -> set[str]:
    """The k best learners, and all that tie with the last of them."""
    bar = sorted(performance.values(), reverse=True)[:k][-1]
    return {name for name, value in performance.items() if value >= bar - TIE}
