"""Trackers begin before anything slow, and a resumed run continues only its own dashboard."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.folder.tracking import RUN_ID
from srl_agents.training.loop import stages as parts
from srl_envs.errors import ConfigError
from tests.training_runs import train_run

RECIPE = """
name: tracked
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 2
learners: [alice]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 1, group_size: 4, max_new_tokens: 6}
opponents: {mirror: 1, live: 0, past: 0}
training: {learning_rate: 0.01}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 2
checkpoint_every: 1
report_to: [trackio, wandb]
"""
FAKE = """
import json, pathlib
LOG = pathlib.Path(__file__).with_name("calls.jsonl")

class Run:
    def log(self, metrics, step=None):
        note("log", step=step)

    def finish(self):
        note("finish")

def note(call, **values):
    with LOG.open("a") as file:
        file.write(json.dumps([__name__, call, values]) + "\\n")

def init(project, name, config, resume, id=None, embed=None):
    note("init", name=name, id=id)
    return Run()
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which stand-ins for both trackers write what they are called with."""
    folder = tmp_path / "installed"
    folder.mkdir()
    for name in ("trackio", "wandb"):
        (folder / f"{name}.py").write_text(FAKE)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(folder)
    return folder / "calls.jsonl"


@pytest.fixture
def recipe(tmp_path: Path) -> LeagueRecipe:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return load(LeagueRecipe, path)


def calls_of(calls: Path, tracker: str) -> list[tuple[str, dict[str, Any]]]:
    lines = map(json.loads, calls.read_text().splitlines())
    return [(call, values) for name, call, values in lines if name == tracker]


def test_a_missing_login_is_reported_before_the_model_is_loaded(
    recipe: LeagueRecipe, calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.with_name("wandb.py").write_text(
        "def init(**_):\n    raise RuntimeError('No API key.')\n"
    )
    loaded: list[LeagueRecipe] = []
    monkeypatch.setattr(parts, "load_bases", loaded.append)
    with pytest.raises(ConfigError, match=r"wandb does not begin: .*No API key"):
        train_run(recipe, tmp_path / "run")
    assert not loaded
    assert not (tmp_path / "run").exists()  # who leaves the tracker out has another recipe
    assert [call for call, _ in calls_of(calls, "trackio")] == ["init", "finish"]


@pytest.mark.slow
def test_a_resumed_run_keeps_its_id_and_another_of_its_name_has_its_own(
    recipe: LeagueRecipe, calls: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train_run(recipe, tmp_path / "run", interrupt_after=2)
    train_run(recipe, tmp_path / "run")
    one = (tmp_path / "run" / RUN_ID).read_text().strip()
    for name, own in (("wandb", one), ("trackio", None)):
        begun = ("init", {"name": "run", "id": own})
        first, second = ("log", {"step": 1}), ("log", {"step": 2})
        ended: Any = ("finish", {})
        assert calls_of(calls, name) == [begun, first, ended, begun, second, ended]

    train_run(recipe, tmp_path / "elsewhere/run")
    other = (tmp_path / "elsewhere/run" / RUN_ID).read_text().strip()
    assert calls_of(calls, "wandb")[-4] == ("init", {"name": "run", "id": other})
    assert other != one

    (tmp_path / "run" / RUN_ID).unlink()  # a run from before there were ids
    train_run(recipe, tmp_path / "run")
    assert calls_of(calls, "wandb")[-2] == ("init", {"name": "run", "id": "run"})
