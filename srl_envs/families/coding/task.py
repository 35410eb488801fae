"""A coding game's task, from any source.

A state keeps an `Instance`, which is only text; the game's `TaskSource` makes the `Task` of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Streams
from srl_envs.families.coding.judging import Judge, Verdict, Work
from srl_envs.messages import clean_message

GUESSES = ("0", "1", "[]", '""', "data", "len(str(data))")
"""Return expressions of thoughtless programs."""
_TEST_CHARS, _ANSWER_CHARS = 300, 120


class Instance(NamedTuple):
    """One drawn task."""

    family: str
    """Problem family, or format of a collection."""
    parameters: str
    """JSON object: the variant of the family, or the id of the row."""
    examples: tuple[str, ...]
    """Tests that are shown."""
    hidden: tuple[str, ...]
    """Tests that decide; no observation before the end depends on them, reports of failures apart."""


class Task(ABC):
    """A task with tests for programs."""

    title: str
    statement: str
    function: str
    """Name that a program must define at its top level."""
    signature: str
    """Name and parameters, as after ``def``."""
    contract: str
    """What a program defines, as the end of a sentence that starts with "The program defines"."""

    @property
    def given_code(self) -> str:
        """Code whose names a program may rely on: the function to define, and what stands before it."""
        return f"def {self.signature}: pass"

    @property
    def empty_program(self) -> str:
        """What a seat plays that never sends a program: right on no test, and never run."""
        return f"def {self.signature}:\n    raise NotImplementedError"

    @abstractmethod
    def references(self, tests: Sequence[str]) -> dict[str, Any]:
        """The tests as `srl_envs.rewards.CodeScorer` reads them, by field."""

    @abstractmethod
    def example_block(self, examples: Sequence[str]) -> str:
        """The shown tests, under a heading; "" where there are none."""

    @abstractmethod
    def verdicts(
        self, judge: Judge, program: str, tests: Sequence[str], *, to_the_end: bool = True
    ) -> list[Verdict]:
        """One per test; see `judging.run_in_parts` for those that are not run.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the program.
        """

    def side_by_side(self, judge: Judge, work: Sequence[Work]) -> list[list[Verdict]]:
        """The verdicts on several programs, each on tests of its own.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the programs.
        """
        return [self.verdicts(judge, program, tests) for program, tests in work]

    @abstractmethod
    def shown_test(self, test: str) -> str:
        """One test in a form that a reader can check by hand."""

    def failure(self, test: str, verdict: Verdict) -> str:
        """One line on a test that a program failed: what it should give and what it gave.

        The test is the game's own text; what the program gave is cleaned as another seat's words are.
        """
        shown = self.shown_test(test)
        if len(shown) > _TEST_CHARS:
            shown = f"{shown[:_TEST_CHARS]}..."
        return f"{shown} ({clean_message(_what_happened(verdict), _ANSWER_CHARS)})"

    def sample_program(self, rng: np.random.Generator) -> str:
        """A program that returns a constant or little more."""
        guess = GUESSES[int(rng.integers(len(GUESSES)))]
        return f"def {self.signature}:\n    return {guess}"


class TaskSource(ABC):
    """Source of a game's tasks."""

    reference_names: tuple[str, ...]
    """Names of `Task.references`."""

    rows_to_train: int = 0
    """Rows in split train, as in `Game.rows_to_train`."""

    @abstractmethod
    def draw(self, streams: Streams) -> Instance:
        """A task of the streams' split, drawn from ``streams.instance``."""

    def named(self, streams: Streams) -> list[Instance]:
        """The tasks of an episode whose seed names rows; none where it leaves them to chance."""
        return []

    @abstractmethod
    def task(self, family: str, parameters: str) -> Task:
        """The task of an instance with these two fields."""


def _what_happened(verdict: Verdict) -> str:
    outcome = verdict.outcome
    if outcome is None:
        return "not run"
    if outcome.status == "ok":
        return f"the program gave {_written(outcome.value)}"
    if outcome.status == "timeout":
        return "the program took too long"
    return f"the program failed: {outcome.message or outcome.status}"


def _written(value: object) -> str:
    """`repr` that cannot fail, whatever a program returned."""
    try:
        return repr(value)
    except (ValueError, RecursionError):  # an integer past the digit limit; nesting
        return f"a {type(value).__name__}"
