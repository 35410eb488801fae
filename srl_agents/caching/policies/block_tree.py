"""The cached blocks as a tree of prefixes; only leaves may be evicted."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Generic

from srl_agents.caching.policies.contract import NOTHING_KNOWN, Key, Knowledge, Value
from srl_envs.errors import ConfigError


class Block(Generic[Key, Value]):
    """A cached block and its place in the tree."""

    __slots__ = ("children", "key", "parent", "place", "value")

    def __init__(self, key: Key, value: Value) -> None:
        self.key = key
        self.value = value
        self.parent: Block[Key, Value] | None = None
        self.children = 0
        """Cached blocks that extend this one."""
        self.place: Any = None
        """The policy's own: a rank, a queue, a class."""


class BlockTree(ABC, Generic[Key, Value]):
    """Residency for every policy; a policy ranks blocks (`use`) and picks a leaf (`next_leaf`)."""

    heeds_ends: ClassVar[bool] = False
    """Whether `over` changes what goes next."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ConfigError(f"capacity={capacity}: a cache holds 1 block or more.")
        self.capacity = capacity
        self._blocks: dict[Key, Block[Key, Value]] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def get(self, key: Key) -> Value | None:
        """The block's value, or None."""
        block = self._blocks.get(key)
        return None if block is None else block.value

    def insert(self, key: Key, value: Value) -> None:
        """Add a block, or replace the value of one that is cached."""
        block = self._blocks.get(key)
        if block is not None:
            block.value = value
            return
        block = self._blocks[key] = Block(key, value)
        self.enter(block)
        self.offer(block)

    def remove(self, key: Key) -> None:
        """Drop a block; those that extend it become roots."""
        self._drop(self._blocks[key])

    def split(self, key: Key, upper: Key, value: Value) -> None:
        """Give the first part of a cached block a key of its own; it was used whenever the block was."""
        lower = self._blocks[key]
        block = self._blocks[upper] = Block(upper, value)
        block.parent, block.children, lower.parent = lower.parent, 1, block
        self.inherit(block, lower)

    def over(self, keys: Sequence[Key]) -> None:
        """The session whose last request had these blocks asks for nothing more."""
        for key in keys:
            block = self._blocks.get(key)
            if block is not None:
                self.retire(block)

    def replied(self, keys: Sequence[Key], tokens: int) -> None:
        """The reply to a recorded request is written; most policies ignore its length."""

    def touch(self, keys: Sequence[Key], knowledge: Knowledge = NOTHING_KNOWN) -> None:
        """Record one request and link its blocks."""
        parent: Block[Key, Value] | None = None
        self.begin(keys, knowledge)
        for depth, key in enumerate(keys):
            block = self._blocks.get(key)
            if block is not None and parent is not None and block.parent is not parent:
                block.parent = parent
                parent.children += 1
                if parent.children == 1:
                    self.withdraw(parent)
            self.use(key, block, depth)
            parent = block
        for key in keys:
            block = self._blocks.get(key)
            if block is not None and not block.children:
                self.offer(block)

    def evict(
        self, count: int, protected: Collection[Key] = frozenset()
    ) -> list[tuple[Key, Value]] | None:
        """Drop ``count`` leaves, one after the other; a parent may follow its last child."""
        kept = self._kept(protected)
        if count > len(self._blocks) - len(kept):
            return None
        dropped: list[tuple[Key, Value]] = []
        set_aside: list[Block[Key, Value]] = []
        while len(dropped) < count:
            block = self.next_leaf()
            if block.key in kept:
                self.withdraw(block)
                set_aside.append(block)
                continue
            self.leave(block)
            dropped.append((block.key, block.value))
            self._drop(block)
        for block in set_aside:
            self.offer(block)
        return dropped

    def clear(self) -> None:
        """Drop everything."""
        self._blocks.clear()
        self.forget()

    def _kept(self, protected: Collection[Key]) -> set[Key]:
        """The protected blocks and the prefixes that they need."""
        kept: set[Key] = set()
        for key in protected:
            block = self._blocks.get(key)
            while block is not None and block.key not in kept:
                kept.add(block.key)
                above = block.parent
                removed = above is None or self._blocks.get(above.key) is not above
                block = None if removed else above
        return kept

    def _drop(self, block: Block[Key, Value]) -> None:
        self.withdraw(block)
        del self._blocks[block.key]
        del block.value  # a policy may still have the block in a queue
        parent = block.parent
        block.parent = None
        if parent is not None:
            parent.children -= 1
            if not parent.children and self._blocks.get(parent.key) is parent:
                self.offer(parent)

    def begin(self, keys: Sequence[Key], knowledge: Knowledge) -> None:
        """A request starts; most policies need nothing of it."""

    def enter(self, block: Block[Key, Value]) -> None:
        """A block was inserted and not yet touched."""

    def leave(self, block: Block[Key, Value]) -> None:
        """A block was chosen for eviction."""

    def inherit(self, block: Block[Key, Value], lower: Block[Key, Value]) -> None:
        """A block was split off another one, which extends it from now on."""
        block.place = lower.place

    def retire(self, block: Block[Key, Value]) -> None:
        """The session that used the block last is over; most policies ignore this."""

    @abstractmethod
    def use(self, key: Key, block: Block[Key, Value] | None, depth: int) -> None:
        """A request uses this block; None where it is not cached."""

    @abstractmethod
    def offer(self, block: Block[Key, Value]) -> None:
        """The block is a leaf: it may be chosen."""

    @abstractmethod
    def withdraw(self, block: Block[Key, Value]) -> None:
        """Drop a block that has been removed, or that a cached block now extends."""

    @abstractmethod
    def next_leaf(self) -> Block[Key, Value]:
        """The offered block to drop first; the tree calls it only while one is offered."""

    @abstractmethod
    def forget(self) -> None:
        """Reset the policy's own state."""


class LeafHeap(Generic[Key, Value]):
    """Leaves ordered by a rank; the lowest leaves first. A stale entry is dropped when it surfaces."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, Block[Key, Value]]] = []
        self._current: dict[Key, int] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._current)

    def __contains__(self, key: Key) -> bool:
        return key in self._current

    def push(self, block: Block[Key, Value], rank: Any) -> None:
        """Add the leaf, or move it; among equal ranks the first added is the first out."""
        self._number += 1
        self._current[block.key] = self._number
        heapq.heappush(self._heap, (rank, self._number, block))
        if len(self._heap) > 64 + 2 * len(self._current):
            self._heap = [entry for entry in self._heap if self._is_current(entry)]
            heapq.heapify(self._heap)

    def discard(self, block: Block[Key, Value]) -> None:
        """Take the leaf out, if it is in."""
        self._current.pop(block.key, None)

    def lowest(self) -> Block[Key, Value]:
        """The leaf with the lowest rank, which stays in."""
        while not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][2]

    def _is_current(self, entry: tuple[Any, int, Block[Key, Value]]) -> bool:
        return self._current.get(entry[2].key) == entry[1]
