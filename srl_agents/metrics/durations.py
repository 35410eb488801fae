"""Durations counted in narrow ranges: quantiles of any number of them in little memory."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

_RATIO = 1.05
"""Upper to lower end of a range of our own: quantiles are right to 5 %."""
_SHORTEST_S = 1e-6


@dataclass(slots=True)
class Durations:
    """Counts of seconds, by range."""

    _counts: Counter[tuple[float, float]] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        """Number of durations."""
        return self._counts.total()

    def add(self, seconds: float, count: int = 1) -> None:
        """Count a duration."""
        place = math.floor(math.log(max(seconds, _SHORTEST_S), _RATIO))
        self.add_range(_RATIO**place, _RATIO ** (place + 1), count)

    def add_range(self, low_s: float, high_s: float, count: int) -> None:
        """Count durations of which only the range is known."""
        if count > 0:
            self._counts[low_s, high_s] += count

    def merge(self, other: Durations) -> None:
        """Count those of another, too."""
        self._counts.update(other._counts)

    def quantile(self, share: float) -> float:
        """Seconds that this share of all took at most; inside a range counts are spread evenly.

        Raises:
            ValueError: nothing was counted.
        """
        left = share * self.count
        for (low_s, high_s), count in sorted(self._counts.items()):
            if left <= count:
                return low_s if math.isinf(high_s) else low_s + (high_s - low_s) * left / count
            left -= count
        raise ValueError("nothing was counted.")
