"""Speed of an engine: time to first tokens, time between tokens, and how full its batches are."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from srl_agents.caching.conductor import Conducted

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


@dataclass(slots=True)
class EngineSpeed:
    """Speed of an engine since the last `take_speed`."""

    first_token: Durations = field(default_factory=Durations)
    """Times from a request to its first token, the wait for a place included."""
    between_tokens: Durations = field(default_factory=Durations)
    """Times between two tokens of one reply."""
    steps: int = 0
    """Passes of the model."""
    rows: int = 0
    """Replies that got a token, summed over steps."""
    places: int = 0
    """Replies that might have got one, likewise; 0 where the engine does not tell."""
    host_tokens: int = 0
    """Tokens of prompts whose keys and values came back from host memory."""
    disk_tokens: int = 0
    """Tokens of prompts whose keys and values came back from files."""
    blocks_stored: int = 0
    """Blocks that came into vLLM's prefix cache, where its events are counted."""
    blocks_removed: int = 0
    """Blocks that had to make room there."""
    conducted: Conducted | None = None
    """Requests by instance, where several engines act as one."""

    def merge(self, other: EngineSpeed) -> None:
        """Add another engine's, or a later one."""
        self.first_token.merge(other.first_token)
        self.between_tokens.merge(other.between_tokens)
        self.steps += other.steps
        self.rows += other.rows
        self.places += other.places
        self.host_tokens += other.host_tokens
        self.disk_tokens += other.disk_tokens
        self.blocks_stored += other.blocks_stored
        self.blocks_removed += other.blocks_removed
        if other.conducted is not None:
            if self.conducted is None:
                self.conducted = Conducted()
            self.conducted.merge(other.conducted)


@runtime_checkable
class MeteredEngine(Protocol):
    """An engine that measures its speed."""

    async def take_speed(self) -> EngineSpeed:
        """Speed since the last call, or since the engine was made. What cannot be read now is left out."""


class StepMeter:
    """Times the replies of a loop that writes one token of each per step.

    Args:
        places: replies that a step can have.
        clock: seconds.
    """

    def __init__(self, places: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.places, self._clock = places, clock
        self._since_s: dict[Hashable, float] = {}
        """When a reply was asked for, or got its last token."""
        self._speed = EngineSpeed()

    def asked(self, reply: Hashable) -> None:
        """A caller begins to wait for a reply."""
        self._since_s[reply] = self._clock()

    def stepped(self, fresh: Collection[Hashable], going_on: Collection[Hashable]) -> None:
        """A step has ended in which these replies got their first token, and those a further one."""
        now_s = self._clock()
        for replies, durations in (
            (fresh, self._speed.first_token),
            (going_on, self._speed.between_tokens),
        ):
            for reply in replies:
                durations.add(now_s - self._since_s.get(reply, now_s))
                self._since_s[reply] = now_s
        self._speed.steps += 1
        self._speed.rows += len(fresh) + len(going_on)
        self._speed.places += self.places

    def gone(self, reply: Hashable) -> None:
        """The caller no longer waits for a reply."""
        self._since_s.pop(reply, None)

    def take(self) -> EngineSpeed:
        """Speed since the last call."""
        taken, self._speed = self._speed, EngineSpeed()
        return taken
