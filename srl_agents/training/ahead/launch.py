"""The trainer's side of the process that plays: how it is started."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from srl_agents.metrics import ConsoleView
from srl_agents.models.shared_base import share_weights
from srl_agents.recipes.sections.generation import RESTARTS
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.bases import LoadedBase
from srl_agents.training.faults.supervised import Supervised
from srl_agents.training.parts.single import shared_weights

GENERATION_LOG = "generation.log"
"""Output of the generation process, in a run's folder."""


def start_generation(
    recipe: LeagueRecipe,
    bases: tuple[LoadedBase, ...],
    folder: Path,
    view: ConsoleView,
    opened: ExitStack,
    *,
    cluster: str,
) -> Supervised | None:
    """Start the process that plays what is learned from, or a cluster's, if the recipe has one.

    Args:
        recipe: of the run.
        bases: whose weights it may map.
        folder: of the run.
        view: shows what happens to it.
        opened: ends it.
        cluster: address of the Ray cluster that plays; empty: this machine does.
    """
    settings = recipe.generation
    if settings is None:
        return None
    command = ["srl_agents.training.ahead.player", str(folder)]
    if cluster:
        command = ["srl_agents.training.cluster.dispatch", str(folder), cluster]
    else:
        for base in bases:
            shared = shared_weights(folder, base.settings)
            if shared is not None:
                shared.parent.mkdir(exist_ok=True)
                share_weights(base.model, shared)
                opened.callback(partial(shared.unlink, missing_ok=True))
    process = Supervised(
        "the generation process",
        [sys.executable, "-m", "srl_agents.whole_import", *command],
        folder / GENERATION_LOG,
        patience_s=settings.patience_s,
        restarts=RESTARTS,
        say=view.say,
    )
    opened.callback(process.close)
    process.start()
    return process
