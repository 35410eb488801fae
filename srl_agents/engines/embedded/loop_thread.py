"""A thread that does one thing at a time: jobs in the order in which they came, and steps between them."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")
_IDLE_S = 2.0
"""It ends after so many seconds without work; the next job starts another."""
_PATIENCE_S = 5.0
"""Longest wait for work to end; on a machine with more processes than cores a second is short."""


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
        self._threads: list[threading.Thread] = []
        """Those that may still run: the last one takes jobs if `_takes_jobs`, the others are about to end."""
        self._takes_jobs = False
        self._more = False
        self._idle_s = _IDLE_S
        _made.add(self)

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        """Run `job` after those that wait already."""
        future: Future[Result] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - the waiting caller raises it
                future.set_exception(error)

        with self._changed:
            self._jobs.append(run)
            if not self._takes_jobs:
                self._start_thread()
            self._changed.notify()
        return future

    def end(self, patience_s: float = _PATIENCE_S) -> None:
        """Wait until the work that is there is done and no thread is left; later jobs are done, too.

        A thread that still runs when the interpreter ends is torn out of whatever library it is in, which
        may abort the process (pytorch/pytorch#38228).

        Args:
            patience_s: longest wait; a job that hangs is left behind.
        """
        with self._changed:
            self._idle_s = 0.0
            self._changed.notify()
            threads = [
                thread for thread in self._threads if thread is not threading.current_thread()
            ]
        ends_s = time.monotonic() + patience_s
        for thread in threads:
            thread.join(max(ends_s - time.monotonic(), 0.0))

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._threads = [*(known for known in self._threads if known.is_alive()), thread]
        self._takes_jobs = True
        thread.start()

    def _run(self) -> None:
        try:
            self._begin()
            while self._wait():
                while (job := self._next()) is not None:
                    job()
                self._more = self._step()
        except BaseException:
            with self._changed:  # the next job starts another thread
                self._takes_jobs = self._more = False
            raise

    def _wait(self) -> bool:
        """Whether there is work; False ends the thread."""
        with self._changed:
            if not self._jobs and not self._more:
                self._changed.wait(self._idle_s)
            if self._jobs or self._more:
                return True
            self._takes_jobs = False
            return False

    def _next(self) -> Callable[[], Any] | None:
        with self._changed:
            return self._jobs.popleft() if self._jobs else None


_made: weakref.WeakSet[LoopThread] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """End what a program has not closed, before the interpreter finalises."""
    for loop in list(_made):
        loop.end()
