"""Speed of an engine: time to first tokens, time between tokens, and how full its batches are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from srl_agents.caching.conductor import Conducted
from srl_agents.metrics.durations import Durations


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
    conducted: Conducted = field(default_factory=Conducted)
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
