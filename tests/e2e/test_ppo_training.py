"""PPO in a real run: what it reports, and that it resumes bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError
from tests.training_runs import metrics_of, state_of, train_run

UPDATES = 3
RECIPE = f"""
name: critics
model: tiny
env: connect_four-v0
env_options: {{rows: 4, cols: 4, k: 3}}
updates: {UPDATES}
learners: [alice, bob]
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 2, group_size: 1, max_new_tokens: 6}}
opponents: {{mirror: 0, live: 1, past: 1}}
training: {{algorithm: ppo, learning_rate: 0.01, optimizer: adamw_8bit}}
evaluation: {{every: 0, final_pairs: 1, bots: []}}
snapshot_every: {UPDATES}
checkpoint_every: 1
keep_checkpoints: {UPDATES}
"""
LAST = f"checkpoints/step-{UPDATES:08}"


def recipe(folder: Path, *overrides: str) -> LeagueRecipe:
    path = folder / "critics.yaml"
    path.write_text(RECIPE)
    return load(LeagueRecipe, path, overrides)


def left_behind(run: Path) -> dict[str, Any]:
    metrics = metrics_of(run)
    return {
        "metrics": metrics,
        "tensors": {
            path.name: {k: v.tolist() for k, v in load_file(path).items()}
            for path in sorted((run / LAST).glob("*.safetensors"))
        },
        "state": state_of(run / LAST),
    }


@pytest.mark.nightly
def test_a_killed_run_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    train_run(recipe(tmp_path), tmp_path / "whole", 2, killed=tmp_path / "cut")
    assert not (tmp_path / "cut" / LAST).exists()
    train_run(recipe(tmp_path), tmp_path / "cut")
    whole = left_behind(tmp_path / "whole")
    assert left_behind(tmp_path / "cut") == whole

    saved = whole["tensors"]["alice.optimizer.safetensors"]
    assert any(v != 0 for row in saved["extra/head.layers.0.weight"] for v in row)
    for line in whole["metrics"]:
        for values in line["learners"].values():
            assert {"value/loss", "value/explained_var", "clip_fraction"} <= values.keys()
    assert whole["metrics"][0]["learners"]["alice"]["value/explained_var"] == pytest.approx(0.0)


def test_the_algorithm_says_which_keys_there_are(tmp_path: Path) -> None:
    assert recipe(tmp_path).training.algorithm == "ppo"
    assert recipe(tmp_path, "training={}", "rollout.group_size=2").training.algorithm == "grpo"
    with pytest.raises(ConfigError, match=r"no algorithm 'pppo'.*Did you mean 'ppo'"):
        recipe(tmp_path, "training.algorithm=pppo")
    with pytest.raises(ConfigError, match="'ppo' does not read 'loss_type'"):
        recipe(tmp_path, "training.loss_type=dapo")
    with pytest.raises(ConfigError, match=r"training: trace=2\.0"):
        recipe(tmp_path, "training.trace=2.0")
    with pytest.raises(ConfigError, match="group_size=1"):
        recipe(tmp_path, "training={}")


@pytest.mark.parametrize(
    "override",
    ["credit.estimator=leave_one_out", "credit.normalise=agent", "scale_advantages=true"],
)
def test_what_ppo_would_not_read_is_refused(tmp_path: Path, override: str) -> None:
    with pytest.raises(ConfigError, match="'ppo'"):
        recipe(tmp_path, override)


def test_variants_say_what_they_need_of_advantages(tmp_path: Path) -> None:
    groups = ("training={variant: rloo}", "rollout.group_size=2")
    with pytest.raises(ConfigError, match=r"credit\.estimator to 'leave_one_out'"):
        recipe(tmp_path, *groups)
    built = recipe(tmp_path, *groups, "credit.estimator=leave_one_out")
    assert built.training.algorithm == "grpo"
    with pytest.raises(ConfigError, match="'dr_grpo' does not divide"):
        recipe(
            tmp_path, "training={variant: dr_grpo}", "rollout.group_size=2", "scale_advantages=true"
        )


def test_shaping_and_a_critic_have_one_discount(tmp_path: Path) -> None:
    potential = "credit={level: turn, potential: 'math:sqrt'}"
    assert recipe(tmp_path, potential).credit.level == "turn"
    with pytest.raises(ConfigError, match="shapes without discount"):
        recipe(tmp_path, potential, "training.discount=0.9")
