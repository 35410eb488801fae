"""Our environments as servers of OpenEnv: a real server on this machine, and its own clients."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "openenv.core",
    reason="OpenEnv is not installed: pip install openenv, in an environment of its own",
)

import requests
from openenv.core.generic_client import GenericEnvClient

import srl_envs
from srl_agents.cli.scaffold.packages import files
from srl_envs.adapters.openenv import SRLAction, SRLClient, SRLEnvironment, create_server
from srl_envs.errors import ConfigError, EpisodeOverError, SandboxError
from srl_envs.parallel import GameEnv
from srl_envs.turns.grammar import action
from tests.srl_envs.adapters import neighbours_guide

pytestmark = pytest.mark.filterwarnings("ignore")  # of OpenEnv and its dependencies

APP, CLIENT = neighbours_guide.examples("OpenEnv")
MANIFEST = """
spec_version: 1
name: srl_connect_four
version: 0.1.0
type: space
runtime: fastapi
app: server.app:app
port: 8000
validation:
  reward: {range: [-1.3, 1.0], oracle_tolerance: 0.0, floor_margin: 0.1}
  resources: {cpu: 1.0, memory_mb: 512, disk_mb: 256, episode_timeout_s: 60.0}
  capabilities: {verifier: {kind: reward_channel}}
  types: {tags: [game]}
"""
PYPROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "openenv-srl-connect-four"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["openenv>=0.10", "srl-envs"]

[project.scripts]
server = "server.app:main"
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("srl_connect_four")
    (folder / "server").mkdir()
    for name, text in (
        ("server/app.py", APP),
        ("server/__init__.py", ""),
        ("server/Dockerfile", 'FROM python:3.11\nCMD ["python", "-m", "server.app"]\n'),
        ("openenv.yaml", MANIFEST),
        ("pyproject.toml", PYPROJECT),
        ("uv.lock", "version = 1\n"),
    ):
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def url(package: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.pathsep.join([str(package), str(Path(srl_envs.__file__).parents[1])])
    log = package / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "server.app:app", "--port", str(port)],
            cwd=package, env={**os.environ, "PYTHONPATH": path}, stdout=out, stderr=out,
        )  # fmt: skip
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            if server.poll() is not None:
                pytest.fail(f"the server ended: {log.read_text()}")
            try:
                requests.get(f"{base}/health", timeout=5)
                break
            except requests.ConnectionError:
                time.sleep(0.2)
        yield base
    finally:
        server.terminate()
        server.wait(timeout=30)


def native(seed: int, split: str | None = None) -> Any:
    view = srl_envs.make_single("connect_four-v0", opponents={1: "middle"})
    seen, _ = view.reset(seed=seed, options={"split": split} if split else None)
    return view, seen


def test_an_episode_over_websocket_is_the_native_one(url: str) -> None:
    bot, again = (srl_envs.make_bot("connect_four-v0", "strong", seed=1) for _ in range(2))
    view, seen = native(7)
    with SRLClient(base_url=url).sync() as client:
        result = client.reset(seed=7, episode_id="mine")
        assert result.reward is None
        total = theirs = 0.0
        while not result.done:
            assert result.observation.text == seen["text"]
            assert result.observation.legal_actions
            result = client.step(SRLAction(message=bot(result.observation.text)))
            seen, reward, done, _, info = view.step(again(seen["text"]))
            theirs += reward
            total += result.reward
            assert result.done == done
            assert result.observation.reward_components == info["reward_components"]
        assert total == theirs
        assert result.observation.text == seen["text"]
        assert result.observation.statistics == info["statistics"]
        state = client.state()
        assert (state.env_id, state.seed, state.split) == ("connect_four-v0", 7, "train")
        assert state.episode_id == "mine"
        assert state.step_count > 3


def test_the_client_of_the_guide_plays(url: str) -> None:
    names = neighbours_guide.run(CLIENT.replace("http://127.0.0.1:8000", url))
    assert names["result"].observation.invalid is None


def test_sessions_are_separate_and_splits_differ(url: str) -> None:
    with SRLClient(base_url=url).sync() as one, SRLClient(base_url=url).sync() as two:
        assert one.reset(seed=7).observation.text == two.reset(seed=7).observation.text
        moved = one.step(SRLAction(message=action("4"))).observation
        assert two.step(SRLAction(message=action("1"))).observation.text != moved.text
        held_back = [one.reset(seed=s, split="eval").observation.text for s in range(6)]
        train = [two.reset(seed=s).observation.text for s in range(6)]
        assert held_back != train
        assert held_back[0] == native(0, "eval")[1]["text"]


def test_nonsense_is_charged_and_labelled(url: str) -> None:
    with SRLClient(base_url=url).sync() as client:
        client.reset(seed=3)
        result = client.step(SRLAction(message="I pass."))
    assert (result.reward, result.done) == (-0.05, False)
    assert result.observation.invalid == "malformed"
    assert "not accepted" in result.observation.text


def test_a_client_that_knows_nothing_of_us_can_play(url: str) -> None:
    with GenericEnvClient(base_url=url).sync() as client:
        first = client.reset(seed=3).observation
        result = client.step({"message": first["legal_actions"][0]})
        assert result.reward == 0.0
        with pytest.raises(RuntimeError, match="message"):
            client.step({"text": "4"})
        with pytest.raises(RuntimeError, match="no argument 'spilt'"):
            client.reset(spilt="eval")


def test_plain_http_describes_the_environment_and_keeps_no_episode(url: str) -> None:
    metadata = requests.get(f"{url}/metadata", timeout=30).json()
    assert metadata["name"] == "connect_four-v0"
    schema = requests.get(f"{url}/schema", timeout=30).json()
    assert "message" in schema["action"]["properties"]
    assert "legal_actions" in schema["observation"]["properties"]
    assert "seed" in schema["state"]["properties"]
    first = requests.post(f"{url}/reset", json={"seed": 7}, timeout=30).json()
    assert first["observation"]["text"] == native(7)[1]["text"]
    stepped = requests.post(f"{url}/step", json={"action": {"message": "4"}}, timeout=30)
    assert stepped.status_code == 500


def openenv(*args: str) -> Any:
    program = "from openenv.cli.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, check=False,
        timeout=170,
    )  # fmt: skip
    start = done.stdout.find("{")
    assert start >= 0, done.stdout + done.stderr
    return json.loads(done.stdout[start:])


def test_openenv_validates_the_running_server(url: str) -> None:
    report = openenv("validate", "--url", url, "--json")
    assert report["passed"], report
    assert len(report["criteria"]) >= 5


def test_openenv_validates_the_package(package: Path) -> None:
    report = openenv("validate", str(package), "--level", "static", "--skip-build", "--json")
    failed = [result for result in report["results"] if result["status"] in ("fail", "error")]
    assert report["verdict"] == "pass", failed


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of `srl new openenv`, and beside it, in `site`, what its wheel installs."""
    root = tmp_path_factory.mktemp("made")
    for path, text in files("openenv", "my_heaps").items():
        (root / "my_heaps" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "my_heaps" / path).write_text(text)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--target", root / "site", root / "my_heaps"], check=True)
    return root


def inside(made: Path, *command: str) -> str:
    """Output of Python where the wheel is installed, and this checkout of SRL."""
    path = os.pathsep.join([str(made / "site"), str(Path(srl_envs.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(made / "cache")}
    done = subprocess.run(
        [sys.executable, *command], cwd=made, env=environment, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_new_package_passes_its_own_test_from_its_wheel(made: Path) -> None:
    shutil.copytree(made / "my_heaps/tests", made / "tests", dirs_exist_ok=True)
    assert "1 passed" in inside(made, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")


def test_a_new_package_is_found_by_openenv(made: Path) -> None:
    found = (
        "from openenv import AutoAction, AutoEnv; print(AutoAction.from_env('my_heaps').__name__)"
    )
    assert inside(made, "-c", found).split() == ["MyHeapsAction"]
    listed = "from openenv import AutoEnv; AutoEnv.list_environments()"
    assert "my_heaps" in inside(made, "-c", listed)


def test_openenv_validates_a_new_package(made: Path) -> None:
    (made / "my_heaps/uv.lock").write_text("version = 1\n")  # `uv lock` asks an index
    command = ("validate", str(made / "my_heaps"), "--level", "static", "--skip-build", "--json")
    report = openenv(*command)
    failed = [result for result in report["results"] if result["status"] in ("fail", "error")]
    assert report["verdict"] == "pass", failed


def test_a_failure_of_ours_is_an_error_and_ends_the_episode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env = SRLEnvironment("connect_four-v0")
    with pytest.raises(EpisodeOverError, match="reset it"):
        env.step(SRLAction(message=action("4")))
    env.reset(seed=1)

    def broken(self: GameEnv, actions: Any) -> Any:
        raise SandboxError("gone")

    monkeypatch.setattr(GameEnv, "advance", broken)
    with pytest.raises(SandboxError):
        env.step(SRLAction(message=action("4")))
    monkeypatch.undo()
    with pytest.raises(EpisodeOverError):
        env.step(SRLAction(message=action("4")))
    env.reset(seed=1)
    env.step(SRLAction(message=action("4")))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"seat": 2}, "seat=2"),
        ({"bots": {1: "middel"}}, "Did you mean 'middle'"),
        ({"bots": {0: "middle"}}, "other than 0"),
        ({"rows": 99}, "rows"),
    ],
)
def test_a_wrong_server_fails_before_it_listens(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises((ConfigError, LookupError), match=reason):
        create_server("connect_four-v0", **arguments)
