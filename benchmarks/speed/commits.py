"""Processor time of an update at a commit and in this tree, in pairs that run at the same time.

    python -m benchmarks.speed.commits --before 280f2e7b --pairs 3

Each side trains in a process of its own, with the libraries of this one. What is counted is its processor
time from the end of update 1 to that of the update before the last: no loading, no final round robin.
A pair shares the machine's load, so only ratios within pairs are compared. ``--set`` is for both: name what
has another default by now, such as training.share_prefixes=false.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
_CHILD = """
import json, sys, threading, time
from pathlib import Path
recipe, out, updates, *settings = sys.argv[1:]
records, marks = Path(out) / "metrics.jsonl", {}
def watch():
    while len(marks) < int(updates):
        time.sleep(0.02)
        done = len(records.read_bytes().splitlines()) if records.is_file() else 0
        if done:
            marks.setdefault(done, time.process_time())
threading.Thread(target=watch, daemon=True).start()
from srl_agents.cli.main import main
words = [word for setting in (f"updates={updates}", *settings) for word in ("--set", setting)]
code = main(["train", recipe, "--out", out, *words])
last = int(updates) - 1
print(json.dumps({"code": code, "update_s": (marks[last] - marks[1]) / (last - 1)}))
"""


def start(tree: Path, out: Path, options: argparse.Namespace) -> subprocess.Popen[str]:
    """Train by the packages of a tree; the last line that it prints has the seconds."""
    variables = {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    words = [options.recipe, str(out), str(options.updates), *options.set]
    return subprocess.Popen(
        [sys.executable, "-c", _CHILD, *words],
        cwd=out.parent,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def seconds(side: subprocess.Popen[str]) -> float:
    """Processor seconds of one update, once the run is over."""
    printed, _ = side.communicate()
    if side.returncode:
        raise SystemExit(f"a run ended with {side.returncode}: {printed[-2000:]}")
    return float(json.loads(printed.splitlines()[-1])["update_s"])


def main(argv: Sequence[str] | None = None) -> None:
    """Run the pairs and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", required=True, metavar="COMMIT")
    parser.add_argument("--recipe", default="quickstart-tiny")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(argv)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder, "tree.tar")
        command = ["git", "archive", options.before, "srl_agents", "srl_envs"]
        packed.write_bytes(
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
        )
        with tarfile.open(packed) as archive:
            archive.extractall(Path(folder, "before"), filter="data")
        for number in range(options.pairs):
            trees = (Path(folder, "before"), ROOT)
            sides = [
                start(tree, Path(folder, f"{number}-{place}"), options)
                for place, tree in enumerate(trees)
            ]
            before_s, now_s = map(seconds, sides)
            ratios.append(now_s / before_s)
            print(
                f"pair {number + 1}: {before_s:.2f} s before, {now_s:.2f} s now, ratio {ratios[-1]:.3f}"
            )
    print(f"median ratio {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()
