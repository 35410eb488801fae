"""Keys and values of what prompts begin with: a tree per version, bounded in bytes.

Players of one game read the same rules, attempts from one start state the same board, and a seat reads
most of its last prompt again. A node holds a run of tokens; prompts that part ways in it split it. What
is stored depends on the weights, so versions share nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import torch

from srl_agents.engines.decoding_settings import Eviction
from srl_envs.errors import ConfigError

Tokens = tuple[int, ...]


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


class EvictionOrder(Protocol):
    """Says which nodes go first when memory is short."""

    def touch(self, node: Node) -> None:
        """A prompt went through it; parents are told after their children."""

    def remove(self, node: Node) -> None:
        """It is gone."""

    def __iter__(self) -> Iterator[Node]:
        """All nodes, those that go first in front."""


class LeastRecentlyUsed:
    """The node that no prompt went through for the longest time goes first."""

    def __init__(self) -> None:
        self._nodes: dict[Node, None] = {}

    def touch(self, node: Node) -> None:
        """See `EvictionOrder`."""
        self._nodes.pop(node, None)
        self._nodes[node] = None

    def remove(self, node: Node) -> None:
        """See `EvictionOrder`."""
        self._nodes.pop(node, None)

    def __iter__(self) -> Iterator[Node]:
        """See `EvictionOrder`."""
        return iter(list(self._nodes))


_ORDERS = {"lru": LeastRecentlyUsed}


class PrefixTree:
    """What was computed for earlier prompts, and what is being computed for the present ones.

    Args:
        bytes_per_token: of keys and values.
        limit_bytes: kept between prompts, at most. What live rows read in place does not count.
        eviction: which nodes go first.
    """

    def __init__(self, bytes_per_token: int, limit_bytes: int, eviction: Eviction = "lru") -> None:
        if eviction not in _ORDERS:
            raise ConfigError(f"eviction={eviction!r}: use one of {', '.join(_ORDERS)}.")
        if limit_bytes < 0:
            raise ConfigError(f"cache_bytes={limit_bytes}: use 0 (keep nothing) or more.")
        self._per_token, self._limit = bytes_per_token, limit_bytes
        self._order: EvictionOrder = _ORDERS[eviction]()
        self._roots: dict[Hashable, Node] = {}
        self._tokens = 0
        self.read_tokens = 0
        """Of nodes that live rows read in place."""

    @property
    def bytes(self) -> int:
        """Of all nodes."""
        return self._tokens * self._per_token

    @property
    def read_bytes(self) -> int:
        """Of those that live rows read in place."""
        return self.read_tokens * self._per_token

    def enter(
        self, version: Hashable, tokens: Tokens, *, base: Hashable = None, base_tokens: int = 0
    ) -> tuple[Node, int]:
        """Lead a prompt into the tree; the caller then computes the nodes that have no values yet.

        Args:
            version: whose prompts share.
            tokens: of the prompt.
            base: who reads the first tokens, whatever version reads the others; all versions share them.
            base_tokens: how many these are; no node stands on both sides.

        Returns:
            The node with which the prompt ends, and how many of its tokens were there already.
        """
        node = self._roots.setdefault(base if base_tokens else version, Node((), None, 0))
        border = min(base_tokens, len(tokens))
        node, place = self._walk(node, tokens[:border], 0, tokens[0] if border else None)
        if place == border < len(tokens):
            first = (version, tokens[border]) if border else tokens[0]
            node, place = self._walk(node, tokens, border, first)
        for start, stop in ((place, border), (max(place, border), len(tokens))):
            if start < stop:
                first = (version, tokens[start]) if 0 < start == border else tokens[start]
                child = Node(tokens[start:stop], node, start, branch=first)
                node.children[first] = child
                self._tokens += len(child.tokens)
                node = child
        for visited in reversed(node.path()):
            self._order.touch(visited)
            visited.rows += 1
        return node, place

    def leave(self, end: Node, reader: Reader) -> None:
        """A row that entered is no longer live."""
        for node in end.path():
            node.rows -= 1
        for node in reader.reads:
            del node.readers[reader]
            if not node.readers:
                self.read_tokens -= len(node.tokens)
        reader.reads.clear()

    def read_in_place(self, node: Node, reader: Reader) -> None:
        """Keep a node for as long as the row is live."""
        if not node.readers:
            self.read_tokens += len(node.tokens)
        node.readers[reader] = None
        reader.reads[node] = None

    def shrink(self) -> None:
        """Drop what nobody reads until the rest is within the limit."""
        if self.bytes - self.read_bytes <= self._limit:
            return
        dropped = True
        while dropped:
            dropped = False
            for node in self._order:
                if self.bytes - self.read_bytes <= self._limit:
                    return
                if not node.children and not node.readers and node.kv is not None:
                    self._drop(node)
                    dropped = True

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
            self._order.remove(node)
            self._tokens -= len(node.tokens)

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
            node = child if shared == len(child.tokens) else self._split(child, shared)
            place += shared
            branch = tokens[place] if place < len(tokens) else None
        return node, place

    def _drop(self, node: Node) -> None:
        if node.parent is not None:
            del node.parent.children[node.branch]
        self._order.remove(node)
        self._tokens -= len(node.tokens)

    def _split(self, node: Node, length: int) -> Node:
        """A new node with the first tokens of `node`, which keeps the others; whoever read reads both."""
        parent = node.parent
        if parent is None:
            raise AssertionError("a root has no tokens to split")
        upper = Node(node.tokens[:length], parent, node.start, branch=node.branch, rows=node.rows)
        parent.children[node.branch] = upper
        node.branch = node.tokens[length]
        upper.children[node.branch] = node
        if node.kv is not None:
            # copies, so that dropping one gives its memory back
            upper.kv = node.kv[..., :length, :].clone()
            node.kv = node.kv[..., length:, :].clone()
        node.tokens, node.parent, node.start = node.tokens[length:], upper, node.start + length
        for reader in node.readers:
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
