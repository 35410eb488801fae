"""Agents of a published board are met in training, and no other agent under their name."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from leaderboards.boards.archive import PUBLISHED, Entry, read_board
from leaderboards.boards.opponents import Published, check_mentioned, opponent_settings, published
from srl_agents.agents.contents import ENDPOINT
from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import SHIPPED, load
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import dump
from tests.leaderboards.command import main
from tests.training_runs import train_run

FIVE = "connect_four-v0.5x5x3"


@pytest.fixture(scope="module")
def alice() -> Published:
    return published(read_board(), "quickstart@30", FIVE)


def recipe(tmp_path: Path, settings: dict[str, Any]) -> LeagueRecipe:
    """The quickstart against only this agent, for one short update."""
    opponents = {"mirror": 0, "live": 0, "past": 0, **settings["opponents"]}
    short = (
        "updates=1",
        "rollout={start_states: 1, group_size: 2, max_new_tokens: 6}",
        "evaluation={every: 0, final_pairs: 1, bots: []}",
    )
    recipe = dump(load(LeagueRecipe, SHIPPED / "quickstart-tiny.yaml", short))
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(recipe | {"opponents": opponents}))
    return load(LeagueRecipe, tmp_path / "r.yaml")


@pytest.mark.slow
def test_an_adapter_of_the_board_is_met_and_one_with_another_prompt_is_refused(
    tmp_path: Path, alice: Published
) -> None:
    settings = opponent_settings(alice)
    (name,) = settings["opponents"]["agents"]
    train_run(recipe(tmp_path, settings), tmp_path / "run")
    with LeagueStore(tmp_path / "run/league.db", mode="read") as store:
        met = {seat for spec, _ in store.matches(split="train") for seat in spec.seats}
    assert name in met
    settings["opponents"]["pinned"][name]["prompt"] = "0" * 64
    with pytest.raises(ConfigError, match="has another prompt than the recipe pins"):
        train_run(recipe(tmp_path, settings), tmp_path / "forged")


def test_what_the_files_of_an_opponent_tell_is_compared_before_anything_is_loaded(
    tmp_path: Path, alice: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_nothing(*_: object, **__: object) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr("srl_agents.training.loop.stages.load_bases", load_nothing)
    settings = opponent_settings(alice)
    (name,) = settings["opponents"]["agents"]
    with pytest.raises(AssertionError, match="weights were loaded"):
        train_run(recipe(tmp_path, settings), tmp_path / "as_published")

    model, _, folder = name.partition("+")
    louder = tmp_path / "louder"
    shutil.copytree(folder, louder)
    config = json.loads((louder / "adapter_config.json").read_text())
    (louder / "adapter_config.json").write_text(json.dumps(config | {"lora_alpha": 64}))
    settings = opponent_settings(alice, model=f"{model}+{louder}")
    with pytest.raises(ConfigError, match="has another lora than the recipe pins"):
        train_run(recipe(tmp_path, settings), tmp_path / "loud")
    settings = opponent_settings(alice)
    pinned = settings["opponents"]["pinned"][name]
    for part in ("adapter", "base_sha256", "prompt", "tokenizer"):
        settings["opponents"]["pinned"][name] = pinned | {part: "0" * 64}
        with pytest.raises(ConfigError, match=f"has another {part} than the recipe pins"):
            train_run(recipe(tmp_path, settings), tmp_path / "forged")


def test_a_bundle_that_was_changed_after_it_was_signed_gives_no_opponent(
    tmp_path: Path, alice: Published
) -> None:
    board, bundle = tmp_path / "board", alice.entry.bundle.folder
    shutil.copytree(bundle, board / FIVE / bundle.name)
    shutil.copy(f"{bundle}.verified.json", board / FIVE)
    shutil.copy(PUBLISHED / "board.json", board)
    assert published(read_board(board), "quickstart@30")
    manifest = board / FIVE / bundle.name / "manifest.json"
    bundle = json.loads(manifest.read_text())
    (own,) = (agent for agent in bundle["claim"]["agents"] if agent["agent_id"] == "quickstart@30")
    own["spec"]["adapter"] = "0" * 64
    manifest.write_text(json.dumps(bundle))
    with pytest.raises(ConfigError, match=r"no agent is called 'quickstart@30'.*set aside"):
        published(read_board(board), "quickstart@30")


def test_who_cannot_be_proven_or_found_is_refused_by_name(alice: Published, tmp_path: Path) -> None:
    def other(**spec: object) -> Published:
        bundle = replace(alice.entry.bundle, folder=tmp_path)
        agent = replace(alice.agent, spec=alice.agent.spec | spec)
        return Published(agent, Entry(bundle, "L2", alice.entry.verified))

    for one, model, words in (
        (other(**{ENDPOINT: {}}), "", "whose weights cannot be proved"),
        (other(base_sha256="0" * 64, base="mine"), "", "a folder on another machine"),
        (other(), "", r"does not hold the adapter .* 'tiny\+FOLDER'"),
        (other(), "tiny", "is an adapter"),
        (other(adapter=None), "tiny+x", "is a base without an adapter"),
        (other(), "bot:random", "give MODEL"),
        (other(shown={"system": "Play."}), "", "give --out"),
    ):
        with pytest.raises(ConfigError, match=words):
            opponent_settings(one, model=model)
    settings = opponent_settings(
        other(shown={"system": "Play."}), model="tiny+x", prompt_file=tmp_path / "p.json"
    )
    assert list(settings["opponents"]["agents"]) == [f"tiny+x?prompt={tmp_path}/p.json"]
    with pytest.raises(ConfigError, match="Did you mean 'quickstart@30'"):
        published(read_board(), "quickstart@3")
    for mentioned in ("quickstart@30", "bot:random"):
        check_mentioned(PUBLISHED, mentioned)
    for name, protocol in (("quickstart@3", ""), ("quickstart@30", "nim-v0")):
        with pytest.raises(ConfigError, match=f"no agent '{name}' on this board"):
            check_mentioned(PUBLISHED, name, protocol)


def test_the_command_writes_the_settings_of_a_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, board = tmp_path / "o.yaml", str(PUBLISHED)
    assert main(["opponent", board, "start", "--out", str(out)]) == 0
    opponents = yaml.safe_load(out.read_text())["opponents"]
    assert opponents["agents"] == {"tiny": 1.0}
    assert set(opponents["pinned"]["tiny"]) == {"base_sha256", "prompt", "tokenizer"}
    assert main(["opponent", board, "bot:strong", "--protocol", "nim-v0"]) == 0
    assert "bots:\n    strong: 1.0" in capsys.readouterr().out
    assert main(["opponent", board, "start", "--fingerprint", "0123"]) == 2
    assert "is signed by" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["smollm2-135m", "openai:m@http://x/v1"])
def test_only_models_that_are_met_are_pinned(tmp_path: Path, alice: Published, name: str) -> None:
    settings = opponent_settings(alice)
    pinned = settings["opponents"]["pinned"]
    pinned[name] = next(iter(pinned.values()))
    with pytest.raises(ConfigError, match=r"opponents\.pinned: .* can be held to their weights"):
        recipe(tmp_path, settings)
