"""Results of a replay in numbers: hits, times, bytes, objectives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srl_agents.caching.objectives import Objectives
from srl_agents.caching.simulation.cluster import Cluster, Outcome
from srl_agents.caching.simulation.replay import make_policy, replay
from srl_agents.caching.simulation.tiered_cache import NO_LIMIT
from srl_agents.caching.simulation.traces import Trace, unlimited_hits


def weighted_quantile(
    values_N: NDArray[np.float64], weights_N: NDArray[np.float64], share: float
) -> float:
    """The smallest value that at least ``share`` of the weight does not exceed; NaN without weight."""
    if not weights_N.sum() > 0:
        return math.nan
    order = np.argsort(values_N)
    reached = np.cumsum(weights_N[order])
    index = min(int(np.searchsorted(reached, share * reached[-1])), len(order) - 1)
    return float(values_N[order][index])


def report(trace: Trace, cluster: Cluster, outcome: Outcome) -> dict[str, Any]:
    """All numbers of a replay, plain; the oracle reads the same prompts in the same order per node."""
    hit_blocks = _hit_blocks(outcome)
    requested = trace.blocks
    possible = unlimited_hits(trace.requests)
    return {
        "requests": len(trace.requests),
        "nodes": cluster.nodes,
        "prefill_nodes": cluster.prefill_nodes,
        "policy": cluster.policy,
        "routing": cluster.routing,
        "known": cluster.known,
        "hit_rate": sum(hit_blocks.values()) / outcome.read_blocks,
        "hit_rate_by_source": {
            name: blocks / outcome.read_blocks for name, blocks in hit_blocks.items()
        },
        "hit_rate_possible": possible / requested,
        "hit_rate_oracle": oracle_hit_rate(trace, outcome),
        **_tokens(trace, outcome),
        **_times(outcome, cluster.objectives),
        "bytes": _bytes(cluster, outcome),
        "node_seconds_reading": [instance.read_s for instance in outcome.instances],
        "restarted": sum(job.restarts > 0 for job in outcome.jobs),
        "chunk_tokens": cluster.chunk_tokens(),
        "admission": cluster.admission,
        "objectives": {
            "ttft_s": cluster.objectives.first_token_s,
            "tbt_s": cluster.objectives.between_tokens_s,
        },
    }


def _hit_blocks(outcome: Outcome) -> dict[str, int]:
    blocks: dict[str, int] = {}
    for instance in outcome.instances:
        if instance.cache is not None:
            for tier, traffic in zip(instance.cache.tiers, instance.cache.traffic, strict=True):
                blocks[tier.name] = blocks.get(tier.name, 0) + traffic.hit_blocks
    return {**blocks, "other nodes": outcome.links.blocks}


def oracle_hit_rate(trace: Trace, outcome: Outcome) -> float:
    """Hits of the farthest next use in each node's largest tier, given who read what.

    It does not fetch from other nodes, so a cluster with a fast link may do better.
    """
    hits = blocks = 0
    for instance, order in zip(outcome.instances, outcome.orders, strict=True):
        if instance.cache is None or not order:
            continue
        capacity = max(instance.cache.capacities)
        own = Trace(tuple(order), trace.tokens_per_block)
        if capacity >= NO_LIMIT:
            hits += unlimited_hits(order)
        else:
            hits += int(replay(own, make_policy("oracle", capacity, own)).hits_R.sum())
        blocks += own.blocks
    return hits / blocks


def _tokens(trace: Trace, outcome: Outcome) -> dict[str, Any]:
    prompts = sum(request.prompt_tokens for request in trace.requests)
    replies = sum(request.reply_tokens for request in trace.requests)
    cached = sum(job.cached_tokens for job in outcome.jobs)
    done = max(job.done_s for job in outcome.jobs)
    read_s = sum(instance.read_s for instance in outcome.instances)
    flops = sum(instance.flops for instance in outcome.instances)
    peak = outcome.instances[0].device.peak_flops
    return {
        "prompt_tokens": prompts,
        "prompt_tokens_cached": cached,
        "prompt_tokens_computed": prompts - cached,
        "reply_tokens": replies,
        "seconds": done,
        "requests_per_s": len(outcome.jobs) / done,
        "prompt_tokens_per_s": prompts / done,
        "reply_tokens_per_s": replies / done,
        "prefill_mfu": flops / (read_s * peak) if read_s else math.nan,
        "prefill_share_of_time": read_s
        / (done * sum(i.cache is not None for i in outcome.instances)),
        "mean_batch": sum(instance.batch_s for instance in outcome.instances)
        / (done * len(outcome.instances)),
    }


def first_token_times(outcome: Outcome) -> NDArray[np.float64]:
    """(R,) seconds from arrival to the first token."""
    return np.array([job.first_token_s - job.arrival_s for job in outcome.jobs])


def token_gaps(outcome: Outcome) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(N,) seconds between two tokens, and (N,) how many tokens came so."""
    pairs = [pair for instance in outcome.instances for pair in instance.token_gaps]
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _times(outcome: Outcome, objectives: Objectives) -> dict[str, Any]:
    first_R = first_token_times(outcome)
    gaps_N, tokens_N = token_gaps(outcome)
    first_s, between_s = objectives.first_token_s, objectives.between_tokens_s
    in_time = gaps_N <= (math.inf if between_s is None else between_s)
    held = float(tokens_N[in_time].sum() / tokens_N.sum()) if len(tokens_N) else 1.0
    return {
        "ttft_s": {
            "p50": float(np.quantile(first_R, 0.5)),
            "p99": float(np.quantile(first_R, 0.99)),
        },
        "tbt_s": {
            "p50": weighted_quantile(gaps_N, tokens_N, 0.5),
            "p99": weighted_quantile(gaps_N, tokens_N, 0.99),
        },
        "ttft_held": float((first_R <= (math.inf if first_s is None else first_s)).mean()),
        "tbt_held": held,
    }


def _bytes(cluster: Cluster, outcome: Outcome) -> dict[str, Any]:
    tiers: dict[str, dict[str, float]] = {
        tier.name: {"read": 0.0, "written": 0.0} for tier in cluster.tiers
    }
    for instance in outcome.instances:
        if instance.cache is not None:
            for tier, traffic in zip(instance.cache.tiers, instance.cache.traffic, strict=True):
                tiers[tier.name]["read"] += traffic.read
                tiers[tier.name]["written"] += traffic.written
    links = outcome.links
    return {
        **tiers,
        "link": {
            "cached": links.cached,
            "handed_over": links.handed_over,
            "transfers": links.transfers,
        },
    }
