"""`srl_agents.train`: run a recipe, or continue a run, to its end. `srl train` calls it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from srl_agents.api.opened_run import Run
from srl_agents.api.recipe_source import RecipeSource, Request
from srl_agents.interrupts import terminable
from srl_agents.metrics import Sink
from srl_agents.own_folders import remove_left
from srl_agents.recipes.loading import Override, Overrides, as_pairs
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.callbacks import Callback, Listeners
from srl_agents.training.folder.layout import CHECKPOINTS, RECIPE, as_begun, check_folder
from srl_agents.training.outcome import Outcome
from srl_agents.training.start.checks import look_at
from srl_agents.whole_import import whole_import
from srl_envs.errors import ConfigError, SRLError, StoreError, add_advice, file_fault, gather

if TYPE_CHECKING:
    from rich.console import Console

    from srl_agents.metrics import ConsoleView

View = Literal["short", "full"]


def train(
    recipe: RecipeSource,
    *,
    out: str | Path | None = None,
    seed: int | None = None,
    updates: int | None = None,
    more: int | None = None,
    overrides: Overrides = (),
    data: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    sinks: Sequence[Sink] = (),
    resume: bool = True,
    quiet: bool = False,
    force: bool = False,
    profile: bool = False,
    ray: str | None = None,
    allow_nothing_learned: bool = False,
    view: View = "short",
) -> Run:
    """Train a league of language models and play the final round robin.

    A run that was interrupted continues where its last checkpoint left off: give its folder as the recipe.

    Args:
        recipe: name of a shipped recipe, YAML file, folder of a run, plain values by key as in a recipe's
            file, or a `LeagueRecipe`.
        out: folder of the run; runs/NAME-seedN if absent, or the folder that ``recipe`` is.
        seed: root seed; the recipe's own if absent.
        updates: of the whole run, 1 or more; the recipe's own if absent.
        more: updates beyond those of the run in the folder that ``recipe`` is, 1 or more.
        overrides: settings over the recipe: values by dotted key, ``{"training.learning_rate": 2e-3}``, or
            texts as for ``srl train --set``.
        data: folder with the files of collections that the recipe calls by name; data if absent.
        callbacks: called after each update with an `UpdateReport`, which can stop the run; or objects of
            `RunCallback`, which are also called at the begin and at the end.
        sinks: take the record of each update, beside metrics.jsonl and TensorBoard.
        resume: continue a run that the folder holds; False refuses one.
        quiet: print nothing; otherwise progress goes to standard output and the plan to standard error.
        force: begin although the plan finds too little memory.
        profile: write a torch profiler's trace of one update to RUN/profile.
        ray: train and play on a Ray cluster: ``auto``, ``local``, or HOST:PORT of its head.
        allow_nothing_learned: export a run in which no learner took a step.
        view: what a terminal shows: ``short``, a table of learners and the progress; ``full``, curves,
            phases, memory and matches as well. Elsewhere each update is one line.

    Returns:
        The run, with its `Outcome`: whether a learner took a step, and whether a callback stopped it.

    Raises:
        ConfigError: with every mistake of the recipe and the folder, before anything is loaded.
        CallbackError: a callback or sink raised; its exception is the cause. No finished update is lost.
        FaultError: a fault stopped the run; the text gives the fault, its cause, a remedy and what is kept.
        StoreError: a file of the run cannot be written, or another process writes to the folder.
        KeyboardInterrupt: Ctrl-C or SIGTERM ended the run; its text gives what is kept and how to continue.
        SRLError: a model, an endpoint, a checkpoint or the sandbox failed.
    """
    if updates is not None and more is not None:
        raise ConfigError("updates, more: both say how long the run is; leave one out.")
    if ray is not None and (callbacks or sinks):
        raise ConfigError(
            "ray, callbacks, sinks: a run on a cluster is trained in another process, which has no callbacks "
            "or sinks of this one. Leave them out, and read metrics.jsonl in the run's folder."
        )
    length: list[Override] = [] if updates is None else [("updates", updates)]
    request = Request(
        recipe=recipe,
        out=None if out is None else Path(out),
        seed=seed,
        overrides=[*as_pairs(overrides), *length],
        data=None if data is None else Path(data),
        more=more,
        ray=ray,
        allow_nothing_learned=allow_nothing_learned,
    )
    listeners = Listeners(callbacks, sinks)
    own = _Training(
        request, listeners, quiet=quiet, force=force, profile=profile, resume=resume, view=view
    )
    with terminable():
        return own.run()


class _Training:
    """One call of `train`."""

    def __init__(
        self,
        request: Request,
        listeners: Listeners,
        *,
        quiet: bool,
        force: bool,
        profile: bool,
        resume: bool,
        view: View,
    ) -> None:
        if view not in get_args(View):
            raise ConfigError(f"view={view!r}: use one of {', '.join(get_args(View))}.")
        if profile:  # read when torch is loaded: else its profiler writes into the progress
            os.environ.setdefault("KINETO_LOG_LEVEL", "6")
        self._request, self._listeners = request, listeners
        self._quiet, self._force, self._profile, self._view = quiet, force, profile, view
        self._recipe = request.read()
        self._first = True
        self._folder = request.folder(self._recipe)
        self._recipe = as_begun(self._recipe, self._folder)
        if not resume and (self._folder / RECIPE).is_file():
            raise ConfigError(
                f"resume=False: {self._folder} holds a run already. Choose another folder with out=..., or "
                "continue it with resume=True."
            )

    def run(self) -> Run:
        from safetensors import SafetensorError  # noqa: PLC0415 - heavy; recipes fail in the first second

        from srl_agents.training.start.recorded_games import WARM_START, recorded_games  # noqa: PLC0415 - as above
        from srl_agents.transports.machine_memory import remove_left_memory  # noqa: PLC0415 - as above

        recipe, folder = self._recipe, self._folder
        gather(partial(check_folder, recipe, folder), partial(look_at, recipe, folder))
        if not (folder / WARM_START).is_dir():
            recorded_games(recipe)
        remove_left()
        remove_left_memory()
        try:
            outcome, first = self._here() if self._request.ray is None else (self._far(), True)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(
                f"{str(stop) or 'interrupted before an update began.'} {self._how_to_go_on()}"
            ) from stop
        except SRLError as error:
            if (folder / RECIPE).is_file():
                add_advice(error, self._how_to_go_on())
            raise
        except BrokenPipeError:  # the reader of the output left
            raise
        except (OSError, SafetensorError) as error:
            fault = (
                file_fault(error, folder) if isinstance(error, OSError) else f"{folder}: {error}"
            )
            raise StoreError(f"{fault}. Mend that. {self._how_to_go_on()}") from None
        return Run(folder=folder, recipe=recipe, outcome=outcome, first=first)

    def _here(self) -> tuple[Outcome, bool]:
        """Train in this process; also whether it is the first one of the run."""
        whole_import("srl_agents.training.loop.run")

        from rich.console import Console  # noqa: PLC0415 - torch comes with the others

        from srl_agents.coordination.processes import Processes  # noqa: PLC0415
        from srl_agents.training.folder.process_copies import own_folder  # noqa: PLC0415
        from srl_agents.training.start.plan import plan_first  # noqa: PLC0415
        from srl_agents.training.supervision import train as train_supervised  # noqa: PLC0415

        recipe, listeners = self._recipe, self._listeners
        plan_first(recipe, self._say, force=self._force)
        processes = Processes.join(recipe.device)
        listeners.calls = self._first = processes.first
        console = Console(quiet=True) if self._quiet or not processes.first else None
        view = self._shown(console, self._how_to_go_on)
        with view, listeners.ending(), own_folder(self._folder, processes) as own:
            outcome = train_supervised(
                recipe, own, view, processes, trace_one=self._profile, listeners=listeners
            )
        return outcome, processes.first

    def _far(self) -> Outcome:
        """Follow a trainer on the cluster."""
        from rich.console import Console  # noqa: PLC0415 - Ray comes with the others

        from srl_agents.training.cluster.trainer import train_on_cluster  # noqa: PLC0415

        recipe = self._recipe
        console = Console(quiet=True) if self._quiet else None
        with self._shown(console) as view:
            return train_on_cluster(
                recipe,
                self._folder,
                view,
                address=self._request.ray or "",
                force=self._force,
                trace_one=self._profile,
            )

    def _shown(self, console: Console | None, advice: Callable[[], str] = str) -> ConsoleView:
        """The view that was asked for, with what the folder has of the run so far."""
        from srl_agents.metrics import ConsoleView, FullView  # noqa: PLC0415 - torch comes with the others
        from srl_agents.metrics.sinks import METRICS, read_lines  # noqa: PLC0415

        title, updates = title_of(self._recipe), self._recipe.updates
        if self._view == "short":
            return ConsoleView(title, updates, console, advice)
        history = read_lines(self._folder / METRICS)
        return FullView(title, updates, console, advice, history=history)

    def _say(self, line: str) -> None:
        if not self._quiet:
            print(line, file=sys.stderr)  # noqa: T201 - beside the view, as the caller asked

    def _how_to_go_on(self) -> str:
        """The command that goes on from what an end before the end left."""
        from srl_agents.training.start.recorded_games import WARM_START  # noqa: PLC0415 - numpy, games

        folder = self._folder
        if not (folder / RECIPE).is_file():
            return "Nothing is kept; the same command begins again."
        command = ["srl", "train", str(folder)]
        for name in ("data", "ray"):
            if (value := getattr(self._request, name)) is not None:
                command += [f"--{name}", str(value)]
        # another process than the first sees no checkpoint that is still being written
        if not self._first or any((folder / CHECKPOINTS).glob("step-*")):
            return f"To go on: {shlex.join(command)}"
        warm = "Its warm start is kept. " if (folder / WARM_START).is_dir() else ""
        return f"{warm}To begin again: {shlex.join(command)}"


def title_of(recipe: LeagueRecipe) -> str:
    """Title of a run in one line: learners, model and games."""
    return (
        f"{recipe.name}: {', '.join(game.name for game in recipe.games)} with "
        f"{', '.join(base.name for base in recipe.bases)}"
    )
