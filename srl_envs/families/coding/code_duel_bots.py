"""Scripted players of code duel; they read the observation's text and nothing else.

They know the problem families: the task's title names the family, its statement the variant.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from srl_envs.families.coding.problems import DIFFICULTIES, FAMILIES, Parameters, ProblemFamily
from srl_envs.families.coding.submissions import EMPTY_PROGRAM, MAX_ATTACKS
from srl_envs.grammar import action

Bot = Callable[[str], str]
_GUESSES = ("0", "1", "-1", "[]", '""', "data", "len(data)", "sorted(data)", "str(data)")


@dataclass(frozen=True, slots=True)
class Task:
    """What a bot understands of an observation."""

    family: ProblemFamily
    parameters: Parameters
    attacking: bool
    """Whether inputs are asked for, not a program."""


def read_task(text: str) -> Task:
    """The task of an observation.

    Raises:
        ValueError: the text shows no task of code duel that we know.
    """
    _, _, rest = text.partition("\nTASK: ")
    title, _, rest = rest.partition("\n")
    statement, _, rest = rest.partition("\nExamples:\n")
    found = _known(title).get(statement)
    if found is None:
        raise ValueError("the text holds no task of code duel")
    family, parameters = found
    return Task(family, parameters, "\nPHASE: ATTACK" in rest)


@cache
def _known(title: str) -> dict[str, tuple[ProblemFamily, Parameters]]:
    """Statement -> variant, for the family with this title."""
    return {
        family.statement(parameters): (family, parameters)
        for family in FAMILIES.values()
        if family.title == title
        for difficulty in DIFFICULTIES
        for parameters in family.variants(difficulty)
    }


def random_bot(rng: np.random.Generator) -> Bot:
    """A program that returns a constant or little more; random inputs as attacks."""

    def reply(text: str) -> str:
        task = read_task(text)
        if task.attacking:
            return _send(_drawn(rng, task, int(rng.integers(MAX_ATTACKS + 1))))
        guess = _GUESSES[int(rng.integers(len(_GUESSES)))]
        return action(f"\ndef solve(data):\n    return {guess}\n")

    return reply


def empty_bot(rng: np.random.Generator) -> Bot:  # noqa: ARG001 - one signature for all bots
    """A program that is never right, and no attack."""

    def reply(text: str) -> str:
        return _send([]) if read_task(text).attacking else action(f"\n{EMPTY_PROGRAM}\n")

    return reply


def middle_bot(rng: np.random.Generator) -> Bot:
    """The right program with one to three bugs; random inputs as attacks."""

    def reply(text: str) -> str:
        task = read_task(text)
        if task.attacking:
            return _send(_drawn(rng, task, MAX_ATTACKS))
        return _program(_with_bugs(rng, task, int(rng.integers(1, 4))))

    return reply


def strong_bot(rng: np.random.Generator) -> Bot:
    """The right program; attacks on which careless programs go wrong."""

    def reply(text: str) -> str:
        task = read_task(text)
        if task.attacking:
            return _send(_edges(rng, task, MAX_ATTACKS))
        return _program(task.family.source(task.parameters))

    return reply


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Programs written in another way, one in four with a bug; mixed attacks. For ratings only."""

    def reply(text: str) -> str:
        task = read_task(text)
        if task.attacking:
            return _send(_edges(rng, task, 2) + _drawn(rng, task, 1))
        if rng.random() < 0.25:
            return _program(_with_bugs(rng, task, 1))
        return _program(task.family.other_source(task.parameters))

    return reply


def _program(source: str) -> str:
    return action(f"\n{source}\n")


def _send(inputs: list[Any]) -> str:
    return action(f"\n{json.dumps(inputs)}\n")


def _with_bugs(rng: np.random.Generator, task: Task, count: int) -> str:
    bugs = task.family.bugs_of(task.parameters)
    chosen = rng.permutation(len(bugs))[:count]
    return task.family.source(task.parameters, [bugs[int(k)] for k in sorted(chosen)])


def _drawn(rng: np.random.Generator, task: Task, count: int) -> list[Any]:
    return [task.family.draw_input(rng, task.parameters, "small") for _ in range(count)]


def _edges(rng: np.random.Generator, task: Task, count: int) -> list[Any]:
    edges = task.family.edge_inputs(task.parameters)
    return [edges[int(k)] for k in rng.permutation(len(edges))[:count]]
