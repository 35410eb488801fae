"""One recipe at five levels of placement: peak memory, seconds per update, tokens a second, idle share.

    python -m benchmarks.speed.placements run [--levels NAME ...] [--threads 1 2] [--updates 3] [--json FILE]
    python -m benchmarks.speed.placements report [--json FILE]

The levels differ only in ``placement``, ``memory.budget_gib`` and ``asynchronous``. Each trains two adapters
on SmolLM2-135M in bfloat16 at connect four on four by four fields. The first update of a run warms up and
does not count. Memory is that of all processes of the run; pages that they share count once, sampled every
0.2 s. The idle share is that of two cores, other programs' work not counted, so it means something only on a
quiet machine. A cell that is done is in the file, and is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from benchmarks.learning.child_process import commit
from srl_agents.metrics import ConsoleView, Record
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.loop.run import LeagueTraining
from srl_envs.reading.settings import build

RESULTS = Path("benchmarks/results/placements.json")
AHEAD = {"ahead": 1, "max_staleness": 1}
LEVELS: dict[str, dict[str, Any]] = {
    "naive colocated": {"placement": "colocated"},
    "phase-swapped colocated": {"placement": "colocated", "memory": {"budget_gib": 64.0}},
    "disaggregated": {"placement": "disaggregated"},
    "hybrid": {"placement": "hybrid"},
    "asynchronous hybrid": {"placement": "hybrid", "asynchronous": AHEAD},
}
"""Name -> lines of its recipe. The budget makes every role leave in turn, and refuses no role."""
CORES = 2
"""That the idle share is one of."""
SAMPLE_S = 0.2


def recipe_of(level: str, updates: int) -> LeagueRecipe:
    """The recipe of one level."""
    plain: dict[str, Any] = {
        "name": "placements",
        "model": "smollm2-135m",
        "dtype": "bfloat16",
        "device": "cpu",
        "env": "connect_four-v0",
        "env_options": {"rows": 4, "cols": 4, "k": 3},
        "learners": 2,
        "updates": updates,
        "lora": {"rank": 16, "alpha": 32},
        "rollout": {"start_states": 1, "group_size": 3, "max_new_tokens": 12, "batch_rows": 32},
        # lengths differ, so no group is flat and every update trains
        "rewards": {"terms": {"cost": {"kind": "token_cost", "weight": 0.5}}},
        "opponents": {"mirror": 0, "live": 1, "past": 0},
        "training": {"micro_batch_rows": 4},
        "evaluation": {"every": 0},
        "snapshot_every": 100,
        "checkpoint_every": 100,
    }
    return build(LeagueRecipe, plain | LEVELS[level], "placements")


class Marks(ConsoleView):
    """Prints when each update ended, the tokens that were written for it, and what it spent its time on."""

    def write(self, record: Record) -> None:
        """See `Sink`."""
        written = record.run["tokens_per_s"] * record.run["generate_s"]
        spent = {key: record.run[key] for key in ("generate_s", "train_s")}
        line = {"update": record.update, "at_s": time.monotonic(), "tokens": written} | spent
        print(json.dumps(line), flush=True)


def cell(level: str, updates: int) -> None:
    """Take the updates in this process, and say when each ended."""
    recipe = recipe_of(level, updates)
    with tempfile.TemporaryDirectory() as folder:
        view = Marks("placements", updates, Console(quiet=True))
        training = LeagueTraining(recipe, Path(folder) / "run", view)
        try:
            while training.done < updates:
                training.take_update()
        finally:
            training.close()


def measure(level: str, threads: int, updates: int) -> dict[str, Any]:
    """One cell in a process of its own, watched from here.

    Raises:
        SystemExit: it failed; with what it said last.
    """
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.speed.placements", "cell"]
    command += ["--levels", level, "--updates", str(updates)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "SRL_TORCH_THREADS": str(threads)}
    samples: list[tuple[float, float, float]] = []
    cpu_s: dict[int, float] = {}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        program = psutil.Popen(command, stdout=out, stderr=err, env=environment)
        while program.poll() is None:
            held = sample(program, cpu_s)
            samples.append((time.monotonic(), sum(cpu_s.values()), held))
            time.sleep(SAMPLE_S)
        out.seek(0)
        err.seek(0)
        if program.returncode:
            raise SystemExit(f"{level} failed:\n{err.read()[-2000:]}")
        marks = [json.loads(line) for line in out if line.startswith("{")]
    began, ended = marks[0]["at_s"], marks[-1]["at_s"]
    within = [s for s in samples if began <= s[0] <= ended]
    wall = within[-1][0] - within[0][0]
    busy = within[-1][1] - within[0][1]
    counted = marks[1:]
    return {
        "update_s": round((ended - began) / len(counted), 2),
        "generate_s": round(sum(m["generate_s"] for m in counted) / len(counted), 2),
        "train_s": round(sum(m["train_s"] for m in counted) / len(counted), 2),
        "tokens_per_s": round(sum(m["tokens"] for m in counted) / (ended - began), 2),
        "peak_gib": round(max(s[2] for s in within) / 2**30, 2),
        "loading_peak_gib": round(max(s[2] for s in samples) / 2**30, 2),
        "idle_share": round(1 - busy / (CORES * wall), 3),
    }


def sample(program: psutil.Popen, cpu_s: dict[int, float]) -> float:
    """Bytes that the run's processes hold, shared pages once; adds to their CPU seconds."""
    held = 0
    try:
        for member in (program, *program.children(recursive=True)):
            held += member.memory_full_info().pss
            times = member.cpu_times()
            cpu_s[member.pid] = times.user + times.system
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        pass  # one of them just ended
    return float(held)


def run(options: argparse.Namespace) -> None:
    """Run what is missing."""
    path: Path = options.json
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []
    for threads in options.threads:
        for level in options.levels:
            key = {"level": level, "threads": threads, "updates": options.updates}
            if any(key.items() <= row.items() for row in rows):
                continue
            load = psutil.getloadavg()[0]
            rows.append(key | measure(level, threads, options.updates))
            rows[-1] |= {"load_before": round(load, 1), "commit": commit()}
            path.write_text(json.dumps(rows, indent=1) + "\n")
            print(json.dumps(rows[-1]), flush=True)


def report(path: Path) -> None:
    """A table, one line per cell."""
    print(
        "| level | threads | peak GiB | s per update | playing | learning | tokens/s | idle | load |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for row in json.loads(path.read_text()):
        seconds = " | ".join(f"{row[key]:.1f}" for key in ("update_s", "generate_s", "train_s"))
        print(
            f"| {row['level']} | {row['threads']} | {row['peak_gib']:.2f} | {seconds} | "
            f"{row['tokens_per_s']:.1f} | {row['idle_share']:.0%} | {row['load_before']:.1f} |"
        )


def main() -> None:
    """Run or report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "report", "cell"))
    parser.add_argument("--levels", nargs="+", default=list(LEVELS), choices=LEVELS)
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="of torch, per process")
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.updates < 2:
        parser.error("give at least 2 updates: the first warms up.")
    if options.what == "cell":
        cell(options.levels[0], options.updates)
    elif options.what == "run":
        run(options)
    else:
        report(options.json)


if __name__ == "__main__":
    main()
