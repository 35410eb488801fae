"""The budget that runs share: what processes enter at the same time, killed or not, and what is refused."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

from srl_agents.cli.train import TrainOptions, try_out
from srl_agents.league.settings import StopSettings
from srl_agents.training.folder.budget_file import BudgetFile
from srl_agents.training.parts.spending import processor_seconds, require_budget
from srl_envs.errors import ConfigError

LIMITS = {"tokens": 1000.0, "cpu_s": 60.0}
ENTRIES = 40
_CONTEXT = multiprocessing.get_context("fork")


def enter_all(path: Path, run: str, killed_at: int) -> None:
    """A run that spends one token per update; at one of them it is killed, before or after it is entered."""
    file = BudgetFile(path, LIMITS)
    for number in range(1, ENTRIES + 1):
        if number == killed_at and run.endswith("before"):
            os.kill(os.getpid(), signal.SIGKILL)
        file.enter(run, {"tokens": float(number), "cpu_s": 0.5 * number})
        if number == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)


def together(path: Path, killed_at: int) -> list[int | None]:
    runs = ("a before", "b after", "c", "d")
    processes = [
        _CONTEXT.Process(
            target=enter_all, args=(path, run, killed_at if run not in ("c", "d") else 0)
        )
        for run in runs
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def test_runs_that_enter_at_once_and_are_killed_lose_nothing_and_count_nothing_twice(
    tmp_path: Path,
) -> None:
    path = tmp_path / "budget.json"
    assert together(path, killed_at=17) == [-signal.SIGKILL, -signal.SIGKILL, 0, 0]
    tokens = {run: own["tokens"] for run, own in BudgetFile(path, LIMITS).read().runs.items()}
    assert tokens == {"a before": 16, "b after": 17, "c": ENTRIES, "d": ENTRIES}
    assert together(path, killed_at=0) == [0, 0, 0, 0]  # from the start, as after a lost checkpoint
    assert BudgetFile(path, LIMITS).read().spent == {
        "tokens": 4.0 * ENTRIES,
        "cpu_s": 2.0 * ENTRIES,
    }


def enter_on(path: Path) -> None:
    for number in itertools.count(1):
        BudgetFile(path, LIMITS).enter("run", {"tokens": float(number), "cpu_s": 0.0})


def test_kills_at_any_moment_leave_a_whole_file_and_no_litter(tmp_path: Path) -> None:
    path, draws = tmp_path / "budget.json", random.Random(7)
    for _ in range(25):
        process = _CONTEXT.Process(target=enter_on, args=(path,))
        process.start()
        time.sleep(draws.uniform(0.005, 0.03))
        process.kill()
        process.join()
        BudgetFile(path, LIMITS).read()
    BudgetFile(path, LIMITS).enter("run", {"tokens": 5.0, "cpu_s": 0.0})
    assert BudgetFile(path, LIMITS).read().spent["tokens"] == 5
    assert {file.name for file in tmp_path.iterdir()} == {"budget.json", "budget.json.lock"}


def test_a_run_begins_only_where_something_is_left(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    settings = StopSettings(tokens=1000, cpu_s=60, budget=str(path))
    first, second = tmp_path / "first", tmp_path / "second"
    require_budget(settings, first)
    first.mkdir()
    BudgetFile(path, LIMITS).enter(str(first), {"tokens": 999.0, "cpu_s": 1.0})
    require_budget(settings, second)
    BudgetFile(path, LIMITS).enter(str(first), {"tokens": 1000.0, "cpu_s": 1.0})
    require_budget(settings, first)  # it may end
    spent = r"is spent: tokens 1,000 of 1,000, by one run\. Raise"
    with pytest.raises(ConfigError, match=spent):
        require_budget(settings, second)
    limits = ("stop.tokens=1000", "stop.cpu_s=60", f"stop.budget={path}")
    with pytest.raises(ConfigError, match=spent):  # before it costs anything
        try_out(TrainOptions(recipe="quickstart-tiny", out=second, set=limits, dry_run=True))


def test_what_a_deleted_run_spent_stays_spent(tmp_path: Path) -> None:
    settings = StopSettings(tokens=1000, cpu_s=60, budget=str(tmp_path / "budget.json"))
    gone = tmp_path / "gone"
    BudgetFile(tmp_path / "budget.json", LIMITS).enter(str(gone), {"tokens": 999.0, "cpu_s": 1.0})
    with pytest.raises(ConfigError, match="would replace its entry"):
        require_budget(settings, gone)
    require_budget(settings, tmp_path / "other")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a budget"),
        ("[]", "is not a budget"),
        (json.dumps({"schema": 1, "limits": {"tokens": "many"}, "runs": {}}), "is not a budget"),
        (json.dumps({"schema": 2, "limits": LIMITS, "runs": {}}), "schema 2, and this SRL reads 1"),
        (json.dumps({"schema": 1, "limits": {"tokens": 5.0}, "runs": {}}), "begun with tokens 5"),
        (None, "cannot be read"),
    ],
)
def test_another_file_is_refused_and_left_as_it_is(
    text: str | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "budget.json"
    if text is None:
        path.mkdir()
    else:
        path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        require_budget(StopSettings(tokens=1000, cpu_s=60, budget=str(path)), tmp_path / "run")
    with pytest.raises(ConfigError, match=said):
        BudgetFile(path, LIMITS).enter("run", LIMITS)
    assert text is None or path.read_text() == text


@pytest.mark.parametrize("settings", [{}, {"tokens": 0}, {"cpu_s": -1.0}, {"budget": "a"}])
def test_a_stop_without_a_limit_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"use more than 0|give a limit: tokens, trained_tokens"):
        StopSettings(**settings)  # type: ignore[arg-type]


def spend(seconds: float, ready: multiprocessing.connection.Connection) -> None:
    until = processor_seconds() + seconds
    while processor_seconds() < until:
        pass
    ready.send(True)
    signal.pause()


def test_seconds_of_living_and_of_ended_children_count() -> None:
    before = processor_seconds()
    here, there = _CONTEXT.Pipe()
    child = _CONTEXT.Process(target=spend, args=(0.2, there))
    child.start()
    here.recv()
    assert processor_seconds() - before >= 0.2
    child.kill()
    child.join()
    assert processor_seconds() - before >= 0.2
