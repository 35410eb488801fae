"""Hit rates of every eviction policy on request traces, beside LRU, the oracle and a direct count.

    python -m benchmarks.caching.policies TRACE... [--json FILE]

Per trace and capacity, every policy. At 3e6 tokens also the learned policy when it receives the
reply's length never or only after it is written, when it receives sessions or their ends, and on each half
of the trace.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from srl_agents.caching.simulation.replay import POLICIES, Known, Replies, make_policy, replay
from srl_agents.caching.simulation.traces import Trace, read_trace, unlimited_hits, with_sessions

CAPACITIES = (100_000, 1_000_000, 3_000_000, 10_000_000)
"""Tokens."""
MIDDLE = 3_000_000


def rate(
    trace: Trace,
    policy: str,
    tokens: int,
    known: Known = "nothing",
    replies: Replies = "at once",
) -> float:
    """Block hit rate of one replay."""
    made = make_policy(policy, tokens // trace.tokens_per_block, trace)
    return replay(trace, made, known=known, replies=replies).hit_rate


def closed(trace: Trace, found: float, tokens: int = MIDDLE) -> float:
    """Share of the gap between LRU and the oracle."""
    lru, oracle = rate(trace, "lru", tokens), rate(trace, "oracle", tokens)
    return (found - lru) / (oracle - lru)


def of_trace(path: Path) -> dict[str, Any]:
    """All rows of one trace."""
    trace = read_trace(path)
    started = time.process_time()
    table: dict[str, dict[str, float]] = {}
    for policy in POLICIES:
        table[policy] = {f"{tokens:.0e}": rate(trace, policy, tokens) for tokens in CAPACITIES}
        print(policy, *(f"{value:.3f}" for value in table[policy].values()), flush=True)
    named = with_sessions(trace)
    half = len(trace.requests) // 2
    halves = (trace.part(0, half), trace.part(half, len(trace.requests)))
    rates = {
        "nothing, reply length never": rate(trace, "learned", MIDDLE, replies="never"),
        "nothing, reply length when written": rate(trace, "learned", MIDDLE, replies="written"),
        "nothing": table["learned"][f"{MIDDLE:.0e}"],
        "sessions": rate(named, "learned", MIDDLE, "sessions"),
        "ends": rate(named, "learned", MIDDLE, "ends"),
        "ends, reply length when written": rate(named, "learned", MIDDLE, "ends", "written"),
    }
    row = {
        "requests": len(trace.requests),
        "blocks": trace.blocks,
        "unlimited": unlimited_hits(trace.requests) / trace.blocks,
        "unlimited_by_replay": rate(trace, "lru", trace.blocks * trace.tokens_per_block),
        "hit_rates": table,
        "learned_at_3e6_when_told": rates,
        "gap_closed_at_3e6": {name: closed(trace, value) for name, value in rates.items()},
        "halves_at_3e6": [
            {policy: rate(part, policy, MIDDLE) for policy in ("lru", "learned", "oracle")}
            for part in halves
        ],
        "cpu_seconds": time.process_time() - started,
    }
    print(json.dumps({key: row[key] for key in row if key != "hit_rates"}, indent=1), flush=True)
    return row


def main() -> None:
    """Print and save all tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names = " ".join(path.name for path in options.traces)
    found: dict[str, Any] = {
        "command": f"python -m benchmarks.caching.policies {names}",
        "python": sys.version.split()[0],
    }
    for path in options.traces:
        print(path.name, *(f"{tokens:.0e}" for tokens in CAPACITIES), flush=True)
        found[path.name.partition(".")[0]] = of_trace(path)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
