"""A league whose learners own all of their weights: it resumes bit for bit and leaves whole models."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from srl_agents.agents.resolver import Playing, find
from srl_agents.agents.text_players import TextPlayers
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics import ConsoleView
from srl_agents.metrics.sinks import read_lines
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources.catalog import resolve
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.folder.layout import snapshots_in
from srl_agents.training.loop.run import LeagueTraining
from tests.training_runs import metrics_of, state_of, train_run

pytestmark = pytest.mark.slow

UPDATES = 2
RECIPE = f"""
name: whole
model: tiny
env: connect_four-v0
env_options: {{rows: 4, cols: 4, k: 3}}
updates: {UPDATES}
learners: [alice, bob]
parameters: full
rollout: {{start_states: 2, group_size: 3, max_new_tokens: 6}}
opponents: {{mirror: 0, live: 1, past: 1}}
training: {{learning_rate: 0.001, kl_coef: 0.02, optimizer: adamw_8bit}}
evaluation: {{every: 0, final_pairs: 1, bots: []}}
snapshot_every: 1
checkpoint_every: 1
keep_checkpoints: {UPDATES}
"""
ASYNCHRONOUS = "coordination={kind: asynchronous, ready_rows: 12}"


def train(run: Path, *settings: str, killed: Path | None = None) -> None:
    """With `killed`, that folder is what a kill before the last checkpoint leaves."""
    path = run.with_suffix(".yaml")
    path.write_text(RECIPE)
    train_run(load(LeagueRecipe, path, settings), run, UPDATES if killed else 0, killed)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    train(run, ASYNCHRONOUS, killed=run.with_name("killed"))
    return run


def weights(run: Path, learner: str, update: int = UPDATES) -> dict[str, torch.Tensor]:
    return load_file(run / f"checkpoints/step-{update:08}/{learner}.adapter.safetensors")


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(t, other[k]) for k, t in one.items())


def state(run: Path) -> dict[str, Any]:
    """Everything a run leaves behind, but for wall-clock times."""
    last = run / f"checkpoints/step-{UPDATES:08}"
    lines = metrics_of(run)
    with LeagueStore(run / "league.db", mode="read") as store:
        matches = store.content_digest()
    tensors = [*sorted(last.glob("*.safetensors")), *sorted(run.glob("*/*/model.safetensors"))]
    return {
        "matches": matches,
        "metrics": lines,
        "weights": {
            str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in tensors
        },
        "state": state_of(last),
    }


@pytest.mark.nightly
def test_a_killed_run_ends_like_an_undisturbed_one(whole: Path) -> None:
    killed = whole.with_name("killed")
    assert not (killed / f"checkpoints/step-{UPDATES:08}").exists()
    train(killed, ASYNCHRONOUS)
    assert state(killed) == state(whole)


@pytest.mark.nightly
def test_snapshots_are_the_learners_of_their_time(whole: Path) -> None:
    """The pool plays what was frozen: folders, of which one at a time is in memory."""
    frozen = [whole / "snapshots" / name for name in snapshots_in(whole)]
    assert {path.name.partition("@")[0] for path in frozen} == {"alice", "bob"}
    for path in frozen:
        saved, learner = load_file(path / "model.safetensors"), path.name.partition("@")[0]
        assert any(equal(saved, weights(whole, learner, update)) for update in (1, UPDATES))
    assert equal(
        load_file(max(p for p in frozen if p.name.startswith("alice")) / "model.safetensors"),
        weights(whole, "alice"),
    )


def test_what_is_left_is_a_model_for_everybody(whole: Path, tmp_path: Path) -> None:
    folder = whole / "models/alice"
    model = AutoModelForCausalLM.from_pretrained(folder)
    base = AutoModelForCausalLM.from_pretrained(resolve("tiny"))
    own = weights(whole, "alice")
    assert equal({k: p.detach() for k, p in model.named_parameters()}, own)
    assert not equal({k: p.detach() for k, p in base.named_parameters()}, own)
    card = (folder / "README.md").read_text()
    assert "library_name: transformers" in card
    assert "All weights of `tiny`" in card
    assert (folder / "recipe.yaml").read_text() == (whole / "recipe.yaml").read_text()
    assert not (whole / "adapters").exists()

    game = "connect_four-v0"
    playing = Playing(env_id=game, sampling=SamplingSettings(max_new_tokens=4))
    players = TextPlayers([find(str(folder), game)], playing)
    assert isinstance(players.player(0, seed=0)("Your move."), str)
    players.close()
    path = tmp_path / "next.yaml"
    path.write_text(RECIPE)
    recipe = load(LeagueRecipe, path, [f"model={folder}"])
    training = LeagueTraining(
        recipe, tmp_path / "next", ConsoleView("next", UPDATES, Console(quiet=True))
    )
    try:
        assert equal(training.parts.bases[0].model.adapter_tensors("alice"), own)
    finally:
        training.close()


def test_synchronized_learners_stay_equal(tmp_path: Path) -> None:
    train(tmp_path / "run", "coordination={kind: synchronized}")
    alice = weights(tmp_path / "run", "alice")
    assert equal(alice, weights(tmp_path / "run", "bob"))
    assert not equal(alice, weights(tmp_path / "run", "alice", 1))


def test_learners_that_keep_nothing_of_themselves_meet_in_the_average(tmp_path: Path) -> None:
    federated = "coordination={kind: federated, every: 2, local_share: 0, weights: even}"
    train(tmp_path / "run", federated, "updates=2")
    before = [weights(tmp_path / "run", name, 1) for name in ("alice", "bob")]
    alice, bob = (weights(tmp_path / "run", name) for name in ("alice", "bob"))
    assert not equal(*before)
    assert equal(alice, bob)


@pytest.mark.nightly
def test_the_best_teaches_and_ppo_and_warm_starts_run_on_whole_weights(tmp_path: Path) -> None:
    """One update of each: the numbers are tested where the parts are."""
    distillation = "coordination={kind: distillation, teacher_weight: 1}"
    ppo = "training={algorithm: ppo, learning_rate: 1.0e-4, critic: base}"
    warm = (
        "warm_start={bots: [middle], episodes: 4, updates: 2, "
        "training: {learning_rate: 1.0e-4, batch_rows: 4}}"
    )
    train(tmp_path / "run", distillation, ppo, warm)
    lines = read_lines(tmp_path / "run/metrics.jsonl")
    assert any("value/loss" in values for values in lines[0]["learners"].values())
    loaded = BaseModel.load(tmp_path / "run/warm_start/alice", device="cpu")
    assert loaded.context_length == BaseModel.load("tiny", device="cpu").context_length
