"""What the placement rule keeps of all possible hits, and how long first tokens take, on loads of matches.

    python -m benchmarks.caching.placements [--nodes 4] [--patience 0 1.25 16] [--json FILE]

Every load is group rollouts: prompts begin with the game's rules, go on with what the start state shows a
seat, and grow by each turn. Half the loads follow Hanabi: long rules, many turns, two or five seats. Each is
replayed by `srl_agents.caching.simulation.cluster.simulate`, whose placement is the conductor's. ``small
cache`` has room for half of the blocks; the share is then of what one cache of the same size keeps.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.caching.simulation import hardware
from srl_agents.caching.simulation.cluster import Cluster, simulate
from srl_agents.caching.simulation.hardware import Tier
from srl_agents.caching.simulation.summary import first_token_times, report
from srl_agents.caching.simulation.traces import Request, Trace

BLOCK = 16
"""Tokens."""
HANABI = {"states": 8, "attempts": 8, "turns": 24, "rules": 40, "start": 10, "step": 3}
LOADS: dict[str, dict[str, int]] = {
    "hanabi": HANABI,
    "hanabi, five seats": HANABI | {"turns": 40, "seats": 5},
    "long rules": {"states": 8, "attempts": 8, "turns": 24, "rules": 120, "start": 4, "step": 1},
    "long turns": {"states": 8, "attempts": 8, "turns": 16, "rules": 40, "start": 10, "step": 12},
    "few matches": HANABI | {"states": 2, "attempts": 4},
}  # fmt: skip


def matches(
    *, states: int, attempts: int, turns: int, rules: int, start: int, step: int, seats: int = 2,
    turn_s: float = 0.2, seed: int = 0,
) -> Trace:  # fmt: skip
    """Requests of group rollouts; numbers are matches, turns, and blocks of each part of a prompt."""
    random = np.random.default_rng(seed)
    names: dict[tuple[Any, ...], int] = {}
    requests = []
    for state in range(states):
        for attempt in range(attempts):
            now_s = random.random()
            for turn in range(turns):
                seat = turn % seats
                prompt: list[tuple[Any, ...]] = [("rules", i) for i in range(rules)]
                prompt += [("start", state, seat, i) for i in range(start)]
                grown = step * (turn // seats)
                prompt += [("match", state, attempt, seat, i) for i in range(grown)]
                blocks = tuple(names.setdefault(key, len(names)) for key in prompt)
                requests.append(Request(now_s, len(blocks) * BLOCK, 8, blocks))
                now_s += turn_s * (0.5 + random.random())
    return Trace(tuple(sorted(requests, key=lambda request: request.arrival_s)), BLOCK)


def cluster(trace: Trace, nodes: int, patience: float, share: float | None) -> Cluster:
    """Nodes that together keep a share of the trace's blocks; all of them without one."""
    shape = hardware.model_shape("7b")
    size = np.inf
    if share is not None:
        distinct = len({key for request in trace.requests for key in request.blocks})
        size = share * distinct * BLOCK * shape.kv_bytes_per_token / nodes
    return Cluster(
        shape=shape,
        device=hardware.device("h100", 0.5),
        tiers=(Tier("cache", float(size), np.inf),),
        nodes=nodes,
        patience=patience,
    )


def row(trace: Trace, where: Cluster) -> dict[str, Any]:
    """Numbers of one replay."""
    outcome = simulate(trace, where)
    numbers = report(trace, where, outcome)
    possible = numbers["hit_rate_possible"]
    if not np.isinf(where.tiers[0].size_bytes):
        whole = replace(where.tiers[0], size_bytes=where.tiers[0].size_bytes * where.nodes)
        one = replace(where, nodes=1, tiers=(whole,))
        possible = report(trace, one, simulate(trace, one))["hit_rate"]
    times = first_token_times(outcome)
    busiest = max(len(order) for order in outcome.orders) / len(trace.requests)
    return {
        "of_possible": round(numbers["hit_rate"] / possible, 4),
        "first_token_p50_ms": round(float(np.quantile(times, 0.5)) * 1e3, 1),
        "first_token_p99_ms": round(float(np.quantile(times, 0.99)) * 1e3, 1),
        "busiest_node": round(busiest, 3),
    }


def main() -> None:
    """Print a row per load and patience."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--patience", type=float, nargs="+", default=[0, 1.25, 16])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for name, numbers in LOADS.items():
        trace = matches(**numbers)
        for share in (None, 0.5) if name == "hanabi" else (None,):
            for patience in options.patience:
                load = name if share is None else f"{name}, small cache"
                where = cluster(trace, options.nodes, patience, share)
                rows.append({"load": load, "patience": patience, **row(trace, where)})
                print(json.dumps(rows[-1]), flush=True)
    if options.json is not None:
        command = "python -m benchmarks.caching.placements"
        options.json.write_text(json.dumps({"command": command, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
