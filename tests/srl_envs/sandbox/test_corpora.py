"""Program collections beside the repository: hostile ones, honest ones, HumanEval."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from srl_envs.sandbox import CodeExecutor
from tests.commit_cases import nightly_but
from tests.srl_envs.sandbox.corpora import SHARED, folder

BECOME_ORDINARY = """
import os
os.setgroups([]); os.setresgid(61999, 61999, 61999); os.setresuid(61999, 61999, 61999)
"""
CASES = [((3, 4), 7), ((10, -2), 8)]
ASSERT_TESTS = {
    "as02": "try:\n  solve(1, 0); assert 0\nexcept ValueError: pass\nassert solve(6, 3) == 2",
    "as04": "s = Stack(); s.push(1); s.push(5)\nassert s.pop() == 5 and len(s) == 1",
    "as05": "assert solve(3, 4) == (3, 4)",
    "as07": "assert solve(3, 4) == '3-4'",
    "as08": "for n in range(30): assert solve(n, 3) == 3 * n",
    "as10": "x = [1]\nassert solve(x, 2) == [1, 2] and x == [1, 2]",
    "as11": "assert P(3).x == 3",
}


@pytest.fixture
def halves() -> Iterator[tuple[Path, Path]]:
    """The attacks in two collections that any user may read."""
    attacks = folder("attacks")
    rows = (attacks / "manifest.jsonl").read_text().splitlines()
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o755)
        made = Path(parent) / "even", Path(parent) / "odd"
        for number, half in enumerate(made):
            half.mkdir()
            (half / "manifest.jsonl").write_text("\n".join(rows[number::2]))
            shutil.copytree(attacks / "programs", half / "programs")
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("tier", nightly_but({"strongest"}, ["strongest", "landlock", "seccomp"]))
def test_every_hostile_program_gets_its_safe_verdict(tier: str, halves: tuple[Path, Path]) -> None:
    """Every program in each tier, half of them started by this user, the others by an ordinary one."""
    if os.getuid() != 0:  # no other user to become; this one is ordinary already
        for half in halves:
            _check_attacks(half, tier, _python)
        return
    own = halves[tier == "landlock"]
    _check_attacks(own, tier, _python)
    (other,) = {*halves} - {own}
    _check_attacks(other, tier, _python_for_everybody, BECOME_ORDINARY)


def _check_attacks(
    programs: Path,
    tier: str,
    python: Callable[[str], subprocess.CompletedProcess[str]],
    before: str = "",
) -> None:
    script = f"""
import functools, runpy, sys
{before}
import srl_envs.sandbox as sandbox
sandbox.CodeExecutor = functools.partial(sandbox.CodeExecutor, isolation={tier!r})
sys.argv = ["run_attacks.py", {str(programs)!r}]
runpy.run_path({str(SHARED / "tools" / "run_attacks.py")!r}, run_name="__main__")
"""
    shutil.rmtree("/tmp/sbx_canary", ignore_errors=True)  # of a run as another user
    done = python(script)
    shutil.rmtree("/tmp/sbx_canary", ignore_errors=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


TOO_DEEP = {"st25_lru_cache.py"} if sys.version_info[:2] == (3, 12) else set[str]()
"""Recursion through `lru_cache` that CPython 3.12 itself ends after some 500 calls."""


def test_every_honest_program_works(executor: CodeExecutor) -> None:
    for path in sorted(folder("benign").glob("*.py")):
        program = path.read_text()
        if path.name in TOO_DEEP:
            continue
        if path.name.startswith("st"):
            layouts = ("{} {}\n", "2\n{} {}\n")  # some want the count first
            inputs = [layout.format(*args) for layout in layouts for args, _ in CASES]
            answers = [str(answer) for _, answer in CASES] * len(layouts)
            verdicts = [o.passed for o in executor.run_stdin(program, inputs, expected=answers)]
            assert verdicts[:2] == [True] * 2 or verdicts[2:] == [True] * 2, path.name
        elif path.name.startswith("ca"):
            function = "Solution.solve" if "class Solution" in program else "solve"
            outcomes = executor.run(program, [{"function": function, "args": [3, 4]}])
            assert outcomes[0].status == "ok", (path.name, outcomes)
        else:
            tests = ASSERT_TESTS.get(path.name[:4], "assert solve(3, 4) == 7")
            outcome = executor.run_asserts(program, tests)
            assert outcome.passed is True, (path.name, outcome)


def humaneval() -> Iterator[tuple[str, str, str, str]]:
    """Name, prompt, solution and tests of each problem."""
    with gzip.open(folder("humaneval") / "HumanEval.jsonl.gz", "rt") as lines:
        for task in map(json.loads, lines):
            tests = f"{task['test']}\ncheck({task['entry_point']})\n"
            yield task["task_id"], task["prompt"], task["canonical_solution"], tests


def test_humaneval_solutions_pass_their_own_tests(executor: CodeExecutor) -> None:
    """Some; the tests of recorded tasks check all, as rows of a game."""
    for name, prompt, solution, tests in list(humaneval())[::8]:
        outcome = executor.run_asserts(prompt + solution, tests)
        assert outcome.passed is True, (name, outcome)


@pytest.mark.slow
def test_humaneval_without_a_solution_does_not_pass(executor: CodeExecutor) -> None:
    for name, prompt, _, tests in humaneval():
        assert executor.run_asserts(prompt + "    return None\n", tests).passed is False, name


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("tier", ["namespaces", "landlock", "seccomp"])
def test_an_ordinary_user_gets_the_same_isolation(tier: str) -> None:
    script = f"""{BECOME_ORDINARY}
print("started")
from srl_envs.sandbox import CodeExecutor
with CodeExecutor(isolation={tier!r}) as executor:
    for attempt in ("open('/etc/passwd')", "__import__('os').fork()", "__import__('socket').socket()"):
        print(executor.run_stdin(attempt, [""])[0].message[:15])
    print(executor.run("def f(): return 1", [{{"function": "f", "expected": 1}}])[0].passed)
"""
    done = _python_for_everybody(script)
    refused = "FileNotFoundError" if tier == "namespaces" else "PermissionError"
    expected = f"started\n{refused[:15]}\nPermissionError\nPermissionError\nTrue\n"
    assert done.stdout == expected, done.stderr[-1000:]


def _python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )


def _python_for_everybody(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script with an interpreter that any user may start and whose library any may read."""
    paths = [sysconfig.get_path("purelib"), str(Path(__file__).parents[3])]
    environment = {"PYTHONPATH": os.pathsep.join(paths)}
    ours = getattr(sys, "_base_executable", sys.executable)
    for python in (ours, f"/usr/bin/python3.{sys.version_info.minor}"):
        folders = Path(python).resolve().parents
        if Path(python).exists() and all(
            folder.stat().st_mode & 0o005 == 0o005 for folder in folders
        ):
            return subprocess.run(
                [str(python), "-B", "-c", script],
                capture_output=True,
                text=True,
                check=False,
                env=environment,
            )
    pytest.skip("this interpreter can be read by root only")
