"""Running players' programs against hidden tests; verdicts are computed outside the sandbox."""

from __future__ import annotations

import json
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from srl_envs.errors import ConfigError, SandboxError
from srl_envs.sandbox import Budget, CodeExecutor, Limits, Outcome
from srl_envs.sandbox.jobs import PROCESSORS

Work = tuple[str, Sequence[str]]
"""A program and the tests that it is to be run on."""

LIMITS = Limits(cpu_s=0.5, wall_s=1.0, memory_mib=256, output_kib=64)
"""Per test. A reference needs milliseconds."""
BUDGET_S, BUDGET_PER_TEST_S = 0.7, 0.02
"""Seconds of wall time that a program has for all tests of a phase: at least, and for each test."""
_PART = 3
"""Tests that are run together where the first failure ends them."""
_SERVERS = max(2, math.ceil(PROCESSORS / 3))
"""Sandboxes that the judges of one process share."""


class Verdict(NamedTuple):
    """Outcome of one test."""

    passed: bool
    outcome: Outcome | None
    """None where the test was not run."""


SKIPPED = Verdict(False, None)


class _Shared:
    """The sandboxes of all judges of this process, each for as long as one of them holds it.

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
    """Let judges' sandboxes live on between games that are played one after the other.

    Otherwise the last holder ends them, and each game starts one anew, which takes a third of a second.
    """
    return _SHARED.kept()


class Judge:
    """Runs programs in a sandbox that starts with the first of them; threads may share a judge.

    Judges without an executor of their own share a few. A copy, also one that went through pickle,
    takes its sandbox when it first needs one.

    Args:
        executor: runs the programs; None takes one that judges share, with `LIMITS`.
    """

    def __init__(self, executor: CodeExecutor | None = None) -> None:
        self._given = executor
        self._executor = executor

    def calls(
        self, work: Sequence[Work], function: str, budgets: Sequence[Budget]
    ) -> list[list[Outcome]]:
        """Programs on inputs, side by side; each input in a fresh process, without its right answer.

        Args:
            work: programs and their inputs, JSON texts.
            function: to call.
            budgets: of each program.

        Returns:
            Per program, one outcome per input.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the programs.
        """
        submissions = [
            (program, [{"function": function, "args": [json.loads(text)]} for text in inputs])
            for program, inputs in work
        ]
        found = self._live().run_batch(submissions, budgets=budgets)
        return [[_sound(outcome) for outcome in outcomes] for outcomes in found]

    def asserts(self, program: str, tests: str, budget: Budget | None = None) -> Outcome:
        """Test code full of asserts against one program.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the program.
            ConfigError: the tests cannot judge a program; the text names the reason.
        """
        outcome = self._live().run_asserts(program, tests, budget=budget)
        if outcome.status == "refused" and outcome.passed is None:
            raise ConfigError(outcome.message)
        return _sound(outcome)

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


def budget_of(tests: Sequence[str]) -> Budget:
    """What a program has for these tests together.

    An honest program needs a small part of it. One that loops, sleeps or takes memory costs the
    game no more, however many tests there are; what it then leaves undone counts as failed.
    """
    return Budget(BUDGET_S + BUDGET_PER_TEST_S * len(tests))


def run_in_parts(
    tests: Sequence[str], run: Callable[[Sequence[str]], Sequence[Verdict]], *, to_the_end: bool
) -> list[Verdict]:
    """One verdict per test; unless ``to_the_end``, stops soon after the first failure.

    What is not run counts as failed.
    """
    verdicts: list[Verdict] = []
    size = len(tests) if to_the_end else _PART
    while len(verdicts) < len(tests) and all(verdict.passed for verdict in verdicts):
        verdicts += run(tests[len(verdicts) : len(verdicts) + size])
    return verdicts + [SKIPPED] * (len(tests) - len(verdicts))


def _sound(outcome: Outcome) -> Outcome:
    refused = outcome.status == "refused" and outcome.passed is not False
    if outcome.status == "infrastructure" or refused:
        raise SandboxError(
            f"the sandbox could not run a program ({outcome.status}: {outcome.message}); "
            "the episode is void."
        )
    return outcome
