"""A disk that refuses a file ends a run with one line; with space, the run goes on and lacks nothing."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from srl_agents.checkpoints import folder as checkpoint_folder
from srl_agents.cli.main import main
from srl_agents.memory.phase_manager import TRACE, PhaseManager
from srl_agents.metrics import JSONLines
from srl_agents.metrics.sinks import METRICS
from srl_agents.rollouts.request_trace import REQUESTS, RequestTrace
from srl_agents.rollouts.transcripts import TRANSCRIPTS, TranscriptLog
from srl_agents.training.folder.layout import RECIPE
from tests.faults.test_interrupted_runs import contents, finish, recipe_of
from tests.forked_commands import start_function

STRIKES: dict[str, tuple[Any, str]] = {
    REQUESTS: (RequestTrace, "write"),
    METRICS: (JSONLines, "write"),
    TRACE: (PhaseManager, "write_down"),
    "checkpoints": (checkpoint_folder, "save_tensors"),
    TRANSCRIPTS: (TranscriptLog, "add"),
}
"""What a run writes, and what adds to it."""
TORN = 10
"""Bytes that the disk still takes."""


def refused(arguments: list[str], file: Path) -> None:
    """The command, in which the second addition to a file meets a limit in the middle of a line."""
    owner, name = STRIKES[file.name]
    whole = getattr(owner, name)
    calls = 0

    def limited(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < 2:
            return whole(*given, **named)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = file.stat().st_size if file.is_file() else 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + TORN, before[1]))
        try:
            return whole(*given, **named)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    setattr(owner, name, limited)
    sys.exit(main(arguments))


@pytest.mark.nightly
def test_a_full_disk_ends_a_run_that_goes_on_when_there_is_space(tmp_path: Path) -> None:
    every = "keep_checkpoints: 9\n"
    recipe, run, calm = recipe_of("one", tmp_path, every), tmp_path / "run", tmp_path / "calm"
    recipe.write_text(recipe.read_text().replace("checkpoint_every: 99", "checkpoint_every: 1"))
    for name in STRIKES:
        log = tmp_path / f"{name}.log"
        where = run if (run / RECIPE).is_file() else recipe
        arguments = ["train", str(where), *(["--out", str(run)] if where == recipe else [])]
        process = start_function(refused, (arguments, run / name), log)
        process.join(300)
        said = log.read_text()
        assert process.exitcode == 3, said
        assert "Traceback" not in said, said
        (last,) = [line for line in said.splitlines() if line.startswith("srl train: ")]
        assert f"disk_full: {run / name}" in last
        assert f"bytes are free in {run}" in last
        assert last.endswith(f"To go on: srl train {run}")
    finish(run, recipe)
    finish(calm, recipe)
    assert contents(run) == contents(calm)
