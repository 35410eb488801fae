"""Recipes of several games: their settings, and combinations refused before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from srl_agents.league.agents import lineage
from srl_agents.league.matchmaking.manager import League
from srl_agents.recipes.loading import find_recipe, load
from srl_agents.recipes.sections.games import arenas_of
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import WeightVersion
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build, dump

SHIPPED = "several-games-tiny"


def recipe(*settings: str) -> LeagueRecipe:
    return load(LeagueRecipe, find_recipe(SHIPPED), settings)


def test_credit_follows_each_game_s_own_mode_unless_the_game_says_more() -> None:
    shipped = recipe()
    assert {game.name: game.credit.mode for game in shipped.games} == {
        "connect_four-v0": "competitive",
        "hanabi_mini-v0": "cooperative",
        "public_goods-v0": "mixed",
        "nim-v0": "competitive",
    }
    own_mode = "environments=[{env: nim-v0, credit: {mode: individual}}, {env: kuhn_poker-v0}]"
    assert [game.credit.mode for game in recipe(own_mode).games] == ["individual", "competitive"]
    (one,) = load(LeagueRecipe, find_recipe("quickstart-tiny")).games
    assert (one.name, one.credit.mode) == ("connect_four-v0", "individual")


def test_levels_and_wrappers_are_laid_over_the_options_of_their_game() -> None:
    made = recipe(
        "environments=[{env: connect_four-v0, env_options: {k: 3}, levels: [{cols: 4}, {}],"
        " wrappers: [{kind: HistoryWindow, turns: 2}]}]"
    )
    (game,) = made.games
    assert [level.get("cols") for level in game.levels] == [4, None]
    assert all(level["k"] == 3 and level["wrappers"] for level in game.levels)
    assert build(LeagueRecipe, dump(made), "again") == made


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("environments=[{env: nim-v0, weight: 0}]", "weight of nim-v0 is 0"),
        ("environments=[{env: nim-v0, weight: -1}]", "weight=-1"),
        ("environments=[{env: nim-v0, weight: 1.0e+308}]", "weight=1e"),
        ("environments=[{env: nim-v0, weight: 1.0e-320}]", "weight=1e-320"),
        ("environments=[{env: nim-v0, name: ..}]", "name='..'"),
        ("environments=[{env: nim-v0, env_options: {split: eval}}]", "env_options.split"),
        ("environments=[{env: nim-v0, levels: [{render_mode: human}]}]", "env_options.render_mode"),
        ("environments=[{env: nimm-v0}]", "Did you mean 'nim-v0'"),
        ("environments=[{env: nim-v0}, {env: nim-v0}]", "more than once"),
        ("environments=[{env: nim-v0}, {env: nim-v0, name: x}]", "same game with the same"),
        (
            "environments=[{env: connect_four-v0}, {env: connect_four-v0, name: x, env_options: {k: 4}}]",
            "connect_four-v0 and x are the same game",
        ),
        ("environments=[{env: nim-v0, teams: [0, 0, 1, 1]}]", "one team per seat of 2"),
        ("environments=[{env: nim-v0, teams: [-1, 5]}]", "counted from 0"),
        ("environments=[{env: hanabi_mini-v0, teams: [0, 1]}]", "one team already"),
        ("environments=[{env: nim-v0, env_options: {heaps: .nan}}]", "heaps: nan is not a finite"),
        (
            "environments=[{env: nim-v0, levels: [{}, {heaps: 3}, {largest: 9}]}]",
            "levels[2]: the same as",
        ),
        ("environments=[{env: nim-v0, bots: {stron: 1}}]", "no bot 'stron'"),
        ("environments=[{env: nim-v0, rated_against: [absent]}]", "no bot 'absent'"),
        ("environments=[{env: nim-v0, rated_against: [random, random]}]", "a name twice"),
        ("rewards={weights: {outcome: 1.0e+308}}", "weights.outcome=1e"),
        ("environments=[{env: nim-v0, levels: [{heaps: 99}]}]", "levels"),
        ("environments=[{env: public_goods-v0, levels: [{round: 2}]}]", "no option 'round'"),
        ("env=nim-v0", "env, environments"),
        ("environments=[]", "env, environments"),
        ("env_options={heaps: 3}", "env_options"),
        (
            "promotion={elo1: 14}",
            "promotion: .* games one candidate may take .* mirrored pairs of each",
        ),
        (
            "environments=[{env: math_duel-v0, env_options: {tasks: 'gsm8k:/nowhere.jsonl'}}]",
            "/nowhere.jsonl: the file does not exist",
        ),
        (
            "environments=[{env: nim-v0}, {env: kuhn_poker-v0, credit: {importance_cap: 2}}]",
            "importance_cap",
        ),
    ],
)
def test_what_cannot_be_played_is_refused_by_name(settings: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("[", r"\[")):
        recipe(settings)


@pytest.mark.parametrize(
    "settings",
    [
        "roles={bob: main_exploiter}",
        "opponents.bots={random: 1}",
        "opponents.agents={tiny-shallow: 1}",
    ],
)
def test_nobody_is_met_where_every_game_has_one_seat(settings: str) -> None:
    task = "environments=[{env: math_duel-v0, env_options: {players: 1}}, {env: nim-v0, weight: 0}]"
    recipe(task, "opponents.bots={}")
    with pytest.raises(ConfigError, match="learners meet no opponents in training"):
        recipe(task, "opponents.bots={}", settings)


def test_a_curriculum_of_levels_needs_levels() -> None:
    for levels in ("[]", "[{heaps: 3}]"):
        with pytest.raises(ConfigError, match="no game has two"):
            recipe(f"environments=[{{env: nim-v0, levels: {levels}}}]", "curriculum=difficulty")


def test_rows_from_a_file_are_a_game_like_any_other(tmp_path: Path) -> None:
    rows = [f'{{"question": "What is {n} + 1?", "answer": "#### {n + 1}"}}' for n in range(30)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    tasks: Any = f"gsm8k:{tmp_path / 'rows.jsonl'}"
    made = recipe(
        f"environments=[{{env: math_duel-v0, env_options: {{tasks: '{tasks}'}}}}, {{env: nim-v0}}]"
    )
    assert [game.name for game in made.games] == ["math_duel-v0", "nim-v0"]


def test_a_game_of_one_seat_is_a_task_beside_games_with_others() -> None:
    made = recipe("environments=[{env: math_duel-v0, env_options: {players: 1}}, {env: nim-v0}]")
    assert [(game.seats, game.mode) for game in made.games] == [
        (1, "cooperative"),
        (2, "competitive"),
    ]


PLANS = """
name: plans
seed: 3
models:
  deep: {model: tiny, learners: [alice, carol], environments: {nim-v0: 1}}
  wide: {model: tiny-shallow, learners: [bob], environments: {nim-v0: 1, connect_four-v0: 3},
    curriculum: {kind: success_rate}}
  plain: {model: tiny-shallow, learners: [dan]}
environments: [{env: nim-v0}, {env: connect_four-v0}, {env: kuhn_poker-v0, weight: 0}]
"""


def with_plans(folder: Path, *settings: str) -> LeagueRecipe:
    path = folder / "plans.yaml"
    path.write_text(PLANS)
    return load(LeagueRecipe, path, settings)


def test_learners_of_a_base_have_games_and_a_curriculum_of_their_own(tmp_path: Path) -> None:
    made = with_plans(tmp_path)
    assert build(LeagueRecipe, dump(made), "again") == made
    league = League(
        arenas=arenas_of(made.games),
        versions={name: WeightVersion(name, 0, "0" * 16) for name in made.learners},
        starts=dict.fromkeys(made.learners, "tiny"),
        opponents=made.opponents,
        seed=made.seed,
        curriculum=made.curriculum,
        plans=made.lesson_plans,
    )
    assert league.lessons.shares("alice") == {
        "nim-v0": 1.0, "connect_four-v0": 0.0, "kuhn_poker-v0": 0.0,
    }  # fmt: skip
    assert league.lessons.shares("bob")["connect_four-v0"] == pytest.approx(0.75)
    assert league.lessons.shares("dan")["connect_four-v0"] == pytest.approx(0.5)
    specs = [s for update in range(60) for s in league.training_matches(update, 4, 1)]
    played: dict[str, set[str]] = {}
    for spec in specs:
        for seat in spec.learner_seats:
            played.setdefault(lineage(spec.seats[seat]), set()).add(spec.env_id)
    both = {"nim-v0", "connect_four-v0"}
    assert played == {"alice": {"nim-v0"}, "carol": {"nim-v0"}, "bob": both, "dan": both}
    four = [spec for spec in specs if spec.env_id == "connect_four-v0" and spec.purpose == "self"]
    names = {lineage(name) for spec in four for name in spec.seats}
    assert names == {"bob", "dan"}, "peers are those who learn there, too"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("models.deep.environments={nim: 1}", "'nim' is not trained in this recipe; name some of"),
        ("models.deep.environments={kuhn_poker-v0: 1}", "'kuhn_poker-v0' is not trained"),
        ("models.deep.environments={nim-v0: 0}", "give a game a weight above 0"),
        ("models.deep.environments={nim-v0: -1}", r"environments\.nim-v0=-1"),
        (
            "models.wide.curriculum={kind: difficulty}",
            r"models\.wide\.curriculum\.kind='difficulty'",
        ),
        ("sharing={kind: rollouts}", "sharing: with kind 'rollouts' all learners meet the same"),
    ],
)
def test_games_of_their_own_that_cannot_be_are_refused(
    settings: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        with_plans(tmp_path, settings)
