"""`python -m tests.faults.matrix`: play the cells of the fault matrix, and write what came of them.

    python -m tests.faults.matrix --work /tmp/cells                  # those that are not in the file yet
    python -m tests.faults.matrix --work /tmp/cells --only engine/   # those whose name begins so

Each cell is forked from this process, which has loaded everything, so that a run costs some seconds of
processor time. What is done is written at once: a matrix that was interrupted goes on. The page
of the reference is written with it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from srl_agents.cli.main import main as command
from srl_agents.engines.endpoint.providers import PROVIDERS
from srl_agents.league.store.history import LeagueStore
from srl_agents.records import plain_json
from tests.faults.matrix_cells import (
    CELLS,
    PATIENCE_S,
    PHASE_S,
    REPLY_S,
    STRUCK,
    Cell,
    Ended,
    free_port,
)
from tests.faults.stage import random_folder
from tests.faults.struck_server import AGENT, PID, Endpoint
from tests.training_runs import metrics_of

RESULTS = Path(__file__).parents[2] / "benchmarks/results/fault_matrix.json"
ATTEMPT_S = 240.0
"""For one attempt, on a loaded machine; what takes longer hangs."""
TURNS = f"""
name: cells
model: ../model
env: math_duel-v0
env_options: {{difficulty: 2, problems: 1, max_retries: 0}}
learners: [alice, bob]
updates: 2
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 2, group_size: 2, max_new_tokens: 6}}
opponents: {{mirror: 0.5, live: 1, past: 1}}
training: {{algorithm: ppo, learning_rate: 0.001, iterations: 1, minibatches: 1}}
transport: {{kind: files}}
evaluation: {{every: 1, pairs: 1, final_pairs: 1, bots: [random]}}
survival: {{phase_deadline_s: {PHASE_S}, reply_deadline_s: {REPLY_S}}}
snapshot_every: 1
checkpoint_every: 1
"""
RECIPES = {
    "turns": TURNS,
    "ranks": TURNS,
    "beside": TURNS.replace(f"phase_deadline_s: {PHASE_S}", "phase_deadline_s: 200").replace(
        "updates: 2", "updates: 3"
    )
    + f"asynchronous: {{ahead: 1, max_staleness: 1, part_matches: 3, patience_s: {PATIENCE_S}}}\n",
    "endpoint": TURNS.replace(f"phase_deadline_s: {PHASE_S}", "phase_deadline_s: 200")
    .replace(
        "past: 1}",
        f"past: 1, agents: {{'{AGENT}': 2}}, budgets: {{'{AGENT}': {{requests: 500}}}}}}",
    )
    .replace("bots: [random]", f"bots: [random], agents: ['{AGENT}']"),
}
RANKS = {"turns": 1, "ranks": 2, "beside": 1, "endpoint": 1}


class Workshop:
    """Runs in a folder, one subfolder per cell; those that nothing strikes are kept.

    Args:
        folder: for all of them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def play(self, cell: Cell) -> Ended:
        """Strike a run, go on with it, and compare."""
        began, ended = time.monotonic(), Ended()
        whole = self.undisturbed(cell.recipe)
        home = self.folder / cell.name.replace("/", "-").replace(" ", "_").replace(",", "")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for attempt in range(3):
            code = self._attempt(cell.recipe, home, cell, strike=attempt == 0)
            ended.overdue |= code is None
            if code is None:
                break
            ended.codes.append(code)
            if code == 0:
                ended.equal = digest(home / "run") == whole
                break
        log = home / f"log-{cell.struck}"
        ended.struck = log.is_file() and STRUCK in log.read_text()
        faults = home / "run/faults.jsonl"
        if faults.is_file():
            ended.faults = [json.loads(line)["fault"] for line in faults.read_text().splitlines()]
        ended.seconds = time.monotonic() - began
        if not ended.wrong(cell):
            shutil.rmtree(home)
        return ended

    def undisturbed(self, recipe: str) -> str:
        """Digest of the run that nothing strikes."""
        version = hashlib.sha256(RECIPES[recipe].encode()).hexdigest()[:8]
        home = self.folder / f"undisturbed-{recipe}-{version}"
        kept = home / "digest"
        if not kept.is_file():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            code = self._attempt(recipe, home, None)
            if code != 0:
                raise RuntimeError(f"the run that nothing strikes ended with {code}: {home}/log-0")
            kept.write_text(digest(home / "run"))
        return kept.read_text()

    def _attempt(
        self, recipe: str, home: Path, cell: Cell | None, *, strike: bool = False
    ) -> int | None:
        """One command, in as many processes as the recipe has; its exit code, None if it did not end."""
        model = random_folder(self.folder / "model")
        (home / "r.yaml").write_text(RECIPES[recipe].replace("../model", str(model)))
        arguments = ["train", str(home / "r.yaml"), "--out", str(home / "run")]
        for setting in () if cell is None else cell.settings:
            arguments += ["--set", setting]
        ranks, port = RANKS[recipe], str(free_port())
        served = Endpoint(home) if recipe == "endpoint" else None
        children = {}
        for rank in range(ranks):
            variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_PORT": port}
            variables |= {"MASTER_ADDR": "127.0.0.1"}
            if served is not None:
                variables |= {PROVIDERS: served.providers, PID: served.pid}

            def work(rank: int = rank, variables: dict[str, object] = variables) -> int:
                if ranks > 1 or served is not None:
                    os.environ.update({key: str(value) for key, value in variables.items()})
                with pytest.MonkeyPatch.context() as patch:
                    if strike and cell is not None and cell.struck == rank:
                        cell.arm(patch)
                    return command(arguments)

            children[_fork(work, home / f"log-{rank}")] = rank
        code = _wait(children)
        if served is not None:
            served.close()
        return code


def _fork(work: Callable[[], int], log: Path) -> int:
    """A process with a group of its own that does something; its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setpgid(0, 0)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        code = work()
    except BaseException:  # noqa: BLE001 - a forked process ends here, whatever it was
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(children: dict[int, int]) -> int | None:
    """The code of the first that ends otherwise than with 0, as torchrun does; the others are killed."""
    until, failed = time.monotonic() + ATTEMPT_S, 0
    alive = set(children)
    while alive and not failed and time.monotonic() < until:
        for pid in list(alive):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                alive.discard(pid)
                failed = failed or os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    late = bool(alive) and not failed
    for pid in alive:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return None if late else failed


def digest(run: Path) -> str:
    """Of all that a run comes to: records without the clock, matches, weights."""
    hashed = hashlib.sha256()
    hashed.update(plain_json(_records(run)).encode())
    with LeagueStore(run / "league.db", mode="read") as store:
        for spec, result in store.matches():
            hashed.update(f"{spec.match_id} {result}".encode())
    for path in sorted((run / "adapters").rglob("*.safetensors")):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


def _records(run: Path) -> list[object]:
    """Metrics without the counts of faults, which must differ."""
    records = metrics_of(run)
    for record in records:
        for values in (record["run"], *record["learners"].values()):
            for name in [name for name in values if name.startswith("fault/")]:
                del values[name]
    return list(records)


def _write(out: Path, done: dict[str, object]) -> None:
    """Keep results, and where they are the repository's, its page."""
    out.write_text(json.dumps(dict(sorted(done.items())), indent=1) + "\n")
    if out == RESULTS:
        from tests.faults.matrix_page import PAGE, page

        PAGE.write_text(page())


def main() -> int:
    """Exit code: 0 all cells that were asked for are right, 1 some are not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="stop to begin cells after these"
    )
    given = parser.parse_args()
    shop, bad, began = Workshop(given.work), 0, time.monotonic()
    known = json.loads(given.out.read_text()) if given.out.is_file() else {}
    done = {cell.name: known[cell.name] for cell in CELLS if cell.name in known}
    _write(given.out, done)
    for cell in CELLS:
        if not cell.name.startswith(given.only) or time.monotonic() - began > given.seconds:
            continue
        if cell.name in done and not done[cell.name]["wrong"] and not given.again:
            continue
        ended = shop.play(cell)
        wrong = ended.wrong(cell)
        bad += bool(wrong)
        done[cell.name] = {"codes": ended.codes, "faults": ended.faults, "wrong": wrong}
        _write(given.out, done)
        print(f"{ended.seconds:6.1f} s  {cell.name}: {wrong or 'right'}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
