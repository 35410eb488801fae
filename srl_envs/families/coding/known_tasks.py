"""Tasks for scripted players: every generated task by its statement, with programs for it.

They read the observation's text and nothing else. Tasks of a collection are unknown to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from srl_envs.families.coding.problems import DIFFICULTIES, FAMILIES, Parameters, ProblemFamily
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]
_GUESSES = ("0", "1", "-1", "[]", '""', "data", "len(data)", "sorted(data)", "str(data)")


class KnownTask(NamedTuple):
    """A variant of a family."""

    family: ProblemFamily
    parameters: Parameters

    def program(self) -> str:
        """A right program."""
        return self.family.source(self.parameters)

    def other_program(self) -> str:
        """A right program, written differently."""
        return self.family.other_source(self.parameters)

    def with_bugs(self, rng: np.random.Generator, count: int) -> str:
        """The right one with so many bugs, or as many as there are."""
        bugs = self.family.bugs_of(self.parameters)
        chosen = rng.permutation(len(bugs))[:count]
        return self.family.source(self.parameters, [bugs[int(k)] for k in sorted(chosen)])


def known_task(text: str) -> KnownTask | None:
    """The generated task of an observation; None where it shows none."""
    _, _, rest = text.partition("\nTASK: ")
    title, _, rest = rest.partition("\n")
    statement, _, _ = rest.partition("\nExamples:\n")
    return _by_statement(title).get(statement)


@cache
def all_tasks() -> dict[str, KnownTask]:
    """Statement -> task, for every variant of every family."""
    return {task.family.statement(task.parameters): task for task in _every_task()}


@cache
def _by_statement(title: str) -> dict[str, KnownTask]:
    """Statement -> task, for the variants with this title."""
    return {
        task.family.statement(task.parameters): task
        for task in _every_task()
        if task.family.title(task.parameters) == title
    }


@cache
def _every_task() -> tuple[KnownTask, ...]:
    """Every variant of every family, one of each statement or more."""
    return tuple(
        KnownTask(family, parameters)
        for family in FAMILIES.values()
        for difficulty in DIFFICULTIES
        for parameters in family.variants(difficulty)
    )


def guess(rng: np.random.Generator) -> str:
    """A program that returns a constant or little more."""
    return f"def solve(data):\n    return {_GUESSES[int(rng.integers(len(_GUESSES)))]}"


def guess_unknown(rng: np.random.Generator, text: str) -> str:
    """A guess for a task of a collection, whose function the example of a reply names."""
    named = re.search(r"^<action>\ndef (\w+)\(", text, re.MULTILINE)
    name = named.group(1) if named else "solve"
    return guess(rng).replace("solve(data)", f"{name}(data, *rest)")


def send_program(source: str) -> str:
    """A reply that holds a program."""
    return action(f"\n{source}\n")
