"""Keys and values of what prompts begin with: a tree per version, bounded in bytes.

Players of one game read the same rules, attempts from one start state the same board, and a seat reads
most of its last prompt again. A node holds a run of tokens; prompts that part ways in it split it. What
is stored depends on the weights, so versions share nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Protocol

import torch

from srl_agents.caching.block_tree import BlockTree
from srl_agents.caching.cache_policy import NOTHING_KNOWN, Knowledge
from srl_agents.caching.online import ONLINE, Eviction
from srl_agents.engines.kv_tiers import BLOCK, KVTiers, block_names
from srl_agents.engines.seats import LastPrompt, Seats
from srl_envs.errors import ConfigError

Tokens = tuple[int, ...]
_TOKENS_PER_NODE = 32
"""Of a node, about: policies learn over so many nodes as the limit holds."""


@dataclass(eq=False, slots=True)
class Node:
    """A run of tokens behind those of its parents."""

    tokens: Tokens
    parent: Node | None
    start: int
    """Tokens before it."""
    kv: torch.Tensor | None = None
    """(layers, 2, K, S, D) keys and values; None until a pass has computed them."""
    branch: Hashable = None
    """Under which its parent has it: its first token, or who reads from there on and that token."""
    children: dict[Hashable, Node] = field(default_factory=dict)
    """By their `branch`."""
    rows: int = 0
    """Live rows whose prompts go through it."""
    readers: dict[Reader, None] = field(default_factory=dict)
    """Live rows that read it in place; it stays while there are any."""
    owner: Hashable = None
    """Who computes it."""
    key: int = 0
    """Its name for the eviction policy: of its owner, its tokens and all before them."""

    @property
    def stop(self) -> int:
        """Tokens up to its end."""
        return self.start + len(self.tokens)

    def path(self) -> list[Node]:
        """From the first node below the root to this one."""
        nodes = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


class Reader(Protocol):
    """A row that reads nodes in place."""

    reads: dict[Node, None]


class PrefixTree:
    """What was computed for earlier prompts, and what is being computed for the present ones.

    Args:
        bytes_per_token: of keys and values.
        limit_bytes: kept between prompts, at most. What live rows read in place does not count.
        eviction: which nodes go first.
        tiers: where they go, and come back from; None has no such place.
        device: that the nodes' values are on.
    """

    def __init__(
        self,
        bytes_per_token: int,
        limit_bytes: int,
        eviction: Eviction = "lru",
        *,
        tiers: KVTiers | None = None,
        device: torch.device | None = None,
    ) -> None:
        if eviction not in ONLINE:
            raise ConfigError(f"eviction={eviction!r}: use one of {', '.join(ONLINE)}.")
        if limit_bytes < 0:
            raise ConfigError(f"cache_bytes={limit_bytes}: use 0 (keep nothing) or more.")
        self._per_token, self._limit = bytes_per_token, limit_bytes
        blocks = limit_bytes // (bytes_per_token * _TOKENS_PER_NODE)
        self._policy: BlockTree[int, Node] = ONLINE[eviction](max(1, blocks))
        self._being_computed: set[Node] = set()
        self._seats = Seats()
        self._tiers, self._device = tiers, device
        self._roots: dict[Hashable, Node] = {}
        self._tokens = 0
        self._read: set[Node] = set()
        """Nodes that live rows read in place."""
        self.read_tokens = 0
        """Of these."""

    @property
    def bytes(self) -> int:
        """Of all nodes."""
        return self._tokens * self._per_token

    @property
    def read_bytes(self) -> int:
        """Of those that live rows read in place."""
        return self.read_tokens * self._per_token

    def enter(
        self,
        version: Hashable,
        tokens: Tokens,
        *,
        base: Hashable = None,
        base_tokens: int = 0,
        knowledge: Knowledge = NOTHING_KNOWN,
    ) -> tuple[Node, int]:
        """Lead a prompt into the tree; the caller then computes the nodes that have no values yet.

        Args:
            version: whose prompts share.
            tokens: of the prompt.
            base: who reads the first tokens, whatever version reads the others; all versions share them.
            base_tokens: how many these are; no node stands on both sides.
            knowledge: of the request, for the eviction policy.

        Returns:
            The node with which the prompt ends, and how many of its tokens were there already.
        """
        node = self._roots.setdefault(base if base_tokens else version, Node((), None, 0))
        border = min(base_tokens, len(tokens))
        node, place = self._walk(node, tokens[:border], 0, tokens[0] if border else None)
        if place == border < len(tokens):
            first = (version, tokens[border]) if border else tokens[0]
            node, place = self._walk(node, tokens, border, first)
        names: tuple[int, ...] = ()
        if self._tiers is not None:
            names = block_names(tokens, version, base, border)
        for end in (border, len(tokens)):
            while node.stop < end:
                owner = base if end == border else (version, border)
                kv = self._fetched(names, node.stop, end) if node.stop == place else None
                stop = end if kv is None else node.stop + kv.shape[-2]
                place = place if kv is None else stop
                node = self._added(node, tokens, stop, owner, kv)
        path = node.path()
        for visited in path:
            visited.rows += 1
        self._asked(tuple(visited.key for visited in path), names, knowledge)
        return node, place

    def over(self, match: tuple[int, ...]) -> None:
        """A match has ended: its seats ask for nothing more."""
        for prompt in self._seats.over(match):
            self._policy.over(prompt.nodes)
            if self._tiers is not None:
                self._tiers.over(prompt.blocks)

    def leave(self, end: Node, reader: Reader) -> None:
        """A row that entered is no longer live."""
        for node in end.path():
            node.rows -= 1
        for node in reader.reads:
            del node.readers[reader]
            if not node.readers:
                self._read.discard(node)
                self.read_tokens -= len(node.tokens)
        reader.reads.clear()

    def read_in_place(self, node: Node, reader: Reader) -> None:
        """Keep a node for as long as the row is live."""
        if not node.readers:
            self._read.add(node)
            self.read_tokens += len(node.tokens)
        node.readers[reader] = None
        reader.reads[node] = None

    def shrink(self) -> None:
        """Drop what nobody reads until the rest is within the limit."""
        if self.bytes - self.read_bytes <= self._limit:
            return
        self._being_computed = {node for node in self._being_computed if node.kv is None}
        kept = {node.key for node in self._being_computed} | {node.key for node in self._read}
        while self.bytes - self.read_bytes > self._limit:
            dropped = self._policy.evict(1, kept)
            if dropped is None:
                return
            node = dropped[0][1]
            self._move_on(node)
            if node.parent is not None:
                del node.parent.children[node.branch]
            self._tokens -= len(node.tokens)

    def forget(self, version: Hashable) -> None:
        """Drop what was computed with a version that has no live rows."""
        root = self._roots.pop(version, None)
        waiting = [] if root is None else list(root.children.values())
        for node in self._behind_base(version):
            if node.parent is not None:
                del node.parent.children[node.branch]
            waiting.append(node)
        while waiting:
            node = waiting.pop()
            waiting += node.children.values()
            self._policy.remove(node.key)
            self._being_computed.discard(node)
            self._tokens -= len(node.tokens)

    def expect(
        self, version: Hashable, tokens: Tokens, *, base: Hashable = None, base_tokens: int = 0
    ) -> None:
        """A prompt will enter soon; what of it is in files is read meanwhile."""
        if self._tiers is not None:
            border = min(base_tokens, len(tokens))
            self._tiers.prefetch(block_names(tokens, version, base, border))

    def _asked(self, keys: tuple[int, ...], names: tuple[int, ...], knowledge: Knowledge) -> None:
        """Tell the policies, and read ahead what the match's other seats had last."""
        self._policy.touch(keys, knowledge)
        others: list[LastPrompt] = []
        if isinstance(knowledge.session, tuple):
            others = self._seats.asked(knowledge.session, LastPrompt(keys, names))
        if self._tiers is not None:
            self._tiers.asked(names, knowledge)
            for other in others:
                self._tiers.prefetch(other.blocks)

    def _added(
        self, parent: Node, tokens: Tokens, stop: int, owner: Hashable, kv: torch.Tensor | None
    ) -> Node:
        """A new node from the parent's end to ``stop``."""
        start = parent.stop
        branch: Hashable = tokens[start]
        if isinstance(owner, tuple) and 0 < start == owner[1]:
            branch = (owner[0], tokens[start])
        node = Node(tokens[start:stop], parent, start, kv, branch=branch, owner=owner)
        node.key = hash((owner, tokens[:stop]))
        parent.children[branch] = node
        self._tokens += len(node.tokens)
        self._policy.insert(node.key, node)
        if kv is None:
            self._being_computed.add(node)
        return node

    def _fetched(self, names: tuple[int, ...], start: int, end: int) -> torch.Tensor | None:
        """Values of tokens from ``start`` on, at most to ``end``, that the tiers have."""
        if self._tiers is None or self._device is None:
            return None
        first = start // BLOCK
        kv = self._tiers.take(names[first : -(-end // BLOCK)], self._device)
        if kv is None:
            return None
        # a copy, so that the rest of the blocks is not kept
        return kv[..., start - first * BLOCK : end - first * BLOCK, :].clone()

    def _move_on(self, node: Node) -> None:
        """Give the whole blocks that end in a node to the tiers."""
        if self._tiers is None or node.kv is None:
            return
        path = node.path()
        tokens = tuple(itertools.chain.from_iterable(each.tokens for each in path))
        version, border = node.owner if isinstance(node.owner, tuple) else (None, node.stop)
        names = block_names(tokens, version, None, border)
        for block in range(node.start // BLOCK, node.stop // BLOCK):
            begin, parts = block * BLOCK, []
            for each in path:
                if each.kv is not None and each.stop > begin and each.start < begin + BLOCK:
                    low, high = max(0, begin - each.start), begin + BLOCK - each.start
                    parts.append(each.kv[..., low:high, :])
            kv = torch.cat(parts, dim=-2)
            if kv.shape[-2] == BLOCK:
                self._tiers.put(names[block], kv)

    def _behind_base(self, version: Hashable) -> list[Node]:
        """The first nodes that this version reads behind what all share."""
        found: list[Node] = []
        waiting = list(self._roots.values())
        while waiting:
            for child in waiting.pop().children.values():
                if not isinstance(child.branch, tuple):
                    waiting.append(child)
                elif child.branch[0] == version:
                    found.append(child)
        return found

    def _walk(self, node: Node, tokens: Tokens, place: int, first: Hashable) -> tuple[Node, int]:
        """Go down as far as there are nodes, from ``place`` on, the first of them under ``first``."""
        branch = first
        while place < len(tokens):
            child = node.children.get(branch)
            if child is None:
                break
            shared = _shared(child.tokens, tokens, place)
            node = (
                child
                if shared == len(child.tokens)
                else self._split(child, tokens[: place + shared])
            )
            place += shared
            branch = tokens[place] if place < len(tokens) else None
        return node, place

    def _split(self, node: Node, prefix: Tokens) -> Node:
        """A new node with the first tokens of `node`, which keeps the others; whoever read reads both.

        Args:
            node: to split.
            prefix: all tokens up to the place.
        """
        parent, length = node.parent, len(prefix) - node.start
        if parent is None:
            raise AssertionError("a root has no tokens to split")
        upper = Node(
            node.tokens[:length],
            parent,
            node.start,
            branch=node.branch,
            rows=node.rows,
            owner=node.owner,
            key=hash((node.owner, prefix)),
        )
        self._policy.split(node.key, upper.key, upper)
        parent.children[node.branch] = upper
        node.branch = node.tokens[length]
        upper.children[node.branch] = node
        if node.kv is None:
            self._being_computed.add(upper)
        else:
            # copies, so that dropping one gives its memory back
            upper.kv = node.kv[..., :length, :].clone()
            node.kv = node.kv[..., length:, :].clone()
        node.tokens, node.parent, node.start = node.tokens[length:], upper, node.start + length
        for reader in node.readers:
            self._read.add(upper)
            upper.readers[reader] = None
            reader.reads[upper] = None
        return upper


def _shared(run: Tokens, tokens: Tokens, place: int) -> int:
    """How many tokens of `run` also stand in `tokens` from `place` on."""
    there = tokens[place : place + len(run)]
    if there == run:
        return len(run)
    pairs = enumerate(zip(run, there, strict=False))
    return next((i for i, (a, b) in pairs if a != b), len(there))
