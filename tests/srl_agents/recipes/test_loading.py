"""YAML becomes frozen dataclasses, or an error that names the place and the nearest key."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, field, fields
from inspect import isabstract
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.cli.settings_page import groups
from srl_agents.engines.settings import TransformersSettings
from srl_agents.recipes.loading import find_recipe, load, read_values
from srl_agents.recipes.population_settings import AgentSettings
from srl_agents.recipes.sections.base_models import ModelSettings
from srl_agents.recipes.sections.sharing import SharingSettings
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.trainers.ppo_settings import PPOSettings
from srl_agents.trainers.supervised.reward_model_settings import RewardModelSettings
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build, dump


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.1
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ConfigError(f"rate={self.rate}: use 0 or more.")


@dataclass(frozen=True, kw_only=True)
class Outer:
    model: str
    steps: int = 3
    kind: Literal["fast", "slow"] = "fast"
    flag: bool = False
    limit: float | None = None
    weights: dict[str, float] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)


def read(tmp_path: Path, text: str, *overrides: str) -> Outer:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    return load(Outer, path, overrides)


def test_a_file_becomes_the_dataclass(tmp_path: Path) -> None:
    text = "model: tiny\nlimit: 2\nweights: {a: 1}\ninner: {rate: 1e-3, names: [x, y]}\n"
    assert read(tmp_path, text) == Outer(
        model="tiny", limit=2.0, weights={"a": 1.0}, inner=Inner(rate=1e-3, names=("x", "y"))
    )


def test_overrides_win_and_may_be_nested(tmp_path: Path) -> None:
    recipe = read(tmp_path, "model: tiny\n", "steps=7", "inner.rate=0.5", "options.rows=5")
    assert (recipe.steps, recipe.inner.rate, recipe.options) == (7, 0.5, {"rows": 5})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("model: tiny\nstep: 3\n", ["unknown key 'step'", "Did you mean 'steps'?"]),
        ("model: tiny\ninner: {rat: 3}\n", ["inner", "'rat'", "Did you mean 'rate'?"]),
        ("steps: 3\n", ["'model' is missing"]),
        ("model: 3\n", ["model", "expected text", "a whole number (3)"]),
        ("model: tiny\nsteps: many\n", ["steps", "expected a whole number", "'many'"]),
        ("model: tiny\nsteps: true\n", ["steps", "expected a whole number"]),
        ("model: tiny\nsteps: 1.5\n", ["steps", "expected a whole number", "1.5"]),
        ("model: tiny\nkind: fsat\n", ["kind", "'fsat'", "Did you mean 'fast'?"]),
        ("model: tiny\nflag: 1\n", ["flag", "expected true or false"]),
        ("model: tiny\nweights: {a: x}\n", ["weights.a", "expected a number"]),
        ("model: tiny\nweights: [1]\n", ["weights", "expected `key: value` lines", "a list"]),
        ("model: tiny\ninner: {names: x}\n", ["names", "expected a list"]),
        ("model: tiny\ninner: {rate: -1}\n", ["inner", "rate=-1.0: use 0 or more."]),
        ("model: [unclosed\n", ["not YAML"]),
        ("just text\n", ["expected `key: value` lines"]),
        ("", ["expected `key: value` lines", "nothing"]),
    ],
)
def test_mistakes_name_the_place_and_the_cure(tmp_path: Path, text: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("override", ["steps", "=3", "model.x=3", "steps=[1"])
def test_a_bad_override_is_refused(tmp_path: Path, override: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        read(tmp_path, "model: tiny\n", override)


@given(
    st.builds(
        Outer,
        model=st.text(),
        steps=st.integers(),
        limit=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        weights=st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False)),
        inner=st.builds(Inner, rate=st.floats(0, 1), names=st.lists(st.text()).map(tuple)),
    )
)
def test_dump_and_build_are_inverse(recipe: Outer) -> None:
    assert build(Outer, dump(recipe), "test") == recipe


def test_an_unknown_recipe_names_the_nearest_shipped_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'quickstart-tiny'"):
        find_recipe("quickstart-tini")


NEEDED: dict[str, dict[str, Any]] = {
    "LeagueRecipe": {"name": "r", "model": "tiny", "env": "nim-v0"},
    "ModelSettings": {"model": "tiny"},
    "PlayedExamplesSettings": {"bot": "strong"},
    "PopulationRecipe": {
        "name": "r",
        "env": "nim-v0",
        "agents": (AgentSettings(agent="bot:random"), AgentSettings(agent="bot:middle")),
    },
    "SharingSettings": {"kind": "demonstrations"},
    "WarmStartSettings": {"bots": ("strong",)},
}
"""Class -> settings without a default."""


def removed_of(kind: Any) -> dict[str, tuple[Any, str]]:
    """Settings that a class and those that it derives from had in an earlier release."""
    return {key: how for base in kind.__mro__ for key, how in vars(base).get("removed", {}).items()}


def with_removed() -> list[Any]:
    """Settings classes that had more settings in an earlier release."""
    modules = {group: group.path.removesuffix(".py").replace("/", ".") for group in groups()}
    kinds = [getattr(importlib.import_module(name), group.name) for group, name in modules.items()]
    return [kind for kind in kinds if removed_of(kind) and not isabstract(kind)]


@pytest.mark.parametrize("kind", with_removed(), ids=lambda kind: str(kind.__name__))
def test_removed_settings_at_their_values_are_read_and_others_name_what_replaces_them(
    kind: Any,
) -> None:
    own, removed = kind(**NEEDED.get(kind.__name__, {})), removed_of(kind)
    assert not removed.keys() & {field.name for field in fields(kind)}
    plain = dump(own)
    assert build(kind, plain | {key: now for key, (now, _) in removed.items()}, "x") == own
    for key, (now, instead) in removed.items():
        json.dumps(now)
        with pytest.raises(
            ConfigError, match=f"x: {key}='other': this setting was removed"
        ) as raised:
            build(kind, plain | {key: "other"}, "x")
        assert str(raised.value).endswith(f"Leave it out, or {instead}.")
        assert "\n" not in str(raised.value)


def test_a_folder_of_an_earlier_release_resumes_and_its_other_values_are_named() -> None:
    recipe = LeagueRecipe(
        name="r",
        models={
            "one": ModelSettings(
                model="tiny", learners=2, training=PPOSettings(), engine=TransformersSettings()
            )
        },
        env="nim-v0",
        sharing=SharingSettings(kind="sft"),
        reward_model=RewardModelSettings(),
    )
    plain = dump(recipe)
    plain["survival"]["loss_growth"], plain["reward_model"]["centering"] = 1000.0, 0.01
    own = plain["models"]["one"]
    own["engine"]["disk_folder"], own["training"]["normalise_advantages"] = "", True
    for section in (own["training"], plain["sharing"]["sft"], plain["reward_model"]):
        section["min_8bit_size"] = 4096
    assert read_values(LeagueRecipe, json.loads(json.dumps(plain)), "recipe.yaml") == recipe
    plain["survival"]["loss_growth"] = 20.0
    own["training"]["min_8bit_size"] = 256
    with pytest.raises(ConfigError) as raised:
        read_values(LeagueRecipe, plain, "recipe.yaml")
    second, first = sorted(raised.value.faults)
    assert "survival: loss_growth=20.0: this setting was removed, 1000.0 is in force" in first
    assert "set the policy of the fault in survival.policies" in first
    assert "training: min_8bit_size=256" in second
