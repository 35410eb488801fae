"""Keys and values of what prompts begin with: a tree per version, bounded in bytes.

Players of one game read the same rules, attempts from one start state the same board, and a seat reads
most of its last prompt again. A node holds a run of tokens; prompts that part ways in it split it. What
is stored depends on the weights, so versions share nothing. A row holds the nodes of its prompt while that
is read, and those that it reads in place for as long as it lives; the others may be kept in 8 bits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from srl_agents.caching.policies.block_tree import BlockTree
from srl_agents.caching.policies.contract import NOTHING_KNOWN, Knowledge
from srl_agents.caching.policies.online import ONLINE, Eviction
from srl_agents.engines.embedded.places.kv_packing import EightBits
from srl_agents.engines.embedded.places.kv_tiers import BLOCK, KVTiers, block_names
from srl_agents.engines.embedded.seats import LastPrompt, Seats
from srl_envs.errors import ConfigError

Tokens = tuple[int, ...]
_TOKENS_PER_NODE = 32
"""Assumed tokens of a node: policies learn over so many nodes as the limit holds."""


@dataclass(eq=False, slots=True)
class Node:
    """A run of tokens behind those of its parents."""

    tokens: Tokens
    parent: Node | None
    start: int
    """Tokens before this node."""
    kv: torch.Tensor | None = None
    """(layers, 2, K, S, D) keys and values; None until a pass computes them, and while they are packed."""
    computed: int = 0
    """Tokens from the first on whose keys and values are there."""
    packed: torch.Tensor | None = None
    """Keys and values in 8 bits, from the end of the first step in which no row held them."""
    branch: Hashable = None
    """Key under which its parent has it: its first token, or the reader from there on and that token."""
    children: dict[Hashable, Node] = field(default_factory=dict)
    """Child nodes, by their `branch`."""
    rows: int = 0
    """Live rows whose prompts go through it."""
    readers: dict[Reader, None] = field(default_factory=dict)
    """Live rows that read it in place; it stays while there are any."""
    owner: Hashable = None
    """Version that computes it, or the row where prefixes are not shared."""
    key: int = 0
    """Name of the node for the eviction policy: of its owner, its tokens and all before them."""

    @property
    def stop(self) -> int:
        """Tokens up to its end."""
        return self.start + len(self.tokens)

    @property
    def ready(self) -> bool:
        """Whether all of it is computed."""
        return self.computed == len(self.tokens)

    def path(self) -> list[Node]:
        """Nodes from the first below the root to this one."""
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
        bytes_per_token: of keys and values, as they are kept.
        limit_bytes: kept between prompts, at most. What live rows hold does not count.
        eviction: which nodes go first.
        tiers: where they go, and come back from; None has no such place.
        device: that the nodes' values are on.
        eight_bits: how nodes are kept that no row reads; None keeps them as they were computed.
    """

    def __init__(
        self,
        bytes_per_token: int,
        limit_bytes: int,
        eviction: Eviction = "lru",
        *,
        tiers: KVTiers | None = None,
        device: torch.device | None = None,
        eight_bits: EightBits | None = None,
    ) -> None:
        if eviction not in ONLINE:
            raise ConfigError(f"eviction={eviction!r}: use one of {', '.join(ONLINE)}.")
        if limit_bytes < 0:
            raise ConfigError(f"cache_bytes={limit_bytes}: use 0 (keep nothing) or more.")
        self._per_token, self._limit = bytes_per_token, limit_bytes
        blocks = limit_bytes // (bytes_per_token * _TOKENS_PER_NODE)
        self._policy: BlockTree[int, Node] = ONLINE[eviction](max(1, blocks))
        self._being_computed: set[Node] = set()
        self._seats = Seats() if tiers is not None or self._policy.heeds_ends else None
        self._tiers, self._device = tiers, device
        self._eight_bits = eight_bits
        self._roots: dict[Hashable, Node] = {}
        self._tokens = 0
        self._held: set[Node] = set()
        """Nodes that live rows hold."""
        self._held_tokens = 0
        """Tokens of the nodes that live rows hold."""
        self._to_pack: set[Node] = set()
        """Nodes whose last reader left since the last `shrink`."""

    @property
    def bytes(self) -> int:
        """Bytes of all nodes, as they are kept."""
        return self._tokens * self._per_token

    @property
    def held_bytes(self) -> int:
        """Bytes of the nodes that live rows hold, as they are kept."""
        return self._held_tokens * self._per_token

    @property
    def held_places(self) -> int:
        """Tokens whose keys and values take as much memory as those that live rows hold.

        A node that was packed before is there in both forms.
        """
        return self.places(self._held_tokens)

    def places(self, tokens: int) -> int:
        """Tokens whose keys and values take as much memory as so many tokens of a row."""
        both = 1.0 if self._eight_bits is None else 1.0 + self._eight_bits.share
        return math.ceil(tokens * both)

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
            The node with which the prompt ends, and how many of its tokens are there already, or are being
            computed for other rows.
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
        return node, _there(path)

    def known(
        self, version: Hashable, tokens: Tokens, *, base: Hashable = None, base_tokens: int = 0
    ) -> int:
        """Tokens that `enter` would find in nodes, computed or about to be; nothing is changed."""
        node = self._roots.get(base if base_tokens else version)
        border, place = min(base_tokens, len(tokens)), 0
        while node is not None and place < len(tokens):
            behind = border and place == border
            branch = (version, tokens[place]) if behind else tokens[place]
            node = node.children.get(branch)
            if node is None:
                break
            part = tokens if place >= border else tokens[:border]
            shared = _shared(node.tokens, part, place)
            place += shared
            if shared < len(node.tokens):
                break
        return place

    def over(self, match: tuple[int, ...]) -> None:
        """A match has ended: its seats ask for nothing more."""
        for prompt in () if self._seats is None else self._seats.over(match):
            self._policy.over(prompt.nodes)
            if self._tiers is not None:
                self._tiers.over(prompt.blocks)

    def leave(self, end: Node, reader: Reader, reply_tokens: int | None = None) -> None:
        """A row that entered has ended; if it wrote a reply, `reply_tokens` is its length."""
        path = end.path()
        for node in path:
            node.rows -= 1
        if path and reply_tokens is not None:
            self._policy.replied(tuple(node.key for node in path), reply_tokens)
            if self._tiers is not None:
                self._tiers.replied(_block_names(path), reply_tokens)
        for node in list(reader.reads):
            self.let_go(node, reader)

    def hold(self, node: Node, reader: Reader) -> None:
        """Keep a node as it is read, for as long as the row is live or until `let_go`."""
        if not node.readers:
            self._held.add(node)
            self._held_tokens += len(node.tokens)
        if node.kv is None and node.packed is not None and self._eight_bits is not None:
            node.kv = self._eight_bits.unpack(node.packed)
        node.readers[reader] = None
        reader.reads[node] = None

    def let_go(self, node: Node, reader: Reader) -> None:
        """A row has no further need of a node."""
        del node.readers[reader]
        del reader.reads[node]
        if not node.readers:
            self._held.discard(node)
            self._held_tokens -= len(node.tokens)
            self._to_pack.add(node)

    def shrink(self) -> None:
        """Drop nodes without a reader until the rest is within the limit, and pack the rest."""
        if self.bytes - self.held_bytes > self._limit:
            self._drop()
        if self._eight_bits is not None:
            for node in self._to_pack:
                if node.ready and not node.readers:
                    node.packed, node.kv = self._stored(node), None
        self._to_pack.clear()

    def _drop(self) -> None:
        self._being_computed = {n for n in self._being_computed if n.rows and not n.ready}
        kept = {node.key for node in self._being_computed} | {node.key for node in self._held}
        while self.bytes - self.held_bytes > self._limit:
            dropped = self._policy.evict(1, kept)
            if dropped is None:
                return
            node = dropped[0][1]
            self._to_pack.discard(node)
            self._move_on(node)
            node.kv = node.packed = None  # rows that copied it still know the node
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
            node.parent = None  # else its memory waits for Python to look for circles
            self._policy.remove(node.key)
            self._being_computed.discard(node)
            self._to_pack.discard(node)
            self._tokens -= len(node.tokens)

    def close(self) -> None:
        """Let go of all nodes at once; the tree is not used any more."""
        waiting = list(self._roots.values())
        self._roots.clear()
        while waiting:
            node = waiting.pop()
            waiting += node.children.values()
            node.parent = None

    def expect(self, version: Hashable, tokens: Tokens, *, base_tokens: int = 0) -> None:
        """A prompt will enter soon; what of it is in files is read meanwhile."""
        if self._tiers is not None:
            border = min(base_tokens, len(tokens))
            self._tiers.prefetch(block_names(tokens, version, None, border))

    def _asked(self, keys: tuple[int, ...], names: tuple[int, ...], knowledge: Knowledge) -> None:
        """Tell the policies, and read ahead what the match's other seats had last."""
        self._policy.touch(keys, knowledge)
        others: list[LastPrompt] = []
        if self._seats is not None and isinstance(knowledge.session, tuple):
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
        node = Node(tokens[start:stop], parent, start, branch=branch, owner=owner)
        node.key = hash((owner, tokens[:stop]))
        parent.children[branch] = node
        self._tokens += len(node.tokens)
        self._policy.insert(node.key, node)
        if kv is None:
            self._being_computed.add(node)
            return node
        node.computed = len(node.tokens)
        if self._eight_bits is None:
            node.kv = kv
        else:
            node.packed = kv
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
        if self._tiers is None or not node.ready:
            return
        path = node.path()
        names = _block_names(path)
        for block in range(node.start // BLOCK, node.stop // BLOCK):
            begin, parts = block * BLOCK, []
            for each in path:
                if each.ready and each.stop > begin and each.start < begin + BLOCK:
                    low, high = max(0, begin - each.start), begin + BLOCK - each.start
                    parts.append(self._stored(each)[..., low:high, :])
            kv = torch.cat(parts, dim=-2)
            if kv.shape[-2] == BLOCK:
                self._tiers.put(names[block], kv)

    def _stored(self, node: Node) -> torch.Tensor:
        """A node's values as they are kept."""
        if node.packed is not None:
            return node.packed
        if node.kv is None:
            raise AssertionError("a node is kept before it was computed")
        return node.kv if self._eight_bits is None else self._eight_bits.pack(node.kv)

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
        """A new node with the first tokens of `node`, which keeps the others; its readers read both.

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
            computed=min(node.computed, length),
        )
        self._policy.split(node.key, upper.key, upper)
        parent.children[node.branch] = upper
        node.branch = node.tokens[length]
        upper.children[node.branch] = node
        if not upper.ready:
            self._being_computed.add(upper)
        node.computed -= upper.computed
        upper.kv, node.kv = _parts(node.kv, length)
        upper.packed, node.packed = _parts(node.packed, length)
        if node in self._to_pack:
            self._to_pack.add(upper)
        node.tokens, node.parent, node.start = node.tokens[length:], upper, node.start + length
        for reader in node.readers:
            self._held.add(upper)
            upper.readers[reader] = None
            reader.reads[upper] = None
        return upper


def _block_names(path: Sequence[Node]) -> tuple[int, ...]:
    """Names of the blocks that a path has, beyond the device."""
    end = path[-1]
    tokens = tuple(itertools.chain.from_iterable(node.tokens for node in path))
    version, border = end.owner if isinstance(end.owner, tuple) else (None, end.stop)
    return block_names(tokens, version, None, border)


def _there(path: Sequence[Node]) -> int:
    """Tokens of a prompt that has just entered which need not be computed for it."""
    found = 0
    for node in path:
        if not node.ready and node.rows == 1:
            return found + node.computed
        found += len(node.tokens)
    return found


def _parts(
    kv: torch.Tensor | None, length: int
) -> tuple[torch.Tensor, torch.Tensor] | tuple[None, None]:
    """The first tokens and the others; copies, so that dropping one gives its memory back."""
    if kv is None:
        return None, None
    return kv[..., :length, :].clone(), kv[..., length:, :].clone()


def _shared(run: Tokens, tokens: Tokens, place: int) -> int:
    """How many tokens of `run` also stand in `tokens` from `place` on."""
    there = tokens[place : place + len(run)]
    if there == run:
        return len(run)
    pairs = enumerate(zip(run, there, strict=False))
    return next((i for i, (a, b) in pairs if a != b), len(there))
