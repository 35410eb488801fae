"""Outcomes of honest and broken programs."""

from __future__ import annotations

import pytest

from srl_envs.errors import ConfigError, SandboxError
from srl_envs.sandbox import CodeExecutor, Limits, Outcome
from srl_envs.sandbox.jobs import Run


def call(executor: CodeExecutor, program: str, *args: object, expected: object = None) -> Outcome:
    return executor.run(program, [{"function": "solve", "args": args, "expected": expected}])[0]


def test_a_call_returns_its_value_and_a_verdict(executor: CodeExecutor) -> None:
    outcomes = executor.run(
        "def solve(a, b): return a + b",
        [
            {"function": "solve", "args": [3, 4], "expected": 7},
            {"function": "solve", "args": [3, 4], "expected": 8},
            {"function": "solve", "args": [3], "kwargs": {"b": 5}},
        ],
    )
    assert [outcome.status for outcome in outcomes] == ["ok"] * 3
    assert [outcome.value for outcome in outcomes] == [7, 7, 8]
    assert [outcome.passed for outcome in outcomes] == [True, False, None]
    assert outcomes[0].cpu_s > 0
    assert outcomes[0].peak_mib > 1
    assert outcomes[0].isolation == executor.layers != ()


def test_methods_are_called_on_a_new_instance(executor: CodeExecutor) -> None:
    program = "class Solution:\n  def solve(self, x): return x * 2"
    outcome = executor.run(program, [{"function": "Solution.solve", "args": [21]}])[0]
    assert outcome.value == 42


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -5, 2**200, -(2**200), 0.1, float("inf"), "é\n\0\U0001f600", [], [1, [2, []]],
        (1, (2,)), {"a": 1}, {1: "x", (1, 2): None}, {1, 2}, b"\x00\xff", 1 + 2j,
    ],
    ids=repr,
)  # fmt: skip
def test_plain_data_survives_both_directions(executor: CodeExecutor, value: object) -> None:
    outcome = call(executor, "def solve(x): return x", value, expected=value)
    assert outcome.value == value
    assert type(outcome.value) is type(value)
    assert outcome.passed is True


def test_a_subclass_is_read_as_its_base(executor: CodeExecutor) -> None:
    program = """
from collections import Counter, OrderedDict, defaultdict, namedtuple
from enum import IntEnum
class E(IntEnum):
    A = 7
def solve():
    d = defaultdict(list); d["k"].append(1)
    return [E.A, Counter("aab"), d, OrderedDict(x=1), namedtuple("P", "x y")(1, 2), iter([3]), range(2)]
"""
    expected = [7, {"a": 2, "b": 1}, {"k": [1]}, {"x": 1}, (1, 2), [3], range(2)]
    assert call(executor, program).value == expected


@pytest.mark.parametrize(
    ("program", "status", "message"),
    [
        ("def solve(): raise ValueError('no')", "exception", "ValueError: no"),
        ("def solve(): return object()", "exception", "no JSON value"),
        ("def solve(): return __import__('itertools').count()", "exception", "an iterator"),
        ("def solve():\n  x = []\n  x.append(x)\n  return x", "exception", "nested deeper"),
        ("def solve(:", "exception", "SyntaxError"),
        ("solve = 3", "exception", "TypeError"),
        ("other = 3", "exception", "defines no 'solve'"),
        ("def solve(): raise SystemExit(0)", "exception", "SystemExit"),
        ("import sys; sys.exit(0)", "exception", "SystemExit"),
        ("def solve(): import os; os._exit(0)", "crashed", "without a result"),
        ("def solve(): import os; os.abort()", "crashed", "SIGABRT"),
        ("def solve(): import ctypes; ctypes.string_at(0)", "crashed", "SIGSEGV"),
        ("def solve(): return bytearray(10**9)", "memory", "memory_mib=256"),
        ("def solve(): return 'x' * 10**6", "output_limit", "256 KiB"),
        ("def solve(): print('x' * 10**6)", "output_limit", "256 KiB"),
        ("def solve():\n  while True: pass", "timeout", "0.5 s of cpu time"),
        ("def solve():\n  def f(): f()\n  f()", "exception", "RecursionError"),
    ],
)
def test_failures_have_a_status_and_a_reason(
    executor: CodeExecutor, program: str, status: str, message: str
) -> None:
    outcome = call(executor, program, expected=1)
    assert outcome.status == status
    assert message in outcome.message
    assert outcome.passed is False
    assert outcome.value is None


def test_sleeping_is_stopped_by_the_wall_limit() -> None:
    with CodeExecutor(Limits(wall_s=0.3, cpu_s=10.0)) as executor:
        outcome = call(executor, "import time\ndef solve(): time.sleep(60)")
    assert (outcome.status, outcome.message) == ("timeout", "more than 0.3 s of wall time")


def test_output_of_a_call_is_kept(executor: CodeExecutor) -> None:
    outcome = call(executor, "print('load')\ndef solve(): print('run'); return 1")
    assert outcome.stdout == "load\nrun\n"


def test_calls_in_one_process_share_state_and_split_output(executor: CodeExecutor) -> None:
    program = "n = 0\ndef solve(x):\n  global n; n += x; print('at', n); return n"
    calls = [{"function": "solve", "args": [k], "expected": w} for k, w in ((1, 1), (2, 3), (3, 6))]
    outcomes = executor.run(program, calls, one_process=True)
    assert [(o.value, o.stdout, o.passed) for o in outcomes] == [
        (1, "at 1\n", True),
        (3, "at 3\n", True),
        (6, "at 6\n", True),
    ]
    assert [o.value for o in executor.run(program, calls)] == [1, 2, 3]


def test_a_crash_in_one_process_costs_only_the_calls_after_it(executor: CodeExecutor) -> None:
    program = "import os\ndef solve(x):\n  if x == 2: os._exit(0)\n  return x"
    calls = [{"function": "solve", "args": [k]} for k in (1, 2, 3)]
    statuses = [o.status for o in executor.run(program, calls, one_process=True)]
    assert statuses == ["ok", "crashed", "crashed"]


def test_scripts_read_input_and_print(executor: CodeExecutor) -> None:
    program = "a, b = map(int, input().split())\nprint(a + b)"
    outcomes = executor.run_stdin(program, ["3 4\n", "10 -2"], expected=["7", "9"])
    assert [(o.status, o.stdout, o.passed) for o in outcomes] == [
        ("ok", "7\n", True),
        ("ok", "8\n", False),
    ]


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("print(1)", "ok"),
        ("print(1); raise SystemExit", "ok"),
        ("print(1); exit(0)", "ok"),
        ("import os\nprint(1, flush=True); os._exit(0)", "ok"),
        ("print(1); exit(3)", "exception"),
        ("print(1); exit('bad')", "exception"),
        ("print(1); 1 / 0", "exception"),
    ],
)
def test_the_exit_code_of_a_script_counts(
    executor: CodeExecutor, program: str, status: str
) -> None:
    (outcome,) = executor.run_stdin(program, [""], expected=["1"])
    assert outcome.status == status
    assert outcome.stdout == "1\n"
    assert outcome.passed is (status == "ok")


def test_a_custom_check_runs_on_the_trusted_side(executor: CodeExecutor) -> None:
    seen = []

    def check(value: object, expected: object) -> bool:
        seen.append((value, expected))
        return True

    calls = [{"function": "solve", "args": [], "expected": "anything"}]
    (outcome,) = executor.run("def solve(): return 1", calls, check=check)
    assert outcome.passed is True
    assert seen == [(1, "anything")]


def test_the_same_program_has_the_same_outcome(executor: CodeExecutor) -> None:
    program = "import random\nprint({'a', 'b', 'c', 'd'}, random.random())"
    assert len({o.stdout for o in executor.run_stdin(program, [""] * 4)}) == 1


def test_a_huge_program_is_refused(executor: CodeExecutor) -> None:
    outcome = call(executor, "#" * (5 << 20), expected=1)
    assert (outcome.status, outcome.passed) == ("refused", False)


def test_repr_of_an_outcome_never_fails() -> None:
    for value in (10**5000, "x" * 10**6, [[1] * 10] * 1000, {"k": 10**5000}, {1, 2}):
        assert len(repr(Outcome(status="ok", value=value))) < 400


@pytest.mark.parametrize(
    "wrong",
    [
        {"wall_s": 0}, {"cpu_s": -1.0}, {"cpu_s": float("nan")}, {"memory_mib": 1}, {"files": 2},
        {"memory_mib": 0.5}, {"processes": 0}, {"output_kib": True}, {"cpu_s": "2"},
    ],
    ids=repr,
)  # fmt: skip
def test_impossible_limits_fail_at_once(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Limits(**wrong)  # type: ignore[arg-type]


def test_a_malformed_call_is_the_callers_mistake(executor: CodeExecutor) -> None:
    for bad in ({}, {"function": 3}, {"function": "f", "arguments": []}):
        with pytest.raises(ConfigError, match="function"):
            executor.run("", [bad])
    with pytest.raises(ConfigError, match="no JSON value"):
        executor.run("", [{"function": "f", "args": [object()]}])
    with pytest.raises(ConfigError, match="expected outputs"):
        executor.run_stdin("", [""], expected=[])
    with pytest.raises(ConfigError, match="every program would pass"):
        executor.run_asserts("", "  \n")


def test_an_unknown_setting_fails_at_once() -> None:
    with pytest.raises(ConfigError, match="strongest"):
        CodeExecutor(isolation="strong")
    with pytest.raises(ConfigError, match="python"):
        CodeExecutor(language="pyhton")


def test_no_isolation_is_refused_unless_asked_for() -> None:
    with pytest.raises(SandboxError, match="allow_unsafe"):
        CodeExecutor(isolation="none")
    with CodeExecutor(isolation="none", allow_unsafe=True) as executor:
        outcome = call(executor, "def solve(): return 1", expected=1)
    assert outcome.passed is True
    assert "seccomp" not in outcome.isolation


def test_preloaded_modules_are_there_before_the_program() -> None:
    pytest.importorskip("numpy")
    program = "import sys\ndef solve(name): return name in sys.modules"
    for preload, there in (((), False), (("numpy", "numpy.linalg"), True)):
        with CodeExecutor(packages=("numpy",), preload=preload) as executor:
            assert call(executor, program, "numpy.linalg").value is there
    with pytest.raises(ConfigError, match=r"'sympy.core': its package is not among"):
        CodeExecutor(preload=("sympy.core",))


def test_tests_that_judge_no_program_are_refused_wherever_theirs_was_stopped(
    executor: CodeExecutor,
) -> None:
    candidate = Run(b"", fault="the program's process could not be confined")
    tester = Run(b"", stdout=b'{"verdict": "tests", "message": "invalid syntax"}')
    outcome = executor._duet_outcome(candidate, tester)
    assert (outcome.status, outcome.passed, outcome.message) == ("refused", None, "invalid syntax")
