"""Recorded games are demonstrations where they are the recipe's own games, and nothing otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import srl_envs
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.start.recorded_games import RECORDED, recorded_games
from srl_envs import Transcript
from srl_envs.errors import ConfigError

RECIPE = """
name: imitates
model: tiny
environments:
  - {env: nim-v0, env_options: {heaps: 2}}
  - {env: connect_four-v0, env_options: {rows: 4, cols: 4, k: 3}}
warm_start: {recorded: FOLDER}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[..., LeagueRecipe]:
    def made(*settings: str) -> LeagueRecipe:
        (tmp_path / "r.yaml").write_text(RECIPE.replace("FOLDER", str(tmp_path / "games")))
        return load(LeagueRecipe, tmp_path / "r.yaml", settings)

    (tmp_path / "games").mkdir()
    return made


def nim(seed: int, split: str = "train", **options: Any) -> Transcript:
    env = srl_envs.make("nim-v0", **{"heaps": 2, **options})
    return srl_envs.play(env, {0: "strong", 1: "random"}, seed=seed, split=split)


def test_prompts_and_replies_are_those_of_the_recorded_game(
    recipe: Callable[..., LeagueRecipe], tmp_path: Path
) -> None:
    env = srl_envs.make("connect_four-v0", rows=4, cols=4, k=3)
    seen: list[tuple[str, str]] = []
    said = {seat: srl_envs.make_bot("connect_four-v0", "middle", seed=seat) for seat in (0, 1)}

    def human(text: str) -> str:
        seen.append((text, said[0](text)))
        return seen[-1][1]

    game = srl_envs.play(env, {0: human, 1: said[1]}, seed=5, split="train")
    game.save(tmp_path / "games/b.jsonl")
    nim(4).save(tmp_path / "games/a.jsonl")
    first, second = recorded_games(recipe("warm_start.recorded_seats=[0]"))
    assert (first.spec.env_id, second.spec.env_id) == ("nim-v0", "connect_four-v0")
    own, other = second.trajectories
    assert [(turn.observation, turn.reply) for turn in own.turns] == seen
    assert (own.policy, other.policy == RECORDED) == (RECORDED, False)
    assert (own.outcome, other.outcome) == game.outcomes
    both = recorded_games(recipe())[1]
    assert [t.policy for t in both.trajectories] == [RECORDED] * 2


@pytest.mark.parametrize(
    ("game", "words"),
    [
        (lambda: nim(1, split="eval"), "recorded on the eval split"),
        (lambda: nim(1, heaps=3), "lead to another outcome"),
        (lambda: replace(nim(1), outcomes=(9.0, -9.0)), "lead to another outcome"),
        (lambda: replace(nim(1), steps=nim(1).steps[:-1]), "lead to another outcome"),
        (lambda: replace(nim(1), seed=2), "lead to another outcome"),
        (lambda: srl_envs.play("kuhn_poker-v0", {0: "random", 1: "random"}, seed=1), "trains on nim-v0"),
    ],
)  # fmt: skip
def test_a_game_of_another_recipe_is_refused(
    recipe: Callable[..., LeagueRecipe], tmp_path: Path, game: Callable[[], Transcript], words: str
) -> None:
    game().save(tmp_path / "games/a.jsonl")
    with pytest.raises(ConfigError, match=words):
        recorded_games(recipe())


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        ("{}", (), "a.jsonl: .* not a transcript"),
        ("", (), "a.jsonl: .* not a transcript"),
        (None, (), "holds no .jsonl file"),
        (None, ("warm_start.recorded=/nowhere",), "/nowhere is not there"),
    ],
)
def test_a_file_that_is_not_a_recording_is_refused(
    recipe: Callable[..., LeagueRecipe],
    tmp_path: Path,
    text: str | None,
    settings: tuple[str, ...],
    words: str,
) -> None:
    if text is not None:
        (tmp_path / "games/a.jsonl").write_text(text)
    with pytest.raises(ConfigError, match=words):
        recorded_games(recipe(*settings))


def test_a_seat_that_is_not_there_is_refused(
    recipe: Callable[..., LeagueRecipe], tmp_path: Path
) -> None:
    nim(1).save(tmp_path / "games/a.jsonl")
    with pytest.raises(ConfigError, match=r"\[2\] of 2 seats"):
        recorded_games(recipe("warm_start.recorded_seats=[0,2]"))
    with pytest.raises(ConfigError, match="counted from 0"):
        recipe("warm_start.recorded_seats=[-1]")
    with pytest.raises(ConfigError, match="name at least one"):
        recipe("warm_start={}")
