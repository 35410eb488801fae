"""Running players' programs against hidden tests; verdicts are computed outside the sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from srl_envs.errors import ConfigError, SandboxError
from srl_envs.sandbox import CodeExecutor, Limits, Outcome

LIMITS = Limits(cpu_s=1.0, wall_s=5.0, memory_mib=256, output_kib=64)
"""Per test. A reference needs milliseconds; wall time is only the backstop of a busy host."""
MAX_TIMEOUTS = 3
"""Timeouts after which the rest of a program's tests counts as failed without being run."""


class Verdict(NamedTuple):
    """What became of one test."""

    passed: bool
    outcome: Outcome | None
    """None where the test was not run."""


SKIPPED = Verdict(False, None)


class Judge:
    """Runs programs in a sandbox that starts with the first of them.

    Args:
        executor: runs the programs; None makes one with `LIMITS`.
    """

    def __init__(self, executor: CodeExecutor | None = None) -> None:
        self._executor = executor

    def calls(self, program: str, function: str, inputs: Sequence[str]) -> list[Outcome]:
        """One outcome per input, a JSON text; each of a fresh process, and no right answer goes along.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the program.
        """
        calls = [{"function": function, "args": [json.loads(text)]} for text in inputs]
        outcomes = self._live().run(program, calls)
        return [_sound(outcome) for outcome in outcomes]

    def asserts(self, program: str, tests: str) -> Outcome:
        """Test code full of asserts against one program.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the program.
            ConfigError: the tests could judge no program; the text says why.
        """
        outcome = self._live().run_asserts(program, tests)
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


def run_in_parts(
    tests: Sequence[str], run: Callable[[Sequence[str]], Sequence[Verdict]], *, to_the_end: bool
) -> list[Verdict]:
    """One verdict per test; what is not run counts as failed.

    Stops after `MAX_TIMEOUTS` timeouts, and unless ``to_the_end`` soon after the first failure.
    """
    verdicts: list[Verdict] = []
    timeouts = 0
    while len(verdicts) < len(tests) and timeouts < MAX_TIMEOUTS:
        if not to_the_end and not all(verdict.passed for verdict in verdicts):
            break
        found = run(tests[len(verdicts) : len(verdicts) + MAX_TIMEOUTS])
        verdicts += found
        timeouts += sum(v.outcome is not None and v.outcome.status == "timeout" for v in found)
    return verdicts + [SKIPPED] * (len(tests) - len(verdicts))


def _sound(outcome: Outcome) -> Outcome:
    if outcome.status in ("infrastructure", "refused"):
        raise SandboxError(
            f"the sandbox could not run a program ({outcome.status}: {outcome.message}); "
            "the episode is void."
        )
    return outcome
