"""Scripted testers and coders: they recognise generated tasks by their statements.

They read the observation's text and nothing else. A reply for either part, so each fits every seat.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from srl_envs.families.coding.known_tasks import Bot, KnownTask, guess, known_task, send_program
from srl_envs.families.coding.submissions import MAX_CASE_CHARS, Case, canonical
from srl_envs.families.coding.teams.test_and_code import CODER, DUE, KEEP, NO_TESTS, TESTER
from srl_envs.turns.grammar import action

_PARTS = {
    part: re.compile(rf"^ROUND \d+ of \d+\. {DUE[part]} now\.", re.M) for part in (TESTER, CODER)
}
_MOST = re.compile(r"^(?:Where tests are due: )?Reply with (?:up to )?(\d+) tests?,", re.MULTILINE)
_RAN = re.compile(
    r"^Round (\d+), test \d+: solve\((.*)\) -> (.*)\. The program (agrees|gave .*)\.$", re.MULTILINE
)
_LATER = re.compile(rf"^ROUND \d+ of \d+\. .*<action>{KEEP}</action>$", re.MULTILINE)
_ERROR_RATE = 0.3
_DRAWN = 24
"""Inputs among which the strong tester chooses."""


def random_bot(rng: np.random.Generator) -> Bot:
    """Tests with the answer of another input; a program that returns a constant or little more."""

    def tests(task: KnownTask, most: int, _ran: Sequence[Ran]) -> list[Case]:
        inputs = drawn(task, int(rng.integers(most + 1)), rng)
        others = drawn(task, len(inputs), rng)
        return [Case.of(a, right(task, b).value) for a, b in zip(inputs, others, strict=False)]

    return _team(tests, lambda _task, _ran: guess(rng))


def middle_bot(rng: np.random.Generator) -> Bot:
    """Small tests, three answers in ten wrong; mistakes in its program, less once a test disagrees."""

    def tests(task: KnownTask, most: int, ran: Sequence[Ran]) -> list[Case]:
        if ran:  # it looks again at those that the program disagreed with
            return [
                right(task, json.loads(each[0])) if each[2] else Case(*each[:2]) for each in ran
            ]
        inputs = drawn(task, min(most, 3), rng)
        sent = [right(task, data) for data in inputs]
        others = sent[1:] + sent[:1]
        return [
            case._replace(answer=other.answer) if rng.random() < _ERROR_RATE else case
            for case, other in zip(sent, others, strict=True)
        ]

    def program(task: KnownTask, ran: Sequence[Ran]) -> str:
        if ran and not any(each[2] for each in ran):
            return KEEP
        return task.with_bugs(rng, int(rng.integers(0, 2)) if ran else int(rng.integers(1, 3)))

    return _team(tests, program)


def strong_bot(rng: np.random.Generator) -> Bot:
    """The largest of many inputs and an edge, with right answers; the right program."""

    def tests(task: KnownTask, most: int, ran: Sequence[Ran]) -> list[Case]:
        if ran:
            return []
        edges = by_size(task, [*task.family.edge_inputs(task.parameters)])
        many = by_size(task, drawn(task, _DRAWN, rng))
        return [*many[: max(1, most - 1)], *edges][:most]

    return _team(tests, lambda task, ran: KEEP if ran else task.program())


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Edges and a small input; a program written in another way, one in four with a mistake at first."""

    def tests(task: KnownTask, most: int, ran: Sequence[Ran]) -> list[Case]:
        if ran:
            return []
        edges = task.family.edge_inputs(task.parameters)
        chosen = [edges[int(k)] for k in rng.permutation(len(edges))[: max(1, most - 2)]]
        return [right(task, data) for data in [*chosen, *drawn(task, most - len(chosen), rng)]]

    def program(task: KnownTask, ran: Sequence[Ran]) -> str:
        if not ran and rng.random() < 0.25:
            return task.with_bugs(rng, 1)
        return task.other_program()

    return _team(tests, program)


Ran = tuple[str, str, bool]
"""A test of the last round: input, answer, and whether the program disagreed."""


def part_due(text: str) -> int:
    """Whose reply is due, by the game's own line."""
    return TESTER if _PARTS[TESTER].search(text) else CODER


def last_ran(text: str) -> list[Ran]:
    """The tests of the last round whose program was run."""
    found = _RAN.findall(text)
    return [(i, a, gave != "agrees") for number, i, a, gave in found if number == found[-1][0]]


def right(task: KnownTask, data: Any) -> Case:
    """A test of an input with the reference's answer."""
    return Case.of(data, task.family.reference(task.parameters, data))


def drawn(task: KnownTask, count: int, rng: np.random.Generator) -> list[Any]:
    """Small inputs, all different; less than ``count`` where there are few."""
    found: dict[str, Any] = {}
    for _ in range(4 * count):
        if len(found) == count:
            break
        data = task.family.draw_input(rng, task.parameters, "small")
        found.setdefault(canonical(data), data)
    return list(found.values())


def by_size(task: KnownTask, inputs: Sequence[Any]) -> list[Case]:
    """Tests of the inputs that may be sent, the longest first, no answer twice before the end."""
    cases = sorted((right(task, data) for data in inputs), key=lambda c: (-len(c.input), c.input))
    fit = [case for case in cases if len(case.input) + len(case.answer) <= MAX_CASE_CHARS]
    first: dict[str, Case] = {}
    for case in fit:
        first.setdefault(case.answer, case)
    return [*first.values(), *(case for case in fit if first[case.answer] is not case)]


def _team(
    tests: Callable[[KnownTask, int, Sequence[Ran]], list[Case]],
    program: Callable[[KnownTask, Sequence[Ran]], str],
) -> Bot:
    """Both parts; no test in a later round keeps the last ones."""

    def reply(text: str) -> str:
        task, ran = known_task(text), last_ran(text)
        later = _LATER.search(text) is not None
        if part_due(text) == TESTER:
            found = _MOST.search(text)
            sent = tests(task, int(found[1]), ran) if task and found else []
            unlike = {case.input: case for case in sent}.values()
            if not unlike:
                return action(KEEP if later else NO_TESTS)
            return action("\n" + "\n".join(map(str, unlike)) + "\n")
        body = program(task, ran) if task else "def solve(data):\n    return 0"
        return action(body) if body == KEEP else send_program(body)

    return reply
