"""Policies that follow recency and counts: LRU, segmented LRU, decayed LFU, S3-FIFO."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from srl_agents.caching.policies.block_tree import Block, BlockTree, LeafHeap
from srl_agents.caching.policies.contract import Key, Knowledge, Value


class LRU(BlockTree[Key, Value]):
    """Least recently used leaf first; of one request, the deepest first."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self._leaves: LeafHeap[Key, Value] = LeafHeap()
        self._request = 0

    def begin(self, keys: Sequence[Key], knowledge: Knowledge) -> None:
        """Count requests: they are the clock."""
        del keys, knowledge
        self._request += 1

    def enter(self, block: Block[Key, Value]) -> None:
        """Newer than all requests so far."""
        block.place = self._request + 1

    def use(self, key: Key, block: Block[Key, Value] | None, depth: int) -> None:
        """Remember the request."""
        del key, depth
        if block is not None:
            block.place = self._request

    def offer(self, block: Block[Key, Value]) -> None:
        """Rank by the request that used it last."""
        self._leaves.push(block, block.place)

    def withdraw(self, block: Block[Key, Value]) -> None:
        """Take it out."""
        self._leaves.discard(block)

    def next_leaf(self) -> Block[Key, Value]:
        """The oldest."""
        return self._leaves.lowest()


class SegmentedLRU(BlockTree[Key, Value]):
    """Two segments: blocks used again are protected from those used once.

    Source: Karedla, Love and Wherry, Computer 27(3), 1994. The protected segment holds at most 80 % of
    the capacity; what it has too much becomes the newest of the other.
    """

    PROTECTED_SHARE = 0.8

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self._leaves: LeafHeap[Key, Value] = LeafHeap()
        self._protected: OrderedDict[Key, Block[Key, Value]] = OrderedDict()
        self._request = 0
        self._keys: Sequence[Key] = ()

    def begin(self, keys: Sequence[Key], knowledge: Knowledge) -> None:
        """Demote what a long protected segment has too much, the deepest of the oldest first."""
        del keys, knowledge
        self._request += 1
        while len(self._protected) > self.PROTECTED_SHARE * self.capacity:
            _, block = self._protected.popitem(last=False)
            block.place = (0, self._request, 1)
            if not block.children:
                self.offer(block)

    def enter(self, block: Block[Key, Value]) -> None:
        """New blocks are unprotected."""
        block.place = (0, self._request + 1, 0)

    def use(self, key: Key, block: Block[Key, Value] | None, depth: int) -> None:
        """The second use protects."""
        del depth
        if block is None:
            return
        segment, _, uses = block.place
        if segment or uses:
            block.place = (1, self._request, 1)
            self._protected[key] = block
            self._protected.move_to_end(key)
        else:
            block.place = (0, self._request, 1)

    def offer(self, block: Block[Key, Value]) -> None:
        """Unprotected first, then by age."""
        self._leaves.push(block, block.place[:2])

    def withdraw(self, block: Block[Key, Value]) -> None:
        """Take it out; a block that is gone leaves its segment too."""
        self._leaves.discard(block)

    def inherit(self, block: Block[Key, Value], lower: Block[Key, Value]) -> None:
        """Both halves are in the same segment."""
        super().inherit(block, lower)
        if lower.key in self._protected:
            self._protected[block.key] = block

    def leave(self, block: Block[Key, Value]) -> None:
        """An evicted block is not protected."""
        self._protected.pop(block.key, None)

    def remove(self, key: Key) -> None:
        """Drop a block."""
        super().remove(key)
        self._protected.pop(key, None)

    def next_leaf(self) -> Block[Key, Value]:
        """The oldest of the lowest segment."""
        return self._leaves.lowest()


class DecayedLFU(BlockTree[Key, Value]):
    """Fewest uses first, where a use counts half after ``half_life`` capacities of accesses.

    The rank log2(count) + time / half_life orders blocks the same at every later moment, so nothing is
    recomputed as time passes. Counts of evicted blocks are kept for as many blocks as the cache holds.
    """

    def __init__(self, capacity: int, half_life: float = 4.0) -> None:
        super().__init__(capacity)
        self.half_life = half_life
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self._leaves: LeafHeap[Key, Value] = LeafHeap()
        self._ghosts: OrderedDict[Key, float] = OrderedDict()
        self._accesses = 0

    def enter(self, block: Block[Key, Value]) -> None:
        """A block that was here lately continues its count."""
        block.place = self._ghosts.pop(block.key, -math.inf)

    def use(self, key: Key, block: Block[Key, Value] | None, depth: int) -> None:
        """Add one to the decayed count, in its logarithm."""
        del key, depth
        self._accesses += 1
        if block is not None:
            now = self._accesses / (self.half_life * self.capacity)
            high, low = max(now, block.place), min(now, block.place)
            block.place = high + math.log2(1 + 2 ** max(low - high, -60.0))

    def leave(self, block: Block[Key, Value]) -> None:
        """Remember the count for a while."""
        self._ghosts[block.key] = block.place
        if len(self._ghosts) > self.capacity:
            self._ghosts.popitem(last=False)

    def offer(self, block: Block[Key, Value]) -> None:
        """Rank by the decayed count."""
        self._leaves.push(block, block.place)

    def withdraw(self, block: Block[Key, Value]) -> None:
        """Take it out."""
        self._leaves.discard(block)

    def next_leaf(self) -> Block[Key, Value]:
        """The least used."""
        return self._leaves.lowest()


class S3FIFO(BlockTree[Key, Value]):
    """A small queue for what is new, a main queue for what was used again or came back.

    Source: Yang et al., SOSP 2023, doi:10.1145/3600006.3613147. Only leaves are looked at, so a queue's
    first leaf stands for its head.
    """

    SMALL_SHARE = 0.1

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self._queues: tuple[LeafHeap[Key, Value], ...] = (LeafHeap(), LeafHeap())
        self._in_small = 0
        self._ghosts: OrderedDict[Key, None] = OrderedDict()
        self._number = 0

    def enter(self, block: Block[Key, Value]) -> None:
        """New to the small queue; back from the ghosts to the main one. (queue, position, uses)."""
        self._number += 1
        main = block.key in self._ghosts
        self._ghosts.pop(block.key, None)
        self._in_small += not main
        block.place = (int(main), self._number, -1)

    def use(self, key: Key, block: Block[Key, Value] | None, depth: int) -> None:
        """Count uses after the first, up to 3."""
        del key, depth
        if block is not None:
            queue, position, uses = block.place
            block.place = (queue, position, min(3, uses + 1))

    def offer(self, block: Block[Key, Value]) -> None:
        """Line up by when it entered the queue."""
        queue, position, _ = block.place
        if block.key not in self._queues[queue]:
            self._queues[queue].push(block, position)

    def withdraw(self, block: Block[Key, Value]) -> None:
        """Take it out."""
        self._queues[block.place[0]].discard(block)

    def inherit(self, block: Block[Key, Value], lower: Block[Key, Value]) -> None:
        """Both halves are in the same queue."""
        super().inherit(block, lower)
        self._in_small += block.place[0] == 0

    def leave(self, block: Block[Key, Value]) -> None:
        """Remember blocks that left the small queue."""
        if block.place[0] == 0:
            self._in_small -= 1
            self._ghosts[block.key] = None
            if len(self._ghosts) > self.capacity:
                self._ghosts.popitem(last=False)

    def remove(self, key: Key) -> None:
        """Drop a block."""
        self._in_small -= self._blocks[key].place[0] == 0
        super().remove(key)

    def next_leaf(self) -> Block[Key, Value]:
        """Move used blocks on until one that was not used again comes up."""
        while True:
            small, main = self._queues
            from_small = len(small) and (
                self._in_small >= self.SMALL_SHARE * self.capacity or not len(main)
            )
            block = (small if from_small else main).lowest()
            uses = block.place[2]
            if uses <= 0:
                return block
            self.withdraw(block)
            self._number += 1
            self._in_small -= bool(from_small)
            block.place = (1, self._number, 0 if from_small else uses - 1)
            self.offer(block)
