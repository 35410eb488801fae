"""Coordinated learners with remembering credit: interrupted runs end like undisturbed ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from safetensors.torch import load_file

from srl_agents.league.store import LeagueStore
from srl_agents.metrics import ConsoleView, Record
from srl_agents.metrics.names import WALL_CLOCK
from srl_agents.metrics.sinks import read_lines
from srl_agents.recipes.league_training import LeagueTraining
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe

RECIPE = """
name: coordinated
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 4
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 2, max_new_tokens: 6}
opponents: {mirror: 0, live: 1, past: 1}
training: {learning_rate: 0.01}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 4
checkpoint_every: 2
"""
# What it remembers between updates: running means, adaptive weights, the shared adapter, staleness, rows.
SETTINGS = (
    "coordination={kind: asynchronous, ready_rows: 12}",
    "credit={mode: adaptive, estimator: role_baseline, normalise: agent}",
)
METRICS = {"beta", "gamma", "baseline", "staleness", "merge_weight", "gradient_agreement"}


class Interrupting(ConsoleView):
    """Stops the run after an update, when its record is written and its checkpoint may not be."""

    def __init__(self, after: int) -> None:
        super().__init__("run", 4, Console(quiet=True))
        self.after = after

    def write(self, record: Record) -> None:
        if record.update == self.after:
            raise KeyboardInterrupt


def train(recipe: LeagueRecipe, run: Path, interrupt_after: int = 0) -> None:
    with Interrupting(interrupt_after) as view:
        training = LeagueTraining(recipe, run, view)
        try:
            training.run()
        finally:
            training.close()


def state(run: Path) -> dict[str, Any]:
    last = run / "checkpoints/step-00000004"
    with LeagueStore(run / "league.db", mode="read") as store:
        matches = store.content_digest()
    metrics = read_lines(run / "metrics.jsonl")
    for line in metrics:
        for name in WALL_CLOCK:
            line["run"].pop(name)
    return {
        "matches": matches,
        "metrics": metrics,
        "weights": {
            path.name: {k: v.tolist() for k, v in load_file(path).items()}
            for path in sorted(last.glob("*.safetensors"))
        },
        "state": json.loads((last / "state.json").read_text()),
    }


@pytest.mark.slow
def test_an_interrupted_coordinated_run_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    recipe = load(LeagueRecipe, path, SETTINGS)
    train(recipe, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run", interrupt_after=3)
    train(recipe, tmp_path / "run")
    whole = state(tmp_path / "whole")
    assert state(tmp_path / "run") == whole
    seen = {
        name
        for line in whole["metrics"]
        for values in (line["run"], *line["learners"].values())
        for name in values
    }
    assert seen >= METRICS
