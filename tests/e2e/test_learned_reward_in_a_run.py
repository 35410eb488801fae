"""A learned reward in a real run: only credit uses it, from the update after it has learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from srl_agents.memory.phase_manager import TRACE
from srl_agents.models.sources import random_model
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from tests.training_runs import metrics_of, train_run

RECIPE = """
name: judged
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 2
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 4, max_new_tokens: 6}
opponents: {mirror: 1, live: 1, past: 0}
training: {learning_rate: 0.01}
evaluation: {every: 0, final_pairs: 1, bots: []}
checkpoint_every: 1
keep_checkpoints: 2
"""


def trained(folder: Path, weight: float) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(RECIPE)
    judge = f"reward_model={{ready_pairs: 1, learning_rate: 0.01, weight: {weight}}}"
    run = folder / f"weight-{weight}"
    train_run(load(LeagueRecipe, path, [judge]), run)
    return run


def weights(run: Path, update: int, name: str) -> dict[str, torch.Tensor]:
    return load_file(run / f"checkpoints/step-{update:08}/{name}.adapter.safetensors")


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, other[key]) for key, tensor in one.items())


def judge_and_rules(values: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if k.startswith(("reward", "outcome"))}


@pytest.mark.nightly
def test_learners_climb_what_the_judge_adds_and_nobody_else_hears_it(tmp_path: Path) -> None:
    """Two runs that differ in how much the judge's word counts: in one, next to nothing."""
    heard, unheard = trained(tmp_path, 0.9), trained(tmp_path, 1e-12)
    for name in ("alice", "bob"):  # the judge has learned nothing when it first could judge
        assert equal(weights(heard, 1, name), weights(unheard, 1, name))
        assert not equal(weights(heard, 2, name), weights(unheard, 2, name))
    for update in (1, 2):  # what it learns is what the rules said
        own = weights(heard, update, "reward_model")
        assert equal(own, weights(unheard, update, "reward_model"))
    for one, other in zip(metrics_of(heard), metrics_of(unheard), strict=True):
        assert judge_and_rules(one["run"]) == judge_and_rules(other["run"])
        for name, values in one["learners"].items():
            assert judge_and_rules(values) == judge_and_rules(other["learners"][name])
    first, second = metrics_of(heard)
    assert "reward_model/judgement" not in first["run"]
    assert second["run"]["reward_model/judgement"] != 0


@pytest.mark.slow
def test_a_reward_model_of_another_size_is_in_memory_in_its_phases_alone(tmp_path: Path) -> None:
    judge = random_model.build(tmp_path / "judge", hidden=48, layers=1)
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    settings = [
        f"reward_model={{model: {judge}, ready_pairs: 1}}",
        "training={learning_rate: 0.01, gradient_checkpointing: auto}",  # which fits without
    ]
    train_run(load(LeagueRecipe, path, settings), tmp_path / "run")
    trace = [json.loads(line) for line in (tmp_path / "run" / TRACE).read_text().splitlines()]
    present = {line["phase"] for line in trace if "reward base" in line["roles"]}
    assert present == {"judge", "reward learning", "update"}  # which is around both
    assert metrics_of(tmp_path / "run")[1]["run"]["reward_model/judgement"] != 0
    assert weights(tmp_path / "run", 2, "reward_model")
