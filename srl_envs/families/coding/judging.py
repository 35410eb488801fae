"""Running players' programs against hidden tests; verdicts are computed outside the sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from srl_envs.errors import ConfigError, SandboxError
from srl_envs.sandbox import Budget, CodeExecutor, Limits, Outcome

Work = tuple[str, Sequence[str]]
"""A program and the tests that it is to be run on."""

LIMITS = Limits(cpu_s=0.5, wall_s=1.0, memory_mib=256, output_kib=64)
"""Per test. A reference needs milliseconds."""
BUDGET_S, BUDGET_PER_TEST_S = 0.7, 0.02
"""Seconds of wall time that a program has for all tests of a phase: at least, and for each test."""
_PART = 3
"""Tests that are run together where the first failure ends them."""


class Verdict(NamedTuple):
    """What became of one test."""

    passed: bool
    outcome: Outcome | None
    """None where the test was not run."""


SKIPPED = Verdict(False, None)


class Judge:
    """Runs programs in a sandbox that starts with the first of them.

    A copy, also one that went through pickle, starts a sandbox of its own when it first needs one.

    Args:
        executor: runs the programs; None makes one with `LIMITS`.
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
            ConfigError: the tests could judge no program; the text says why.
        """
        outcome = self._live().run_asserts(program, tests, budget=budget)
        if outcome.status == "refused" and outcome.passed is None:
            raise ConfigError(outcome.message)
        return _sound(outcome)

    def close(self) -> None:
        """End the sandbox, if one was started."""
        if self._executor is not None:
            self._executor.close()
            self._executor = None

    def _live(self) -> CodeExecutor:
        if self._executor is None:
            self._executor = CodeExecutor(limits=LIMITS)
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
    if outcome.status in ("infrastructure", "refused"):
        raise SandboxError(
            f"the sandbox could not run a program ({outcome.status}: {outcome.message}); "
            "the episode is void."
        )
    return outcome
