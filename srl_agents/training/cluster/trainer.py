"""Has a run trained by an actor of a Ray cluster and follows it; one that is lost is started again elsewhere.

The trainer's state is the run's folder: the next one goes on from its last checkpoint. So any node will do
that sees the folder and has room.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from srl_agents.interrupts import terminable
from srl_agents.metrics import ConsoleView
from srl_agents.recipes.sections.ray import DEATHS
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.cluster.far_trainer import FarTrainer, ViewCall, wait_for_writer
from srl_agents.training.cluster.roles import (
    ANSWER_S,
    end_process,
    first_line,
    joined,
    nodes_that_see,
    reserved,
    threads,
)
from srl_agents.training.outcome import Outcome
from srl_envs.errors import ConfigError, FaultError, ModelError
from srl_envs.reading.settings import dump

_TALK_S = 0.5
"""Longest wait of the trainer for something to tell."""
_END_S = 30.0
"""Longest wait for a trainer to let the folder go."""


class _LostError(Exception):
    """The trainer's process or node is gone."""


@dataclass(frozen=True, slots=True)
class _Actor:
    """A trainer's actor that has answered its first call."""

    handle: Any
    node: str
    pid: int


def train_on_cluster(
    recipe: LeagueRecipe,
    folder: Path,
    view: ConsoleView,
    *,
    address: str,
    force: bool = False,
    trace_one: bool = False,
) -> Outcome:
    """Begin or continue a run on a cluster, trainer and workers, and bring it to its end.

    Args:
        recipe: what to do.
        folder: of the run; nodes that train must see it.
        view: shows progress.
        address: of the cluster: ``auto``, ``local``, or HOST:PORT of its head.
        force: begin although memory is too small by the plan.
        trace_one: write a profiler's trace of one update.

    Raises:
        ConfigError: no cluster answers, no node sees the folder, or none has room.
        ModelError: trainers were lost too often.
        SRLError: as `srl_agents.training.supervision.train` does.
    """
    own = recipe.ray
    cpus = math.ceil(own.workers * own.cpus + own.trainer_cpus)
    with joined(address, local_cpus=cpus), terminable():  # Ray has set a handler of its own
        return _RayTrainer(recipe, folder.absolute(), view, force, trace_one).run()


class _RayTrainer:
    """Starts trainers, one after the other, until one has brought the run to its end."""

    def __init__(
        self, recipe: LeagueRecipe, folder: Path, view: ConsoleView, force: bool, trace_one: bool
    ) -> None:
        self._recipe, self._folder, self._view = recipe, folder, view
        self._how = {"force": force, "trace_one": trace_one}
        self._deaths = 0
        """Trainers lost in a row, without an update between them."""
        self._starts = 0
        self._last_words = ""

    def run(self) -> Outcome:
        while True:
            try:
                with self._started() as actor:
                    return self._follow(actor)
            except _LostError as lost:
                self._count(str(lost))

    def _count(self, how: str) -> None:
        """Go on after a loss, or give up."""
        self._deaths += 1
        if self._deaths > DEATHS:
            raise ModelError(
                f"the trainer was lost {self._deaths} times without an update in between; the last time: "
                f"{how}. Look at the log of its node."
            )
        self._view.say(f"the trainer {how}; starting it again ({self._deaths} of {DEATHS})")

    # --- one trainer -------------------------------------------------------------------------

    @contextmanager
    def _started(self) -> Iterator[_Actor]:
        """A trainer on a node that sees the folder; ended at the end."""
        own = self._recipe.ray
        nodes = nodes_that_see(self._folder.parent)
        if not nodes:
            raise ConfigError(
                f"--ray: no node of the cluster sees {self._folder.parent}. Give --out a folder that "
                "nodes share, or start the command on a node of the cluster."
            )
        bundle = {"CPU": own.trainer_cpus, "GPU": own.trainer_gpus}
        with reserved("trainer", [bundle], own.patience_s, self._view.say, nodes=nodes) as group:
            handle = self._make(group)
            try:
                yield self._met(handle)
            finally:
                ray.kill(handle, no_restart=True)
                wait_for_writer(self._folder, _END_S)

    def _make(self, group: PlacementGroup) -> Any:
        own = self._recipe.ray
        self._starts += 1
        return (
            ray.remote(FarTrainer)
            .options(
                num_cpus=own.trainer_cpus,
                num_gpus=own.trainer_gpus,
                max_restarts=0,
                max_concurrency=2,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    group, placement_group_bundle_index=0
                ),
                runtime_env={"env_vars": threads(max(1, int(own.trainer_cpus)))},
            )
            .remote(
                dump(self._recipe),
                str(self._folder),
                cluster=ray.get_runtime_context().gcs_address,
                directory=str(Path.cwd()),
            )
        )

    def _met(self, handle: Any) -> _Actor:
        """Wait for the first answer of a new trainer."""
        who = handle.who.remote()
        node = handle.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())
        seconds = self._recipe.ray.patience_s
        try:
            process, place = ray.get([who, node], timeout=seconds)
        except GetTimeoutError:
            raise _LostError(f"did not start within {seconds:g} s") from None
        except RayTaskError:
            raise
        except RayError as error:
            raise _LostError(f"did not start: {first_line(error)}") from None
        self._view.say(
            f"the trainer is process {process['pid']} on {process['host']}, "
            f"{process['omp_num_threads']} threads"
        )
        return _Actor(handle, place, process["pid"])

    # --- following it ------------------------------------------------------------------------

    def _follow(self, actor: _Actor) -> Outcome:
        """Show the calls of its console, to its end.

        Raises:
            _LostError: its process is gone, or does not answer any more.
        """
        patience_s = self._recipe.ray.patience_s if self._starts > 1 else 0.0
        running = actor.handle.train.remote(**self._how, patience_s=patience_s)
        heard, since_s = 0, time.monotonic()
        asked = actor.handle.calls_after.remote(heard, _TALK_S)
        try:
            while True:
                ready, _ = ray.wait([running, asked], timeout=_TALK_S)
                if asked in ready:
                    heard += self._show(ray.get(asked, timeout=ANSWER_S))
                    asked, since_s = (
                        actor.handle.calls_after.remote(heard, _TALK_S),
                        time.monotonic(),
                    )
                elif running in ready:
                    while calls := ray.get(asked, timeout=ANSWER_S):
                        heard += self._show(calls)
                        asked = actor.handle.calls_after.remote(heard, 0.0)
                    outcome: Outcome = ray.get(running, timeout=ANSWER_S)
                    return outcome
                elif time.monotonic() - since_s > self._recipe.ray.patience_s:
                    end_process(actor.node, actor.pid)
                    raise _LostError(f"did not answer for {self._recipe.ray.patience_s:g} s")
        except KeyboardInterrupt:
            kept = ray.get(actor.handle.stop.remote(), timeout=_END_S)
            raise KeyboardInterrupt(kept) from None
        except RayTaskError as error:
            raise getattr(error, "cause", error) from error
        except (RayError, GetTimeoutError) as error:
            if self._last_words:
                raise FaultError(self._last_words, fault="phase_hung") from None
            raise _LostError(f"is gone: {first_line(error)}") from None

    def _show(self, calls: list[ViewCall]) -> int:
        """Make these calls on the console here; returns their number."""
        for method, arguments in calls:
            if method == "say_last":
                self._last_words = str(arguments[0])
                continue
            if method == "write":
                self._deaths = 0
            getattr(self._view, method)(*arguments)
        return len(calls)
