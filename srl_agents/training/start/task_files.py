"""The files that a run's tasks are rows of: a run goes on with the same rows or not at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

TASK_FILES = "task_files.json"
"""Within a run's folder: option ``tasks`` -> SHA-256 of its file."""


def check_task_files(recipe: LeagueRecipe, folder: Path) -> None:
    """Refuse to go on where a file of tasks is another than when the run began.

    Raises:
        ConfigError: names the file.
    """
    path = folder / TASK_FILES
    before = json.loads(path.read_text()) if path.is_file() else {}
    for source, found in _task_files(recipe).items():
        if before.get(source, found) != found:
            raise ConfigError(
                f"tasks={source!r}: the file has other rows than when the run in {folder} began, and what is "
                "held out would be other rows, too. Put the old file back, or start another run with --out."
            )


def keep_task_files(recipe: LeagueRecipe, folder: Path) -> None:
    """Write down what the files of tasks hold now."""
    if found := _task_files(recipe):
        temporary = (folder / TASK_FILES).with_suffix(".tmp")
        temporary.write_text(plain_json(found, indent=1))
        temporary.replace(folder / TASK_FILES)


def _task_files(recipe: LeagueRecipe) -> dict[str, str]:
    """Task files of all games; a repository is taken to stay as it is."""
    sources = {
        options["tasks"]: Path(str(options["tasks"]).partition(":")[2])
        for game in recipe.games
        for options in game.all_options
        if options.get("tasks")
    }
    return {
        str(source): hashlib.sha256(path.read_bytes()).hexdigest()
        for source, path in sources.items()
        if path.is_file()
    }
