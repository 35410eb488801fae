"""The folder of a run: whose it is. Light, so that a wrong folder is refused before torch loads."""

from __future__ import annotations

from pathlib import Path

import yaml

from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError
from srl_envs.settings import dump

RECIPE = "recipe.yaml"


def check_folder(recipe: LeagueRecipe, folder: Path) -> None:
    """Refuse a folder that holds something else than a run of this recipe.

    Raises:
        ConfigError: it holds another run, or no run but other files.
    """
    path = folder / RECIPE
    if path.is_file():
        if path.read_text() != _text(recipe):
            raise ConfigError(
                f"{folder} holds a run of another recipe or seed. "
                f"Choose another folder with --out, or delete it."
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"{folder} is not empty and holds no run; choose another folder with --out."
        )


def write_recipe(recipe: LeagueRecipe, folder: Path) -> None:
    """Mark a folder as a run of this recipe."""
    (folder / RECIPE).write_text(_text(recipe))


def _text(recipe: LeagueRecipe) -> str:
    return yaml.safe_dump(dump(recipe), sort_keys=False)
