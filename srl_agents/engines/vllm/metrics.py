"""Reads vLLM's counters in Prometheus's text format, and computes its speed from them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from srl_agents.engines.meter import Durations, EngineSpeed

Counters = dict[tuple[str, str], float]
"""(name, upper end of the range or nothing) -> how many, over all labels."""
STORED, REMOVED = "srl_server_kv_stored_total", "srl_server_kv_removed_total"
"""Blocks of the prefix cache, by `vllm.events.prefix_cache`."""
_SAMPLE = re.compile(r"((?:vllm:|srl_server_kv_)\w+)(?:{(?P<labels>[^}]*)})? (?P<value>\S+)")
_RANGE = re.compile(r'le="([^"]+)"')
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_CACHE = "vllm:cache_config_info{"
_FIRST, _BETWEEN = "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds"
_STEPS, _TOKENS = "vllm:iteration_tokens_total", "vllm:generation_tokens_total"


def read_counters(text: str) -> Counters:
    """All counters of vLLM's own and of its events in a page; lines that are none are passed over."""
    counters: Counters = {}
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        if found is None:
            continue
        upper = _RANGE.search(found["labels"] or "")
        key = found[1], upper[1] if upper else ""
        try:
            counters[key] = counters.get(key, 0.0) + float(found["value"])
        except ValueError:
            continue
    return counters


def cache_tokens(text: str) -> int | None:
    """Tokens that vLLM's cache has room for, by its page; None where that does not say."""
    for line in text.splitlines():
        if line.startswith(_CACHE):
            labels = dict(_LABEL.findall(line))
            try:
                return int(labels["num_gpu_blocks"]) * int(labels["block_size"])
            except (KeyError, ValueError):
                return None
    return None


def speed_between(before: Counters, after: Counters) -> EngineSpeed:
    """What was done from one page to a later one; a server that was started again counts from 0."""
    steps = (f"{_STEPS}_count", "")
    stored, removed = (
        round(after.get((name, ""), 0.0) - before.get((name, ""), 0.0))
        for name in (STORED, REMOVED)
    )
    if after.get(steps, 0.0) < before.get(steps, 0.0):
        before = {}
    passed = {key: value - before.get(key, 0.0) for key, value in after.items()}
    return EngineSpeed(
        first_token=_durations(passed, _FIRST),
        between_tokens=_durations(passed, _BETWEEN),
        steps=round(passed.get(steps, 0.0)),
        rows=round(passed.get((_TOKENS, ""), 0.0)),
        blocks_stored=stored,
        blocks_removed=removed,
    )


def _durations(passed: Counters, name: str) -> Durations:
    """Durations from vLLM's buckets, each of which counts everything up to its upper end."""
    found = Durations()
    ends = sorted(
        (float(upper), count) for (own, upper), count in passed.items() if own == f"{name}_bucket"
    )
    starts: Iterable[tuple[float, float]] = [(0.0, 0.0), *ends]
    for (low, below), (high, upto) in itertools.pairwise(starts):
        found.add_range(low, high, round(upto - below))
    return found
