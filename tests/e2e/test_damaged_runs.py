"""What a resume reads besides checkpoints is as the run wrote it, or is named and not used."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from safetensors.torch import load as load_tensors
from safetensors.torch import save_file

from srl_agents.checkpoints.frozen import HASHES, changed_files
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import CheckpointError, ModelError, StoreError
from tests.training_runs import metrics_of, snapshot, train_run

pytestmark = pytest.mark.slow

RECIPE = """
name: damaged
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 2
learners: [alice]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 1, group_size: 4, max_new_tokens: 6}
opponents: {mirror: 0, live: 0, past: 1}
warm_start: {bots: [random], episodes: 4, updates: 1}
training: {learning_rate: 0.01}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 1
checkpoint_every: 1
"""
WEIGHTS = "adapter_model.safetensors"
WARM = "warm_start/alice/adapter_model.safetensors"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> LeagueRecipe:
    path = tmp_path_factory.mktemp("recipe") / "damaged.yaml"
    path.write_text(RECIPE)
    return load(LeagueRecipe, path)


@pytest.fixture(scope="module")
def stopped(recipe: LeagueRecipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a checkpoint after its first update and a snapshot in the league's pool."""
    run = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.raises(KeyboardInterrupt):
        train_run(recipe, run, interrupt_after=2)
    return run


@pytest.fixture
def run(stopped: Path, tmp_path: Path) -> Path:
    shutil.copytree(stopped, tmp_path / "run", symlinks=True)
    return tmp_path / "run"


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def test_a_damaged_snapshot_is_named_and_not_played(recipe: LeagueRecipe, run: Path) -> None:
    weights = snapshot(run, "alice@1") / WEIGHTS
    flip(weights)
    with pytest.raises(CheckpointError, match=f"damaged on disk .*{weights}.* from a backup"):
        train_run(recipe, run)
    flip(weights)
    train_run(recipe, run)
    assert [record["update"] for record in metrics_of(run)] == [1, 2]


def test_a_damaged_snapshot_of_a_lost_update_is_written_again(
    recipe: LeagueRecipe, run: Path, tmp_path: Path
) -> None:
    """It was frozen after the last checkpoint, so the weights that it held come again."""
    shutil.copytree(run, tmp_path / "whole", symlinks=True)
    train_run(recipe, tmp_path / "whole")
    whole = snapshot(tmp_path / "whole", "alice@2")
    later = run / "snapshots" / whole.name / WEIGHTS
    shutil.copytree(whole, later.parent)
    flip(later)
    assert changed_files(later.parent) == [later.name]
    damaged = later.read_bytes()
    train_run(recipe, run)
    assert changed_files(later.parent) == []
    assert later.read_bytes() != damaged
    train_run(recipe, run)  # goes on from it


def test_a_damaged_warm_start_is_named_and_made_again(recipe: LeagueRecipe, run: Path) -> None:
    good = (run / WARM).read_bytes()
    (run / WARM).write_bytes(good[:100])
    with pytest.raises(CheckpointError, match=rf"{WARM}\. Delete .*/run/warm_start: the run makes"):
        train_run(recipe, run)
    shutil.rmtree(run / "warm_start")
    train_run(recipe, run)
    assert (run / WARM).read_bytes() == good


def test_a_run_from_before_there_were_hashes_goes_on(recipe: LeagueRecipe, run: Path) -> None:
    for file in run.rglob(HASHES):
        file.unlink()
    weights = snapshot(run, "alice@1") / WEIGHTS
    good = weights.read_bytes()
    weights.write_bytes(good[:100])
    with pytest.raises(ModelError, match=f"{weights} is not a whole safetensors file"):
        train_run(recipe, run)
    others = {name: tensor + 1 for name, tensor in load_tensors(good).items()}
    save_file(others, weights)
    with pytest.raises(CheckpointError, match="which are those of another version"):
        train_run(recipe, run)
    weights.write_bytes(good)
    train_run(recipe, run)


@pytest.mark.parametrize("loss", ["gone", "empty"])
def test_a_lost_match_history_is_refused(recipe: LeagueRecipe, run: Path, loss: str) -> None:
    store = run / "league.db"
    store.unlink()
    if loss == "empty":
        store.touch()
    with pytest.raises(StoreError, match=r"league\.db is missing or empty"):
        train_run(recipe, run)
    assert not store.exists() or not store.stat().st_size
