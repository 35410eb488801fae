"""Runs that are ended by real signals in every phase go on from their last finished update."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from srl_agents.cli.main import main
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.league.store.history import LeagueStore
from srl_agents.memory.phase_manager import TRACE
from srl_agents.metrics.sinks import METRICS
from srl_agents.rollouts.request_trace import REQUESTS
from srl_agents.rollouts.transcripts import TRANSCRIPTS, TranscriptLog
from srl_agents.training.loop import phases
from srl_agents.training.loop.matches import Matches
from srl_agents.training.start import imitation as warm_start
from srl_envs.errors import StoreError
from tests.forked_commands import (
    finish_command,
    start_function,
    torchruns_variables,
)
from tests.training_runs import metrics_of

RECIPE = """
name: interrupted
model: tiny
env: nim-v0
updates: 6
rollout: {start_states: 2, group_size: 4, max_new_tokens: 8, trace: 16}
evaluation: {every: 2, pairs: 1, final_pairs: 2, bots: [random]}
snapshot_every: 3
checkpoint_every: 99
"""
LORA = "lora: {rank: 2, alpha: 4}\ntraining: {learning_rate: 0.01}\n"
KINDS = {
    "one": LORA + "learners: [alice]\n",
    "coordinated": LORA + "learners: [alice, bob]\ncoordination: {kind: synchronized}\n",
    # too large for a copy; at a rate of factors whole weights unlearn every legal reply
    "full": "learners: [alice]\nparameters: full\ntraining: {learning_rate: 1.0e-5}\n",
    "asynchronous": LORA + "learners: [alice]\nasynchronous: {ahead: 1}\n",
}
SECONDS = 120


def signalled(arguments: list[str], number: int, phase: str, update: int) -> None:
    """The command, in which a signal comes as a phase of an update begins."""

    sent: list[int] = []

    def send() -> None:
        if not sent:
            sent.append(number)
            os.kill(os.getpid(), number)

    def strike(owner: Any, name: str) -> None:
        whole = getattr(owner, name)

        def struck(*given: Any, **named: Any) -> Any:
            send()
            return whole(*given, **named)

        setattr(owner, name, struck)

    if phase == "final":
        strike(TranscriptLog, "add")
    elif phase == "warm":
        strike(warm_start, "_imitate")
    elif phase == "store":
        strike(Matches, "keep")
    else:
        kind: Any = phases.PHASES[phase]  # this process is the test's
        whole = kind.__call__

        def struck(itself: Any, now: phases.Update) -> None:
            if now.number == update:
                send()
            whole(itself, now)

        kind.__call__ = struck
    sys.exit(main(arguments))


def attempt(run: Path, recipe: Path, number: int, phase: str, update: int) -> str:
    """What an attempt that a signal ends prints."""
    log = run.parent / "log"
    log.write_bytes(b"")
    arguments = ["train", str(recipe), "--out", str(run)]
    process = start_function(signalled, (arguments, number, phase, update), log)
    process.join(SECONDS)
    said = log.read_text()
    assert process.exitcode == (130 if number == signal.SIGINT else 143), said
    assert "Traceback" not in said, said
    return said.replace("\n", " ")


def finish(run: Path, recipe: Path) -> None:
    """Train to the end."""
    log = run.parent / f"{run.name}.log"
    arguments = ["train", str(recipe), "--out", str(run)]
    finish_command(start_function(_plainly, (arguments,), log), log)


def _plainly(arguments: list[str]) -> None:
    sys.exit(main(arguments))


def contents(run: Path) -> dict[str, Any]:
    """What a run came to, without what the clock wrote."""
    with LeagueStore(run / "league.db", "read") as store:
        matches = store.content_digest()
    adapters = sorted(run.glob("adapters/*/*.safetensors")) + sorted(
        run.glob("models/*/*.safetensors")
    )
    assert adapters
    requests = map(json.loads, (run / REQUESTS).read_text().splitlines())
    by_match = sorted(
        requests, key=lambda line: line["session"]
    )  # in the file the clock orders them
    return {
        "matches": matches,
        "transcripts": (run / TRANSCRIPTS).read_bytes(),
        "requests": [{**line, "timestamp": 0} for line in by_match],
        "memory": [
            (line["update"], line["phase"])
            for line in map(json.loads, (run / TRACE).read_text().splitlines())
        ],
        "metrics": metrics_of(run),
        "weights": [path.read_bytes() for path in adapters],
    }


def recipe_of(kind: str, folder: Path, more: str = "") -> Path:
    """A recipe of this kind."""
    path = folder / "recipe.yaml"
    path.write_text(RECIPE + KINDS[kind] + more)
    return path


INT, TERM, HANG_UP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
STRIKES: Sequence[tuple[int, str, int]] = (
    (INT, "play", 1),
    (INT, "report", 1),
    (TERM, "update", 3),
    (TERM, "checkpoint", 4),
    (INT, "credit", 6),
    (TERM, "final", 7),
)
"""Signal, phase in which it comes, and its update."""
FINISHED_FIRST = {"one": {"report", "checkpoint"}, "full": {"update", "report", "checkpoint"}}
"""Phases after which the update is finished before the signal acts."""


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["full", "one", "coordinated", "asynchronous"])
def test_a_signal_in_any_phase_loses_no_finished_update(kind: str, tmp_path: Path) -> None:
    recipe, run, calm = recipe_of(kind, tmp_path), tmp_path / "run", tmp_path / "calm"
    finished_first = FINISHED_FIRST["full" if kind == "full" else "one"]
    for number, phase, update in STRIKES:
        said = attempt(run, recipe, number, phase, update)
        kept = update if phase in finished_first else update - 1
        found = sorted(path.name for path in (run / "checkpoints").glob("step-*"))
        assert found[-1:] == ([f"step-{kept:08}"] if kept else []), said
        how = f"To go on: srl train {run}" if kept else f"To begin again: srl train {run}"
        assert how in said
        assert (f"of update {kept}" if kept else "There is no checkpoint yet.") in said
    finish(run, recipe)
    finish(calm, recipe)
    assert contents(run) == contents(calm)


def struck_while_engines_reply(arguments: list[str], number: int) -> None:
    """The command as a shell's background job, which a signal meets while matches wait for replies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    engines: Any = TransformersEngine  # this process is the test's
    whole, metrics = engines.generate_together, Path(arguments[-1]) / METRICS

    async def struck(engine: TransformersEngine, requests: Any) -> Any:
        if metrics.is_file() and metrics.read_bytes():  # an update is finished
            os.kill(os.getpid(), INT)
            os.kill(os.getpid(), number)
        await asyncio.sleep(0)
        return await whole(engine, requests)

    engines.generate_together = struck
    sys.exit(main(arguments))


@pytest.mark.slow
@pytest.mark.parametrize("number", [TERM, pytest.param(HANG_UP, marks=pytest.mark.nightly)])
def test_a_signal_ends_a_background_job_with_a_checkpoint_and_one_line(
    number: int, tmp_path: Path
) -> None:
    recipe, run, log = recipe_of("one", tmp_path), tmp_path / "run", tmp_path / "log"
    arguments = ["train", str(recipe), "--out", str(run)]
    process = start_function(struck_while_engines_reply, (arguments, number), log)
    process.join(SECONDS)
    printed = log.read_text()
    assert process.exitcode == 128 + number, printed
    last = printed.splitlines()[-1]
    assert last.startswith("srl train: interrupted in update ")
    assert last.endswith(f"To go on: srl train {run}")
    assert "Emergency checkpoint of update " in last
    assert "Traceback" not in printed
    assert "never retrieved" not in printed


@pytest.mark.nightly
@pytest.mark.parametrize(("number", "send"), [(INT, os.killpg), (TERM, os.kill)])
def test_torchrun_ends_its_processes_with_a_checkpoint(
    number: int, send: Callable[[int, int], None], tmp_path: Path
) -> None:
    recipe, run, logs = recipe_of("one", tmp_path), tmp_path / "run", tmp_path / "logs"
    recipe.write_text(recipe.read_text().replace("updates: 6", "updates: 999"))
    torchrun = subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node",
                "2",
            ),
            *("--redirects", "3", "--log-dir", str(logs), "-m", "srl_agents.cli.main"),
            *("train", str(recipe), "--out", str(run)),
        ],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    metrics = run / METRICS
    while not (metrics.is_file() and metrics.read_bytes()):
        assert torchrun.poll() is None
        time.sleep(0.1)
    send(torchrun.pid, number)
    assert torchrun.wait(SECONDS) == 1  # torchrun's own
    first, second = (
        next(logs.glob(f"*/attempt_0/{rank}/stderr.log")).read_text() for rank in (0, 1)
    )
    (kept,) = (run / "checkpoints").iterdir()
    assert f": {kept}. To go on: srl train {run}\n" in first
    assert f"The first process prints what is kept. To go on: srl train {run}\n" in second
    assert "Traceback" not in first + second
    here = str(recipe).encode()
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if here in path.read_bytes()]


def terminated_in_a_collective(arguments: list[str]) -> None:
    """The command in one of two processes: the second one is late, so the first one waits for it in C."""
    first = os.environ["RANK"] == "0"
    kind: Any = phases.Step  # this process is the test's
    whole = kind.__call__

    def struck(itself: phases.Step, now: phases.Update) -> None:
        if now.number == 3:
            end = threading.Timer(1.0, os.kill, (os.getpid(), TERM))
            end.start()
            if not first:
                time.sleep(60)
        whole(itself, now)

    kind.__call__ = struck
    sys.exit(main(arguments))


@pytest.mark.nightly
def test_sigterm_to_processes_of_which_one_waits_for_the_other_loses_no_update(
    tmp_path: Path,
) -> None:
    recipe, run = recipe_of("one", tmp_path), tmp_path / "run"
    arguments = ["train", str(recipe), "--out", str(run)]
    logs = [tmp_path / "first", tmp_path / "second"]
    processes = [
        start_function(terminated_in_a_collective, (arguments,), log, variables)
        for log, variables in zip(logs, torchruns_variables(2), strict=True)
    ]
    for process, log in zip(processes, logs, strict=True):
        process.join(SECONDS)
        assert process.exitcode == 143, log.read_text()
        assert "Traceback" not in log.read_text()
        assert log.read_text().rstrip().endswith(f"To go on: srl train {run}")
    kept = run / "checkpoints/step-00000002"
    assert (
        f"interrupted in update 3 of 6. Emergency checkpoint of update 2: {kept}."
        in logs[0].read_text()
    )


def struck_by_an_error(arguments: list[str]) -> None:
    """The command, in which the store is gone in its second update."""

    kind: Any = phases.Report  # this process is the test's
    whole = kind.__call__

    def gone(itself: phases.Report, now: phases.Update) -> None:
        if now.number == 2:
            raise StoreError("league.db: it is gone.")
        whole(itself, now)

    kind.__call__ = gone
    sys.exit(main(arguments))


@pytest.mark.slow
def test_an_error_that_is_no_fault_loses_no_finished_update(tmp_path: Path) -> None:
    recipe, run, log = recipe_of("one", tmp_path), tmp_path / "run", tmp_path / "log"
    process = start_function(struck_by_an_error, (["train", str(recipe), "--out", str(run)],), log)
    process.join(SECONDS)
    kept = run / "checkpoints/step-00000001"
    assert process.exitcode == 2
    assert log.read_text().splitlines()[-1] == (
        "srl train: league.db: it is gone. "
        f"Emergency checkpoint of update 1: {kept}. To go on: srl train {run}"
    )
    assert kept.is_dir()


@pytest.mark.slow
def test_a_signal_during_the_warm_start_says_that_nothing_is_there_yet(tmp_path: Path) -> None:
    warm = "warm_start: {bots: [strong], episodes: 4, updates: 2}\n"
    recipe, run = recipe_of("one", tmp_path, warm), tmp_path / "run"
    said = attempt(run, recipe, TERM, "warm", 0)
    assert f"interrupted before an update began. To begin again: srl train {run}" in said
