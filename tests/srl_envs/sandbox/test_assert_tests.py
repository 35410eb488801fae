# ruff: noqa: E501 - the programs are quoted as their authors would write them
"""Assert-style tests: the idioms work, and the program cannot forge their verdict."""

from __future__ import annotations

import pytest

from srl_envs.sandbox import CodeExecutor, Limits

HONEST = {
    "a function": ("def solve(a, b): return a + b", "assert solve(3, 4) == 7"),
    "keywords": ("def solve(a, *, b=1): return a + b", "assert solve(3, b=4) == 7 and solve(1) == 2"),
    "raises": (
        "def solve(a, b):\n  if b == 0: raise ValueError('zero')\n  return a // b",
        "try:\n  solve(1, 0); assert False, 'no error'\nexcept ValueError as e:\n  assert str(e) == 'zero'",
    ),
    "an own exception": (
        "class Bad(KeyError): pass\ndef solve(): raise Bad('k', 2)",
        "try:\n  solve(); assert False\nexcept Bad as e:\n  assert e.args == ('k', 2) and isinstance(e, KeyError)",
    ),
    "a tuple": ("def solve(a, b): return a, b", "assert solve(1, 2) == (1, 2) != [1, 2]"),
    "a set": ("def solve(*a): return set(a)", "assert solve(1, 2, 1) == {1, 2}"),
    "text": ("def solve(s): return s[::-1]", "assert solve('né\\u2603') == '\\u2603én'"),
    "a float": ("def solve(): return 0.1 + 0.2", "import math\nassert abs(solve() - 0.3) < 1e-9 and math.isclose(solve(), 0.3)"),
    "a loop": ("def solve(n): return n * n", "for n in range(200): assert solve(n) == n ** 2"),
    "mutation": (
        "def solve(a, d, s):\n  a.sort(); d['k'] = 1; s.clear()",
        "a, d, s = [3, 1], {}, {1}\nassert solve(a, d, s) is None\nassert (a, d, s) == ([1, 3], {'k': 1}, set())",
    ),
    "the same object": ("def solve(a):\n  a.append(1)\n  return a", "x = []\nassert solve(x) is x == [1]"),
    "a class": (
        "class Stack:\n  def __init__(self): self.d = []\n  def push(self, x): self.d.append(x)\n"
        "  def pop(self): return self.d.pop()\n  def __len__(self): return len(self.d)",
        "s = Stack(); s.push(1); s.push(2)\nassert len(s) == 2 and s.pop() == 2 and s.d == [1]\n"
        "assert isinstance(s, Stack) and not isinstance(3, Stack)\nassert bool(s)\ns.pop()\nassert not s",
    ),
    "attributes": (
        "class P:\n  kind = 'p'\n  def __init__(self, x): self.x = x",
        "p = P(3)\nassert p.x == 3 and P.kind == 'p'\np.x = 4\nassert p.x == 4 and hasattr(p, 'x')\n"
        "assert not hasattr(p, 'y')",
    ),
    "operators": (
        "class V:\n  def __init__(s, x): s.x = x\n  def __eq__(s, o): return s.x == o.x\n"
        "  def __add__(s, o): return V(s.x + o.x)\n  def __mul__(s, k): return V(s.x * k)\n"
        "  def __lt__(s, o): return s.x < o.x\n  def __hash__(s): return hash(s.x)\n"
        "  def __str__(s): return f'V{s.x}'\n  def __abs__(s): return abs(s.x)\n"
        "  def __getitem__(s, i): return s.x + i\n  def __contains__(s, i): return i == s.x",
        "assert V(1) + V(2) == V(3) != V(4)\nassert V(1) < V(2) and sorted([V(2), V(1)])[0] == V(1)\n"
        "assert str(V(3)) == 'V3' and abs(V(-2)) == 2 and (V(2) * 3).x == 6 and V(1)[2] == 3\n"
        "assert 1 in V(1) and len({V(1), V(1)}) == 1",
    ),
    "iteration": (
        "def solve(n):\n  for i in range(n): yield i\nclass R:\n  def __iter__(self): return iter([1, 2])",
        "assert list(solve(3)) == [0, 1, 2]\ng = solve(2)\nassert next(g) == 0 and next(g) == 1\n"
        "try: next(g); assert False\nexcept StopIteration: pass\nassert [*R()] == [1, 2]",
    ),
    "an endless generator": (
        "def solve():\n  n = 0\n  while True: yield n; n += 1",
        "import itertools\nassert list(itertools.islice(solve(), 3)) == [0, 1, 2]",
    ),
    "a callback": (
        "def apply(f, x): return [f(v) for v in x]",
        "seen = []\nassert apply(lambda v: seen.append(v) or v * 2, [1, 2]) == [2, 4] and seen == [1, 2]",
    ),
    "builtin types and slices": (
        "def apply(f, x): return [f(v) for v in x]\nclass Row:\n  def __getitem__(self, k): return [k.start, k.stop]",
        "assert apply(str, [1, 2]) == ['1', '2'] and apply(len, ['ab']) == [2] and Row()[1:3] == [1, 3]",
    ),
    "exceptions of a family": (
        "class A(Exception): pass\nclass B(A, KeyError): pass\nclass _C(B): pass\ndef solve(n): raise (A, B, _C)[n](n)",
        "for n in range(3):\n  try: solve(n); assert False\n  except A as e: assert e.args == (n,) and isinstance(e, (A, B)[n > 0])\n"
        "try: solve(2)\nexcept KeyError as e: assert type(e).__name__ == '_C'",
    ),
    "threads of the tests": (
        "def solve(n): return sum(range(n))",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
        "  assert list(pool.map(solve, range(40))) == [n * (n - 1) // 2 for n in range(40)]",
    ),
    "a callback that calls back": (
        "def twice(x): return 2 * x\ndef apply(f, x): return f(x)",
        "assert apply(lambda v: twice(v) + 1, 5) == 11\nassert apply(twice, 4) == 8",
    ),
    "a callback that raises": (
        "def guard(f):\n  try: return f()\n  except ZeroDivisionError: return 'caught'",
        "assert guard(lambda: 1 / 0) == 'caught'",
    ),
    "a returned function": ("def adder(n): return lambda x: x + n", "assert adder(3)(4) == 7"),
    "a decorator": (
        "def twice(f): return lambda *a: 2 * f(*a)",
        "@twice\ndef g(x): return x\nassert g(4) == 8",
    ),
    "a context manager": (
        "class C:\n  open = False\n  def __enter__(self): self.open = True; return self\n"
        "  def __exit__(self, *e): self.open = False",
        "c = C()\nwith c as d: assert d.open\nassert not c.open",
    ),
    "constants": ("LIMIT = 5\nTABLE = {'a': [1]}", "assert LIMIT == 5 and TABLE['a'] == [1]"),
    "an enum": ("import enum\nclass C(enum.Enum):\n  A = 1\n  B = 2", "assert C.A == C.A != C.B and C.A.value == 1 and C.B.name == 'B'"),
    "an import": ("def solve(): return 1", "from solution import solve as s\nimport solution\nassert s() == solution.solve() == 1"),
    "check(candidate)": ("def f(x): return x", "def check(candidate):\n  assert candidate(2) == 2\ncheck(f)"),
    "unittest": (
        "def f(x): return x + 1",
        "import unittest\nclass T(unittest.TestCase):\n  def test(self): self.assertEqual(f(1), 2)\n"
        "unittest.main()",
    ),
    "big numbers": ("def solve(): return 2 ** 5000", "assert solve() == 2 ** 5000"),
    "printing": ("def solve(): print('noise' * 100); return 1", "print('more')\nassert solve() == 1"),
    "reading nothing": ("import sys\nx = sys.stdin.read()\ndef solve(): return x", "assert solve() == ''"),
    "recursion": ("def f(n): return 0 if n == 0 else 1 + f(n - 1)", "assert f(900) == 900"),
}  # fmt: skip

FORGED = {
    "wrong": "def solve(a, b): return a - b",
    "nothing": "",
    "equal to everything": "def solve(a, b): return type('T', (), {'__eq__': lambda s, o: True})()",
    "unequal to nothing": "def solve(a, b): return type('T', (), {'__ne__': lambda s, o: False})()",
    "exit": "import sys\nsys.exit(0)",
    "exit in the call": "import sys\ndef solve(a, b): sys.exit(0)",
    "hard exit": "import os\ndef solve(a, b): os._exit(0)",
    "hard exit at load": "import os\nos._exit(0)",
    "an exit handler": "import atexit, os\natexit.register(os._exit, 0)\ndef solve(a, b): return 0",
    "no AssertionError": "import builtins\nbuiltins.AssertionError = type('E', (BaseException,), {})\ndef solve(a, b): return 0",
    "stop": "def solve(a, b): raise StopIteration",
    "generator exit": "def solve(a, b): raise GeneratorExit",
    "a passing verdict everywhere": """
import os
for fd in range(64):
    for data in (b'PASS', b'{"verdict": "passed", "message": ""}'):
        try: os.pwrite(fd, data, 0)
        except OSError: pass
        try: os.write(fd, data)
        except OSError: pass
def solve(a, b): return 0
""",
    "replies in advance": """
import os
data = b'{"dict":[["value",7],["changed",{"dict":[]}]]}'
for fd in range(5, 64):
    for _ in range(50):
        try: os.write(fd, len(data).to_bytes(4, "little") + data)
        except OSError: pass
def solve(a, b): return 0
""",
    "an endless reply": """
import os
for fd in range(5, 64):
    try: os.write(fd, b'\\xff' * 60000)
    except OSError: pass
def solve(a, b): return 0
""",
    "the frames above": """
import sys
def solve(a, b):
    frame = sys._getframe(1)
    while frame:
        for name in ("check", "verdict", "passed", "tests"):
            frame.f_globals[name] = lambda *a: None
        frame = frame.f_back
    return 0
""",
    "the stand-ins": "class solve:\n  def __new__(cls, a, b): return cls\n  def __class_getitem__(cls, k): return 0",
    "a patched name": "def solve(a, b): return 0\nassert_ = check = print = len = isinstance = lambda *a: True",
    "memory": "def solve(a, b): return bytearray(10**10)",
    "a foreign type": "def solve(a, b):\n  class int(float): pass\n  return int(a + b + 0.5)",
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_the_usual_idioms_work(executor: CodeExecutor, name: str) -> None:
    program, tests = HONEST[name]
    outcome = executor.run_asserts(program, tests)
    assert (outcome.status, outcome.passed) == ("ok", True), outcome


@pytest.mark.parametrize("name", FORGED)
def test_no_program_passes_tests_that_it_fails(executor: CodeExecutor, name: str) -> None:
    tests = "assert solve(3, 4) == 7\nassert solve(10, -2) == 8\nassert solve(100, 250) == 350"
    outcome = executor.run_asserts(FORGED[name], tests)
    assert outcome.status not in ("ok", "infrastructure"), outcome
    assert outcome.passed is False


def test_arithmetic_of_the_program_does_not_decide_closeness(executor: CodeExecutor) -> None:
    near = """
class Near:
    def __sub__(self, other): return 0.0
    def __rsub__(self, other): return 0.0
    def __abs__(self): return 0.0
    def __float__(self): return 0.0
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
def solve(): return Near()
"""
    farther = near.replace("return 0.0\n    def __rsub__", "return self\n    def __rsub__")
    tests = (
        "assert abs(solve() - 1.5) < 1e-6",
        "assert abs(1.5 - solve()) < 1e-6",
        "assert solve() < 2",
        "assert 1 < solve()",
        "assert round(solve() - 1.5, 3) == 0",
    )
    for program in (near, farther):
        for test in tests:
            assert executor.run_asserts(program, test).passed is False, test


def test_the_message_names_the_line(executor: CodeExecutor) -> None:
    outcome = executor.run_asserts("def f(): return 1", "assert f() == 1\nassert f() == 2, 'two'")
    assert outcome.message == "AssertionError: two (line 2 of the tests)"
    outcome = executor.run_asserts("1 / 0", "assert f() == 1")
    assert (outcome.status, outcome.message) == ("exception", "ZeroDivisionError: division by zero")
    assert executor.run_asserts("def f(:", "assert f()").message.startswith("SyntaxError")


def test_broken_tests_are_nobodys_loss(executor: CodeExecutor) -> None:
    outcome = executor.run_asserts("def f(): return 1", "assert f( == 1")
    assert (outcome.status, outcome.passed) == ("refused", None)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["while True: pass", "def f():\n  while True: pass"])
def test_a_loop_in_the_program_is_its_timeout(program: str) -> None:
    with CodeExecutor(Limits(cpu_s=0.3)) as executor:
        outcome = executor.run_asserts(program, "assert f() == 1")
    assert (outcome.status, outcome.passed) == ("timeout", False)


def test_the_program_never_sees_an_expected_value(executor: CodeExecutor) -> None:
    program = """
import gc
def solve():
    return sorted(str(x) for x in gc.get_objects() if "NEEDLE" in str(x) and len(str(x)) < 200)
"""
    tests = "NEEDLE_expected = 'NEEDLE-' + 'A' * 3\nfound = solve()\nassert not any('NEEDLE-A' in f for f in found)"
    assert executor.run_asserts(program, tests).passed is True
