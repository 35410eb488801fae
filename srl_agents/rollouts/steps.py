"""Threads in which matches step, so that a blocking step overlaps with other matches and with engines."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from srl_agents.rollouts.match import Ask, Match
from srl_envs.errors import ConfigError, DeadlineError

_PATIENCE_S = 5.0
"""For threads to end: one that runs when the interpreter ends is torn out of whatever library it is in."""


class _Job:
    """A step from `StepPool.step` to its end."""

    __slots__ = ("future", "started_s", "work")

    def __init__(self, work: Callable[[], list[Ask]]) -> None:
        self.work = work
        self.future: Future[list[Ask]] = Future()
        self.started_s: float | None = None
        """None while no thread has it."""


def default_threads() -> int:
    """Enough that steps that wait for the sandbox leave no core idle."""
    return min(32, 4 + len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 8)


class StepPool:
    """Steps matches in threads. The threads are daemons: a step that hangs never delays the exit.

    Args:
        threads: steps at once.
        deadline_s: for one step, from when a thread takes it; another thread then replaces the one
            that hangs, so the wait for one ends as well. A match whose step takes longer is void; its
            environment is closed when the step ends, if it does.

    Raises:
        ConfigError: a value is not above 0.
    """

    def __init__(self, threads: int, deadline_s: float) -> None:
        if threads < 1 or not deadline_s > 0:
            raise ConfigError(
                f"step_threads={threads}, step_deadline_s={deadline_s}: use more than 0."
            )
        self._threads = threads
        self._deadline_s = deadline_s
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._started: list[threading.Thread] = []

    async def step(self, match: Match, work: Callable[[], list[Ask]]) -> list[Ask]:
        """Run ``match.begin`` or ``match.advance`` in a thread.

        Returns:
            What the match waits for; nothing where it has ended.

        Raises:
            DeadlineError: it hangs before the episode has begun.
        """
        while len(self._started) < self._threads:
            self._start_thread()
        job = _Job(work)
        self._jobs.put(job)
        stepped = asyncio.wrap_future(job.future)
        try:
            while True:
                await asyncio.wait((stepped,), timeout=self._left_s(job))
                if stepped.done():
                    return stepped.result()
                if self._left_s(job) <= 0:
                    break
        except asyncio.CancelledError:
            self._abandon(job, match, stepped)
            raise
        self._abandon(job, match, stepped)
        self._start_thread()
        match.void(DeadlineError(f"a step took longer than {self._deadline_s:g} s"))
        return []

    def close(self) -> None:
        """End the threads that are idle, and the others after their step, which is not waited for long."""
        for _ in self._started:
            self._jobs.put(None)
        ends_s = time.monotonic() + _PATIENCE_S
        for thread in self._started:
            thread.join(max(ends_s - time.monotonic(), 0.0))
        self._started.clear()

    def _left_s(self, job: _Job) -> float:
        began_s = job.started_s
        passed_s = 0.0 if began_s is None else time.monotonic() - began_s
        return max(self._deadline_s - passed_s, 0.0)

    def _abandon(self, job: _Job, match: Match, stepped: asyncio.Future[list[Ask]]) -> None:
        """Give up waiting for a step: its environment is closed when the step ends."""
        match.env_is_free = False
        stepped.cancel()  # and the step with it, where no thread has it yet
        job.future.add_done_callback(lambda _: match.env.close())

    def _start_thread(self) -> None:
        thread = threading.Thread(target=_work, args=(self._jobs,), daemon=True, name="srl-step")
        self._started.append(thread)
        thread.start()


def _work(jobs: queue.SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        if not job.future.set_running_or_notify_cancel():
            continue
        job.started_s = time.monotonic()
        try:
            asks = job.work()
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            job.future.set_exception(error)
        else:
            job.future.set_result(asks)
            del asks
        del job  # while it waits, a thread holds nothing of a match
