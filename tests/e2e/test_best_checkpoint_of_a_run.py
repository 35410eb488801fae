"""What a run's looks measured decides which checkpoint stays besides the last."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from srl_agents import checkpoints
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from tests.training_runs import metrics_of, train_run

RECIPE = """
name: looks
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 3
learners: [alice]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 4, max_new_tokens: 6}
opponents: {mirror: 1}
training: {learning_rate: 0.1}  # so steep that the first look is the best
evaluation: {every: 1, pairs: 2, final_pairs: 1, bots: [random]}
checkpoint_every: 1
keep_checkpoints: 1
"""


@pytest.mark.slow
def test_the_best_look_stays_besides_the_last(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    run = tmp_path / "run"
    train_run(load(LeagueRecipe, tmp_path / "recipe.yaml"), run)
    scores = {
        record["update"]: np.mean(
            [v for k, v in record["learners"]["alice"].items() if k.startswith("score_")]
        )
        for record in metrics_of(run)
    }
    best = max(scores, key=lambda update: (scores[update], update))
    kept = [checkpoints.load(path) for path in sorted((run / "checkpoints").iterdir())]
    assert [c.step for c in kept] == sorted({best, 3})
    assert [c.score for c in kept] == pytest.approx([scores[c.step] for c in kept])
    assert (run / "adapters/alice-best").is_dir() == (best < 3)
