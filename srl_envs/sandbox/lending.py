"""Sandboxes that the games of one process share, however many are live."""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from srl_envs.errors import SandboxError
from srl_envs.sandbox.executor import CodeExecutor
from srl_envs.sandbox.jobs import PROCESSORS
from srl_envs.sandbox.limits import Limits
from srl_envs.sandbox.outcome import Outcome

LIMITS = Limits(cpu_s=0.5, wall_s=1.0, memory_mib=256, output_kib=64)
"""Of one run. A reference needs milliseconds."""
_SERVERS = max(2, math.ceil(PROCESSORS / 3))
"""Sandboxes that the borrowers of one process share."""


class _Shared:
    """The sandboxes of all borrowers of this process, each for as long as one of them holds it.

    However many games are live, few servers start their programs, in the order in which they were
    asked for. A server needs over a quarter of the time that a program takes of the processors, so
    one of them keeps three busy.
    """

    _turn: int
    _alive: list[Callable[[], CodeExecutor | None]]
    _kept: dict[int, CodeExecutor] | None

    def __init__(self) -> None:
        self.forget()

    def executor(self) -> CodeExecutor:
        """The next in turn that is alive, or a new one; it ends with its last holder."""
        with self._lock:
            self._turn = (self._turn + 1) % len(self._alive)
            executor = self._alive[self._turn]()
            if executor is None:
                executor = CodeExecutor(limits=LIMITS)
                self._alive[self._turn] = weakref.ref(executor)
            if self._kept is not None:
                self._kept[self._turn] = executor
            return executor

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Hold every executor that is taken meanwhile; an outer one goes on after an inner one ends."""
        with self._lock:
            before, self._kept = self._kept, dict(self._kept or {})
        try:
            yield
        finally:
            with self._lock:
                self._kept = before

    def forget(self) -> None:
        """Start over, in a forked process: another thread of its parent may have held the lock."""
        self._lock = threading.Lock()
        self._turn = -1
        self._kept = None
        self._alive = [lambda: None] * _SERVERS


_SHARED = _Shared()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SHARED.forget)


def kept_sandboxes() -> AbstractContextManager[None]:
    """Let lent sandboxes live on between games that are played one after the other.

    Otherwise the last holder ends them, and each game starts one anew, which takes a third of a second.
    """
    return _SHARED.kept()


class Borrower:
    """Has a sandbox from its first program on; threads may share a borrower.

    Those without an executor of their own share a few. A copy, also one that went through pickle, takes
    its sandbox when it first needs one.

    Args:
        executor: runs the programs; None takes one that borrowers share, with `LIMITS`.
    """

    def __init__(self, executor: CodeExecutor | None = None) -> None:
        self._given = executor
        self._executor = executor

    def close(self) -> None:
        """Let go of the sandbox, if one was started; one that was given is closed."""
        if self._given is not None:
            self._given.close()
        self._executor = self._given

    def _live(self) -> CodeExecutor:
        if self._executor is None:
            self._executor = _SHARED.executor()
        return self._executor

    def __getstate__(self) -> dict[str, Any]:
        return {"_given": self._given, "_executor": self._given}


def sound(outcome: Outcome) -> Outcome:
    """The outcome, unless the sandbox itself failed.

    Raises:
        SandboxError: the sandbox failed.
    """
    refused = outcome.status == "refused" and outcome.passed is not False
    if outcome.status == "infrastructure" or refused:
        raise SandboxError(
            f"the sandbox could not run a program ({outcome.status}: {outcome.message}); "
            "the episode is void."
        )
    return outcome
