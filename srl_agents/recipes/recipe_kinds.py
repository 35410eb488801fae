"""The kinds of recipes that a file may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srl_agents.recipes.loading import Overrides, read_values
from srl_agents.recipes.population_settings import PopulationRecipe
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.yaml_files import read_yaml

Recipe = LeagueRecipe | PopulationRecipe


def read_recipe(path: Path, overrides: Overrides = (), *, rows: Path | None = None) -> Recipe:
    """A recipe of either kind: one with ``agents`` is a population's, the others train.

    The arguments are those of `load`.

    Raises:
        ConfigError: the file does not parse, or a key, type or value is wrong.
    """
    return recipe_of(read_yaml(path), path.name, overrides, rows=rows)


def recipe_of(
    data: dict[str, Any], place: str, overrides: Overrides = (), *, rows: Path | None = None
) -> Recipe:
    """`read_recipe` for plain values; the arguments are those of `read_values`.

    Raises:
        ConfigError: a key, type or value is wrong.
    """
    if "agents" in data:
        return read_values(PopulationRecipe, data, place, overrides, rows=rows)
    return read_values(LeagueRecipe, data, place, overrides, rows=rows)
