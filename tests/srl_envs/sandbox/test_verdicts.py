# ruff: noqa: E501 - programs are quoted as their authors would write them
"""Verdicts that cannot be talked to: right programs pass idiomatic tests, two-faced ones do not."""

from __future__ import annotations

import shutil

import pytest

from srl_envs.sandbox import CodeExecutor, Outcome
from tests.srl_envs.sandbox.idioms import IDIOMS
from tests.srl_envs.sandbox.two_faces import CALLS, FORMS, HONEST, SCRIPTS, TESTS

pytestmark = pytest.mark.slow


REFUSED = {
    "equal to a number": "compared with plain data",
    "a mock as an object": "only the call",
    "warnings are watched": "state of their own process",
    "log records are watched": "state of their own process",
    "files of the tests": "state of their own process",
    "the environment": "state of their own process",
    "a context of decimal": "state of their own process",
}
"""Idioms that are refused on a right program, with the reason; at most 5 % of all."""


@pytest.mark.parametrize("name", IDIOMS)
def test_a_right_program_passes_an_idiomatic_test(executor: CodeExecutor, name: str) -> None:
    idiom = IDIOMS[name]
    outcome = executor.run_asserts(idiom.program, idiom.tests)
    if name in REFUSED:
        assert outcome.status == "refused", outcome
        assert REFUSED[name] in outcome.message
    else:
        assert (outcome.status, outcome.passed) == ("ok", True), outcome


@pytest.mark.parametrize("name", IDIOMS)
def test_a_wrong_program_does_not(executor: CodeExecutor, name: str) -> None:
    idiom = IDIOMS[name]
    assert idiom.old in idiom.program
    wrong = idiom.program.replace(idiom.old, idiom.new)
    assert executor.run_asserts(wrong, idiom.tests).passed is False


@pytest.mark.parametrize("name", REFUSED)
def test_no_program_voids_its_verdict_by_a_refusal(executor: CodeExecutor, name: str) -> None:
    assert executor.run_asserts(IDIOMS[name].program, IDIOMS[name].tests).passed is False


def test_few_idioms_are_refused() -> None:
    assert len(IDIOMS) >= 150
    assert len(REFUSED) <= 0.05 * len(IDIOMS)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_program_passes_the_tests_of_a_form(executor: CodeExecutor, name: str) -> None:
    outcome = executor.run_asserts(HONEST[name], TESTS[name])
    assert (outcome.status, outcome.passed) == ("ok", True), outcome


@pytest.mark.parametrize("name", FORMS)
def test_a_program_with_two_faces_is_not_judged_right(executor: CodeExecutor, name: str) -> None:
    tests, program = FORMS[name]
    _refuted(executor.run_asserts(program, TESTS[tests]))


@pytest.mark.parametrize("name", CALLS)
def test_no_returned_object_decides_its_verdict(executor: CodeExecutor, name: str) -> None:
    program, expected = CALLS[name]
    _refuted(executor.run(program, [{"function": "solve", "expected": expected}])[0])


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_no_object_of_javascript_decides_its_verdict() -> None:
    with CodeExecutor(language="javascript") as executor:
        for program, expected in SCRIPTS.values():
            _refuted(executor.run(program, [{"function": "solve", "expected": expected}])[0])


def _refuted(outcome: Outcome) -> None:
    assert outcome.passed is False, outcome
    assert outcome.status != "infrastructure", outcome


CALLED = {
    "a set of frozensets": ("def solve(): return {frozenset('ab')}", {frozenset("ab")}),
    "a dict with frozensets as keys": ("def solve(): return {frozenset([1]): 2}", {frozenset([1]): 2}),
    "a member": ("from enum import Enum\nclass C(Enum):\n  A = 3\ndef solve(): return C.A", 3),
    "a named tuple": ("from collections import namedtuple\ndef solve(): return namedtuple('P', 'x y')(1, 2)", [1, 2]),
    "a deque": ("from collections import deque\ndef solve(): return deque([1, 2])", [1, 2]),
    "a range": ("def solve(): return range(3)", [0, 1, 2]),
    "a dataclass": ("from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\ndef solve(): return P(1)", {"x": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLED)
def test_call_mode_reads_real_types(executor: CodeExecutor, name: str) -> None:
    program, expected = CALLED[name]
    outcome = executor.run(program, [{"function": "solve", "expected": expected}])[0]
    assert outcome.passed is True, outcome


def test_dates_are_compared_as_dates(executor: CodeExecutor) -> None:
    import datetime
    from decimal import Decimal

    program = "import datetime, decimal\ndef solve(): return {datetime.date(2024, 1, 2): decimal.Decimal('1.5')}"
    for expected, right in ((datetime.date(2024, 1, 2), True), (datetime.date(2024, 1, 3), False)):
        call = {"function": "solve", "expected": {expected: Decimal("1.5")}}
        assert executor.run(program, [call])[0].passed is right
