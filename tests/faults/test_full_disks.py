"""A disk that refuses a file ends a run with one line; with space, the run goes on and lacks nothing."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from srl_agents.checkpoints import folder as checkpoint_folder
from srl_agents.cli.main import main
from srl_agents.memory.phase_manager import TRACE, PhaseManager
from srl_agents.metrics import JSONLines
from srl_agents.metrics.sinks import METRICS
from srl_agents.models.sources import smollm2
from srl_agents.rollouts.request_trace import REQUESTS, RequestTrace
from srl_agents.rollouts.transcripts import TRANSCRIPTS, TranscriptLog
from srl_agents.training.folder.layout import RECIPE
from srl_envs.errors import ModelError
from tests.faults.test_interrupted_runs import contents, finish, recipe_of
from tests.forked_commands import finish_command, start_command, start_function

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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for some files of a run, and not for its first checkpoint."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=420k", "tmpfs", str(disk)]
    if (
        mount is None
        or subprocess.run([mount, *options], check=False, capture_output=True).returncode
    ):
        pytest.skip("needs the right to mount a tmpfs (root with CAP_SYS_ADMIN)")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
def test_a_run_on_a_disk_that_fills_goes_on_where_there_is_space(
    small_disk: Path, tmp_path: Path
) -> None:
    recipe, run, log = recipe_of("one", tmp_path), small_disk / "run", tmp_path / "log"
    recipe.write_text(recipe.read_text().replace("checkpoint_every: 99", "checkpoint_every: 1"))
    options = ["--out", str(run), "--set", "survival.policies={disk_low: go_on}"]
    process = start_command(["train", str(recipe), *options], log)
    process.join(300)
    printed = log.read_text()
    assert process.exitcode == 3, printed
    last = printed.splitlines()[-1]
    assert f"disk_full: {run / 'checkpoints'}" in last
    assert "To mend it: free space" in last
    assert last.endswith(f" again: srl train {run}")
    assert list(run.rglob(".tmp-*")) == []
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    finish_command(start_command(["train", str(run)], log), log)


def test_a_model_is_not_fetched_to_a_disk_without_room_for_it(small_disk: Path) -> None:
    with pytest.raises(ModelError, match=r"0 MiB are free, .* takes 900 MiB .* SRL_CACHE"):
        smollm2.fetch(small_disk / "cache" / "smollm2-135m")
    assert list((small_disk / "cache").iterdir()) == []


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
