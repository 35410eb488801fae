"""A run on a Ray cluster, and what is done to the cluster meanwhile.

The test decides where a process is struck, whatever the machine's speed: the workers' engine takes a version
and writes for it when the test lets it (`tests.cluster.held_engine`), and the run waits.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from srl_agents.league.store.history import LeagueStore
from tests.cluster.held_engine import ALL, HeldSettings, allow
from tests.training_runs import metrics_of

RECIPE = """
name: spread
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 4
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 3, max_new_tokens: 8}
opponents: {mirror: 0.5, live: 1, past: 1}
training: {learning_rate: 0.003}
asynchronous: {ahead: 0, part_matches: 3, refill_limit: 1}
transport: {kind: files}
ray: {workers: 3, trainer_cpus: 1, patience_s: 600}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 2
checkpoint_every: 1
"""
MATCHES = 2 * 2 * 3
"""Of one update, without what flat groups were replaced by."""
DEADLINE_S = 900.0
_TRAINER = re.compile(r"the trainer is process (\d+) on \S+ 1 threads")


class Run:
    """`srl train` in a process of its own.

    Args:
        folder: for the recipe and the run.
        *options: of `srl train`.
        held: workers take and play nothing before the test lets them.
    """

    def __init__(self, folder: Path, *options: str, held: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "r.yaml").write_text(RECIPE)
        self.folder, self._let = folder / "run", folder / "let"
        if held:
            kind = f"{HeldSettings.__module__}:{HeldSettings.__qualname__}"
            options = (*options, "--set", f"engine={{kind: '{kind}', let: '{self._let}'}}")
        command = [sys.executable, "-m", "srl_agents.cli.main", "train", str(folder / "r.yaml")]
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--out", str(self.folder), *options],
                stdout=log,
                stderr=log,
                env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"},
            )

    def let(self, *, taken: int = ALL, played: int = ALL) -> None:
        """Let the versions of so many updates be taken by workers, and so many be played."""
        allow(self._let, taken=taken, played=played)

    def end(self) -> int:
        """Wait for the end; the exit code."""
        return self.process.wait(DEADLINE_S)

    def workers(self) -> dict[int, dict[str, Any]]:
        """What workers are doing, by place; none as long as nothing is known."""
        try:
            rows = json.loads((self.folder / "workers.json").read_text())["workers"]
        except FileNotFoundError:
            return {}
        return {row["worker"]: row for row in rows}

    def generation(self) -> str:
        """The log of the process that asks the cluster."""
        return (self.folder / "generation.log").read_text()

    def wait_for(self, found: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first worker of which something holds."""
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            row = next((row for row in self.workers().values() if found(row)), None)
            if row is not None:
                return row
            time.sleep(0.01)
        raise AssertionError(f"never seen; {self.workers()}\n{self.log.read_text()[-3000:]}")

    def trainer(self, start: int = 1) -> int:
        """The process of the trainer that was started as the first, the second, and so on."""
        until = time.monotonic() + DEADLINE_S
        while len(found := _TRAINER.findall(self.log.read_text())) < start:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < until, self.log.read_text()[-3000:]
            time.sleep(0.05)
        return int(found[start - 1])

    def dispatcher(self) -> int:
        """The process that the first trainer has started."""
        found = subprocess.run(
            ["pgrep", "-P", str(self.trainer()), "-f", "cluster.dispatch"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return int(found.stdout.split()[0])

    def results(self) -> dict[str, Any]:
        """All that a run comes to: metrics without the clock, weights, matches in their order."""
        with LeagueStore(self.folder / "league.db", mode="read") as store:
            matches = [(spec.match_id, result) for spec, result in store.matches()]
        weights = {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted((self.folder / "adapters").rglob("*.safetensors"))
        }
        assert weights
        return {"metrics": metrics_of(self.folder), "weights": weights, "matches": matches}


def parent_of(pid: int) -> int:
    """Of a process that is there."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_there(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pid: int, otherwise: str) -> None:
    """Until a process is not there."""
    until = time.monotonic() + DEADLINE_S
    while is_there(pid):
        assert time.monotonic() < until, otherwise
        time.sleep(0.05)


def stop(pid: int) -> None:
    """Let a process hang."""
    os.kill(pid, signal.SIGSTOP)


def kill(pid: int) -> None:
    """End a process at once."""
    os.kill(pid, signal.SIGKILL)
