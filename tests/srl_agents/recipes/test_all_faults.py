"""Every mistake of a recipe is reported at once, and no mistake that only follows from another one."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.recipes.loading import load
from srl_agents.recipes.sections import other_names
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError, SRLError
from srl_envs.reading.settings import build

SOUND: dict[str, Any] = {"name": "sound", "env": "connect_four-v0", "model": "tiny"}
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"updatse": 3}, "unknown key 'updatse'"),
    "key of a section": ({"memory": {"budgte_gib": 3}}, "memory: unknown key 'budgte_gib'"),
    "type": ({"updates": "many"}, "updates: expected a whole number"),
    "range": ({"snapshot_every": 0}, "snapshot_every=0"),
    "two of one section": ({"lora": {"rank": 0, "alpha": -1}}, "alpha=-1.0"),
    "choice": ({"quantization": "4bit"}, "Did you mean 'nf4'?"),
    "list": ({"report_to": "wandb"}, "Write [wandb]."),
    "kind": ({"coordination": "federatedd"}, "Did you mean 'federated'?"),
    "key of a kind": ({"training": {"algorithm": "ppo", "lr": 1}}, "Did you mean 'learning_rate'?"),
    "game": ({"env": "connect_fuor-v0"}, "no environment 'connect_fuor-v0'"),
    "model": ({"model": "tinyy"}, "no model 'tinyy'"),
    "conflict": ({"sharing": {"kind": "sft"}, "learners": ["alice"]}, "sharing: one learner"),
    "bot": ({"evaluation": {"bots": ["strongg"]}}, "evaluation.bots: "),
    "name": ({"name": "no name"}, "name='no name'"),
    "roles": ({"roles": {"zed": "main"}}, "roles: ['zed'] are not learners"),
}


def faults_of(recipe: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(SRLError) as caught:
        build(LeagueRecipe, recipe, "r.yaml")
    return caught.value.faults


@pytest.mark.parametrize("kind", MISTAKES)
def test_each_mistake_is_one_line_that_names_it(kind: str) -> None:
    wrong, text = MISTAKES[kind]
    faults = faults_of(SOUND | wrong)
    assert any(text in fault for fault in faults)
    assert all("\n" not in fault for fault in faults)
    assert len(faults) == (2 if kind == "two of one section" else 1)


@given(st.sets(st.sampled_from(sorted(set(MISTAKES) - {"game"})), min_size=2, max_size=6))
def test_mistakes_are_reported_together_without_others(kinds: set[str]) -> None:
    """Except that what an unknown game would show cannot be seen."""
    recipe: dict[str, Any] = dict(SOUND)
    for kind in kinds:
        recipe |= MISTAKES[kind][0]
    faults = faults_of(recipe)
    for kind in kinds:
        assert any(MISTAKES[kind][1] in fault for fault in faults), (kind, faults)
    wanted = len(kinds) + ("two of one section" in kinds)
    assert len(faults) == wanted, faults


def test_an_unknown_game_hides_only_what_depends_on_it() -> None:
    kinds = sorted(set(MISTAKES) - {"bot"})
    recipe: dict[str, Any] = dict(SOUND)
    for kind in kinds:
        recipe |= MISTAKES[kind][0]
    faults = faults_of(recipe)
    assert [k for k in kinds if not any(MISTAKES[k][1] in fault for fault in faults)] == []


def test_each_of_several_games_and_bases_reports_its_own_mistake() -> None:
    games = [{"env": "nimm-v0"}, {"env": "nim-v0", "rated_against": ["nobot"]}]
    models = {"a": {"model": "tinyy"}, "b": {"model": "tiny", "device": "gpu"}}
    recipe = {"name": "x", "environments": games, "models": models}
    text = "\n".join(faults_of(recipe))
    for part in (
        "environments[0] nimm-v0",
        "environments[1]",
        "models.a: ",
        "models.b: device='gpu'",
    ):
        assert part in text


def test_exploiters_without_a_main_are_named_and_no_seat_is() -> None:
    faults = faults_of(SOUND | {"roles": {"alice": "main_exploiter", "bob": "league_exploiter"}})
    assert len(faults) == 1
    assert "exploiters need a main" in faults[0]


def test_what_follows_from_a_value_that_was_set_aside_is_left_out() -> None:
    """Were `learners` reset to its default, 'carol' would be no learner."""
    faults = faults_of(SOUND | {"learners": ["carol", 3], "roles": {"carol": "main"}})
    assert len(faults) == 1
    assert "learners" in faults[0]


def test_files_overrides_and_the_recipe_are_reported_together(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(yaml.safe_dump(SOUND | {"updates": 0}))
    with pytest.raises(ConfigError) as caught:
        load(LeagueRecipe, path, ["seed", "lr=0.1"])
    assert len(caught.value.faults) == 3


def settings_at(kind: Any, path: list[str]) -> Any:
    """The dataclass in which a dotted name ends."""
    for part in path:
        hint = typing.get_type_hints(kind)[part]
        kind = next(
            (one for one in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(one)), hint
        )
    return kind


@pytest.mark.parametrize(("other", "ours"), other_names.RECIPE.items())
def test_a_name_from_elsewhere_leads_to_a_setting_that_can_be_written(
    other: str, ours: str
) -> None:
    key, _, value = other.partition(": ")
    wrong = {key: value or 1}
    assert any(f"Did you mean {ours!r}?" in fault for fault in faults_of(SOUND | wrong))
    place, _, meant = (f"{key}: {ours}" if value else ours).partition(": ")
    parts = place.split(".")
    recipe: dict[str, Any] = dict(SOUND)
    if meant:
        recipe[place] = yaml.safe_load(meant)
        build(LeagueRecipe, recipe, "r.yaml")
    else:
        names = [f.name for f in dataclasses.fields(settings_at(LeagueRecipe, parts[:-1]))]
        assert parts[-1] in names or parts[0] == "training"
