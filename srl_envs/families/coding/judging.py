"""Running players' programs against hidden tests; verdicts are computed outside the sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from srl_envs.errors import ConfigError
from srl_envs.sandbox import Budget, Outcome
from srl_envs.sandbox.lending import Borrower, sound

Work = tuple[str, Sequence[str]]
"""A program and the tests that it is to be run on."""

BUDGET_S, BUDGET_PER_TEST_S = 0.7, 0.02
"""Seconds of wall time that a program has for all tests of a phase: at least, and for each test."""
_PART = 3
"""Tests that are run together where the first failure ends them."""


class Verdict(NamedTuple):
    """Outcome of one test."""

    passed: bool
    outcome: Outcome | None
    """None where the test was not run."""


SKIPPED = Verdict(False, None)


class Judge(Borrower):
    """Runs programs in a sandbox that starts with the first of them; see `Borrower`."""

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
        return [[sound(outcome) for outcome in outcomes] for outcomes in found]

    def asserts(self, program: str, tests: str, budget: Budget | None = None) -> Outcome:
        """Test code full of asserts against one program.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the program.
            ConfigError: the tests cannot judge a program; the text names the reason.
        """
        outcome = self._live().run_asserts(program, tests, budget=budget)
        if outcome.status == "refused" and outcome.passed is None:
            raise ConfigError(outcome.message)
        return sound(outcome)


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
