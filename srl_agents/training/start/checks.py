"""Checks of the files and addresses that a recipe names, before anything heavy is imported."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from srl_agents.agents.first_look import first_look
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.start.adapters import check_init_adapters
from srl_envs.errors import gather


def look_at(recipe: LeagueRecipe, folder: Path) -> None:
    """Refuse adapters that are missing or do not fit, and servers that do not listen or cannot be used, all
    at once.

    Args:
        recipe: of the run.
        folder: of the run; adapters that it holds a copy of are not looked at again.

    Raises:
        SRLError: see `check_init_adapters`, `first_look` and `EngineSettings.look`.
    """
    guests = [(name, game.env_id) for name in recipe.guests for game in recipe.games]
    servers = [url for base in recipe.bases for url in base.engine.addresses]
    gather(
        partial(check_init_adapters, recipe, folder),
        partial(first_look, guests, servers),
        *(base.engine.look for base in recipe.bases),
    )
