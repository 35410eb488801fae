"""The trackers of a run, and the id by which they continue it, which no other run has."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from srl_agents import checkpoints
from srl_agents.metrics.trackers import Tracker
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.folder.layout import CHECKPOINTS

RUN_ID = "tracker_id"
"""File in a run's folder."""


def run_id(folder: Path) -> str:
    """The id of the run in a folder; a new one where no run is yet."""
    path = folder / RUN_ID
    if path.is_file():
        return path.read_text().strip()
    if checkpoints.exist(folder / CHECKPOINTS):
        return folder.name  # what trackers know a run by that is older than these files
    return secrets.token_hex(8)


def keep_run_id(folder: Path, own: str) -> None:
    """Keep a run's id, so that a process that continues the run finds it."""
    temporary = folder / f"{RUN_ID}.tmp"
    temporary.write_text(f"{own}\n")
    temporary.replace(folder / RUN_ID)


def begin_trackers(recipe: LeagueRecipe, folder: Path, own: str) -> Iterator[Tracker]:
    """Begin what `report_to` names, one after the other.

    Args:
        recipe: of the run.
        folder: of the run; its name is the run's.
        own: the run's id.

    Raises:
        ConfigError: one does not begin.
    """
    for name in recipe.report_to:
        yield Tracker(name, project=recipe.name, run=folder.name, run_id=own, config=asdict(recipe))
