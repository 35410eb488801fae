"""Real training runs for tests: made, interrupted, and read without what the clock wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from srl_agents.league.agents import find_agent
from srl_agents.metrics import ConsoleView, Record
from srl_agents.metrics.names import WALL_CLOCK
from srl_agents.metrics.sinks import read_lines
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.folder.layout import SNAPSHOTS, snapshots_in
from srl_agents.training.loop.run import LeagueTraining
from srl_agents.training.loop.state import CLOCK, FILES


class _Ending(ConsoleView):
    """Acts after an update, when its record is written and its checkpoint is not."""

    def __init__(self, updates: int, after: int, act: Callable[[], None]) -> None:
        super().__init__("run", updates, Console(quiet=True))
        self.after, self.act = after, act

    def write(self, record: Record) -> None:
        if record.update == self.after:
            self.act()


def _interrupt() -> None:
    raise KeyboardInterrupt


def train_run(
    recipe: LeagueRecipe, run: Path, interrupt_after: int = 0, killed: Path | None = None
) -> LeagueTraining:
    """Train, or go on with, a run; closed when it comes back.

    Args:
        recipe: of the run.
        run: its folder.
        interrupt_after: the update at whose end it stops.
        killed: instead of stopping there, the run goes on, and its folder as it was is copied to this one:
            what a kill would have left.

    Raises:
        KeyboardInterrupt: the update after which it was to stop is over.
    """

    def copy() -> None:
        shutil.copytree(run, killed or run, symlinks=True)

    act = _interrupt if killed is None else copy
    with _Ending(recipe.updates, interrupt_after, act) as view:
        training = LeagueTraining(recipe, run, view)
        try:
            training.run()
        finally:
            training.close()
    return training


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """Every record of a run, without wall-clock times."""
    records = read_lines(run / "metrics.jsonl")
    for record in records:
        for values in (record["run"], *record["learners"].values()):
            for name in WALL_CLOCK:
                values.pop(name, None)
    return records


def snapshot(run: Path, label: str) -> Path:
    """Folder of the frozen version that is called so, for example ``alice@2``."""
    return run / SNAPSHOTS / find_agent(label, snapshots_in(run))


def state_of(checkpoint: Path) -> dict[str, Any]:
    """What a checkpoint holds beside tensors, without the lengths of side files, in which are times."""
    state: dict[str, Any] = json.loads((checkpoint / "state.json").read_text())
    assert state.pop(FILES)
    assert state.pop(CLOCK)
    return state
