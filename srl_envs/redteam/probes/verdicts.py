"""Attacks on the sandbox's verdicts: forged tests, hostile neighbours, honest programs refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from srl_envs.redteam.budget import Allowance
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.redteam.programs import plain_python
from srl_envs.redteam.programs.honest import PROGRAMS
from srl_envs.redteam.programs.hostile import QUITTING, STALLING, names_in, program, shadowing
from srl_envs.redteam.strain import strain, unstrained
from srl_envs.sandbox import CodeExecutor, Limits

TARGET = "programs"

_TESTS = (
    "assert f(2) == 4\nassert f(3) == 6",
    "assert abs(f(2) - 4) < 1e-6\nassert abs(f(3) - 6) < 1e-6",
    "assert round(f(2), 2) == 4.0\nassert round(f(5), 2) == 10.0",
    "assert sorted(f([2, 1])) == [2, 4]",
    "assert set(f([2, 1])) == {2, 4}",
    "assert list(f([2, 1])) == [4, 2]\nassert len(f([2, 1])) == 2",
    "assert tuple(f([2, 1])) == (4, 2)",
    "assert str(f(12)) == '24'",
    "for i in range(5):\n    assert f(i) == 2 * i",
    "for given, due in zip([1, 2], [2, 4]):\n    assert f(given) == due",
    "assert all(f(x) == 2 * x for x in (1, 2, 3))",
    "assert not any(f(x) != 2 * x for x in [1, 2, 3])",
    "assert isinstance(f(2), int) and f(2) == 4",
    "assert sum(f([1, 2])) == 6 and max(f([1, 2])) == 4",
    "import math\nassert math.isclose(f(2), 4)\nassert math.isclose(f(0.5), 1)",
    "def check(candidate):\n    assert candidate(2) == 4\nif __name__ == '__main__':\n    check(f)",
    "for k, v in enumerate([0, 2, 4]):\n    assert f(k) == v",
    "assert dict([(1, f(1))]) == {1: 2}",
    "assert float(f(2)) == 4.0 and int(f(3)) == 6 and bool(f(1))",
    "assert ' '.join(map(str, f([1, 2]))) == '2 4'",
    "try:\n    assert f(2) == 4\nexcept Exception as error:\n    raise AssertionError(repr(error))",
)
"""Tests of a function that doubles, in the forms that tests of data sets have."""
_WRONG = ("return 0", "return []", "return ''", "return Always()", "return a[0]")
_CALLS: list[list[Any]] = [[2], [3], [0], [1], [4], [5], [12], [0.5], [[2, 1]], [[1, 2]]]
_WALL_S = 2.0
"""Wall time of a run in the probe for stalling."""
_SLOW_S = 5.0
"""More than this beyond an honest run stalls: the wall time, and what ending four hostile runs takes."""


def forgeries() -> Iterator[tuple[str, str, str]]:
    """Trick, program and tests; tricks that change most come first."""
    for wave in range(2):
        for tests in _TESTS:
            for body in _WRONG:
                wrong = f"def f(*a): {body}\n"
                for trick, source in shadowing(wrong, names_in(tests)):
                    if trick.startswith("all names") == (wave == 0):
                        yield f"{body}; {trick}", source, tests
    for tests in _TESTS[:2]:
        for name, template in QUITTING.items():
            yield name, program(template, "f"), tests


def check_forgery(executor: CodeExecutor, case: Case) -> Finding | None:
    """A program that passes tests which plain values of its own results do not pass."""
    source, tests = case["program"], case["tests"]
    if not executor.run_asserts(source, tests).passed:
        return None
    values = plain_python.call_values(source, "f", _CALLS)
    table = list(zip(_CALLS, values, strict=True)) if values is not None else []
    if plain_python.tests_hold(tests, "f", table):
        return None
    return Finding(
        kind="wrong_program_passes", target=TARGET, observed=f"{case['trick']} passes {tests!r}",
        expected="what plain Python says of its values: the tests fail", case=case,
    )  # fmt: skip


def check_honest(executor: CodeExecutor, case: Case) -> Finding | None:
    """A program that plain Python runs and the sandbox refuses, or runs to another value."""
    source, argument = PROGRAMS[case["name"]]
    outcome = executor.run(source, [{"function": "solve", "args": [argument]}])[0]
    due = plain_python.call_values(source, "solve", [[argument]])
    raised = due is not None and isinstance(due[0], dict) and "raised" in due[0]
    if due is None or raised or (outcome.status == "ok" and outcome.value == due[0]):
        return None
    return Finding(
        kind="honest_program_refused", target=TARGET, case=case,
        observed=f"{case['name']}: {outcome!r}"[:200], expected=f"{due[0]!r}"[:80],
    )  # fmt: skip


def check_neighbours(executor: CodeExecutor, case: Case) -> Finding | None:
    """An honest program's verdict beside hostile ones equals its verdict without them."""
    source, argument = PROGRAMS[case["honest"]]
    honest = (source, [{"function": "solve", "args": [argument]}])
    hostile = program(STALLING[case["hostile"]], "solve")
    by_itself = executor.run_batch([honest])[0][0]
    beside = (hostile, [{"function": "solve", "args": [1]}])
    together = executor.run_batch([beside, honest, beside, honest])[1][0]
    if (by_itself.status, by_itself.value) == (together.status, together.value):
        return None
    return Finding(
        kind="verdict_depends_on_neighbours", target=TARGET, case=case,
        observed=f"{case['honest']} beside {case['hostile']}: {together!r}"[:200],
        expected=f"{by_itself!r}"[:120],
    )  # fmt: skip


def check_stall(_: CodeExecutor, case: Case) -> Finding | None:
    """What a hostile program costs in seconds, and whether it voids its verdict.

    It has an executor of its own, whose limit is as short as a game's.
    """
    name = case["name"]
    source = program({**STALLING, **QUITTING}[name], "solve")
    calls = [{"function": "solve", "args": [k], "expected": -1} for k in range(4)]
    before = strain()
    with CodeExecutor(Limits(wall_s=_WALL_S)) as executor:
        started = time.monotonic()
        executor.run("def solve(k):\n    return k\n", calls)
        honest_s = time.monotonic() - started
        outcomes = executor.run(source, calls)
    cost_s = unstrained(time.monotonic() - started - honest_s, before, strain())
    void = [outcome for outcome in outcomes if outcome.status == "infrastructure"]
    passed = [outcome for outcome in outcomes if outcome.passed]
    if void or passed:
        return Finding(
            kind="program_voids_its_verdict" if void else "wrong_program_passes", target=TARGET,
            observed=f"{name}: {(void or passed)[0]!r}"[:200], expected="a failed run", case=case,
        )  # fmt: skip
    if cost_s < honest_s + _SLOW_S or cost_s < 5 * honest_s:
        return None
    return Finding(
        kind="program_stalls_the_run", target=TARGET, case=case,
        observed=f"{name}: {cost_s:.1f} s for 4 calls",
        expected=f"at most {_SLOW_S:.0f} s more than an honest one, {honest_s:.1f} s",
    )  # fmt: skip


_CHECKS = {
    "forgery": check_forgery,
    "honest": check_honest,
    "neighbours": check_neighbours,
    "stall": check_stall,
}


def check(case: Case) -> Finding | None:
    """Run a case again."""
    with CodeExecutor(Limits()) as executor:
        return _CHECKS[case["kind"]](executor, case)


def _cases() -> list[tuple[float, Iterator[Case]]]:
    """Cases of each kind, with the fraction of what is left that the kind may spend."""
    base = {"probe": "programs", "target": TARGET}
    return [
        (0.25, ({**base, "kind": "honest", "name": name} for name in PROGRAMS)),
        (0.20, (
            {**base, "kind": "neighbours", "honest": honest, "hostile": hostile}
            for hostile in ("threads, held", "memory", "files")
            for honest in ("16 threads", "8 threads", "deep recursion")
        )),
        (0.35, ({**base, "kind": "stall", "name": name} for name in (*STALLING, *QUITTING))),
        (1.00, (
            {**base, "kind": "forgery", "trick": trick, "program": source, "tests": tests}
            for trick, source, tests in forgeries()
        )),
    ]  # fmt: skip


def probe(report: Report, allowance: Allowance) -> None:
    """Honest programs, neighbours, stalling, then forged tests; one finding per cause."""
    known: set[tuple[str, str]] = set()
    tried = 0
    with CodeExecutor(Limits()) as executor:
        for fraction, cases in _cases():
            part = allowance.part(fraction)
            for case in cases:
                cause = (
                    case["kind"],
                    str(case.get("tests", case.get("name", case.get("hostile")))),
                )
                if not part.left():
                    break
                if cause in known:
                    continue
                tried += 1
                allowance.spend()
                found = _CHECKS[case["kind"]](executor, case)
                if found is not None:
                    known.add(cause)
                    report.findings.append(found)
    report.measures.update(verdicts=tried, wrong=len(known))
