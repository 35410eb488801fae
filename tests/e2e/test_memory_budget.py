"""A run under a budget moves what phases do not need, and comes out as it does without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError, MemoryLimitError
from tests.training_runs import metrics_of, train_run

RECIPE = """
name: bounded
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 2
learners: [alice, bob]
lora: {rank: 8, alpha: 16}
rollout: {start_states: 1, group_size: 2, max_new_tokens: 6}
opponents: {mirror: 1, live: 1, past: 0}
training: {algorithm: ppo, critic: adapter, learning_rate: 0.01}
evaluation: {every: 0, final_pairs: 1, bots: []}
checkpoint_every: 2
"""


def trained(folder: Path, *settings: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(RECIPE)
    run = folder / f"run{len(settings)}"
    train_run(load(LeagueRecipe, path, settings), run)
    return run


@pytest.mark.slow
def test_a_run_under_a_budget_is_the_run_without_one(tmp_path: Path) -> None:
    free, bound = trained(tmp_path), trained(tmp_path, "memory.budget_gib=8")

    assert metrics_of(bound) == metrics_of(free)
    for name in ("alice", "bob"):
        place = f"checkpoints/step-00000002/{name}.adapter.safetensors"
        own, expected = load_file(bound / place), load_file(free / place)
        assert all(torch.equal(own[key], tensor) for key, tensor in expected.items())
    trace = [json.loads(line) for line in (bound / "memory.jsonl").read_text().splitlines()]
    assert {line["phase"]: line["roles"] for line in trace}["play"] == [
        "base",
        "engine",
        "versions",
    ]
    assert "optimizer state" not in {line["phase"]: line["roles"] for line in trace}["gradients"]
    assert not list(bound.glob("left_memory_*"))


@pytest.mark.slow
def test_a_run_that_needs_more_than_its_budget_ends_with_the_phase(tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitError, match=r"phase 'play' of update 1 took .*budget_gib=0.01"):
        trained(tmp_path, "memory.budget_gib=0.01")


def test_a_budget_is_refused_where_weights_do_not_move(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"memory.budget_gib: weights in 4 bits stay"):
        trained(tmp_path, "memory.budget_gib=8", "quantization=nf4")
