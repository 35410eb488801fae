"""Programs in JavaScript: the same outcomes, limits and walls as in Python."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from srl_envs.errors import ConfigError, SandboxError
from srl_envs.sandbox import CodeExecutor, Limits
from tests.srl_envs.sandbox.tiers import executor_of

pytestmark = pytest.mark.slow


LIMITS = Limits(cpu_s=3.0, wall_s=20.0, memory_mib=128, output_kib=256)
TIERS = ("namespaces", "landlock")

if not shutil.which("node"):
    pytest.skip("node is not installed", allow_module_level=True)


@pytest.fixture(scope="module", params=TIERS)
def executor(request: pytest.FixtureRequest) -> Iterator[CodeExecutor]:
    with executor_of(request.param, LIMITS, language="javascript") as executor:
        yield executor


def call(executor: CodeExecutor, program: str, *args: Any) -> Any:
    (outcome,) = executor.run(program, [{"function": "solve", "args": args}])
    return outcome


IDENTITY = "const solve = (x) => x;"


@pytest.mark.parametrize(
    "value",
    [
        0,
        -7,
        2**53 + 1,
        -(2**80),
        1.5,
        1e300,
        True,
        None,
        "",
        "aé\u2028😀\x00",
        [1, [2, "x"]],
        {"a": [1], "__proto__": 2},
        {1: "x", 2: "y"},
        {1, 2},
        b"\x00\xff",
        [],
        {},
        float("inf"),
    ],
    ids=repr,
)
def test_plain_data_survives_both_directions(executor: CodeExecutor, value: Any) -> None:
    outcome = call(executor, IDENTITY, value)
    assert (outcome.status, outcome.value) == ("ok", value)


@pytest.mark.parametrize(
    ("program", "value"),
    [
        ("function solve() { return 2 ** 60 }", 2.0**60),
        ("function solve() { return -0 }", 0),
        ("function solve() { return undefined }", None),
        ("async function solve() { return await Promise.resolve(5) }", 5),
        ("function* solve() { yield 1; yield 2 }", [1, 2]),
        ("class Point { x = 1 }; const solve = () => new Point()", {"x": 1}),
        ("module.exports.solve = () => 7", 7),
        ("module.exports = { solve: () => 8 }", 8),
        (
            "const { gcd } = { gcd: (a, b) => b ? gcd(b, a % b) : a }; let solve = () => gcd(12, 18)",
            6,
        ),
        ("'use strict'; var solve = () => require('util').format('%d', 3)", "3"),
    ],
)
def test_ways_to_define_and_to_return(executor: CodeExecutor, program: str, value: Any) -> None:
    outcome = call(executor, program)
    assert (outcome.status, outcome.value) == ("ok", value)


@pytest.mark.parametrize(
    ("program", "value"),
    [
        ("export function solve() { return 1 }", 1),
        ("export default function solve() { return 2 }", 2),
        ("import fs from 'fs';\nconst solve = () => typeof fs.readFileSync", "function"),
        ("import { sep } from 'node:path';\nexport const solve = () => sep", "/"),
        ("import * as os from 'os';\nfunction solve() { return os.EOL }", "\n"),
        ("const solve = () => later;\nconst later = await Promise.resolve(6);", 6),
        ("const a = 1;\nclass Solution { solve() { return 7 } }\nexport { Solution }", 7),
        ("export default { solve: () => 8 } // the end", 8),
        ("async function solve() { return (await import('path')).sep }", "/"),
        ("module.exports = function solve() { return 9 }", 9),
        ("import assert from 'assert';\nassert.equal(1, 1);\nmodule.exports = { solve: () => 10 }", 10),
    ],
)  # fmt: skip
def test_modules_with_import_and_export(executor: CodeExecutor, program: str, value: Any) -> None:
    name = "Solution.solve" if "class Solution" in program else "solve"
    (outcome,) = executor.run(program, [{"function": name, "args": []}])
    assert (outcome.status, outcome.value) == ("ok", value), outcome


def test_modules_read_input_and_print(executor: CodeExecutor) -> None:
    program = """
import fs, { readFileSync } from 'fs';
import { createInterface } from 'node:readline';
const lines = [];
for await (const line of createInterface({ input: process.stdin })) lines.push(line);
console.log(lines.length, readFileSync('/dev/stdin', 'utf8').length, typeof fs);
"""
    (outcome,) = executor.run_stdin(program, ["a\nb\n"], expected=["2 0 object"])
    assert outcome.passed, outcome


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import x from './other.js'", "cannot import './other.js'"),
        ("import x from 'left-pad'; const solve = () => 1", "cannot import 'left-pad'"),
        ("import { nothing } from 'fs'; const solve = () => 1", "nothing"),
        ("export const solve = ;", "SyntaxError"),
        ("const solve = ;", "SyntaxError"),
        ("throw new Error('early'); export {}", "early"),
        ("await Promise.reject(new TypeError('late'))", "late"),
    ],
)
def test_faults_of_modules_are_named(executor: CodeExecutor, program: str, message: str) -> None:
    outcome = call(executor, program)
    assert outcome.status == "exception"
    assert message in outcome.message


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        ("{ get a() { return ++n } }", {"a": 1}),
        ("[1, { get a() { return ++n } }, 3]", [1, {"a": 1}, 3]),
        ("new Proxy([5, 6], { get: (t, k) => k === '0' ? ++n : t[k] })", [1, 6]),
        ("new Proxy({ a: 5 }, { get: (t, k) => k === 'a' ? ++n : t[k] })", {"a": 1}),
        ("({ a: 5, toJSON: undefined })", {"a": 5, "toJSON": None}),
        ("Object.defineProperty({ a: 5 }, 'toJSON', { value: () => 7 })", {"a": 5}),
        ("Object.assign(new Number(5), { valueOf: () => 7 })", 5),
        ("Object.assign(new String('x'), { toString: () => 'y' })", "x"),
        ("Object.assign(new Boolean(false), { [Symbol.toPrimitive]: () => true })", False),
        (
            "Object.defineProperty([5, 6], Symbol.iterator, { value: function* () { yield 7 } })",
            [5, 6],
        ),
        ("new (class extends Map { entries() { return [['a', 7]] } })([['a', 5]])", {"a": 5}),
        ("new (class extends Set { *[Symbol.iterator]() { yield 7 } })([5])", {5}),
        ("new (class extends Array { get length() { return 0 } })(5, 6)", [5, 6]),
        ("Object.setPrototypeOf([5, 6], { map: () => [7], join: () => '7' })", [5, 6]),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("(JSON.stringify = () => '7', Array.prototype.join = () => '7', ['a'])", ["a"]),
        ("(Object.keys = Object.entries = () => [['a', 7]], { a: 5 })", {"a": 5}),
        ("(Array.from = () => [7], Array.prototype[Symbol.iterator] = function* () {}, [5])", [5]),
        ("(Number.isSafeInteger = () => false, String.prototype.includes = () => true, 5)", 5),
        ("(BigInt.prototype.toString = () => '7', 2n ** 70n)", 2**70),
        ("(Buffer.from = () => null, require('fs').writeSync = () => 0, 5)", 5),
        ("(String.prototype.replace = () => '7', RegExp.prototype.exec = () => null, 'é')", "é"),
        ("(Map.prototype.forEach = Map.prototype.entries = () => [], new Map([[1, 5]]))", {1: 5}),
        ("(Object.prototype.then = undefined, { a: 5 })", {"a": 5}),
    ],
)
def test_a_returned_value_is_read_once_as_it_is(
    executor: CodeExecutor, returned: str, value: Any
) -> None:
    outcome = call(executor, f"let n = 0; const solve = () => ({returned});")
    assert (outcome.status, outcome.value) == ("ok", value), outcome


def test_methods_output_and_verdicts(executor: CodeExecutor) -> None:
    program = "class Solution { twice(x) { console.log('seen', x); return 2 * x } }"
    calls = [{"function": "Solution.twice", "args": [n], "expected": 4} for n in (2, 3)]
    for one_process in (False, True):
        outcomes = executor.run(program, calls, one_process=one_process)
        assert [(o.passed, o.stdout) for o in outcomes] == [(True, "seen 2\n"), (False, "seen 3\n")]


def test_scripts_read_input_and_print(executor: CodeExecutor) -> None:
    whole = "console.log(require('fs').readFileSync(0, 'utf8').split(' ').map(Number).sort())"
    lines = """
    const lines = require('readline').createInterface({ input: process.stdin });
    lines.on('line', (line) => console.log(line.toUpperCase()));
    """
    assert executor.run_stdin(whole, ["3 1 2"], expected=["[ 1, 2, 3 ]"])[0].passed
    outcomes = executor.run_stdin(lines, ["a\nb", ""], expected=["A\nB", "X"])
    assert [outcome.passed for outcome in outcomes] == [True, False]


@pytest.mark.parametrize(
    ("program", "status", "message"),
    [
        ("while (true) {}", "timeout", "cpu time"),
        ("const a = []; while (true) a.push(new Array(10000).fill(1))", "memory", "MiB"),
        ("const a = []; while (true) a.push(Buffer.alloc(1e7, 1))", "memory", "memory_mib=128"),
        ("while (true) console.log('x'.repeat(1000))", "output_limit", "256 KiB"),
        ("process.exit(3)", "exception", "exit code 3"),
        ("throw new TypeError('no')", "exception", "TypeError: no"),
        ("Promise.reject(new Error('later'))", "exception", "Error: later"),
        ("const f = () => f(); f()", "exception", "RangeError"),
        ("let 1", "exception", "SyntaxError"),
        ("process.abort()", "crashed", "SIGABRT"),
        ("throw { toString() { throw 1 } }", "exception", ""),
    ],
)
def test_each_end_has_its_status(
    executor: CodeExecutor, program: str, status: str, message: str
) -> None:
    (outcome,) = executor.run_stdin(program, [""])
    assert (outcome.status, outcome.passed) == (status, None)
    assert message in outcome.message


@pytest.mark.parametrize(
    "program",
    [
        "process.exit(0)",
        "require('fs').closeSync(3)",
        'require(\'fs\').writeSync(3, \'{"dict":[["status","ok"],["value",7]]}\\n\'); const solve = () => 1',
        "Object.prototype.valueOf = () => 7; const solve = () => ({})",
        "const solve = () => new Proxy([], { get: () => 7 })",
        "const solve = () => ({ toJSON: () => 7 })",
        "const solve = () => ({ then: () => 0 })",
        "Array.from = () => ['7']; const solve = () => []",
        "const solve = () => ({ get x() { throw 7 } })",
    ],
)
def test_what_is_not_a_value_does_not_pass(executor: CodeExecutor, program: str) -> None:
    (outcome,) = executor.run(program, [{"function": "solve", "expected": 7}])
    assert outcome.passed is False


@pytest.mark.parametrize(
    "attempt",
    [
        "require('fs').readFileSync({secret})",
        "require('fs').readFileSync('/etc/passwd')",
        "require('fs').readdirSync('/proc')",
        "require('fs').writeFileSync('/tmp/left', 'x')",
        "require('fs').chmodSync('/', 0o777)",
        "require('child_process').execSync('true')",
        "require('child_process').spawnSync(process.execPath, ['-v']).status ?? undefined",
        "require('cluster').fork()",
        "process.kill(1, 9)",
        "process.kill(process.ppid, 9)",
        "process.kill(process.pid, 9)",
        "process.setuid(0)",
        "process.chroot",
        "process.dlopen({{ exports: {{}} }}, '/tmp/x.node')",
    ],
)
def test_the_host_stays_out_of_reach(executor: CodeExecutor, tmp_path: Path, attempt: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    attempt = attempt.format(secret=repr(str(secret)))
    program = f"""
    let answer = 'kept out';
    try {{ if (({attempt}) !== undefined) answer = 'in' }} catch {{}}
    console.log(answer);
    """
    (outcome,) = executor.run_stdin(program, [""])
    assert (outcome.status, outcome.stdout) == ("ok", "kept out\n")


def test_no_connection_leaves(executor: CodeExecutor) -> None:
    program = """
    const socket = require('net').connect(80, '127.0.0.1');
    socket.on('connect', () => console.log('connected'));
    socket.on('error', (error) => console.log(error.code));
    """
    (outcome,) = executor.run_stdin(program, [""])
    assert outcome.stdout in ("EACCES\n", "EPERM\n")


def test_the_environment_and_other_runs_are_not_seen(
    executor: CodeExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRL_TEST_TOKEN", "secret")
    program = """
    const solve = () => [Object.keys(process.env).join(), globalThis.n = (globalThis.n || 0) + 1];
    """
    first, second = executor.run(program, [{"function": "solve"}] * 2)
    assert first.value == second.value
    assert "SRL_TEST_TOKEN" not in first.value[0]


def test_what_the_language_lacks_is_named() -> None:
    with CodeExecutor(LIMITS, language="javascript") as executor:
        with pytest.raises(ConfigError, match=r"assert tests in javascript"):
            executor.run_asserts("x", "assert x")
        (outcome,) = executor.run(IDENTITY, [{"function": "solve", "kwargs": {"x": 1}}])
        assert "no keyword arguments" in outcome.message


def test_a_missing_interpreter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxError, match=r"need 'node'"):
        CodeExecutor(language="javascript")


def test_too_little_memory_is_noticed_at_once() -> None:
    with pytest.raises(SandboxError, match=r"does not run an empty program"):
        CodeExecutor(Limits(files=8, cpu_s=0.001), language="javascript")


def test_the_weakest_tier_refuses() -> None:
    with pytest.raises(SandboxError, match=r"opens no file"):
        CodeExecutor(isolation="seccomp", language="javascript")


def test_an_unknown_language_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"javascript"):
        CodeExecutor(language="javascipt")
