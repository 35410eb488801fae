"""Branches that another process plays are those of a run that plays them itself, whichever is killed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.rollouts.transcripts import TRAINING_MATCHES, read_transcripts
from srl_envs import replay
from tests.faults.struck_engine import NAME, branches_in
from tests.forked_commands import start_function
from tests.training_runs import metrics_of, train_run

ROOT = Path(__file__).parents[2]
RECIPE = """
name: branches
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 3
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 1, group_size: 2, max_new_tokens: 8, trace: 16}
opponents: {mirror: 0.5, live: 1, past: 1}
training: {learning_rate: 0.003}
credit: {estimator: c3, level: turn}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 2
checkpoint_every: 1
"""
AT_ONCE = "forks: {alternatives: 3, share: 0.5, tokens: 200}\n"
IN_ROUNDS = "forks: {alternatives: 2, path: sampled, tokens: 200}\n"
AHEAD = "asynchronous: {ahead: 1, part_matches: 4}\ntransport: {kind: files}\n"
IN_TURNS = "asynchronous: {ahead: 0}\ntransport: {kind: files}\n"


def recipe_of(text: str, folder: Path) -> LeagueRecipe:
    path = folder / "r.yaml"
    path.write_text(RECIPE + text)
    return load(LeagueRecipe, path)


def outcome(run: Path) -> dict[str, Any]:
    """What a run came to: matches with their order, transcripts of all it learned from, and weights."""
    with LeagueStore(run / "league.db", mode="read") as store:
        matches = store.content_digest()
        branches = len(store.matches(purpose="fork"))
        learned = {spec.match_id for spec, _ in store.matches(split="train")}
    weights = {p.name: p.read_bytes() for p in sorted(run.glob("adapters/*/*.safetensors"))}
    assert weights
    assert branches == sum(record["run"]["forks/branches"] for record in metrics_of(run)) > 0
    lines = (run / TRAINING_MATCHES).read_text().splitlines()
    replayed = read_transcripts(run / TRAINING_MATCHES)
    assert len(lines) == len(replayed)
    assert set(replayed) == learned
    for transcript in replayed.values():
        assert replay(transcript) == transcript
    return {"matches": matches, "transcripts": sorted(lines), "weights": weights}


def train(recipe: LeagueRecipe, run: Path) -> None:
    train_run(recipe, run)


@pytest.mark.slow
def test_a_kill_of_either_process_among_branches_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trainer dies among those of update 2, which are played ahead, and generation among those of 3."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train_run(recipe_of(AT_ONCE + AHEAD, tmp_path), whole)

    engine = f"engine: {{kind: '{NAME}', run: {killed}, parent_in: 2, own_in: 3}}\n"
    recipe = recipe_of(AT_ONCE + AHEAD + engine, tmp_path)
    process = start_function(train, (recipe, killed), tmp_path / "log")
    process.join(600)
    assert process.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
    begun = branches_in(killed, 2)
    train_run(recipe, killed)

    assert 0 < begun < metrics_of(whole)[1]["run"]["forks/branches"]
    assert (tmp_path / "struck_own").exists()
    assert outcome(killed) == outcome(whole)
    assert metrics_of(killed) == metrics_of(whole)


@pytest.mark.nightly
def test_processes_that_take_turns_play_the_branches_of_one_that_does_all(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    train_run(recipe_of(IN_ROUNDS, tmp_path), one)
    train_run(recipe_of(IN_ROUNDS + IN_TURNS, tmp_path), two)
    assert outcome(two) == outcome(one)
    for here, there in zip(metrics_of(one), metrics_of(two), strict=True):
        for name, values in here["learners"].items():
            others = there["learners"][name]
            assert {key: others[key] for key in values} == values
        for key in ("forks/branches", "forks/tokens", "spent/tokens"):
            assert there["run"][key] == here["run"][key]
    learned = [
        values.get("loss") for line in metrics_of(one) for values in line["learners"].values()
    ]
    assert any(learned)
