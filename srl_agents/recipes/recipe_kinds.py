"""The kinds of recipes that a file may hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from srl_agents.recipes.loading import load
from srl_agents.recipes.population_settings import PopulationRecipe
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.yaml_files import read_yaml

Recipe = LeagueRecipe | PopulationRecipe


def read_recipe(path: Path, overrides: Sequence[str] = (), *, rows: Path | None = None) -> Recipe:
    """A recipe of either kind: one with ``agents`` is a population's, the others train.

    The arguments are those of `load`.

    Raises:
        ConfigError: the file does not parse, or a key, type or value is wrong.
    """
    if "agents" in read_yaml(path):
        return load(PopulationRecipe, path, overrides, rows=rows)
    return load(LeagueRecipe, path, overrides, rows=rows)
