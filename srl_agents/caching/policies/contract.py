"""The interface of eviction policies for caches of prefix blocks.

The methods are those that vLLM calls on the class that its ``cache_policy_module_path`` names (vLLM
0.32, ``vllm/v1/kv_offload/cpu/policies/base.py``), so one policy serves the simulator and an engine.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Facts about a request beyond its blocks; every field may be unknown."""

    session: Hashable | None = None
    """Episode and seat, or conversation: its requests extend each other."""
    ends: bool = False
    """The session asks for nothing after this request."""
    turns_ahead: int | None = None
    """Number of other seats that move before this session asks again."""
    reply_tokens: int | None = None
    """Length of the reply, where it is already known; otherwise `CachePolicy.replied` reports it."""


NOTHING_KNOWN = Knowledge()


class CachePolicy(Protocol[Key, Value]):
    """Which blocks stay. A block may leave only after every cached block that extends it.

    The order of calls for one request: `get` of its blocks until one is missing, `evict` if the cache is
    full, `insert` of what was computed, `touch` of the whole chain, and `replied` once the reply is written.
    """

    capacity: int
    """Blocks the cache holds."""

    def __len__(self) -> int:
        """Blocks cached now."""
        ...

    def get(self, key: Key) -> Value | None:
        """The block's value, or None if it is not cached; changes nothing."""
        ...

    def insert(self, key: Key, value: Value) -> None:
        """Add a block; `touch` then gives it its place in the order."""
        ...

    def remove(self, key: Key) -> None:
        """Drop a block without judging it, as after a failed store.

        Raises:
            KeyError: it is not cached.
        """
        ...

    def touch(self, keys: Sequence[Key], knowledge: Knowledge = NOTHING_KNOWN) -> None:
        """Record one request: all its blocks from the start on, cached or not."""
        ...

    def replied(self, keys: Sequence[Key], tokens: int) -> None:
        """The reply to a recorded request, whose blocks these are, is written: so many tokens."""
        ...

    def evict(
        self, count: int, protected: Collection[Key] = frozenset()
    ) -> list[tuple[Key, Value]] | None:
        """Choose and drop exactly ``count`` blocks outside ``protected``.

        Returns:
            The dropped blocks in order, or None, with nothing changed, if so many cannot be dropped.
        """
        ...

    def clear(self) -> None:
        """Drop everything, learned state included."""
        ...
