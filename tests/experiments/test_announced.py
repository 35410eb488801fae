"""Pages of announced experiments: every arm is a recipe, and a wrong table is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.experiments import announced
from benchmarks.learning.small_games import CORPORA
from srl_agents.recipes.loading import read_values
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError

PAGE = """# A title

```yaml
baseline: a
stop: {tokens: 100}
seeds: [0, 1]
cpu_hours: 1
arms: {a: {}, b: {lora: {rank: 4}}}
arenas:
  nim:
    model: tiny
    measure: team
    recipe: {env: nim-v0, lora: {rank: 8, alpha: 16}}
```
"""


@pytest.mark.parametrize("name", announced.names())
def test_every_arm_of_a_page_is_a_recipe(name: str) -> None:
    experiment = announced.read(name).experiment
    for arena, settings in experiment.arenas.items():
        recipes = {arm: experiment.recipe(arena, arm) for arm in experiment.arms_of(arena)}
        assert len({json.dumps(recipe) for recipe in recipes.values()}) == len(recipes)
        for arm, values in recipes.items():
            recipe = read_values(LeagueRecipe, _on_shipped_models(values), arm)
            assert recipe.env == settings.recipe["env"]
            assert recipe.stop is not None


def _on_shipped_models(values: dict[str, Any]) -> dict[str, Any]:
    """A recipe with `tiny` in the place of models that an experiment builds."""
    named = json.loads(json.dumps({"name": "arm", **values}))
    for base in [*named.get("models", {}).values()] or [named]:
        assert base["model"] in {*CORPORA, "tiny", "tiny-shallow", "smollm2-135m"}
        base["model"] = "tiny"
    return named


@pytest.mark.parametrize("name", announced.names())
def test_a_page_holds_question_prediction_and_stop(name: str) -> None:
    text = (announced.PAGES / f"{name}.md").read_text()
    for part in ("Question", "Hypotheses", "Prediction", "Measure", "Stop"):
        assert f"**{part}.**" in text
    experiment = announced.read(name).experiment
    large = {arena.model for arena in experiment.arenas.values()} == {"smollm2-135m"}
    assert len(experiment.seeds) == (3 if large else 8)


def test_a_queue_finishes_an_arm_before_the_next() -> None:
    page = announced.parse("a", PAGE)
    assert [str(key) for key in page.experiment.runs()] == [
        "nim/a/0", "nim/a/1", "nim/b/0", "nim/b/1",
    ]  # fmt: skip
    assert page.experiment.recipe("nim", "b") == {
        "model": "tiny",
        "env": "nim-v0",
        "lora": {"rank": 4, "alpha": 16},
        "stop": {"tokens": 100},
    }


def test_any_change_of_a_page_changes_its_digest() -> None:
    page = announced.parse("a", PAGE)
    assert announced.parse("a", PAGE).digest == page.digest
    assert announced.parse("a", PAGE.replace("A title", "Another")).digest != page.digest


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("baseline: a", "baseline: c", "none of the arms"),
        ("[0, 1]", "[0, 900]", "pilots"),
        ("[0, 1]", "[0]", "two or more"),
        ("[0, 1]", "[0, 0]", "each once"),
        ("measure: team", "measure: luck", "measure"),
        ("# A title", "A title", "title"),
        ("```yaml", "```json", "found 0"),
        ("    measure: team", "    measure: team\n    arms: {c: {}}", "none of"),
        ("    measure: team", "    measure: team\n    arms: {b: {}}", "baseline"),
        ("cpu_hours", "hours", "hours"),
    ],
)
def test_a_wrong_table_is_refused(old: str, new: str, message: str) -> None:
    assert PAGE.count(old) == 1
    with pytest.raises(ConfigError, match=message):
        announced.parse("a", PAGE.replace(old, new))


def test_an_unknown_experiment_leads_to_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "nims.md").write_text(PAGE)
    with pytest.raises(ConfigError, match="Did you mean 'nims'"):
        announced.read("nimss", tmp_path)
