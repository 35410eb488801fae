"""Tasks from the rows of a collection; hidden tests are assert statements, each run by itself.

They have no attack phase: a row has no validator, so an input on which its reference does
whatever it does by chance could not be distinguished from one that the task asks about.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from srl_envs.core import Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.coding.judging import SKIPPED, Judge, Verdict, budget_of, run_in_parts
from srl_envs.families.coding.submissions import canonical, read_program
from srl_envs.families.coding.task import GUESSES, Instance, Task, TaskSource
from srl_envs.families.coding.tasks.asserts import asserted
from srl_envs.reading.task_rows import Rejected, TaskReport

MAX_STATEMENT_CHARS = 3000
MAX_SIGNATURE_CHARS = 200
MAX_EXAMPLE_CHARS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedRow:
    """What a format's adapter reads out of a row."""

    id: str
    text: str
    """The statement, as a seat sees it."""
    function: str
    """Name that the tests call."""
    signature: str
    """Name and parameters, without ``def`` and colon."""
    reference: str
    """A whole program that defines the function."""
    preamble: str
    """Imports and definitions that every program may use; put in front of it and of the tests."""
    shown: tuple[str, ...]
    """Asserts that a seat sees."""
    tests: tuple[str, ...]
    """Test code, one assert each, ready to run."""


def unplayable(row: RecordedRow) -> str:
    """Why a row cannot be played, before anything is run; "" where it can."""
    for what, text, limit in (
        ("statement", row.text, MAX_STATEMENT_CHARS),
        ("signature", row.signature, MAX_SIGNATURE_CHARS),
        ("example", "\n".join(row.shown), MAX_EXAMPLE_CHARS),
    ):
        if len(text) > limit:
            return f"the {what} has {len(text)} characters, over {limit}"
    if not row.tests:
        return f"no assert tests {row.function}"
    try:
        read_program(row.reference, row.function, row.signature)
    except IllegalMoveError as error:
        return f"no seat may send the reference: {error}"
    return ""


class RecordedTask(Task):
    """One row; its tests are test code."""

    def __init__(self, row: RecordedRow) -> None:
        self.row = row
        self.title = row.function
        self.statement = row.text
        self.function = row.function
        self.signature = row.signature
        self.contract = f"the function {row.function} of the task, with all that it needs."

    @property
    def given_code(self) -> str:
        """The preamble, then the function to define."""
        return with_preamble(self.row.preamble, super().given_code)

    def references(self, tests: Sequence[str]) -> dict[str, Any]:
        """Test code, and what stands before a program."""
        return {"tests": "\n\n".join(tests), "preamble": self.row.preamble}

    def example_block(self, examples: Sequence[str]) -> str:
        """The asserts that are shown; many statements hold examples of their own."""
        return "Examples:\n" + "\n".join(examples) if examples else ""

    def verdicts(
        self, judge: Judge, program: str, tests: Sequence[str], *, to_the_end: bool = True
    ) -> list[Verdict]:
        """Whether each assert holds, in a fresh process of its own."""
        if program == self.empty_program:
            return [SKIPPED] * len(tests)
        whole = with_preamble(self.row.preamble, program)
        budget = budget_of(tests)

        def run(chunk: Sequence[str]) -> list[Verdict]:
            outcomes = [judge.asserts(whole, test, budget) for test in chunk]
            return [Verdict(bool(o.passed), o) for o in outcomes]

        return run_in_parts(tests, run, to_the_end=to_the_end)

    def shown_test(self, test: str) -> str:
        """The statement that asserts."""
        return asserted(test, self.function)

    def sample_program(self, rng: np.random.Generator) -> str:
        """A program that accepts any arguments."""
        guess = GUESSES[int(rng.integers(len(GUESSES)))]
        return f"def {self.function}(*data):\n    return {guess}"


class RecordedTasks(TaskSource):
    """Draws among the rows of the split, all equally likely.

    Args:
        report: of the collection.
        each: tasks of an episode.
    """

    reference_names = ("tests", "preamble")

    def __init__(self, report: TaskReport[RecordedRow], each: int) -> None:
        self.report, self._each = report, each
        self.rows_to_train = len(report.splits["train"])
        self._format = report.source.partition(":")[0]
        self._rows = {row.id: row for row in report.tasks}

    def draw(self, streams: Streams) -> Instance:
        """Draw a row, with the row's shown tests."""
        rows = self.report.splits[streams.split]
        return self._instance(rows[int(streams.instance.integers(len(rows)))])

    def named(self, streams: Streams) -> list[Instance]:
        """The named rows, in the given order."""
        rows = self.report.splits[streams.split]
        return [self._instance(rows[place]) for place in streams.rows(len(rows), self._each)]

    def task(self, family: str, parameters: str) -> RecordedTask:
        """The row with the id in ``parameters``."""
        return RecordedTask(self._rows[json.loads(parameters)["id"]])

    def _instance(self, row: RecordedRow) -> Instance:
        return Instance(self._format, canonical({"id": row.id}), row.shown, row.tests)


def with_preamble(preamble: str, program: str) -> str:
    """The program after the preamble; imports from ``__future__`` stay in front."""
    if not preamble:
        return program
    future = ""
    if "__future__" in program:
        tree = ast.parse(program)
        first = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
        tree.body = [node for node in tree.body if node not in first]
        future = "\n".join(map(ast.unparse, first)) + "\n"
        program = ast.unparse(tree)
    return f"{future}{preamble}\n\n{program}"


def reference_fault(row: RecordedRow, judge: Judge) -> str:
    """Why the row's reference does not pass all its tests together; "" where it does.

    Raises:
        SandboxError: the sandbox failed; nothing is known of the row.
    """
    program = with_preamble(row.preamble, row.reference)
    try:
        outcome = judge.asserts(program, "\n\n".join(row.tests))
    except ConfigError as error:
        return str(error)
    if outcome.passed:
        return ""
    detail = f": {outcome.message}" if outcome.message else ""
    return f"the reference does not pass its own tests ({outcome.status}{detail})"


def accepted(row: RecordedRow, where: str) -> RecordedRow | Rejected:
    """The row, or the reason why it is left out."""
    reason = unplayable(row)
    return Rejected(where, row.id, reason) if reason else row
