"""Laws of every eviction policy, and the workloads that each is for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.caching.policies.contract import Knowledge
from srl_agents.caching.policies.learned import LearnedReuse
from srl_agents.caching.policies.recency import LRU, DecayedLFU, SegmentedLRU
from srl_agents.caching.simulation.replay import (
    POLICIES,
    Known,
    Replies,
    admit,
    knowledge_of,
    make_policy,
    replay,
)
from srl_agents.caching.simulation.traces import Trace, read_trace, unlimited_hits
from srl_envs.errors import ConfigError
from tests.srl_agents.caching.prefix_workloads import TRACES, chat_trace, trace_of

pytestmark = pytest.mark.slow


ONLINE = [name for name in POLICIES if name != "oracle"]


@pytest.mark.parametrize("name", POLICIES)
@given(trace=TRACES, capacity=st.integers(1, 12))
def test_the_capacity_holds_and_only_whole_prefixes_hit(
    name: str, trace: Trace, capacity: int
) -> None:
    policy = make_policy(name, capacity, trace)
    cached: set[int] = set()
    for request in trace.requests:
        naive = sum(1 for _ in itertools.takewhile(cached.__contains__, request.blocks))
        hits = admit(policy, request, knowledge_of(request, "ends"))
        assert hits == naive
        cached.update(request.blocks)
        over = max(0, len(policy) - capacity)
        dropped = policy.evict(over)
        assert dropped is not None
        assert len({key for key, _ in dropped}) == over
        cached -= {key for key, _ in dropped}
        assert len(policy) == len(cached) <= capacity
        assert all(policy.get(key) for key in cached)
        # a cached block's prefix is cached: its id without the last step
        assert all(key // 4 in cached or key // 4 == 1 for key in cached)


@pytest.mark.parametrize("name", ONLINE)
@pytest.mark.parametrize("known", ["nothing", "ends"])
@given(trace=TRACES, capacity=st.integers(1, 12))
def test_the_oracle_is_at_least_as_good(
    name: str, known: Known, trace: Trace, capacity: int
) -> None:
    online = replay(trace, make_policy(name, capacity, trace), known=known)
    oracle = replay(trace, make_policy("oracle", capacity, trace))

    assert online.hits_R.sum() <= oracle.hits_R.sum() <= unlimited_hits(trace.requests)


@pytest.mark.parametrize("name", POLICIES)
@given(trace=TRACES)
def test_with_room_for_all_every_repeated_block_hits(name: str, trace: Trace) -> None:
    policy = make_policy(name, trace.blocks, trace)

    assert replay(trace, policy).hits_R.sum() == unlimited_hits(trace.requests)


@given(paths=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=3), max_size=7))
@settings(max_examples=40)
def test_the_oracle_is_the_best_of_all_choices(paths: list[list[int]]) -> None:
    trace = trace_of(paths) if paths else trace_of([[0]])
    states: dict[frozenset[int], int] = {frozenset(): 0}
    for request in trace.requests:
        reached: dict[frozenset[int], int] = {}
        for cached, hits in states.items():
            more = sum(1 for _ in itertools.takewhile(cached.__contains__, request.blocks))
            held = cached | set(request.blocks)
            for size in range(min(2, len(held)) + 1):
                for kept in itertools.combinations(sorted(held), size):
                    key = frozenset(kept)
                    reached[key] = max(reached.get(key, 0), hits + more)
        states = reached

    assert replay(trace, make_policy("oracle", 2, trace)).hits_R.sum() == max(states.values())


@pytest.mark.parametrize("name", ONLINE)
@given(trace=TRACES, capacity=st.integers(2, 8))
@settings(max_examples=30)
def test_the_same_requests_are_evicted_in_the_same_order(
    name: str, trace: Trace, capacity: int
) -> None:
    def dropped() -> list[tuple[int, bool]]:
        policy = make_policy(name, capacity, trace)
        gone = []
        for request in trace.requests:
            admit(policy, request)
            gone += policy.evict(max(0, len(policy) - capacity)) or []
        policy.clear()
        assert len(policy) == 0
        return gone

    assert dropped() == dropped()


@pytest.mark.parametrize("name", POLICIES)
@given(trace=TRACES, data=st.data())
@settings(max_examples=50)
def test_protected_blocks_and_their_prefixes_stay_and_a_failed_eviction_changes_nothing(
    name: str, trace: Trace, data: st.DataObject
) -> None:
    policy = make_policy(name, 1000, trace)
    for request in trace.requests:
        admit(policy, request)
    cached = sorted({key for request in trace.requests for key in request.blocks})
    for key in data.draw(st.sets(st.sampled_from(cached), max_size=len(cached) - 1)):
        policy.remove(key)  # what extended it needs nothing any more
        cached.remove(key)
    protected = data.draw(st.sets(st.sampled_from(cached)))
    needed = set(protected)
    for key in protected:
        while key // 4 in cached:
            key //= 4  # noqa: PLW2901 (up the path)
            needed.add(key)

    assert policy.evict(len(cached) - len(needed) + 1, protected) is None
    assert len(policy) == len(cached)
    dropped = policy.evict(len(cached) - len(needed), protected)
    assert dropped is not None
    assert {key for key, _ in dropped} == set(cached) - needed


@pytest.mark.parametrize("name", POLICIES)
def test_a_removed_block_is_gone_and_may_come_back(name: str) -> None:
    trace = trace_of([[0, 1, 2], [0, 1, 2]])
    policy = make_policy(name, 8, trace)
    first, second = trace.requests
    admit(policy, first)
    policy.remove(first.blocks[1])

    assert policy.get(first.blocks[1]) is None
    assert admit(policy, second) == 1
    assert len(policy) == 3
    with pytest.raises(KeyError):
        policy.remove(999)


def test_lru_drops_the_deepest_of_the_oldest_request() -> None:
    policy: LRU[str, int] = LRU(5)
    for chain in ("ab", "cd", "ae"):
        for key in chain:
            policy.insert(key, 0)
        policy.touch(chain)

    assert policy.evict(4) == [("b", 0), ("d", 0), ("c", 0), ("e", 0)]


def test_segmented_lru_protects_what_was_used_twice() -> None:
    policy: SegmentedLRU[str, int] = SegmentedLRU(4)
    for key in "aabcd":
        policy.insert(key, 0)
        policy.touch(key)

    assert [key for key, _ in policy.evict(4) or []] == ["b", "c", "d", "a"]


def test_a_decayed_count_forgets_old_fame() -> None:
    policy: DecayedLFU[str, int] = DecayedLFU(2, half_life=1.0)
    for key in "aaaa" + "b" * 12:
        policy.insert(key, 0)
        policy.touch(key)

    assert policy.evict(1) == [("a", 0)]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_learned_policy_closes_part_of_the_gap_where_long_replies_end_sessions(
    seed: int,
) -> None:
    trace = chat_trace(1500, seed)
    learned = replay(trace, LearnedReuse(200)).hit_rate
    lru = replay(trace, LRU(200)).hit_rate
    oracle = replay(trace, make_policy("oracle", 200, trace)).hit_rate

    assert learned > lru + 0.25 * (oracle - lru)


def test_ages_pass_sooner_while_more_comes_back() -> None:
    def epochs(keys: Iterable[int]) -> int:
        policy: LearnedReuse[int, bool] = LearnedReuse(8)
        for key in keys:
            policy.touch([key])
        return policy._times.epoch

    assert epochs([0] * 20_000) > 1.5 * epochs(range(20_000))


PUBLIC = Path(__file__).parents[4] / "shared/data/kv_traces"


@pytest.mark.nightly
@pytest.mark.skipif(not PUBLIC.is_dir(), reason="needs the public traces")
@pytest.mark.parametrize(("name", "least"), [("conversation", 0.19), ("synthetic", 0.37)])
def test_a_quarter_of_the_gap_is_closed_on_public_traces(name: str, least: float) -> None:
    """3e6 tokens; LRU has .136 and .309, the oracle .353 and .550."""
    trace = read_trace(PUBLIC / f"{name}_trace.jsonl.gz")

    for replies in get_args(Replies)[1:]:
        policy = LearnedReuse[int, bool](3_000_000 // trace.tokens_per_block)
        assert round(replay(trace, policy, replies=replies).hit_rate, 3) >= least


def test_the_length_of_a_reply_helps_when_it_is_written() -> None:
    trace = chat_trace(3000, seed=2)
    never, written = (
        replay(trace, LearnedReuse(2000), replies=replies).hit_rate
        for replies in get_args(Replies)[:2]
    )

    assert written > 1.08 * never


def test_a_length_known_only_after_the_reply_counts_like_one_known_at_once() -> None:
    """Classes agree, and so does what was learned of them; a length that is not needed changes nothing."""
    early, late = LearnedReuse[int, bool](8), LearnedReuse[int, bool](8)
    for number in range(40):
        chain, tokens = [number % 7, 10 + number], (4, 400)[number % 2]
        early.touch(chain, Knowledge(reply_tokens=tokens))
        late.touch(chain)
        late.replied(chain, tokens)
        late.replied([-1], tokens)

    assert {k: p.kind for k, p in late._pasts.items()} == {
        k: p.kind for k, p in early._pasts.items()
    }
    assert (late._times._waiting_CE == early._times._waiting_CE).all()
    assert (late._times._uses_CA == early._times._uses_CA).all()


def test_knowing_that_a_session_is_over_helps() -> None:
    trace = chat_trace(1500, seed=2)
    without = replay(trace, LearnedReuse(200), known="sessions").hit_rate
    with_ends = replay(trace, LearnedReuse(200), known="ends").hit_rate

    assert with_ends > 1.02 * without


def test_a_block_of_several_sessions_outlives_the_end_of_one() -> None:
    policy: LearnedReuse[str, int] = LearnedReuse(8)
    for chain, session, ends in (("ab", 1, False), ("ac", 2, False), ("ab", 1, True)):
        for key in chain:
            policy.insert(key, 0)
        policy.touch(chain, Knowledge(session=session, ends=ends))

    assert policy._pasts["b"].kind != policy._pasts["a"].kind


@pytest.mark.parametrize("name", ONLINE)
def test_a_cache_without_room_for_a_block_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="capacity=0"):
        make_policy(name, 0, Trace(()))


def test_an_unknown_policy_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="'lru'"):
        make_policy("lrru", 4, Trace(()))
