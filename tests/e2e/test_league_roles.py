"""A league with an exploiter, a gate and payoffs: every part is reached, and a crash changes nothing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import label_of
from srl_agents.training.folder.layout import snapshots_in
from tests.training_runs import train_run

# checkpoints are rarer than snapshots, gates and resets, so a resumed run repeats some of them
RECIPE = """
name: roles
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 4
learners: [alice, eve]
roles: {eve: main_exploiter}
lora: {rank: 2, alpha: 4}
rollout: {start_states: 1, group_size: 4, max_new_tokens: 6}
opponents: {preset: competitive, payoff_pairs: 1, past_limit: 2, retention: {support: true}}
promotion: {elo1: 800, alpha: 0.4, beta: 0.4, min_pairs: 2, anchor_pairs: 1, anchor_margin: 1}
exploiters: {patience: 1}
training: {learning_rate: 0.01, optimizer: adamw_8bit}
evaluation: {every: 2, pairs: 1, final_pairs: 1, bots: [random]}
snapshot_every: 1
checkpoint_every: 2
"""


def run(
    recipe: LeagueRecipe, folder: Path, killed: Path | None = None, after: int = 0
) -> dict[str, Any]:
    training = train_run(recipe, folder, after, killed)
    return json.loads(json.dumps(training.parts.league.state()))


def digest(folder: Path) -> str:
    with LeagueStore(folder / "league.db", mode="read") as store:
        return store.content_digest()


@pytest.mark.nightly
def test_a_league_with_roles_is_repeatable_across_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "roles.yaml"
    path.write_text(RECIPE)
    recipe = load(LeagueRecipe, path)
    # two updates after the last checkpoint
    calm = run(recipe, tmp_path / "calm", killed=tmp_path / "crashed", after=4)
    assert run(recipe, tmp_path / "crashed") == calm
    assert digest(tmp_path / "crashed") == digest(tmp_path / "calm")
    with LeagueStore(tmp_path / "calm/league.db", mode="read") as store:
        purposes = Counter(spec.purpose for spec, _ in store.matches())
        agents = {label_of(agent.agent_id): agent for agent in store.agents()}
    assert {"gate", "payoff", "exploit", "eval"} <= set(purposes)
    # a reset exploiter is what it was at first, and its snapshot is what it became
    assert agents["eve@2"].contents == agents["eve@0"].contents != agents["eve@1"].contents
    assert agents["eve@0"].role == "main_exploiter"


@pytest.mark.slow
def test_a_snapshot_that_never_played_live_may_be_met(tmp_path: Path) -> None:
    """Without looks, gates or payoffs, no match names the version between its freezing and its restart."""
    path = tmp_path / "roles.yaml"
    recipe = RECIPE.replace(
        "{preset: competitive, payoff_pairs: 1, past_limit: 2, ", "{mirror: 0, "
    )
    recipe = recipe.replace(
        "retention: {support: true}}", "live: 0, past: 1, past_sampler: uniform_past}"
    )
    recipe = recipe.replace("evaluation: {every: 2,", "evaluation: {every: 0,")
    path.write_text("\n".join(line for line in recipe.splitlines() if "promotion:" not in line))
    run(load(LeagueRecipe, path), tmp_path / "run")
    with LeagueStore(tmp_path / "run/league.db", mode="read") as store:
        agents = {agent.agent_id for agent in store.agents()}
    snapshots = {*snapshots_in(tmp_path / "run")}
    assert "eve@1" in map(label_of, snapshots)
    assert snapshots <= agents
