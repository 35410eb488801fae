"""A page for Prometheus about a vLLM server: vLLM's own counters, and what SRL counts beside them."""

from __future__ import annotations

import httpx2

from srl_agents.engines.vllm.metrics import read_counters
from srl_agents.engines.vllm.server import VLLMServer

_PATIENCE_S = 5.0
"""Longest wait for vLLM's own page."""


def page_of(server: VLLMServer) -> str:
    """Our own lines, then those of vLLM where it answers, in Prometheus's text format."""
    try:
        found = httpx2.get(f"{server.url}/metrics", timeout=_PATIENCE_S, trust_env=False)
        page = found.text if found.status_code == httpx2.codes.OK else ""
    except httpx2.TransportError:
        page = ""
    counters = read_counters(page)
    asked = counters.get(("vllm:prefix_cache_queries_total", ""), 0.0)
    hits = counters.get(("vllm:prefix_cache_hits_total", ""), 0.0)
    lines = [
        *_sample("srl_server_up", "gauge", "1 while vLLM answers.", float(bool(page))),
        *_sample("srl_server_starts_total", "counter", "Times that vLLM was started.", server.starts),
        *_sample(
            "srl_server_restarts_left", "gauge", "Times that it will be started again if it dies.",
            max(server.settings.restarts + 1 - server.starts, 0),
        ),
    ]  # fmt: skip
    lines += event_lines(server)
    if asked:
        what = "Share of prompt tokens that were in the prefix cache since vLLM's start."
        lines += _sample("srl_server_prefix_hit_share", "gauge", what, hits / asked)
    return "\n".join(lines) + "\n" + page


def event_lines(server: VLLMServer) -> list[str]:
    """Blocks that the server stored and removed; none where they are not counted."""
    if server.events is None:
        return []
    counts = server.events.counts
    counters = (
        ("stored", "Blocks that came into the prefix cache.", counts.stored),
        ("removed", "Blocks that had to make room there.", counts.removed),
        ("cleared", "Times that the prefix cache was emptied.", counts.cleared),
        ("missed", "Batches of events that did not come here.", counts.missed),
    )
    return [
        line
        for name, what, count in counters
        for line in _sample(f"srl_server_kv_{name}_total", "counter", what, count)
    ]


def _sample(name: str, kind: str, what: str, value: float) -> list[str]:
    return [f"# HELP {name} {what}", f"# TYPE {name} {kind}", f"{name} {value:g}"]
