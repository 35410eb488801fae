"""Examples that a bot plays: the game's own text, legal replies, the same every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import srl_envs
from srl_agents.agents.prompt_file import find_prompt
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import dump
from srl_envs.turns.grammar import parse_reply


def recipe(tmp_path: Path, env_id: str, examples_from: str, *overrides: str) -> LeagueRecipe:
    path = tmp_path / "r.yaml"
    path.write_text(
        f"name: r\nmodel: tiny\nenv: {env_id}\nprompt: {{examples_from: {examples_from}}}\n"
    )
    return load(LeagueRecipe, path, overrides)


def texts_of(env_id: str, bot: str, episodes: int, **options: Any) -> set[str]:
    """Everything that any seat reads in the first episodes of the training split."""
    seen: set[str] = set()
    for seed in range(episodes):
        env: Any = srl_envs.make(env_id, **options)
        seats = dict.fromkeys(range(len(env.possible_agents)), bot)
        srl_envs.play(
            env, seats, seed, split="train",
            on_step=lambda seen_by, _: seen.update(o["text"] for o in seen_by.values()),
        )  # fmt: skip
        env.close()
    return seen


@pytest.mark.parametrize(
    "env_id", ["math_duel-v0", "connect_four-v0", "hanabi_mini-v0", "undercover-v0"]
)
def test_examples_are_what_the_game_shows_and_moves_that_it_accepts(
    tmp_path: Path, env_id: str
) -> None:
    built = recipe(tmp_path, env_id, "{bot: middle, turns: 3}")
    shown = built.prompt.examples
    assert len(shown) == 3
    assert {turn.observation for turn in shown} <= texts_of(env_id, "middle", 3)
    assert all(parse_reply(turn.reply, 4000)[0] is not None for turn in shown)
    assert built.prompt.examples_from is None
    assert recipe(tmp_path, env_id, "{bot: middle, turns: 3}") == built


def test_examples_follow_the_options_of_the_game(tmp_path: Path) -> None:
    built = recipe(tmp_path, "math_duel-v0", "{bot: strong}", "env_options={problems: 1}")
    assert all("Problem 1 of 1" in turn.observation for turn in built.prompt.examples)


def test_examples_of_several_games_come_from_each_and_precede_written_ones(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(
        "name: r\nmodel: tiny\nenvironments: [{env: nim-v0}, {env: kuhn_poker-v0}]\n"
        "prompt: {examples_from: {bot: middle, turns: 1}, examples: [{observation: a, reply: b}]}\n"
    )
    observations = [turn.observation for turn in load(LeagueRecipe, path).prompt.examples]
    assert len(observations) == 3
    assert "im" in observations[0]
    assert "oker" in observations[1]
    assert observations[2] == "a"


def test_what_a_run_stores_is_the_played_text(tmp_path: Path) -> None:
    built = recipe(tmp_path, "nim-v0", "{bot: middle, turns: 2}")
    stored = dump(built)["prompt"]
    assert len(stored["examples"]) == 2
    assert stored["examples_from"] is None


@pytest.mark.parametrize(
    ("examples_from", "message"),
    [
        ("{bot: held_out}", "for rating only"),
        ("{bot: strongg}", "strong"),
        ("{bot: strong, turns: 0}", "use 1 to 16"),
        ("{turns: 2}", "bot"),
    ],
)
def test_examples_that_no_bot_can_play_are_refused(
    tmp_path: Path, examples_from: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe(tmp_path, "nim-v0", examples_from)


def test_a_prompt_whose_examples_are_still_to_be_played_is_refused_outside_of_recipes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "prompt.json"
    path.write_text('{"examples_from": {"bot": "strong"}}')
    with pytest.raises(ConfigError, match="Name the folder of a run"):
        find_prompt(path)
