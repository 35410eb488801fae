"""The eviction policies that need no future requests, by the names that users write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from srl_agents.caching.policies.block_tree import BlockTree
from srl_agents.caching.policies.learned import LearnedReuse
from srl_agents.caching.policies.recency import LRU, S3FIFO, DecayedLFU, SegmentedLRU

Eviction = Literal["lru", "segmented-lru", "decayed-lfu", "s3-fifo", "learned"]
"""``lru``: what was not used for the longest time goes first. ``learned``: what is used least per unit of
space and time, by what was seen so far. The others: docs/design/caching.md."""
ONLINE: Mapping[str, type[BlockTree[Any, Any]]] = {
    "lru": LRU,
    "segmented-lru": SegmentedLRU,
    "decayed-lfu": DecayedLFU,
    "s3-fifo": S3FIFO,
    "learned": LearnedReuse,
}
