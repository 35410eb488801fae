"""Exit statuses of short trainings on a machine with more processes than cores.

    python -m benchmarks.learning.exit_statuses [--each 12] [--at-once 6] [--work DIR] [--json FILE]

Five kinds of run, each a few seconds long: plain, the same continued with ``--more``, with generation in a
process of its own, with coordinated learners, and with a reward model. What goes wrong while an interpreter
ends depends on when threads get a core, so several commands run at once, and without faulthandler, whose
own thread state hides such ends. The program can be interrupted: given again with the same ``--work``, it
plays the runs that have no status yet.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.learning.child_process import commit

RECIPE = """
name: exits
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 2
learners: [alice, bob]
lora: {rank: 4, alpha: 8}
rollout: {start_states: 2, group_size: 4, max_new_tokens: 8}
evaluation: {every: 2, pairs: 1, final_pairs: 1, bots: [random]}
checkpoint_every: 1
survival: {allow_nothing_learned: true}
"""
ADDED = {
    "plain": "",
    "asynchronous": "asynchronous: {ahead: 1, max_staleness: 2}\n",
    "coordinated": "coordination: {kind: federated, every: 1}\n",
    "reward model": "reward_model: {ready_pairs: 1}\n",
}
"""What each kind of run has beyond `RECIPE`."""
LONGER = "--more"
"""The kind that continues a plain run."""
KINDS = ("plain", LONGER, *list(ADDED)[1:])
COMMAND = (sys.executable, "-P", "-m", "srl_agents.cli.main", "train")


class Trainings:
    """Runs in one folder, with the exit status of each in a file.

    Args:
        work: gets runs, logs and statuses.
    """

    def __init__(self, work: Path) -> None:
        self._work = work
        work.mkdir(parents=True, exist_ok=True)

    def play(self, kinds: tuple[str, ...], number: int) -> None:
        """Make runs of these kinds one after the other, if they have no status yet."""
        for kind in kinds:
            if not self._file(kind, number).is_file():
                self._train(kind, number)

    def statuses(self) -> Counter[tuple[str, int]]:
        """(kind, exit status) -> number of runs."""
        found: Counter[tuple[str, int]] = Counter()
        for kind in KINDS:
            for path in self._work.glob(f"{kind}-*.status"):
                found[kind, int(path.read_text())] += 1
        return found

    def _train(self, kind: str, number: int) -> None:
        run = self._work / f"{'plain' if kind == LONGER else kind}-{number}"
        if kind == LONGER:
            arguments = [LONGER, "1", str(run)]
        else:
            shutil.rmtree(run, ignore_errors=True)  # of a run that was interrupted
            recipe = self._work / f"{kind}.yaml"
            recipe.write_text(RECIPE + ADDED[kind])
            arguments = [str(recipe), "--seed", str(number), "--out", str(run)]
        status = self._file(kind, number)
        with status.with_suffix(".log").open("w") as log:
            done = subprocess.run(
                [*COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=_environment(), cwd=self._work, check=False,
            )  # fmt: skip
        status.write_text(f"{done.returncode}\n")
        print(f"{kind} {number}: {done.returncode}", flush=True)

    def _file(self, kind: str, number: int) -> Path:
        return self._work / f"{kind}-{number}.status"


def _environment() -> dict[str, str]:
    """This process's, with one thread for arithmetic and without faulthandler."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def table(statuses: Counter[tuple[str, int]]) -> Iterator[str]:
    """Lines: one kind of run each, with how often it ended with which status."""
    seen = sorted({status for _, status in statuses})
    yield "".join([f"{'kind':14}", *(f"{status:>8}" for status in seen)])
    for kind in KINDS:
        yield "".join([f"{kind:14}", *(f"{statuses[kind, status]:8}" for status in seen)])


def main() -> None:
    """Make the runs that are missing, and print the table; exit status 1 if one did not end with 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--each", type=int, default=12, help="runs of each kind")
    parser.add_argument("--at-once", type=int, default=3 * (os.cpu_count() or 1))
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "exit-statuses")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    trainings = Trainings(options.work.absolute())
    others = [(kind,) for kind in ADDED if kind != "plain"]
    with ThreadPoolExecutor(options.at_once) as pool:
        for number in range(options.each):
            for kinds in (("plain", LONGER), *others):
                pool.submit(trainings.play, kinds, number)
    found = trainings.statuses()
    print("\n".join(table(found)))
    if options.json:
        rows = [
            {"kind": kind, "status": status, "runs": runs}
            for (kind, status), runs in sorted(found.items())
        ]
        results = {
            "commit": commit(),
            "cores": os.cpu_count(),
            "at_once": options.at_once,
            "runs": rows,
        }
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    sys.exit(any(status for _, status in found))


if __name__ == "__main__":
    main()
