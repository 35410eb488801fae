"""What eviction, routing and a node's death do to throughput and to the time to the first token.

    python -m benchmarks.caching.clusters CONVERSATION_TRACE SYNTHETIC_TRACE [--json FILE]

Policies: four H100 nodes with a 7B model, each with a host tier of 3e6 tokens: at the recorded pace, and
with everything arriving at once, which gives the throughput. Routing: 64 nodes at sixteen times the
recorded pace, with and without RDMA between them; one of them dies half way.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from srl_agents.caching.simulation.cluster import Cluster, simulate
from srl_agents.caching.simulation.hardware import LINKS, SHAPES, Tier, device
from srl_agents.caching.simulation.replay import Known
from srl_agents.caching.simulation.summary import report
from srl_agents.caching.simulation.traces import Trace, read_trace, with_sessions

SHAPE = SHAPES["7b"]
HOST = (Tier("host", 3_000_000 * SHAPE.kv_bytes_per_token, 50e9),)
FOUR = Cluster(shape=SHAPE, device=device("h100"), tiers=HOST, nodes=4)
MANY = replace(
    FOUR, nodes=64, tiers=(Tier("device", 30e9, math.inf), Tier("host", 200e9, 50e9)),
    policy="learned", speed=16.0,
)  # fmt: skip
AT_ONCE = 1e6
"""Speed at which all requests wait from the start."""


def row(trace: Trace, cluster: Cluster) -> dict[str, Any]:
    """The numbers of one cell."""
    started = time.process_time()
    numbers = report(trace, cluster, simulate(trace, cluster))
    wanted = (
        "hit_rate", "hit_rate_by_source", "hit_rate_oracle", "hit_rate_possible", "ttft_s", "tbt_s",
        "ttft_held", "prompt_tokens_computed", "requests_per_s", "bytes", "restarted",
    )  # fmt: skip
    return {
        **{name: numbers[name] for name in wanted},
        "cpu_seconds": time.process_time() - started,
    }


def policies(trace: Trace) -> Iterable[tuple[str, Cluster]]:
    """Eviction at the recorded pace and at once."""
    del trace
    cases: tuple[tuple[str, Known], ...] = (
        ("lru", "nothing"),
        ("learned", "nothing"),
        ("learned", "ends"),
    )
    for policy, known in cases:
        for pace, speed in (("recorded pace", 1.0), ("at once", AT_ONCE)):
            label = policy if known == "nothing" else f"{policy}, cases ends"
            yield f"{label}, {pace}", replace(FOUR, policy=policy, known=known, speed=speed)


def routings(trace: Trace) -> Iterable[tuple[str, Cluster]]:
    """Placement on 64 nodes, and the death of one."""
    middle_s = trace.seconds / MANY.speed / 2
    for link in (None, LINKS["rdma"]):
        for routing in ("affinity", "least-loaded", "round-robin"):
            joined = f"{routing}, {link.name if link else 'no link'}"
            yield joined, replace(MANY, routing=routing, link=link)
    for patience in (0.0, 1.0, 4.0):
        yield f"affinity, no link, patience {patience:g}", replace(MANY, patience=patience)
    dies = replace(MANY, failures=((5, middle_s),))
    yield "affinity, no link, node 5 dies", dies
    yield "affinity, rdma, node 5 dies", replace(dies, link=LINKS["rdma"])
    yield "affinity, rdma, 40 of 64 only read", replace(MANY, prefill_nodes=40, link=LINKS["rdma"])


def main() -> None:
    """Print and save one row per cell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("conversation", type=Path)
    parser.add_argument("synthetic", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names = f"{options.conversation.name} {options.synthetic.name}"
    found: dict[str, Any] = {"command": f"python -m benchmarks.caching.clusters {names}"}
    conversation = with_sessions(read_trace(options.conversation))
    synthetic = with_sessions(read_trace(options.synthetic))
    for title, trace, cells in (
        ("policies, conversation", conversation, policies(conversation)),
        ("policies, synthetic", synthetic, policies(synthetic)),
        ("64 nodes, conversation", conversation, routings(conversation)),
    ):
        print(title, flush=True)
        found[title] = {}
        for label, cluster in cells:
            numbers = found[title][label] = row(trace, cluster)
            print(
                f"  {label:40} hits {numbers['hit_rate']:.3f} of {numbers['hit_rate_possible']:.3f}"
                f"  first token p50 {numbers['ttft_s']['p50']:.2f} p99 {numbers['ttft_s']['p99']:.2f} s"
                f"  {numbers['requests_per_s']:.2f} requests/s  {numbers['cpu_seconds']:.0f} s",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
