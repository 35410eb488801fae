"""The contract with vLLM's eviction interface; runs where vLLM can be imported."""

from __future__ import annotations

import inspect
import random
from typing import Any

import pytest

base = pytest.importorskip("vllm.v1.kv_offload.cpu.policies.base", reason="needs vLLM 0.32")
KEYS = [bytes([n]) * 8 for n in range(6)]


def made(capacity: int = 4) -> Any:
    from srl_agents.caching.vllm_policy import LearnedEviction

    return LearnedEviction(capacity)


def chunk(number: int) -> Any:
    return base.ChunkStatus(number)


def finished(policy: Any, keys: list[bytes], **fields: Any) -> None:
    context = base.ReqContext("r", kv_transfer_params=fields)
    for position, key in enumerate(keys):
        context.set_offload_key_position(key, position)
    policy.on_request_finished((tuple(keys),), set(keys), set(), context)


def test_every_method_of_the_interface_takes_vllms_arguments() -> None:
    policy = made()

    assert isinstance(policy, base.CachePolicy)
    for name, method in inspect.getmembers(base.CachePolicy, inspect.isfunction):
        ours = inspect.signature(getattr(type(policy), name))
        assert list(ours.parameters) == list(inspect.signature(method).parameters), name


def test_chunks_on_their_way_are_never_chosen() -> None:
    policy = made()
    for number, key in enumerate(KEYS[:3]):
        policy.insert(key, chunk(number))
    finished(policy, KEYS[:3])

    assert policy.evict(1, set()) is None
    policy.mark_evictable(KEYS[2])
    assert [key for key, _ in policy.evict(1, set())] == [KEYS[2]]
    policy.mark_evictable(KEYS[0])
    assert policy.evict(1, set()) is None  # its extension is still being stored
    policy.mark_evictable(KEYS[1])
    policy.mark_non_evictable(KEYS[0])
    assert [key for key, _ in policy.evict(1, set())] == [KEYS[1]]


def test_protected_chunks_stay_and_a_failed_store_is_removed() -> None:
    policy = made()
    for number, key in enumerate(KEYS[:2]):
        policy.insert(key, chunk(number))
        policy.mark_evictable(key)

    assert policy.evict(2, {KEYS[0]}) is None
    policy.remove(KEYS[1])
    assert policy.get(KEYS[1]) is None
    policy.clear()
    assert policy.get(KEYS[0]) is None


def test_what_the_request_tells_reaches_the_policy() -> None:
    policy = made()
    for number, key in enumerate(KEYS[:2]):
        policy.insert(key, chunk(number))
    finished(policy, KEYS[:1], srl_session="a", srl_ends=True)
    finished(policy, KEYS[1:2], srl_session="b")

    pasts = policy._policy._pasts
    assert pasts[KEYS[0]].kind != pasts[KEYS[1]].kind


def test_how_long_a_reply_was_is_seen_where_its_prompt_ended() -> None:
    policies = [made() for _ in range(3)]
    for policy, fields in zip(
        policies, ({}, {"srl_prompt_tokens": 1}, {"srl_prompt_tokens": -200}), strict=True
    ):
        finished(policy, KEYS[:3], **fields)

    unknown, short, long = (policy._policy._pasts[KEYS[0]].kind for policy in policies)
    assert len({unknown, short, long}) == 3


def test_vllms_own_manager_of_the_host_tier_works_with_it() -> None:
    """Stores that succeed, fail or wait, loads, evictions: its assertions hold, and its counts are ours."""
    manager_of = pytest.importorskip("vllm.v1.kv_offload.cpu.manager")
    offload = pytest.importorskip("vllm.v1.kv_offload.base")
    chance, hits, room = random.Random(0), 0, 12
    manager = manager_of.CPUOffloadingManager(
        room, "LearnedEviction", "srl_agents.caching.vllm_policy"
    )
    for number in range(400):
        match, length = chance.randrange(6), chance.randint(1, 6)
        keys = [offload.make_offload_key(bytes([match, n]) * 4, 0) for n in range(length)]
        context = base.ReqContext(str(number), kv_transfer_params={"srl_session": str(match)})
        manager.on_new_request(context)
        for position, key in enumerate(keys):
            context.set_offload_key_position(key, position)
        looked = [manager.lookup(key, context) is offload.LookupResult.HIT for key in keys]
        found = keys[: looked.index(False)] if False in looked else keys
        if found:
            manager.prepare_load(found, context)
        stored = manager.prepare_store(keys[len(found) :], context)
        if found:
            manager.complete_load(found, context)
        if stored is not None:
            done = chance.random() < 0.9
            manager.complete_store(stored.keys_to_store, context, success=done)
        manager.on_request_finished(context)
        hits += len(found)
        kept = manager._policy._policy
        assert len(kept) == manager._num_allocated_chunks - len(manager._free_list) <= room
        assert manager._num_evictable_cache_chunks == len(kept)
        assert not manager._policy._pinned
    assert hits > 200
