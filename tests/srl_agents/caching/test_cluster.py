"""Replays on clusters: nothing is lost, and simple cases agree with sums by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.caching.objectives import Objectives
from srl_agents.caching.simulation.cluster import Cluster, Outcome, simulate
from srl_agents.caching.simulation.hardware import LINKS, SHAPES, Tier, device
from srl_agents.caching.simulation.replay import POLICIES, make_policy, replay
from srl_agents.caching.simulation.summary import report, token_gaps, weighted_quantile
from srl_agents.caching.simulation.traces import Request, Trace, unlimited_hits
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError
from tests.srl_agents.caching.prefix_workloads import TRACES, chat_trace

SHAPE, DEVICE = SHAPES["7b"], device("h100")
UNLIMITED = (Tier("unlimited", math.inf, math.inf),)
BLOCK = 512


def cluster(**settings: Any) -> Cluster:
    return Cluster(**{"shape": SHAPE, "device": DEVICE, "tiers": UNLIMITED, **settings})


def large(trace: Trace, gap_s: float) -> Trace:
    """The same requests with blocks of 512 tokens, ``gap_s`` apart."""
    rows = (
        replace(r, prompt_tokens=len(r.blocks) * BLOCK, arrival_s=number * gap_s)
        for number, r in enumerate(trace.requests)
    )
    return Trace(tuple(rows), BLOCK)


def rate(trace: Trace, outcome: Outcome, of: Cluster) -> float:
    return float(report(trace, of, outcome)["hit_rate"])


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "learned"])
@given(trace=TRACES, capacity=st.integers(1, 12), gap_ms=st.integers(0, 50))
@settings(max_examples=20)
def test_one_node_hits_what_a_plain_replay_hits(
    policy: str, trace: Trace, capacity: int, gap_ms: int
) -> None:
    trace = large(trace, gap_ms / 1000)
    tier = Tier("capacity", capacity * BLOCK * SHAPE.kv_bytes_per_token, math.inf)
    one = cluster(tiers=(tier,), policy=policy)

    plain = replay(trace, make_policy(policy, capacity, trace))
    assert rate(trace, simulate(trace, one), one) == pytest.approx(plain.hit_rate)


def test_the_learned_policy_is_told_a_replys_length_when_the_node_has_written_it() -> None:
    trace = large(chat_trace(600, seed=0), 1.0)
    tier = Tier("capacity", 200 * BLOCK * SHAPE.kv_bytes_per_token, math.inf)
    one = cluster(tiers=(tier,), policy="learned")
    never = replay(trace, make_policy("learned", 200, trace), replies="never").hit_rate

    assert rate(trace, simulate(trace, one), one) > never


@given(
    trace=TRACES,
    nodes=st.integers(2, 4),
    apart=st.booleans(),
    routing=st.sampled_from(["affinity", "round-robin", "least-loaded"]),
    link=st.sampled_from([None, *LINKS.values()]),
    dies=st.booleans(),
    gap_ms=st.integers(0, 100),
    admission=st.sampled_from(["memory", "objectives"]),
    between_s=st.sampled_from([0.001, 0.1]),
)
@settings(max_examples=50)
def test_every_request_is_answered_and_every_token_counted(
    trace: Trace,
    nodes: int,
    apart: bool,
    routing: Any,
    link: Any,
    dies: bool,
    gap_ms: int,
    admission: Any,
    between_s: float,
) -> None:
    trace = large(trace, gap_ms / 1000)
    apart = apart and link is not None
    prefill = max(1, nodes // 2) if apart else None
    failures = ((nodes - 1, 0.3),) if dies and (not apart or nodes - max(1, nodes // 2) > 1) else ()
    where = cluster(
        nodes=nodes,
        prefill_nodes=prefill,
        routing=routing,
        link=link,
        failures=failures,
        admission=admission,
        objectives=Objectives(first_token_s=0.2, between_tokens_s=between_s),
    )
    outcome = simulate(trace, where)

    for job in outcome.jobs:
        assert job.arrival_s <= job.first_token_s <= job.done_s
    gaps, tokens = token_gaps(outcome)
    assert (gaps > 0).all()
    if not any(job.restarts for job in outcome.jobs):
        expected = sum(max(0, job.request.reply_tokens - 1) for job in outcome.jobs)
        assert tokens.sum() == pytest.approx(expected)
    numbers = report(trace, where, outcome)
    assert 0 <= numbers["hit_rate"] <= 1
    if not failures:
        assert numbers["hit_rate"] <= unlimited_hits(trace.requests) / trace.blocks + 1e-9
    json.loads(plain_json(numbers))


def test_a_lone_request_takes_its_roofline() -> None:
    trace = Trace((Request(0.0, 1024, 11, (1, 2)),))
    job = simulate(trace, cluster()).jobs[0]
    prefill = 2 * DEVICE.step_seconds(SHAPE, prefill_flops=SHAPE.prefill_flops(0, 1024) / 2)
    decode = DEVICE.step_seconds(SHAPE, prefill_flops=0, batch=1, context=1024 + 5.5)

    assert job.first_token_s == pytest.approx(prefill)
    assert job.done_s == pytest.approx(prefill + 10 * decode)


def test_a_cached_prompt_computes_its_last_token() -> None:
    trace = Trace((Request(0.0, 1024, 1, (1, 2)), Request(9.0, 1024, 1, (1, 2))))

    assert simulate(trace, cluster()).jobs[1].cached_tokens == 1023


def test_a_slow_tier_is_read_only_where_that_is_faster_than_computing() -> None:
    trace = Trace((Request(0.0, 1024, 1, (1, 2)), Request(9.0, 1024, 1, (1, 2))))
    per_block = BLOCK * SHAPE.kv_bytes_per_token
    compute_s = SHAPE.prefill_flops(0, BLOCK) / (DEVICE.peak_flops * DEVICE.mfu)
    for share, cached in ((0.9, 1023), (1.1, 0)):
        host = Tier("host", 1e12, per_block / (share * compute_s))
        job = simulate(trace, cluster(tiers=(host,))).jobs[1]
        assert job.cached_tokens == cached


def test_prompts_that_can_hold_their_time_go_before_those_that_cannot() -> None:
    """A burst of more than can be read in time, then single prompts: by arrival these are late, too."""
    burst = [Request(0.0, 8192, 64, tuple(range(16 * n, 16 * n + 16))) for n in range(24)]
    later = [Request(2.5 + 0.3 * n, 512, 64, (10**6 + n,)) for n in range(20)]
    trace = Trace((*burst, *later), BLOCK)
    by = {
        admission: simulate(trace, where)
        for admission in ("memory", "objectives")
        for where in [
            cluster(
                admission=admission,
                objectives=Objectives(first_token_s=2.0, between_tokens_s=0.1),
            )
        ]
    }
    held = {name: report(trace, cluster(), outcome)["ttft_held"] for name, outcome in by.items()}
    assert held["objectives"] > held["memory"] + 0.1
    longest = max(job.first_token_s - job.arrival_s for job in by["objectives"].jobs)
    assert longest < 16.0


def test_affinity_hits_more_than_taking_turns() -> None:
    trace = large(chat_trace(300, seed=0), 0.2)
    rates = {
        routing: rate(trace, simulate(trace, where), where)
        for routing in ("affinity", "round-robin", "least-loaded")
        for where in [cluster(nodes=8, routing=routing)]
    }
    possible = unlimited_hits(trace.requests) / trace.blocks

    assert rates["affinity"] > 0.97 * possible
    assert rates["round-robin"] < 0.5 * possible


def test_patience_trades_waiting_for_hits() -> None:
    """Every half second eight sessions ask at once for what the last reader has."""
    chains = [(1, 2, 3)] * 8
    rows = [Request(0.5 * (n // 8), 3 * BLOCK, 1, chains[n % 8]) for n in range(80)]
    trace = Trace(tuple(rows), BLOCK)
    patient, hasty = cluster(nodes=4, patience=100.0), cluster(nodes=4, patience=0.0)

    assert rate(trace, simulate(trace, patient), patient) >= rate(
        trace, simulate(trace, hasty), hasty
    )


def test_a_link_brings_other_nodes_blocks() -> None:
    trace = large(chat_trace(100, seed=0), 1.0)
    unlinked = cluster(nodes=4, routing="round-robin")
    joined = replace(unlinked, link=LINKS["rdma"])
    outcome = simulate(trace, joined)

    assert rate(trace, outcome, joined) > rate(trace, simulate(trace, unlinked), unlinked)
    assert outcome.links.cached == outcome.links.blocks * BLOCK * SHAPE.kv_bytes_per_token > 0
    # the third node needs what the first read, though the second read its first block last
    chains = [(1, 2, 3), (1, 4, 5), (1, 2, 3)]
    rows = [Request(float(n), 3 * BLOCK, 5, chain) for n, chain in enumerate(chains)]
    assert simulate(Trace(tuple(rows), BLOCK), joined).links.blocks == 1 + 3


def test_prompts_read_apart_are_handed_over_whole() -> None:
    trace = large(chat_trace(50, seed=0), 0.5)
    outcome = simulate(trace, cluster(nodes=3, prefill_nodes=2, link=LINKS["tcp"]))

    prompts = sum(request.prompt_tokens for request in trace.requests)
    assert outcome.links.handed_over == prompts * SHAPE.kv_bytes_per_token
    assert outcome.instances[2].read_s == 0
    assert outcome.instances[0].batch_s == 0


def test_a_node_that_dies_answers_nothing_more_and_its_requests_move() -> None:
    trace = large(chat_trace(100, seed=0), 0.01)
    outcome = simulate(trace, cluster(nodes=2, failures=((0, 0.5),)))

    moved = [job for job in outcome.jobs if job.restarts]
    assert moved
    assert all(job.node == 1 for job in outcome.jobs if job.done_s > 0.5)
    assert all(job.done_s > 0.5 for job in moved)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"nodes": 0}, "nodes=0"),
        ({"nodes": 10**9}, "nodes=1000000000"),
        ({"nodes": 2, "prefill_nodes": 2, "link": LINKS["rdma"]}, "prefill_nodes=2"),
        ({"nodes": 2, "prefill_nodes": 1}, "name a link"),
        ({"minimum_mfu": 0.6}, "minimum_mfu=0.6"),
        ({"speed": 0.0}, "speed=0"),
        ({"patience": -1.0}, "patience=-1"),
        ({"failures": ((1, 5.0),)}, "fail=1@5"),
    ],
)
def test_an_impossible_cluster_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        cluster(**settings)


def test_what_fails_only_with_its_trace_is_refused_too() -> None:
    trace = Trace((Request(0.0, 2_000_000, 1, tuple(range(3907))),))
    small = Trace((Request(0.0, 512, 1, (1,)),))
    with pytest.raises(ConfigError, match="longest request"):
        simulate(trace, cluster())
    with pytest.raises(ConfigError, match="oracle"):
        simulate(small, cluster(nodes=2, policy="oracle"))
    with pytest.raises(ConfigError, match="less than one block"):
        simulate(small, cluster(tiers=(Tier("host", 1e3, 1e9),)))
    with pytest.raises(ConfigError, match="the trace takes"):
        simulate(replace(small, requests=(*small.requests, Request(1e12, 512, 9, (1,)))), cluster())
    with pytest.raises(ConfigError, match="no node that reads"):
        simulate(small, cluster(failures=((0, 0.0),)))


def test_a_larger_minimum_mfu_takes_larger_chunks() -> None:
    a100 = replace(DEVICE, memory_bytes_per_s=DEVICE.memory_bytes_per_s / 8)

    chunks = [cluster(device=a100, minimum_mfu=mfu).chunk_tokens() for mfu in (0.1, 0.3, 0.5)]
    assert chunks[0] <= chunks[1] <= chunks[2]
    assert chunks[0] < chunks[2]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=9))
def test_a_weighted_quantile_is_that_of_the_written_out_values(rows: list[tuple[int, int]]) -> None:
    import numpy as np

    values, weights = np.array(rows, dtype=float).T
    written = np.repeat(values, weights.astype(int))
    for share in (0.1, 0.5, 0.99):
        expected = np.quantile(written, share, method="inverted_cdf")
        assert weighted_quantile(values, weights, share) == expected
