"""YAML becomes frozen dataclasses, or an error that names the place and the nearest key."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.coordination.distillation import DistillationSettings
from srl_agents.engines.settings import TransformersSettings
from srl_agents.league.matchmaking.promotion import PromotionSettings
from srl_agents.recipes.loading import find_recipe, load, read_values
from srl_agents.recipes.sections.other_names import REMOVED
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.trainers.ppo_settings import PPOSettings
from srl_agents.trainers.supervised.reward_model_settings import RewardModelSettings
from srl_agents.transports.settings import DeltaSettings, FilesSettings
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


def test_removed_settings_at_their_values_resume_and_others_name_what_replaces_them() -> None:
    recipe = LeagueRecipe(
        name="r",
        model="tiny",
        env="nim-v0",
        promotion=PromotionSettings(),
        reward_model=RewardModelSettings(),
        engine=TransformersSettings(),
        transport=FilesSettings(),
    )
    plain = dump(recipe)
    for key, (value, _) in REMOVED.items():
        section, name = key.split(".")
        plain[section][name] = value
    assert read_values(LeagueRecipe, plain, "recipe.yaml") == recipe
    plain["survival"]["loss_growth"] = 20.0
    with pytest.raises(ConfigError, match=r"runs have 1000.*survival\.policies") as raised:
        read_values(LeagueRecipe, plain, "recipe.yaml")
    assert "\n" not in str(raised.value)


def test_no_removed_setting_is_a_setting() -> None:
    plain = dump(LeagueRecipe(name="r", model="tiny", env="nim-v0"))
    plain["coordination"] = dump(DistillationSettings())
    plain["promotion"], plain["reward_model"] = (
        dump(PromotionSettings()),
        dump(RewardModelSettings()),
    )
    plain["engine"] = dump(TransformersSettings())
    plain["training"], plain["transport"] = dump(PPOSettings()), dump(DeltaSettings())
    for key in REMOVED:
        section, name = key.split(".")
        assert name not in plain[section]
