"""Processes that play matches for a population: given specs, they answer with results.

A worker that dies or exceeds its lease is replaced; what it was given is issued again as it was.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from srl_agents.coordination.wire import from_bytes, to_bytes
from srl_agents.interrupts import terminal_ignored_by_children
from srl_agents.own_folders import remove_left
from srl_agents.process_end import run_process
from srl_agents.recipes.population_settings import LEASE_S, PopulationRecipe
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.child_imports import safe_children
from srl_envs.errors import SandboxError

_MOST_DEATHS = 5
"""Workers in a row that may die without a result before the run gives up."""


@dataclass(slots=True)
class _Worker:
    name: str
    process: BaseProcess
    pipe: Connection
    given: list[MatchSpec]
    until: float = 0.0


class WorkerPool:
    """Keeps a number of workers alive.

    Args:
        recipe: what they play.
        count: number of processes.
    """

    def __init__(self, recipe: PopulationRecipe, count: int) -> None:
        self._recipe, self._made, self._deaths = recipe, 0, 0
        self._context = multiprocessing.get_context("spawn")
        self._workers = [self._start() for _ in range(count)]

    def idle(self) -> list[str]:
        """Workers without a task."""
        return [w.name for w in self._workers if not w.given]

    def give(self, name: str, specs: Sequence[MatchSpec]) -> None:
        """Send matches to an idle worker."""
        worker = next(w for w in self._workers if w.name == name)
        worker.given, worker.until = list(specs), time.monotonic() + LEASE_S
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # dead: `collect` sees it
            worker.pipe.send_bytes(to_bytes(worker.given))

    def collect(
        self, timeout_s: float
    ) -> list[tuple[str, list[tuple[MatchSpec, MatchResult]] | None]]:
        """(worker, its matches with results) that came in; None for a worker that is replaced.

        Raises:
            SandboxError: workers die one after the other.
        """
        busy = [w for w in self._workers if w.given]
        ready = set(wait([w.pipe for w in busy], timeout_s)) if busy else set()
        came: list[tuple[str, list[tuple[MatchSpec, MatchResult]] | None]] = []
        for worker in busy:
            results: list[MatchResult] | None = None
            if worker.pipe in ready:
                try:
                    results = from_bytes(worker.pipe.recv_bytes())
                except (EOFError, ConnectionResetError):
                    results = None
            elif time.monotonic() < worker.until and worker.process.is_alive():
                continue
            if results is None:
                self._replace(worker)
                came.append((worker.name, None))
                continue
            self._deaths = 0
            came.append((worker.name, list(zip(worker.given, results, strict=True))))
            worker.given = []
        return came

    def close(self) -> None:
        """End all worker processes."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.kill()
            worker.process.join()

    def _start(self) -> _Worker:
        own_end, worker_end = self._context.Pipe()
        self._made += 1
        process = self._context.Process(target=_work, args=(self._recipe, worker_end), daemon=True)
        with safe_children(), terminal_ignored_by_children():
            process.start()
        worker_end.close()
        return _Worker(f"worker-{self._made}", process, own_end, [])

    def _replace(self, worker: _Worker) -> None:
        self._deaths += 1
        worker.process.kill()
        worker.process.join()
        remove_left()
        if self._deaths >= _MOST_DEATHS:
            raise SandboxError(
                f"{self._deaths} workers in a row ended without a result (last exit code "
                f"{worker.process.exitcode}, lease {LEASE_S:g} s). Run with workers=0 "
                "to see why, or set a smaller batch."
            )
        worker.pipe.close()
        self._workers[self._workers.index(worker)] = self._start()


def _work(recipe: PopulationRecipe, pipe: Connection) -> None:
    """Play what comes until the other end is gone, and end this process."""
    run_process(lambda: _play(recipe, pipe))


def _play(recipe: PopulationRecipe, pipe: Connection) -> None:
    from srl_agents.rollouts import Rollouts  # noqa: PLC0415
    from srl_agents.training.population.policies import seat_population  # noqa: PLC0415

    seated = seat_population(recipe)
    policies = {name: found.policy for name, found in seated.items()}
    runner = Rollouts(policies, root_seed=recipe.seed, order=recipe.order)
    try:
        while True:
            played = runner.play(from_bytes(pipe.recv_bytes()))
            pipe.send_bytes(to_bytes([episode.result() for episode in played]))
    except (EOFError, BrokenPipeError):
        runner.close()
