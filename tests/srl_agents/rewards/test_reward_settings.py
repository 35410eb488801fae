"""Mistakes in a section `rewards` are reported before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from srl_agents.recipes.loading import find_recipe, load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.rewards.terms import REWARDS
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build, dump

TIDY = "rewards.terms.tidy={rubric: action-alone, weight: 0.1}"


def recipe(*overrides: str) -> LeagueRecipe:
    return load(LeagueRecipe, find_recipe("quickstart-tiny"), overrides)


def test_a_recipe_with_rewards_and_wrappers_reads_back() -> None:
    made = recipe(
        TIDY,
        "rewards.terms.short={kind: overlong, buffer: 4}",
        "rewards.weights={format: 0.5, pieces: 0.01}",
        "wrappers=[{kind: HistoryWindow, turns: 2}]",
    )
    assert build(LeagueRecipe, dump(made), "again") == made
    assert made.wrappers == ({"kind": "HistoryWindow", "turns": 2, "reply_chars": 300},)
    assert made.games[0].options["wrappers"] == list(made.wrappers)


def test_shaping_by_a_wrapper_is_a_component_like_the_others() -> None:
    shaped = "wrappers=[{kind: PotentialShaping, potential: 'math:hypot'}]"
    assert recipe(shaped, "rewards.weights={shaping: 0.5}").rewards is not None
    with pytest.raises(ConfigError, match="no component 'shaping'"):
        recipe("rewards.weights={shaping: 0.5}")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("rewards.weights={piece: 1}",), "no component 'piece'. Did you mean 'pieces'"),
        (("rewards.weights={outcome: .nan}",), "finite"),
        (("rewards.weights={outcome: 0, format: 0}",), "every reward is 0"),
        (("rewards.terms.format={rubric: action-alone}",), "'format' is a component"),
        (("rewards.terms.std={rubric: action-alone}",), "'std' must be"),
        (("rewards.terms={'a b': {rubric: action-alone}}",), "'a b' must be"),
        (("rewards.terms.x={rubric: math}",), "rewards.terms.x reads 'answer'"),
        (("rewards.terms.x={rubric: action-alone, weight: 0}",), "weight=0"),
        (("rewards.terms.x={kind: overlong, buffer: 4000}",), "rewards.terms.x: buffer=4000"),
        (("rewards.terms.x={kind: overlongs}",), "no reward 'overlongs'. Did you mean"),
        (("rewards.terms.x={kind: 'math:hypot'}",), "no class that derives from"),
        (("rewards.terms.x={kind: token_cost, buffer: 3}",), "does not read 'buffer'"),
        (("rewards.term={}",), "term"),
        (("wrappers=[{kind: TurnLimits, steps: 3}]",), "TurnLimits is not a wrapper"),
        (("wrappers=[{kind: TurnLimit, steps: 0}]",), "wrappers.0.: TurnLimit"),
        (("env_options.wrappers=[]",), "in the section `wrappers`"),
    ],
)
def test_what_does_not_fit_is_refused(overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe(*overrides)


def test_every_kind_of_reward_loads() -> None:
    for name in REWARDS.names():
        assert REWARDS.find(name).__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_the_recipe_of_a_run_holds_the_rubric_itself(tmp_path: Path) -> None:
    assert recipe(TIDY) == build(LeagueRecipe, dump(recipe(TIDY)), "again")
    assert "action-alone" not in str(dump(recipe(TIDY)))
