"""The folder of a run: whose it is. Light, so that a wrong folder is refused before torch loads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from srl_agents.recipes.loading import load
from srl_agents.recipes.population_settings import PopulationRecipe
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.yaml_files import read_yaml
from srl_envs.errors import ConfigError
from srl_envs.settings import dump

RECIPE, CHECKPOINTS = "recipe.yaml", "checkpoints"
_UNFINISHED = f"{RECIPE}.tmp"
Recipe = LeagueRecipe | PopulationRecipe


def check_folder(recipe: Recipe, folder: Path) -> None:
    """Refuse a folder that holds something else than a run of this recipe.

    Raises:
        ConfigError: it holds another run, or no run but other files.
    """
    path = folder / RECIPE
    if path.is_file():
        if not _same(path, recipe):
            raise ConfigError(
                f"{folder} holds a run of another recipe or seed. "
                f"Choose another folder with --out, or delete it."
            )
    elif folder.exists() and (
        not folder.is_dir() or any(found.name != _UNFINISHED for found in folder.iterdir())
    ):
        raise ConfigError(
            f"{folder} is not empty and holds no run; choose another folder with --out."
        )


def write_recipe(recipe: Recipe, folder: Path) -> None:
    """Mark a folder as a run of this recipe; a kill leaves the old file or the new one, whole."""
    temporary = folder / _UNFINISHED
    temporary.write_text(_text(recipe))
    temporary.replace(folder / RECIPE)


def _same(path: Path, recipe: Recipe) -> bool:
    """Whether the folder's recipe means the same; settings that are newer than it have defaults."""
    try:
        if path.read_text() == _text(recipe):
            return True
    except UnicodeDecodeError:
        return False
    try:
        return load(type(recipe), path) == recipe
    except ConfigError:
        return False


def _text(recipe: Recipe) -> str:
    return yaml.safe_dump(dump(recipe), sort_keys=False)


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe of either kind: one with ``agents`` is a population's, the others train.

    Raises:
        ConfigError: the file does not parse, or a key, type or value is wrong.
    """
    if "agents" in read_yaml(path):
        return load(PopulationRecipe, path, overrides)
    return load(LeagueRecipe, path, overrides)
