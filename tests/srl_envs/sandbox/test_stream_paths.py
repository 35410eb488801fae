"""Programs that read standard input by its path, in each language, mode and tier."""

import shutil
import sys
from collections.abc import Iterator

import pytest

from srl_envs.sandbox import CodeExecutor, Limits
from tests.srl_envs.sandbox.tiers import executor_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
TIERS = ("namespaces", "landlock", "seccomp", "none")
PYTHON = (
    "open('/dev/stdin').read()",
    "open(0).read()",
    "open('/proc/self/fd/0').read()",
    "open('/dev/fd/0', 'rb').read().decode()",
    "open(file='/dev/stdin', mode='r', encoding='utf-8').read()",
    "__import__('pathlib').Path('/dev/stdin').read_text()",
    "__import__('io').open('/dev/stdin').read()",
    "__import__('codecs').open('/dev/stdin', encoding='utf-8').read()",
    "__import__('os').read(__import__('os').open('/dev/stdin', 0), 99).decode()",
    "''.join(__import__('fileinput').input('/dev/stdin'))",
    "__import__('sys').stdin.read()",
)
JAVASCRIPT = (
    "require('fs').readFileSync('/dev/stdin', 'utf8')",
    "require('fs').readFileSync('/dev/stdin').toString()",
    "require('fs').readFileSync(0, 'utf8')",
    "require('node:fs').readFileSync('/proc/self/fd/0', {encoding: 'utf8'})",
    "(() => { const fs = require('fs'), at = fs.openSync('/dev/stdin', 'r'); const text = "
    "fs.readFileSync(at, 'utf8'); fs.closeSync(at); return text })()",
    "await require('fs/promises').readFile('/dev/stdin', 'utf8')",
    "await new Promise(done => require('fs').readFile('/dev/stdin', 'utf8', (_, text) => done(text)))",
    "await (async () => { let text = ''; for await (const part of require('fs').createReadStream("
    "'/dev/stdin', 'utf8')) text += part; return text })()",
    "await (async () => { let text = ''; for await (const part of process.stdin) text += part; "
    "return text })()",
    "await (async () => { const text = []; for await (const line of require('readline')"
    ".createInterface({input: process.stdin})) text.push(line); return text.join(' ') + ' ' })()",
)


@pytest.fixture(scope="module", params=TIERS)
def python(request: pytest.FixtureRequest) -> Iterator[CodeExecutor]:
    options = {"allow_unsafe": True} if request.param == "none" else {}
    with executor_of(request.param, Limits(), **options) as executor:
        yield executor


@pytest.fixture(scope="module", params=("namespaces", "landlock", "none"))
def javascript(request: pytest.FixtureRequest) -> Iterator[CodeExecutor]:
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    options = {"allow_unsafe": True} if request.param == "none" else {}
    with executor_of(request.param, Limits(), language="javascript", **options) as executor:
        yield executor


def test_python_reads_standard_input_by_every_path(python: CodeExecutor) -> None:
    for reading in PYTHON:
        program = f"text = {reading}\nprint(sum(map(int, text.split())))"
        (outcome,) = python.run_stdin(program, ["3 4\n"], expected=["7"])
        assert outcome.passed, (reading, outcome)


def test_python_opens_an_empty_input_in_call_mode(python: CodeExecutor) -> None:
    for reading in PYTHON:
        program = f"def solve(): return {reading}"
        (outcome,) = python.run(program, [{"function": "solve", "args": [], "expected": ""}])
        assert outcome.passed, (reading, outcome)


def test_python_writes_to_standard_output_by_its_path(python: CodeExecutor) -> None:
    program = "with open('/dev/stdout', 'w') as out: out.write('7\\n')\nprint('end')"
    (outcome,) = python.run_stdin(program, [""], expected=["7\nend"])
    assert outcome.passed, outcome


def test_other_paths_open_as_before(python: CodeExecutor) -> None:
    program = """
class A: opener = open
def solve():
    import io, os
    try:
        A().opener('/dev/stdin0')
    except OSError as error:
        return [open is io.open, error.errno in (2, 13), open.__name__, callable(os.open)]
"""
    (outcome,) = python.run(program, [{"function": "solve", "args": []}])
    assert outcome.value == [True, True, "open", True], outcome


@pytest.mark.slow
def test_javascript_reads_standard_input_by_every_path(javascript: CodeExecutor) -> None:
    for reading in JAVASCRIPT:
        program = (
            f"const main = async () => {{ const text = {reading}; const [a, b] = text.trim()\n"
        )
        program += ".split(/\\s+/).map(Number); console.log(a + b) };\nmain()"
        (outcome,) = javascript.run_stdin(program, ["3 4\n"], expected=["7"])
        assert outcome.passed, (reading, outcome)


@pytest.mark.slow
def test_javascript_opens_an_empty_input_in_call_mode(javascript: CodeExecutor) -> None:
    for reading in JAVASCRIPT:
        program = f"async function solve() {{ return ({reading}).trim() }}"
        (outcome,) = javascript.run(program, [{"function": "solve", "args": [], "expected": ""}])
        assert outcome.passed, (reading, outcome)
