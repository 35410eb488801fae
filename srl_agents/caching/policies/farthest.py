"""The oracle: it reads future requests, so online policies are not expected to beat it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from srl_agents.caching.policies.block_tree import Block, BlockTree, LeafHeap
from srl_agents.caching.policies.contract import Key, Knowledge, Value


class FarthestNextUse(BlockTree[Key, Value]):
    """Drop the block whose next use is farthest; with the caller's trimming after `touch`, also bypass.

    Source: Belady, IBM Systems Journal 5(2), 1966; bypass as in Mattson et al., ibid. 9(2), 1970.
    """

    def __init__(self, capacity: int, chains: Sequence[Sequence[Key]]) -> None:
        """``chains``: the blocks of every request to come, in order."""
        super().__init__(capacity)
        self._next_uses = next_uses(chains)
        self.forget()

    def forget(self) -> None:
        """Start the same trace anew."""
        self._leaves: LeafHeap[Key, Value] = LeafHeap()
        self._request = -1

    def begin(self, keys: Sequence[Key], knowledge: Knowledge) -> None:
        """Step to the next request."""
        del keys, knowledge
        self._request += 1

    def enter(self, block: Block[Key, Value]) -> None:
        """Until its request is touched nothing is nearer."""
        block.place = 0

    def use(self, key: Key, block: Block[Key, Value] | None, depth: int) -> None:
        """Look up when this block is asked for again."""
        del key
        if block is not None:
            block.place = -self._next_uses[self._request][depth]

    def offer(self, block: Block[Key, Value]) -> None:
        """Rank by the next use."""
        self._leaves.push(block, block.place)

    def withdraw(self, block: Block[Key, Value]) -> None:
        """Take it out."""
        self._leaves.discard(block)

    def next_leaf(self) -> Block[Key, Value]:
        """The farthest."""
        return self._leaves.lowest()


def next_uses(chains: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """For every block of every request, the number of the next request with it; ``len(chains)``: none."""
    upcoming: dict[Hashable, int] = {}
    found: list[list[int]] = []
    for number in range(len(chains) - 1, -1, -1):
        found.append([upcoming.get(key, len(chains)) for key in chains[number]])
        upcoming.update(dict.fromkeys(chains[number], number))
    return found[::-1]
