"""Rows of a collection that a recipe names; a folder gives the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from srl_envs.api.questions import COLLECTIONS, find_file
from srl_envs.errors import ConfigError

DATA = Path("data")
"""Where files are looked for when no folder is given."""
_OPTION = "tasks"


def give_files(settings: dict[str, Any], folder: Path | None) -> None:
    """Write the file behind each collection that is called by name: ``gsm8k`` becomes ``gsm8k:PATH``.

    Args:
        settings: a recipe as it was read, changed in place.
        folder: with the files; `DATA` if absent.

    Raises:
        ConfigError: the folder has no file of a collection, or is given to a recipe that names none.
    """
    named = [own for own in _options(settings) if own.get(_OPTION) in tuple(COLLECTIONS)]
    if folder is not None and not named:
        raise ConfigError(
            f"--data {folder}: the recipe names no collection of tasks. Write for example `tasks: gsm8k` "
            f"into env_options (collections: {', '.join(COLLECTIONS)}), or leave --data out; a path after a "
            "colon is taken as it is."
        )
    for own in named:
        name = own[_OPTION]
        own[_OPTION] = f"{name}:{find_file(name, folder or DATA).resolve()}"


def _options(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Mappings that hold a game's options; other values are refused where settings are built."""
    games = settings.get("environments")
    for game in [settings, *(games if isinstance(games, list) else [])]:
        if isinstance(game, dict):
            levels = game.get("levels")
            found = [game.get("env_options"), *(levels if isinstance(levels, list) else [])]
            yield from (own for own in found if isinstance(own, dict))
