"""A league of two bases over three games of the three modes, with an endpoint among the opponents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from srl_agents.checkpoints import load as load_checkpoint
from srl_agents.cli.pages.report.render import report_data
from srl_agents.cli.pages.report.runs import read_run
from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.standings import ALL_GAMES, read_status
from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import find_recipe, load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.loop.state import CLOCK, FILES
from tests.chat_server import MODEL, chat_server
from tests.training_runs import metrics_of, train_run

SHORT = (
    "models={large: {model: tiny-shallow, learners: [alice], lora: {rank: 4, alpha: 8}}, "
    "small: {model: tiny, learners: [bob, carol]}}",
    "updates=2",
    "lora={rank: 2, alpha: 4}",
    "rollout.max_new_tokens=4",
    "evaluation={every: 2, pairs: 1, final_pairs: 1, bots: [random]}",
    "snapshot_every=1",
)


def shipped(agent: str) -> LeagueRecipe:
    """The recipe as it ships, on smaller bases and with this endpoint."""
    guests = f'{{"{agent}": 1}}', f'{{"{agent}": {{requests: 400}}}}'
    opponents = (f"opponents.agents={guests[0]}", f"opponents.budgets={guests[1]}")
    return load(LeagueRecipe, find_recipe("two-bases-three-games"), [*SHORT, *opponents])


def digest_of(run: Path) -> str:
    with LeagueStore(run / "league.db", mode="read") as store:
        return store.content_digest()


@pytest.mark.nightly
def test_two_bases_and_an_endpoint_in_three_games_are_killed_resumed_rated_reported_and_exported(
    tmp_path: Path,
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    with chat_server(reply=lambda _: "<action>1</action>") as server:
        agent = f"openai:{MODEL}@{server.url}"
        recipe = shipped(agent)
        train_run(recipe, whole, 2, killed=killed)
        asked = len(server.requests)
        train_run(recipe, killed)
        assert asked > 1
        spent = [json.loads((run / "budgets.json").read_text())[agent] for run in (whole, killed)]
    assert spent[0] == spent[1]

    assert digest_of(killed) == digest_of(whole)
    assert metrics_of(killed) == metrics_of(whole)
    one, other = (load_checkpoint(run / "checkpoints/step-00000002") for run in (whole, killed))
    assert one.state | {FILES: {}, CLOCK: {}} == other.state | {FILES: {}, CLOCK: {}}
    assert any(one.state["league"]["lessons"].values()), "the curriculum learned nothing"
    for group, own in one.tensors.items():
        assert all(torch.equal(tensor, other.tensors[group][key]) for key, tensor in own.items())

    with LeagueStore(whole / "league.db", mode="read") as store:
        trained = {spec.env_id for spec, _ in store.matches(split="train")}
        met = {seat for spec, _ in store.matches(split="train") for seat in spec.seats}
        statuses = read_status(store)
        rated = {
            game.env_id: set(store.pairs(game.env_id, options=game.options, schedule=FINAL).agents)
            for game in recipe.games
        }
    assert trained == {"connect_four-v0", "hanabi_mini-v0", "negotiation-v0"}
    assert agent in met
    assert {status.env_id for status in statuses} == {*trained, ALL_GAMES}
    for agents in rated.values():
        assert {"large", "small"} <= agents

    last = metrics_of(whole)[-1]["learners"]["alice"]
    shares = [last[f"game/{game.name}/share"] for game in recipe.games]
    assert sum(shares) == pytest.approx(1)

    rows = json.loads((whole / "transfer.json").read_text())["rows"]
    assert {row["game"]: row["trained"] for row in rows} == {
        game.name: game.weight > 0 for game in recipe.games
    }
    data = report_data([read_run(whole)], "srl report")
    assert data["runs"][0]["transfer"] == rows
    assert "By game" in [section["heading"] for section in data["environments"][0]["sections"]]
    ranks = {
        name: json.loads((whole / f"adapters/{name}/adapter_config.json").read_text())["r"]
        for name in recipe.learners
    }
    assert ranks == {"alice": 4, "bob": 2, "carol": 2}
