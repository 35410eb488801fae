"""A league over three games of the three modes: trained, killed, resumed bit for bit, reported by game."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from srl_agents.checkpoints import load as load_checkpoint
from srl_agents.cli.league_status import ALL_GAMES, read_status
from srl_agents.cli.report_page.render import report_data
from srl_agents.cli.report_page.runs import read_run
from srl_agents.league.store import LeagueStore
from srl_agents.recipes.loading import find_recipe, load
from srl_agents.recipes.settings import LeagueRecipe
from tests.training_runs import metrics_of, train_run

SHORT = (
    "updates=2",
    "checkpoint_every=1",
    "snapshot_every=1",
    "rollout.start_states=4",
    "rollout.group_size=2",
    "rollout.max_new_tokens=4",
    "evaluation={every: 2, pairs: 1, final_pairs: 1, bots: [random]}",
)


def digest_of(run: Path) -> str:
    with LeagueStore(run / "league.db", mode="read") as store:
        return store.content_digest()


@pytest.mark.slow
def test_three_games_are_trained_killed_resumed_bit_for_bit_and_reported(tmp_path: Path) -> None:
    recipe = load(LeagueRecipe, find_recipe("several-games-tiny"), SHORT)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train_run(recipe, whole, 2, killed=killed)
    train_run(recipe, killed)

    assert digest_of(killed) == digest_of(whole)
    assert metrics_of(killed) == metrics_of(whole)
    one, other = (load_checkpoint(run / "checkpoints/step-00000002") for run in (whole, killed))
    assert one.state == other.state
    assert any(one.state["league"]["lessons"].values()), "the curriculum learned nothing"
    for group, own in one.tensors.items():
        assert all(torch.equal(tensor, other.tensors[group][key]) for key, tensor in own.items())

    with LeagueStore(whole / "league.db", mode="read") as store:
        trained = {spec.env_id for spec, _ in store.matches(split="train")}
        statuses = read_status(store)
    assert trained == {"connect_four-v0", "hanabi_mini-v0", "public_goods-v0"}
    assert {status.env_id for status in statuses} == {*trained, "nim-v0", ALL_GAMES}

    last = metrics_of(whole)[-1]["learners"]["alice"]
    shares = [last[f"game/{game.name}/share"] for game in recipe.games]
    assert sum(shares) == pytest.approx(1)
    assert shares[-1] == 0

    rows = json.loads((whole / "transfer.json").read_text())["rows"]
    assert {row["game"]: row["trained"] for row in rows} == {
        game.name: game.weight > 0 for game in recipe.games
    }
    data = report_data([read_run(whole)], "srl report")
    assert data["runs"][0]["transfer"] == rows
    assert "By game" in [section["heading"] for section in data["environments"][0]["sections"]]
