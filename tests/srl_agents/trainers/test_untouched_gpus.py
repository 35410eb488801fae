"""A process makes no context on a GPU that it does not compute on: that takes memory there."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents.trainers.learner import global_generators_kept

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from pathlib import Path

import torch
from srl_agents.models.sources import random_model
from srl_agents.models.base_model import BaseModel
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.ppo import PPOLearner
from srl_agents.trainers.ppo_settings import PPOSettings
from tests.srl_agents.trainers.conftest import sample_batch


def touched(*args, **kwargs):
    raise AssertionError("a GPU was touched")


torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: 2
torch.cuda._lazy_init = touched
base = BaseModel.load(random_model.build(Path(sys.argv[1])), lora_rank=4, device="cpu")
learner = GRPOLearner("alice", base, GRPOSettings(kl_coef=0.1), 1.0, 0)
learner.update(sample_batch(base, "alice"))
PPOLearner("bob", base, PPOSettings(critic="adapter"), 1.0, 0).values(sample_batch(base, "bob"))
print(torch.cuda.is_initialized())
"""


@pytest.mark.slow
def test_training_on_the_cpu_touches_none_of_two_gpus(tmp_path: Path) -> None:
    """A process of its own: libraries remember what machine they are on."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "False\n", done.stderr


def test_generators_of_other_devices_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    fork = torch.random.fork_rng

    def recorded(devices: Any = None) -> Any:
        seen.append(devices)
        return fork(devices=[])

    monkeypatch.setattr(torch.random, "fork_rng", recorded)
    for device in ("cpu", "cuda:1"):
        with global_generators_kept(torch.device(device)):
            pass
    assert seen == [[], [torch.device("cuda:1")]]


def test_generators_are_put_back() -> None:
    before = torch.random.get_rng_state()
    with global_generators_kept(torch.device("cpu")):
        torch.manual_seed(1)
    assert torch.equal(torch.random.get_rng_state(), before)


def forks() -> Iterator[tuple[Path, ast.Call]]:
    for package in ("srl_agents", "benchmarks", "leaderboards", "tests"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("fork_rng"):
                    yield path, node


@pytest.mark.slow
def test_every_fork_of_the_generators_says_of_which_devices() -> None:
    """Without, torch asks every visible GPU."""
    found = list(forks())
    assert found
    silent = [
        f"{path}:{call.lineno}"
        for path, call in found
        if "devices" not in {k.arg for k in call.keywords}
    ]
    assert silent == []
