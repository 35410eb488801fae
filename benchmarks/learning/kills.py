"""Kill a training run of two learners at random moments, and see whether it ends like an undisturbed run.

    python -m benchmarks.learning.kills [--kills 50] [--json FILE]

A run of math duel trains two coordinated learners that remember what they can: running means, adaptive
weights, a shared adapter, 8-bit moments, snapshots as opponents. It is killed (SIGKILL) over and over,
each time at a random number of stored matches and a random while later, or as soon as a checkpoint or
snapshot is being written, so that every part of an update is hit, and continued by the same call. In
the end the matches, the metrics of every update, the requests, the transcripts, the phases in the memory
trace, all snapshots, the last checkpoint's tensors and its state must be those of an undisturbed
run, bit for bit. Runs are forked from a process that has imported torch, so that a start takes a second.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.league.store.history import LeagueStore
from srl_agents.memory.phase_manager import TRACE
from srl_agents.metrics.names import WALL_CLOCK
from srl_agents.metrics.sinks import read_lines
from srl_agents.records import digest
from srl_envs.errors import StoreError

UPDATES = 24
MATCHES_PER_UPDATE = 2 * 2 * 4
"""Learners, start states, attempts."""
RECIPE = f"""
name: kills
model: tiny
env: math_duel-v0
env_options: {{difficulty: 2, problems: 1, max_retries: 0}}
updates: {UPDATES}
learners: [alice, bob]
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 2, group_size: 4, max_new_tokens: 8, trace: 16}}
opponents: {{mirror: 0.5, live: 1, past: 2}}
training: {{learning_rate: 0.005, kl_coef: 0.02, optimizer: adamw_8bit}}
credit: {{mode: adaptive, estimator: role_baseline, normalise: agent, importance_cap: 2}}
coordination: {{kind: asynchronous, ready_rows: 20}}
evaluation: {{every: 8, pairs: 2, final_pairs: 4, bots: [random]}}
snapshot_every: 3
checkpoint_every: 2
"""
POLL_S, POLL_WRITING_S = 0.01, 0.001
EVERY = 4
"""Each so-many-eth kill is aimed at a file that is being written."""


def start(recipe: Path, run: Path) -> Any:
    """Train in a process of its own."""
    process = multiprocessing.get_context("fork").Process(target=_train, args=(recipe, run))
    process.start()
    return process


def _train(recipe: Path, run: Path) -> None:
    from srl_agents.cli.train import main as train

    with (run.parent / f"{run.name}.log").open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        raise SystemExit(train([str(recipe), "--out", str(run)]))


def finish(recipe: Path, run: Path) -> None:
    """Train to the end."""
    process = start(recipe, run)
    process.join()
    if process.exitcode:
        raise SystemExit((run.parent / f"{run.name}.log").read_text()[-2000:])


def stored(run: Path, split: str | None = None) -> int:
    """Matches in the store, of one split or both; 0 before there is one."""
    try:
        with LeagueStore(run / "league.db", mode="read") as store:
            return store.count(split=split)
    except StoreError:
        return 0


def moment(run: Path, left: set[tuple[Path, int]]) -> str:
    """What a killed run was about to do, from what it left; ``left`` was unfinished when it started."""
    kinds = {path.parent.name for path, _ in being_written(run) - left}
    if kinds:
        return f"writing a {min(kinds).removesuffix('s')}"
    records = len(read_lines(run / "metrics.jsonl"))
    played = stored(run, "train") // MATCHES_PER_UPDATE
    return "training or evaluating" if played > records else "starting, playing or freezing"


def being_written(run: Path) -> set[tuple[Path, int]]:
    """Unfinished checkpoints and snapshots, each with the file system's number of its folder."""
    found = set()
    for pattern in ("checkpoints/.tmp-step-*", "snapshots/*.tmp"):
        for path in run.glob(pattern):
            with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
                found.add((path, path.stat().st_ino))
    return found


def left_behind(run: Path) -> dict[str, str]:
    """Digest of each part of a finished run, but for wall-clock times."""
    metrics = read_lines(run / "metrics.jsonl")
    for line in metrics:
        for name in WALL_CLOCK:
            line["run"].pop(name, None)
    last = run / f"checkpoints/step-{UPDATES:08}"
    tensors = [*sorted(run.glob("snapshots/**/*.safetensors")), *sorted(last.glob("*.safetensors"))]
    with LeagueStore(run / "league.db", mode="read") as store:
        matches = store.content_digest()
    state = json.loads((last / "state.json").read_text())
    del state["files"]  # lengths of lines in which are times
    requests = (run / "requests.jsonl").read_text().splitlines()
    return {
        "matches": matches,
        "metrics": digest(metrics),
        "requests": digest([{**json.loads(line), "timestamp": 0} for line in requests]),
        "transcripts": _sha256(run / "transcripts.jsonl"),
        "memory": digest([[line["update"], line["phase"]] for line in read_lines(run / TRACE)]),
        "tensors": digest([[str(p.relative_to(run)), _sha256(p)] for p in tensors]),
        "state": digest(state),
    }


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def kill_often(recipe: Path, run: Path, kills: int, matches: int, update_s: float) -> Counter[str]:
    """Kill the run at random moments, and continue it after each.

    Args:
        recipe: of the run.
        run: its folder.
        kills: how often, if it does not end before.
        matches: that the whole run plays.
        update_s: seconds that an update takes about.

    Returns:
        What it was doing each time.
    """
    rng = np.random.default_rng(0)
    moments: Counter[str] = Counter()
    for number, aim in enumerate(np.sort(rng.integers(0, int(0.88 * matches), size=kills)), 1):
        left = being_written(run)
        process = start(recipe, run)
        while process.is_alive() and stored(run) <= aim:
            time.sleep(POLL_S)
        if number % EVERY:
            process.join(float(rng.random()) * 1.5 * update_s)
        else:
            while process.is_alive() and being_written(run) <= left:
                time.sleep(POLL_WRITING_S)
        if not process.is_alive():
            break
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        moments[last := moment(run, left)] += 1
        print(f"kill {sum(moments.values())} at {stored(run)} matches: {last}", flush=True)
    return moments


def main() -> None:
    """Print whether the ends are equal."""
    import srl_agents.training.loop.run  # noqa: F401 - once, for all children

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        recipe, run, calm = (Path(folder) / name for name in ("recipe.yaml", "run", "calm"))
        recipe.write_text(RECIPE)
        began = time.monotonic()
        finish(recipe, calm)
        update_s = (time.monotonic() - began) / UPDATES
        moments = kill_often(recipe, run, options.kills, stored(calm), update_s)
        finish(recipe, run)
        mine, other = left_behind(run), left_behind(calm)
        found = {
            "kills": sum(moments.values()),
            "moments": dict(moments),
            "updates": UPDATES,
            "matches": stored(run),
            "equal": {part: mine[part] == other[part] for part in mine},
        }
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
