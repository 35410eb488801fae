"""DPO and every kind of sharing in a real run: killed, it ends like an undisturbed one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from srl_agents.agents import ModelPolicy
from srl_agents.agents.prompt_file import read_prompt
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics.names import MEANINGS
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.loop.run import LeagueTraining
from srl_envs.errors import ConfigError
from tests.training_runs import metrics_of, state_of, train_run

RECIPE = """
name: others
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 2
learners: [alice, bob]
prompt: {examples: [{observation: a board, reply: "<action>1</action>"}]}
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 4, max_new_tokens: 6}
opponents: {mirror: 1, live: 1, past: 0}
training: {learning_rate: 0.01}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 2
checkpoint_every: 1
"""
DPO = "training={algorithm: dpo, learning_rate: 0.003, optimizer: adamw_8bit, reference: start}"
SETTINGS = {
    "dpo": (DPO, "sharing={kind: demonstrations, every: 1, top: 2}"),
    "sft": (
        "sharing={kind: sft, every: 1, steps: 2, sft: {optimizer: adamw_8bit}}",
        "reward_model={ready_pairs: 1, weight: 0.5, learning_rate: 0.01}",
    ),
    "pairs": ("sharing={kind: dpo, every: 1, top: 3, dpo: {learning_rate: 0.001}}",),
}
JUDGED = ("pairs", "accuracy", "margin", "loss", "judgement")
METRICS = {
    "dpo": {"pairs", "pair_margin", "rewards/accuracies", "rewards/margins", "shared"},
    "sft": {"shared", "shared_worth", "shared_loss", *(f"reward_model/{n}" for n in JUDGED)},
    "pairs": {"shared", "shared_worth", "shared_loss"},
}


def state(run: Path) -> dict[str, Any]:
    last = run / "checkpoints/step-00000002"
    with LeagueStore(run / "league.db", mode="read") as store:
        matches = store.content_digest()
    metrics = metrics_of(run)
    return {
        "matches": matches,
        "metrics": metrics,
        "weights": {
            path.name: {k: v.tolist() for k, v in load_file(path).items()}
            for path in sorted(last.glob("*.safetensors"))
        },
        "state": state_of(last),
    }


@pytest.mark.nightly
@pytest.mark.parametrize("kind", sorted(SETTINGS))
def test_a_killed_run_ends_like_an_undisturbed_one(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    recipe = load(LeagueRecipe, path, SETTINGS[kind])
    training = train_run(recipe, tmp_path / "whole", 2, killed=tmp_path / "run")
    train_run(recipe, tmp_path / "run")
    whole = state(tmp_path / "whole")
    assert state(tmp_path / "run") == whole

    records = [v for line in whole["metrics"] for v in (line["run"], *line["learners"].values())]
    seen = {name for values in records for name in values}
    assert seen >= METRICS[kind]
    assert METRICS[kind] <= MEANINGS.keys()
    for name in ("alice", "bob"):
        other = "bob" if name == "alice" else "alice"
        last = whole["metrics"][-1]["learners"][name]
        assert last[f"shared_from:{other}"] == last["shared"] > 0
    if kind == "dpo":
        shown_with_their_snapshots(training, tmp_path / "whole")


def shown_with_their_snapshots(training: LeagueTraining, run: Path) -> None:
    """A version that was shown examples keeps them, in the pool and in its folder."""
    for name in ("alice", "bob"):
        live = training.parts.league.live(name)
        policy = training.parts.versions.policies[live]
        assert isinstance(policy, ModelPolicy)
        recipes, *shared = read_prompt(run / "snapshots" / live).pairs
        assert (
            (recipes,)
            == training.parts.bases[0].model.prompt.examples
            == training.parts.recipe.prompt.pairs
        )
        assert policy.examples == tuple(shared)
        assert training.parts.sharing is not None
        assert policy.examples == training.parts.sharing.shown[name] != ()


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ("sharing={kind: rumours}", "demonstrations, sft, dpo"),
        ("sharing={kind: sft, top: 0}", "top"),
        ("sharing={kind: sft, dpo: {kl_coef: 0}}", "kl_coef"),
    ],
)
def test_sharing_that_cannot_be_is_refused(tmp_path: Path, setting: str, word: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    with pytest.raises(ConfigError, match=word):
        load(LeagueRecipe, path, [setting])


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        (["sharing={kind: sft}", "learners=[alice]"], "no other to share with"),
        (["sharing={kind: sft}", "coordination={kind: synchronized}"], "equal for ever"),
        ([DPO, "coordination={kind: distillation}"], "pairs"),
        ([DPO, "credit={importance_cap: 2.0}"], "pairs"),
    ],
)
def test_sections_that_contradict_each_other_are_refused(
    tmp_path: Path, settings: list[str], word: str
) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    with pytest.raises(ConfigError, match=word):
        load(LeagueRecipe, path, settings)
