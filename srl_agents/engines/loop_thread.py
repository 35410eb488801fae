"""A thread that does one thing at a time: jobs in the order in which they came, and steps between them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")
_IDLE_S = 2.0
"""It ends after so many seconds without work; the next job starts another."""


class LoopThread:
    """Whatever jobs and steps touch needs no lock.

    Args:
        name: of the thread, for debuggers.
        begin: called first in each thread.
        step: called whenever no job waits; whether there is more to do.
    """

    def __init__(self, name: str, begin: Callable[[], None], step: Callable[[], bool]) -> None:
        self._name, self._begin, self._step = name, begin, step
        self._changed = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._running = False
        self._more = False

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        """Run `job` after those that wait already."""
        future: Future[Result] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - whoever waits raises it
                future.set_exception(error)

        with self._changed:
            self._jobs.append(run)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._changed.notify()
        return future

    def _run(self) -> None:
        try:
            self._begin()
            while self._wait():
                while (job := self._next()) is not None:
                    job()
                self._more = self._step()
        except BaseException:
            with self._changed:  # the next job starts another thread
                self._running = self._more = False
            raise

    def _wait(self) -> bool:
        """Whether there is work; False ends the thread."""
        with self._changed:
            if not self._jobs and not self._more:
                self._changed.wait(_IDLE_S)
            self._running = bool(self._jobs or self._more)
            return self._running

    def _next(self) -> Callable[[], Any] | None:
        with self._changed:
            return self._jobs.popleft() if self._jobs else None
