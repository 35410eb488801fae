"""Matches per second into a league store, by size of batch, leased from it, and back out as rating input.

    python -m benchmarks.league.store_rate [--matches 40000] [--json FILE]

One match is a row, two rows of seats, the counts of its pair, and the checks that keep history as it
is. Specs and results are made before the clock starts. Both the seconds of the process's CPU and those
of the clock are counted; only on a quiet machine is the second of use.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec

AGENTS = 100
BATCHES = (1000, 100, 10, 1)
LEASED, LEASE_BATCH = 8000, 8


def matches(count: int) -> list[tuple[MatchSpec, MatchResult]]:
    """Mirrored pairs between random agents."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        if number % 2 == 0:
            one = int(rng.integers(AGENTS))
            a, b = f"a{one}", f"a{(one + int(rng.integers(1, AGENTS))) % AGENTS}"
        seats = (a, b) if number % 2 else (b, a)
        spec = MatchSpec(
            env_id="duel-v0", seed=number // 2, split="eval", seats=seats, schedule="bench",
            number=number, cluster=f"eval/{number // 2}",
        )  # fmt: skip
        outcome = float(rng.integers(-1, 2))
        result = MatchResult(
            match_id=spec.match_id, outcomes=(outcome, -outcome), rewards=(outcome, -outcome),
            termination="ok", turns=9, tokens=(40, 36), trajectory_sha256=spec.match_id * 2,
        )  # fmt: skip
        made.append((spec, result))
    return made


def measure(rows: list[tuple[MatchSpec, MatchResult]], batch: int) -> dict[str, float]:
    """Write all rows in batches; then read them as pairs."""
    with tempfile.TemporaryDirectory() as folder, LeagueStore(f"{folder}/league.db") as store:
        for k in range(AGENTS):
            store.add_agent(AgentVersion(agent_id=f"a{k}", lineage=f"a{k}", role="frozen"))
        cpu, wall = time.process_time(), time.monotonic()
        for start in range(0, len(rows), batch):
            store.report_many(rows[start : start + batch])
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        read = time.process_time()
        assert store.pairs("duel-v0").a_M.size == len(rows)
        read = time.process_time() - read
    return {
        "per_cpu_s": len(rows) / cpu,
        "per_s": len(rows) / wall,
        "read_pairs_per_cpu_s": len(rows) / read,
    }


def measure_leases(rows: list[tuple[MatchSpec, MatchResult]], batch: int) -> dict[str, float]:
    """Matches per second that are leased, in batches."""
    with tempfile.TemporaryDirectory() as folder, LeagueStore(f"{folder}/league.db") as store:
        cpu, wall = time.process_time(), time.monotonic()
        for start in range(0, len(rows), batch):
            store.lease([spec for spec, _ in rows[start : start + batch]], "worker", 60.0)
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    return {"batch": batch, "per_cpu_s": len(rows) / cpu, "per_s": len(rows) / wall}


def main() -> None:
    """Print one row per batch size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--matches", type=int, default=40_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = matches(options.matches)
    found: dict[str, Any] = {}
    print(f"{'batch':>6} {'matches/CPU s':>14} {'matches/s':>10} {'read/CPU s':>11}")
    for batch in BATCHES:
        part = rows[: min(len(rows), 1000 * batch)]
        row = found[str(batch)] = measure(part, batch)
        print(
            f"{batch:6} {row['per_cpu_s']:14,.0f} {row['per_s']:10,.0f} "
            f"{row['read_pairs_per_cpu_s']:11,.0f}",
            flush=True,
        )
    leases = found["lease"] = measure_leases(rows[:LEASED], LEASE_BATCH)
    print(
        f"leased in batches of {LEASE_BATCH}: {leases['per_cpu_s']:,.0f} a CPU s, {leases['per_s']:,.0f} a s"
    )
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
