"""Folders of killed processes are removed at the next start; those of live and of other processes stay."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from srl_agents.own_folders import new_folder, owner, remove_left
from srl_agents.training.faults.supervised import Supervised
from srl_agents.transports.machine_memory import remove_left_memory, take_folder

OPENS = (
    "import sys, time; from pathlib import Path; from srl_agents.own_folders import new_folder;"
    "print(new_folder('process', Path(sys.argv[1])), flush=True); time.sleep(1000)"
)
PUBLISHES = (
    "import sys, time; from pathlib import Path;"
    "from srl_agents.transports.machine_memory import take_folder;"
    "folder = Path(sys.argv[1]); take_folder(folder); (folder / 'v1').touch();"
    "print(folder, flush=True); time.sleep(1000)"
)


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[str]]]:
    made: list[subprocess.Popen[str]] = []
    yield made
    for child in made:
        child.kill()
        child.communicate()


def begun(children: list[subprocess.Popen[str]], program: str, path: Path) -> Path:
    """Path that a new process prints after making it."""
    command = [sys.executable, "-c", program, str(path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    children.append(child)
    assert child.stdout is not None
    return Path(child.stdout.readline().strip())


def test_a_living_process_keeps_its_folder_and_a_killed_one_leaves_it_to_the_next(
    tmp_path: Path, children: list[subprocess.Popen[str]]
) -> None:
    first, second = (begun(children, OPENS, tmp_path) for _ in range(2))
    (second / "deep").mkdir()
    own = new_folder("adapters", tmp_path)
    assert first.is_dir()
    os.kill(children[1].pid, signal.SIGKILL)
    os.waitid(os.P_PID, children[1].pid, os.WEXITED | os.WNOWAIT)  # dead, not waited for
    remove_left(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([first, own])


def test_an_id_that_is_used_again_is_another_owner_and_other_machines_stay(tmp_path: Path) -> None:
    machine, pid, began = owner().split("-")
    again = tmp_path / f"srl-kv-{machine}-{pid}-{int(began) - 1}-x"
    elsewhere = tmp_path / f"srl-kv-{'0' * 12}-{pid}-1-x"
    ours = tmp_path / f"srl-kv-{machine}-{pid}-{began}-x"
    unnamed = tmp_path / "srl-kv-notes"
    for folder in (again, elsewhere, ours, unnamed):
        folder.mkdir()
    link = tmp_path / f"srl-kv-{machine}-{pid}-1-link"
    link.symlink_to(unnamed)
    remove_left(tmp_path)
    assert set(tmp_path.iterdir()) == {elsewhere, ours, unnamed, link}


def test_another_users_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, pid, _ = owner().split("-")
    left = tmp_path / f"srl-kv-{machine}-{pid}-1-x"
    left.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    remove_left(tmp_path)
    assert left.is_dir()


def test_memory_goes_with_the_next_run_unless_its_publisher_lives_or_another_took_it(
    tmp_path: Path, children: list[subprocess.Popen[str]]
) -> None:
    names = [tmp_path / f"srl-{os.getuid()}-{name}" for name in ("dead", "taken", "lives")]
    for folder in names:
        begun(children, PUBLISHES, folder)
    for child in children[:2]:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    take_folder(names[1])  # the same run goes on
    remove_left_memory(tmp_path)
    assert set(tmp_path.iterdir()) == set(names[1:])
    assert all((folder / "v1").exists() for folder in names[1:])


def test_who_outlives_a_killed_child_removes_what_it_left_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    program = re.sub(r", Path\(sys.argv\[1\]\)", "", OPENS)
    log = tmp_path / "log"
    child = Supervised(
        "the child", [sys.executable, "-c", program], log, patience_s=600, restarts=1
    )
    child.start()

    def folders() -> list[Path]:
        return list(tmp_path.glob("srl-process-*"))

    try:
        while not folders():
            child.check()
        (left,) = folders()
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        while left.exists():
            child.check()
    finally:
        child.close()
