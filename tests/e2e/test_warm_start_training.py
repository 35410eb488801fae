"""A league that begins by imitation: replies become legal, and an interrupted run ends alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from srl_agents.metrics.sinks import read_lines
from srl_agents.models.sources import random_model
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from tests.training_runs import train_run

RECIPE = """
name: warm
model: {model}
env: kuhn_poker-v0
env_options: {{hands: 1}}
updates: 2
learners: [alice]
lora: {{rank: 8, alpha: 16}}
rollout: {{start_states: 1, group_size: 4, max_new_tokens: 24}}
opponents: {{mirror: 1, live: 0, past: 0}}
training: {{learning_rate: 1.0e-4}}
evaluation: {{every: 0, final_pairs: 1, bots: []}}
checkpoint_every: 1
"""
WARM = (
    "warm_start={bots: [middle, strong], episodes: 24, updates: 40, "
    "training: {learning_rate: 1.0e-2, batch_rows: 8}}"
)


def train(
    recipe: LeagueRecipe, run: Path, interrupt_after: int = 0, killed: Path | None = None
) -> list[dict[str, Any]]:
    train_run(recipe, run, interrupt_after, killed)
    return [line["learners"]["alice"] for line in read_lines(run / "metrics.jsonl")]


@pytest.mark.nightly
def test_imitation_makes_replies_legal_and_survives_a_kill(tmp_path: Path) -> None:
    model = random_model.build(tmp_path / "model", context=1024)
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE.format(model=model))
    cold = train(load(LeagueRecipe, path, ["updates=1"]), tmp_path / "cold")
    assert cold[0]["invalid_share"] > 0.9  # a random model writes noise

    recipe = load(LeagueRecipe, path, [WARM])
    whole = train(recipe, tmp_path / "whole", 1, killed=tmp_path / "run")
    assert whole[0]["invalid_share"] < 0.75  # 0.55 here, and falling
    report = json.loads((tmp_path / "whole/warm_start/report.json").read_text())
    assert set(report["rows"]) == {"bot:middle", "bot:strong"}
    assert (
        report["learners"]["alice"]["last"]["loss"] < report["learners"]["alice"]["first"]["loss"]
    )

    train(recipe, tmp_path / "run")
    last = "checkpoints/step-00000002/alice.adapter.safetensors"
    ends = [load_file(tmp_path / run / last) for run in ("whole", "run")]
    assert all(ends[0][key].equal(ends[1][key]) for key in ends[0])
