"""A whole league run: repeatable, and indifferent to being killed at any moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from srl_agents.agents import ModelPolicy
from srl_agents.cli.main import main
from srl_agents.league.agents import find_agent
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics import ConsoleView
from srl_agents.metrics.names import WALL_CLOCK
from srl_agents.metrics.sinks import read_lines
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import label_of
from srl_agents.training.loop.run import LeagueTraining
from srl_envs.errors import SandboxError
from srl_envs.families.board.connect_four import ConnectFour
from tests.forked_commands import finish_command, start_command
from tests.training_runs import state_of

# Snapshots between checkpoints and opponents from the past: a frozen version that moved with its
# learner would show after a resume. Replies of `tiny` decide games, so other weights show too.
RECIPE = """
name: small
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 4
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 1, group_size: 4, max_new_tokens: 6}
opponents: {mirror: 0, live: 1, past: 2}
training: {learning_rate: 0.01, kl_coef: 0.1, optimizer: adamw_8bit}
evaluation: {every: 4, pairs: 1, final_pairs: 1, bots: [random]}
snapshot_every: 3
checkpoint_every: 2
"""
LAST = "checkpoints/step-00000004"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "small.yaml"
    path.write_text(RECIPE)
    return path


def start(recipe: Path, out: Path) -> BaseProcess:
    return start_command(["train", str(recipe), "--out", str(out)], out.with_suffix(".log"))


def state(run: Path) -> dict[str, Any]:
    """Everything a run leaves behind, but for wall-clock times."""
    with LeagueStore(run / "league.db", mode="read") as store:
        matches = store.content_digest()
    metrics = read_lines(run / "metrics.jsonl")
    for line in metrics:
        for name in WALL_CLOCK:
            line["run"].pop(name, None)
    return {
        "matches": matches,
        "metrics": metrics,
        "weights": {
            str(path.relative_to(run)): {k: v.tolist() for k, v in load_file(path).items()}
            for pattern in ("snapshots/**/*.safetensors", f"{LAST}/*.safetensors")
            for path in sorted(run.glob(pattern))
        },
        "state": state_of(run / LAST),
    }


@pytest.mark.nightly
def test_killed_and_resumed_ends_like_an_undisturbed_run(recipe: Path, tmp_path: Path) -> None:
    """Another process each time, so the same recipe and seed give the same run, too."""
    command = [sys.executable, "-W", "ignore", "-m", "srl_agents.cli.main", "train", str(recipe)]
    subprocess.run([*command, "--out", str(tmp_path / "undisturbed")], check=True)
    undisturbed = state(tmp_path / "undisturbed")
    run = tmp_path / "run"
    kills = 0
    for update in (1, 3):  # before the first checkpoint; behind one, with a snapshot since
        process = start(recipe, run)
        while process.is_alive() and len(read_lines(run / "metrics.jsonl")) < update:
            time.sleep(0.01)
        time.sleep(0.1)  # somewhere in the update that follows
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    finish_command(start(recipe, run), tmp_path / "run.log")
    assert kills
    assert state(run) == undisturbed
    finish_command(start(recipe, run), tmp_path / "run.log")  # nothing is left to do
    assert state(run) == undisturbed
    learned = [v for line in undisturbed["metrics"] for v in line["learners"].values()]
    assert any("loss" in values for values in learned), "nothing was trained, so nothing compared"


@pytest.mark.slow
def test_frozen_versions_do_not_move_with_their_learner(recipe: Path, tmp_path: Path) -> None:
    settings = ["updates=3", "snapshot_every=2", "rollout.start_states=2"]
    with ConsoleView("run", 3, Console(quiet=True)) as view:
        training = LeagueTraining(load(LeagueRecipe, recipe, settings), tmp_path / "run", view)
        training.run()
    frozen = {v for v in training.parts.league.past if v != "tiny"}
    assert {"alice@2", "bob@2"} <= {*map(label_of, frozen)}
    for version in frozen:
        policy = training.parts.versions.policies[version]
        assert isinstance(policy, ModelPolicy)
        assert str(policy.version) == version
        saved = load_file(tmp_path / "run/snapshots" / version / "adapter_model.safetensors")
        played = training.parts.bases[0].model.adapter_tensors(version)
        assert all(torch.equal(saved[name], played[name]) for name in saved)
    moved = training.parts.bases[0].model.adapter_tensors("alice")
    old = training.parts.bases[0].model.adapter_tensors(find_agent("alice@2", frozen))
    assert any(not torch.equal(moved[name], old[name]) for name in old)
    training.close()


@pytest.mark.slow
def test_a_final_table_that_went_void_is_played_again(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(LeagueRecipe, recipe, ["updates=1", "evaluation.every=0"])
    original = ConnectFour.apply

    def broken(self: ConnectFour, state: Any, actions: Any) -> Any:
        if training.done == 1:
            raise SandboxError("the sandbox is gone")
        return original(self, state, actions)

    with ConsoleView("run", 1, Console(quiet=True)) as view:
        training = LeagueTraining(settings, tmp_path / "run", view)
        monkeypatch.setattr(ConnectFour, "apply", broken)
        with pytest.raises(SandboxError, match="could not be finished"):
            training.run()
        training.close()
        monkeypatch.undo()
        training = LeagueTraining(settings, tmp_path / "run", view)
        training.run()
        training.close()
    with LeagueStore(tmp_path / "run/league.db", mode="read") as store:
        ends = [result.termination for _, result in store.matches(schedule="eval/final")]
    assert ends.count("void") == ends.count("ok") + ends.count("forfeit") > 0


@pytest.mark.slow
def test_another_recipe_does_not_touch_the_run(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.yaml").write_text("name: other\n")
    assert main(["train", str(recipe), "--out", str(run)]) == 2
    assert "another recipe" in capsys.readouterr().err
    assert sorted(p.name for p in run.iterdir()) == ["recipe.yaml"]
