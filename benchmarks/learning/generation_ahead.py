"""Generation beside training against generation between updates: the quickstart at equal matches.

    python -m benchmarks.learning.generation_ahead run [--updates 10] [--start-states 6] [--json FILE]
    python -m benchmarks.learning.generation_ahead report [--json FILE]

Contestants are `srl train` of the quickstart and of its asynchronous sibling, which differ in where the
matches are played and in the importance weights that rows of an older version need. Per seed one follows
the other, first one, then the other first. Seconds are those of the runs' own metrics: waiting for matches,
training and publishing of an update; the first update of a run waits for a process to load and does not
count. Points are those of the look after the last update. A finished run adds its row to the file at once,
and rows that are there are not run again.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.learning.child_process import commit
from srl_agents.credit.batches import PER_AGE
from srl_agents.metrics.sinks import METRICS, read_lines

RESULTS = Path("benchmarks/results/generation_ahead.json")
CONTESTANTS = {
    "synchronous": ("quickstart-tiny", ()),
    "asynchronous": ("quickstart-async-tiny", ()),
    "asynchronous, free, switch": (
        "quickstart-async-tiny",
        ("rollout.order=free", "asynchronous.in_flight=switch"),
    ),
}
"""Name -> shipped recipe and settings over it."""
SECONDS = ("generate_s", "wait_s", "train_s", "publish_s", "overlap_s", "generation_idle_s")
Row = dict[str, Any]


def train(key: Row, folder: Path) -> tuple[float, float]:
    """One run; returns its wall seconds and CPU seconds, start and end included."""
    recipe, settings = CONTESTANTS[key["contestant"]]
    updates, seed = key["updates"], key["seed"]
    length = (
        f"updates={updates}",
        f"rollout.start_states={key['start_states']}",
        f"evaluation.every={updates}",
        "evaluation.final_pairs=1",
        f"checkpoint_every={updates}",
    )
    arguments = [part for setting in (*length, *settings) for part in ("--set", setting)]
    started = time.monotonic()
    command = [sys.executable, "-m", "srl_agents.cli.main", "train", recipe, "--seed", str(seed)]
    process = psutil.Popen([*command, "--out", str(folder), *arguments], stdout=subprocess.DEVNULL)
    cpu_s: dict[int, float] = {}
    while process.poll() is None:
        try:
            for member in (process, *process.children(recursive=True)):
                times = member.cpu_times()
                cpu_s[member.pid] = times.user + times.system
        except psutil.NoSuchProcess:
            pass
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(f"{key} ended with exit code {process.returncode}")
    return time.monotonic() - started, sum(cpu_s.values())


def measure(folder: Path) -> Row:
    """What the metrics of a run say, its first update left out of seconds."""
    records = read_lines(folder / METRICS)
    counted = [record["run"] for record in records[1:]]
    seconds = {
        name: round(float(np.mean([run[name] for run in counted])), 3)
        for name in SECONDS
        if name in counted[0]
    }
    ages: Counter[str] = Counter()
    dropped = 0.0
    for record in records:
        for values in record["learners"].values():
            dropped += values.get("rows_too_old", 0.0)
            for name, count in values.items():
                if name.startswith(PER_AGE):
                    ages[name.removeprefix(PER_AGE)] += int(count)
    last = records[-1]["learners"].values()
    points = {
        name: round(float(np.mean([values[name] for values in last])), 4)
        for name in next(iter(last))
        if name.startswith("score_")
    }
    waited = "wait_s" if "wait_s" in seconds else "generate_s"
    return {
        "update_s": round(seconds[waited] + seconds["train_s"] + seconds["publish_s"], 3),
        "seconds": seconds,
        "rows_by_age": dict(ages),
        "rows_dropped": dropped,
        "points": points,
        "points_mean": round(float(np.mean(list(points.values()))), 4),
    }


def run(plan: Row, contestants: list[str], seeds: list[int], path: Path) -> None:
    """Run what is missing."""
    rows: list[Row] = json.loads(path.read_text()) if path.is_file() else []
    for seed in seeds:
        for name in contestants if seed % 2 == 0 else reversed(contestants):
            key = {"contestant": name, "seed": seed, **plan}
            if any(key.items() <= row.items() for row in rows):
                continue
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / "run"
                wall_s, cpu_s = train(key, folder)
                cost = {"wall_s": round(wall_s, 1), "cores": round(cpu_s / wall_s, 2)}
                rows.append(
                    {**key, **measure(folder), **cost, "load": psutil.getloadavg()[0]}
                    | {
                        "commit": commit(),
                        "machine": f"{psutil.cpu_count()} cores, {platform.machine()}",
                    }
                )
            path.write_text(json.dumps(rows, indent=1) + "\n")
            print(f"{name}, seed {seed}: {rows[-1]['update_s']} s per update", flush=True)


def report(path: Path) -> None:
    """A table of means over seeds, and ratios seed by seed."""
    rows: list[Row] = json.loads(path.read_text())
    print("| | s per update | of it waiting | both worked | rows by age | points | cores |")
    print("|---|--:|--:|--:|---|--:|--:|")
    for name in CONTESTANTS:
        own = [row for row in rows if row["contestant"] == name]
        if not own:
            continue
        ages: Counter[str] = Counter()
        for row in own:
            ages.update(row["rows_by_age"])
        wait = [row["seconds"].get("wait_s", row["seconds"]["generate_s"]) for row in own]
        overlap = [row["seconds"].get("overlap_s", 0.0) for row in own]
        by_age = ", ".join(f"{age}: {count}" for age, count in sorted(ages.items())) or "0"
        cells = [
            _mean(own, "update_s", 2),
            f"{np.mean(wait):.2f}",
            f"{np.mean(overlap):.2f}",
            by_age,
        ]
        print(
            f"| {name} | {' | '.join(cells)} | {_mean(own, 'points_mean', 3)} | {_mean(own, 'cores', 2)} |"
        )
    for name in list(CONTESTANTS)[1:]:
        ratios = [
            row["update_s"] / before["update_s"]
            for row in rows
            for before in rows
            if row["contestant"] == name
            and before["contestant"] == "synchronous"
            and (row["seed"], row["updates"]) == (before["seed"], before["updates"])
        ]
        if ratios:
            print(
                f"\n{name}: {', '.join(f'{ratio:.2f}' for ratio in ratios)} of the synchronous time"
            )


def _mean(rows: list[Row], key: str, digits: int) -> str:
    return f"{np.mean([row[key] for row in rows]):.{digits}f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--start-states", type=int, default=6)
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=[*CONTESTANTS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.what == "run":
        plan = {"updates": options.updates, "start_states": options.start_states}
        run(plan, options.contestants, options.seeds, options.json)
    report(options.json)
