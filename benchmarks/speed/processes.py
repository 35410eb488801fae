"""One training run in one process and in several, under torchrun: seconds per update and memory.

    python -m benchmarks.speed.processes [--processes 1 2] [--learners 2] [--updates 8] [--rounds 2]
                                         [--json FILE]

Every contestant is the same `srl train` of the quickstart without its evaluation, each process with one
torch thread; rounds alternate. Where learners do not come out even, such as one in two processes, each
process computes a share of their rows. An update's seconds are those of play and training in the run's own
metrics, waiting for the others included; the first update of a run warms up and does not count. The
ratio means something only where as many cores are free as there are processes: see the column of cores
that a contestant got.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil

from srl_agents.metrics.sinks import read_lines

SETTINGS = (
    "evaluation.every=0",
    "evaluation.final_pairs=1",
    "evaluation.bots=[random]",
    "snapshot_every=100",
    "checkpoint_every=100",
)
LEARNERS = ("alice", "bob", "carol", "dave")
POLL_S = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Of one contestant's updates; medians over all its rounds."""

    play_s: float
    """Seconds of an update spent playing."""
    train_s: float
    """Seconds of an update spent on gradients and steps."""
    cores: float
    """CPU seconds per wall second of the whole program, start and end included."""
    peak_mib: float
    """Most memory of all processes together; pages that they share count once."""


def run_once(
    processes: int, learners: int, updates: int, folder: Path
) -> tuple[list[dict[str, float]], float, float]:
    """Train once.

    Returns:
        The run's metrics of each update after the first, cores, peak MiB.

    Raises:
        SystemExit: the run failed; with what it said last.
    """
    spread = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(spread if processes > 1 else []), "-m", "srl_agents.cli.main"]
    command += ["train", "quickstart-tiny", "--out", str(folder)]
    names = ", ".join(LEARNERS[:learners])
    for setting in (*SETTINGS, f"updates={updates}", f"learners=[{names}]"):
        command += ["--set", setting]
    log, peak = folder.with_suffix(".log"), 0.0
    before, started = os.times(), time.perf_counter()
    with log.open("w") as stream:
        program = subprocess.Popen(
            command, stdout=stream, stderr=stream, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
        while program.poll() is None:
            peak = max(peak, memory_mib(program.pid))
            time.sleep(POLL_S)
    wall, after = time.perf_counter() - started, os.times()
    if program.returncode:
        raise SystemExit(f"the run in {processes} processes failed:\n{log.read_text()[-2000:]}")
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return [line["run"] for line in read_lines(folder / "metrics.jsonl")[1:]], cpu / wall, peak


def memory_mib(pid: int) -> float:
    """Proportional memory of a process and its descendants."""
    total = 0
    try:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            total += process.memory_full_info().pss
    except psutil.NoSuchProcess:
        pass  # one of them just ended
    return total / 2**20


def main() -> None:
    """Print a table; ratios are to one process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--learners", type=int, default=2, choices=range(1, len(LEARNERS) + 1))
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    options = parser.parse_args()
    if min(options.processes) < 1 or options.updates < 2 or options.rounds < 1:
        parser.error("give at least 1 process, 2 updates and 1 round")
    seen: dict[int, list[dict[str, float]]] = {n: [] for n in options.processes}
    cores: dict[int, list[float]] = {n: [] for n in options.processes}
    peaks: dict[int, list[float]] = {n: [] for n in options.processes}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(options.rounds):
            for count in options.processes:
                folder = Path(scratch) / f"{count}-{number}"
                updates, got, peak = run_once(count, options.learners, options.updates, folder)
                seen[count] += updates
                cores[count].append(got)
                peaks[count].append(peak)
    costs = {
        count: Cost(
            play_s=float(np.median([u["generate_s"] for u in updates])),
            train_s=float(np.median([u["train_s"] for u in updates])),
            cores=float(np.median(cores[count])),
            peak_mib=float(np.max(peaks[count])),
        )
        for count, updates in seen.items()
    }
    one = costs[options.processes[0]]
    print("processes  play s  train s  update s  of the first  cores  peak MiB  of the first")
    for count, cost in costs.items():
        whole, first = cost.play_s + cost.train_s, one.play_s + one.train_s
        print(
            f"{count:9d} {cost.play_s:7.2f} {cost.train_s:8.2f} {whole:9.2f} {whole / first:13.2f} "
            f"{cost.cores:6.2f} {cost.peak_mib:9,.0f} {cost.peak_mib / one.peak_mib:13.2f}"
        )
    if options.json:
        record = {
            "learners": options.learners,
            "updates": options.updates - 1,
            "rounds": options.rounds,
            "python": platform.python_version(),
            "machine": platform.processor() or platform.machine(),
            "processes": {str(count): asdict(cost) for count, cost in costs.items()},
        }
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
