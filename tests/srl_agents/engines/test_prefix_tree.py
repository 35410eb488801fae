"""The tree of prefixes: what it finds again, what it drops, and how much it holds."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.caching.policies.contract import Knowledge
from srl_agents.caching.policies.learned import LearnedReuse
from srl_agents.caching.policies.online import ONLINE, Eviction
from srl_agents.engines.embedded.prefix_tree import Node, PrefixTree
from srl_envs.errors import ConfigError

PROMPTS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.lists(st.integers(0, 2), max_size=8).map(tuple)),
    max_size=12,
)


@dataclass(eq=False)
class Row:
    """A row that reads every node of its prompt, or none."""

    end: Node
    reads: dict[Node, None] = field(default_factory=dict)


def enter(
    tree: PrefixTree, version: str, tokens: tuple[int, ...], session: tuple[int, ...] | None = None
) -> tuple[Row, int]:
    """Lead a prompt in and compute it: the key of a token is the token itself."""
    end, cached = tree.enter(version, tokens, knowledge=Knowledge(session=session))
    for node in end.path():
        if node.kv is None:
            node.kv = torch.tensor(node.tokens, dtype=torch.float32).reshape(1, 1, 1, -1, 1)
            node.kv = node.kv.repeat(1, 2, 1, 1, 1)
            node.computed = len(node.tokens)
    return Row(end), cached


def read(row: Row) -> list[int]:
    """The tokens whose keys the path holds."""
    return [int(key) for node in row.end.path() for key in node.kv[0, 0, 0, :, 0]]  # type: ignore[index]


@settings(max_examples=200, deadline=None)
@given(prompts=PROMPTS)
def test_a_prompt_finds_the_longest_beginning_of_its_version_and_its_own_keys(
    prompts: list[tuple[str, tuple[int, ...]]],
) -> None:
    tree = PrefixTree(1, 10**6)
    rows: list[tuple[Row, tuple[int, ...]]] = []
    for k, (version, tokens) in enumerate(prompts):
        expected = tree.known(version, tokens)
        row, cached = enter(tree, version, tokens)
        assert cached == expected
        rows.append((row, tokens))
        before = [other for owner, other in prompts[:k] if owner == version]
        assert cached == max((shared(tokens, other) for other in before), default=0)
        for each, own in rows:  # whatever was split meanwhile
            assert read(each) == list(own)
    known = {(v, t[:n]) for v, t in prompts for n in range(1, len(t) + 1)}
    assert tree.bytes == len(known)


@settings(max_examples=200, deadline=None)
@given(prompts=PROMPTS, own=st.integers(1, 4))
def test_versions_share_what_the_base_reads_and_nothing_behind_it(
    prompts: list[tuple[str, tuple[int, ...]]], own: int
) -> None:
    tree = PrefixTree(1, 10**6)
    known: set[tuple[str, tuple[int, ...], int]] = set()
    for version, tokens in prompts:
        border = max(0, len(tokens) - own)
        expected = tree.known(version, tokens, base_tokens=border)
        end, cached = tree.enter(version, tokens, base_tokens=border)
        assert cached == expected
        # a token is the same where reader, text before it and the border before it are
        mine = [
            ("", tokens[:n], 0) if n <= border else (version, tokens[:n], border)
            for n in range(1, len(tokens) + 1)
        ]
        assert cached == sum(token in known for token in mine)
        assert [t for node in end.path() for t in node.tokens] == list(tokens)
        assert all(n.start >= border or n.start + len(n.tokens) <= border for n in end.path())
        known |= set(mine)
    assert tree.bytes == len(known)
    tree.forget("a")
    assert tree.bytes == sum(token[0] != "a" for token in known)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    prompts=PROMPTS,
    limit=st.integers(0, 12),
    reading=st.integers(0, 4095),
    eviction=st.sampled_from(list(ONLINE)),
)
def test_what_is_kept_is_bounded_and_what_is_read_stays(
    prompts: list[tuple[str, tuple[int, ...]]], limit: int, reading: int, eviction: Eviction
) -> None:
    tree = PrefixTree(1, limit, eviction)
    live: list[tuple[Row, tuple[int, ...]]] = []
    for k, (version, tokens) in enumerate(prompts):
        row, _ = enter(tree, version, tokens, session=(k % 3, 0))
        if k % 2:
            tree.over((k % 3,))
        if reading >> k & 1:
            for node in row.end.path():
                tree.hold(node, row)
            live.append((row, tokens))
        else:
            tree.leave(row.end, row)
        tree.shrink()
        assert tree.bytes - tree.held_bytes <= limit
        for reader, own in live:
            assert read(reader) == list(own)
            assert set(reader.end.path()) == set(reader.reads)
    for reader, _ in live:
        tree.leave(reader.end, reader)
    assert tree.held_bytes == 0
    tree.shrink()
    assert tree.bytes <= limit


def test_the_least_recently_used_leaf_goes_first() -> None:
    tree = PrefixTree(1, 4)
    for tokens in ((1, 2), (1, 3), (5,), (1, 2)):
        row, _ = enter(tree, "a", tokens)
        tree.leave(row.end, row)
    tree.shrink()
    assert tree.bytes == 4
    row, _ = enter(tree, "a", (7,))
    tree.leave(row.end, row)
    tree.shrink()
    assert [enter(tree, "a", tokens)[1] for tokens in ((1, 3), (5,), (1, 2))] == [1, 1, 2]


def test_versions_share_nothing_and_are_dropped_separately() -> None:
    tree = PrefixTree(1, 100)
    for version in ("a", "b"):
        row, cached = enter(tree, version, (1, 2, 3))
        assert cached == 0
        tree.leave(row.end, row)
    tree.forget("a")
    tree.forget("a")
    assert tree.bytes == 3
    assert enter(tree, "b", (1, 2))[1] == 2
    assert enter(tree, "a", (1, 2))[1] == 0


def test_memory_of_what_is_dropped_is_free_at_once_without_a_search_for_circles() -> None:
    """A node refers to its parent and its children, so Python keeps them until its next collection."""
    gc.collect()
    gc.disable()
    try:
        for policy in get_args(Eviction):
            for drop in (lambda tree: tree.forget("a"), PrefixTree.shrink, PrefixTree.close):
                tree = PrefixTree(1, 0, policy)
                values = []
                for tokens in ((1, 2, 3), (1, 2, 4)):
                    row, _ = enter(tree, "a", tokens)
                    values += [
                        weakref.ref(node.kv) for node in row.end.path() if node.kv is not None
                    ]
                    tree.leave(row.end, row)
                del row
                drop(tree)
                if drop is PrefixTree.close:
                    del tree
                assert len(values) > 2
                assert [value() for value in values] == [None] * len(values)
    finally:
        gc.enable()


def test_a_live_row_that_has_copied_its_prompt_keeps_none_of_it_in_the_tree() -> None:
    tree = PrefixTree(1, 2)
    row, _ = enter(tree, "a", (1, 2, 3))
    for node in row.end.path():
        tree.hold(node, row)
    tree.shrink()
    assert read(row) == [1, 2, 3]

    for node in row.end.path():
        tree.let_go(node, row)
    tree.shrink()

    assert tree.bytes == 0
    assert [node.kv for node in row.end.path()] == [None]
    tree.leave(row.end, row)
    again, cached = enter(tree, "a", (1, 2, 3))
    assert (cached, read(again)) == (0, [1, 2, 3])


@pytest.mark.parametrize("policy", ONLINE)
def test_a_long_run_holds_what_the_limit_allows_and_no_more(policy: Eviction) -> None:
    gc.collect()
    gc.disable()
    try:
        tree = PrefixTree(1, 40, policy)
        values: list[weakref.ref[torch.Tensor]] = []
        for number in range(2000):
            row, _ = enter(tree, "a", (1, 2, number % 97, number % 11, number))
            values += [weakref.ref(node.kv) for node in row.end.path() if node.kv is not None]
            tree.leave(row.end, row)
            tree.shrink()
        del row
        alive = {id(value): value for ref in values if (value := ref()) is not None}
        assert sum(value.shape[-2] for value in alive.values()) == tree.bytes <= 40
    finally:
        gc.enable()


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="lru"):
        PrefixTree(1, 1, "fifo")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cache_bytes=-1"):
        PrefixTree(1, -1)


def shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def test_the_policy_learns_how_long_a_reply_was() -> None:
    kinds = []
    for length in (None, 4, 400):
        tree = PrefixTree(1, 40, "learned")
        for tokens in ((1, 2, 3, 4), (1, 2, 5, 6)):
            row, _ = enter(tree, "a", tokens)
            tree.leave(row.end, row, length)
        policy = tree._policy
        assert isinstance(policy, LearnedReuse)
        assert row.end is not None
        assert row.end.parent is not None
        kinds.append([policy._pasts[node.key].kind for node in (row.end.parent, row.end)])

    assert [len(set(of_a_node)) for of_a_node in zip(*kinds, strict=True)] == [3, 3]


def test_matches_that_are_over_make_room_for_those_that_go_on_where_the_policy_learns() -> None:
    """Every second seat asks twice, 12 requests apart, with room for fewer than 12 prompts."""

    def found(*, ends_reported: bool) -> int:
        tree, hits = PrefixTree(1, 40, "learned"), 0
        for number in range(600):
            for asking in (number, number - 12):
                if asking == number or (asking >= 0 and asking % 2):
                    tokens = (1, 2, 1000 + asking, 3, 4, 5)
                    row, cached = enter(tree, "a", tokens, session=(asking, 0))
                    hits += cached == len(tokens)
                    tree.leave(row.end, row)
                    if ends_reported and (asking != number or not asking % 2):
                        tree.over((asking,))
            tree.shrink()
        return hits

    assert found(ends_reported=True) > 2 * found(ends_reported=False)
