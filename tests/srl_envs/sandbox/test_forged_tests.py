# ruff: noqa: E501 - the programs are quoted as their authors would write them
"""Attacks on assert tests: whatever a program defines, returns or sends, wrong ones do not pass.

Each test file has an honest program that passes it, so that no attack fails for another reason.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.sandbox import CodeExecutor
from srl_envs.sandbox.inside.checking import replies
from srl_envs.sandbox.inside.exchange.channel import Gone
from tests.srl_envs.sandbox.plain_data import PLAIN

ADD = "def solve(a, b): return a + b"
DOUBLE = "def solve(n): return [2 * v for v in n]"
BAD = """
class Bad(Exception): pass
def solve(n):
    if n < 0: raise Bad(n)
    return n
"""

TESTS = {
    "plain": (ADD, "assert solve(3, 4) == 7\nassert solve(10, -2) == 8"),
    "builtins": (
        DOUBLE,
        "import math\ngot = solve([3, 1, 2])\nassert sorted(got) == [2, 4, 6] and abs(sum(got) - 12) < 1e-9\n"
        "assert all(isinstance(v, int) for v in got)\nassert list(zip(got, range(3))) == [(6, 0), (2, 1), (4, 2)]\n"
        "assert tuple(got) == (6, 2, 4) and set(map(str, got)) == {'6', '2', '4'} and len(got) == 3\n"
        "assert math.isclose(round(got[0] / 2), 3) and max(got) == 6",
    ),
    "no import": ("import math\ndef solve(x): return math.sqrt(x)", "assert math.isclose(solve(9), 3)\nassert math.fabs(solve(4) - 2) < 1e-9"),
    "numpy": (DOUBLE, "import numpy as np\nassert np.allclose(solve([1, 2]), [2, 4])\nassert np.array_equal(np.array(solve([3])), np.array([6]))"),
    "numpy distance": (DOUBLE, "import numpy as np\nd = np.array(solve([1, 2])) - np.array([2, 4])\nassert np.sqrt((d ** 2).mean()) < 1e-6 and np.abs(d).max() < 1e-6"),
    "unittest": (
        ADD,
        "import unittest\nclass T(unittest.TestCase):\n  def test_it(self):\n    self.assertEqual(solve(3, 4), 7)\n    self.assertTrue(solve(1, 1) == 2)\n"
        "if __name__ == '__main__':\n  unittest.main()",
    ),
    "unittest without main": (
        ADD,
        "from unittest import TestCase\nclass T(TestCase):\n  def test_it(self):\n    self.assertAlmostEqual(solve(3, 4), 7)\n    self.assertIn(solve(1, 1), (2, 3))",
    ),
    "test functions": (ADD, "def test_small():\n  assert solve(3, 4) == 7\ndef test_large():\n  assert solve(10, -2) == 8"),
    "check": (ADD, "def check(candidate):\n  for a, b in [(3, 4), (10, -2)]:\n    assert candidate(a, b) == a + b\ncheck(solve)"),
    "a name like a builtin's": ("def sum(a, b): return a + b", "from solution import sum\nassert sum(3, 4) == 7"),
    "the module": (ADD, "import solution as s\nassert s.solve(3, 4) == 7"),
    "abs": (DOUBLE, "assert abs(solve([2])[0] - 4) < 1e-9"),
    "sorted": (DOUBLE, "assert sorted(solve([2, 1])) == sorted([2, 4])"),
    "range": (DOUBLE, "for n in range(3): assert solve([n]) == [2 * n]\nassert solve([]) == []"),
    "str and round": (DOUBLE, "assert str(round(solve([2])[0], 1)) == str(4)"),
    "set, tuple and zip": (DOUBLE, "assert set(solve([2])) == set([4]) and tuple(solve([1])) == tuple([2])\nassert list(zip(solve([3]), [6])) == list(zip([6], [6]))"),
    "own helper": (ADD, "def close(a, b): return abs(a - b) < 1e-9\nassert close(solve(3, 4), 7) and close(solve(10, -2), 8)"),
    "closeness": ("def solve(n): return 2.0 * n", "assert abs(solve(2) - 4.0) < 1e-6\nassert abs(4.0 - solve(2)) < 1e-6\nassert (solve(2) - 4.0) ** 2 < 1e-6"),
    "closeness of items": (DOUBLE, "assert max(abs(a - b) for a, b in zip(solve([1, 2]), [2, 4])) < 1e-6"),
    "difference of sets": ("def solve(n): return set(range(n))", "assert not solve(2) - {0, 1} and not {0, 1} - solve(2)\nassert len(solve(3) ^ {0, 1, 2}) == 0 and solve(2) == {0, 1}"),
    "membership": ("def solve(n): return list(range(n))", "assert 5 in solve(6) and 4 in solve(5) and 77 in solve(78)"),
    "text methods": ("def solve(n): return 'ab' * n", "assert solve(2).startswith('abab') and solve(1).endswith('b') and solve(1).isalpha()"),
    "subset": ("def solve(n): return set(range(n))", "assert solve(3).issubset({0, 1, 2}) and solve(3).issuperset({0, 1, 2})"),
    "what is left over": ("def solve(n): return set(range(n))", "assert list(solve(2) - {0, 1}) == []"),
    "set methods": ("def solve(n): return set(range(n))", "assert not solve(3).difference({0, 1, 2}) and not solve(3).symmetric_difference({0, 1, 2})"),
    "all of a map": ("def solve(n): return n == n", "assert all(map(solve, [1, 2, 3]))"),
    "a loop over a map": (DOUBLE, "for got in map(solve, [[1], [2]]):\n  assert got in ([2], [4])"),
    "a loop over the result": (DOUBLE, "for got in solve([1, 2]):\n  assert got in (2, 4)"),
    "type": (ADD, "assert isinstance(solve(3, 4), int) and type(solve(3, 4)) is int\nassert solve(3, 4) in (7,) and solve(3, 4) in {7} and {7: True}[solve(3, 4)]"),
    "own exception": (BAD, "try:\n  solve(-1)\n  assert False\nexcept Bad:\n  pass\nassert solve(1) == 1"),
    "any exception": (BAD, "import contextlib\nwith contextlib.suppress(BaseException):\n  solve(-1)\nassert solve"),
    "assertRaises": (BAD, "import unittest\nclass T(unittest.TestCase):\n  def test_it(self):\n    with self.assertRaises(Bad): solve(-1)\n    self.assertRaises(Bad, solve, -2)\nunittest.main()"),
    "a callback that asserts": ("def solve(f, n): f(n); return n", "def seen(n): assert n == 5, n\nassert solve(seen, 5) == 5"),
    "mutation": ("def solve(a): a.sort(); return a", "x = [3, 1, 2]\nassert solve(x) is x and x == [1, 2, 3]"),
    "order": ("def solve(a): return sorted(a)", "got = solve([3, 1, 2])\nassert all(a <= b for a, b in zip(got, got[1:])) and got[0] < 2"),
    "a class": (
        "class Stack:\n  def __init__(self): self.items = []\n  def push(self, x): self.items.append(x); return self\n  def pop(self): return self.items.pop()",
        "s = Stack()\nassert s.push(3) is s and s.push(4).items == [3, 4] and s.pop() == 4",
    ),
    "text": ("def solve(a, b): return a + b", "assert f'{solve(3, 4)}' == '7' and str(solve(1, 1)) == '2' and repr(solve(1, 2)) == '3'"),
}  # fmt: skip

EVERYTHING = """
class Yes(int):
    def __call__(self, *a, **k): return self
    def __getattr__(self, name): return self
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __and__ = __rand__ = lambda self, other: self
    __pow__ = __truediv__ = __xor__ = __rxor__ = __or__ = __getitem__ = __sub__
    __abs__ = __neg__ = __enter__ = __iter__ = lambda self: self
    def __hash__(self): return 0
    def __exit__(self, *a): return True
    def __len__(self): return 0
    def __float__(self): return 0.0
    def __next__(self): raise StopIteration
"""
OBJECT = (
    EVERYTHING.replace("Yes(int)", "Yes") + "def __missing(): pass\ndef solve(*a): return Yes()\n"
)
SQRT = """
class Near:
    def __sub__(self, other): return self
    __rsub__ = __pow__ = __mul__ = __add__ = __radd__ = __truediv__ = __sub__
    def sqrt(self): return 0.0
    def __abs__(self): return 0.0
def solve(n): return [Near(), Near()]
"""
SHADOWS = """
import builtins
for name in list(vars(builtins)) + ["math", "np", "unittest", "close", "check", "T", "test_small", "s", "got"]:
    if name not in ("globals", "Yes"):
        globals()[name] = Yes()
"""
TRUTH = "lambda *a, **k: True"
CHANNEL = """
import os, sys, threading
def _candidate():
    frame = sys._getframe()
    while type(frame.f_locals.get("self")).__name__ != "Candidate":
        frame = frame.f_back
    return frame.f_locals["self"]
me = _candidate()
channel = me._channel
send, write = channel.send, channel._write
def each(change):
    channel.send = lambda message: send(change(message))
def raw(data):
    os.write(write, len(data).to_bytes(4, "little") + data)
def solve(*a): return 0
"""
"""Reaches its own side of the protocol, and is wrong."""


def exporting(*pairs: str) -> str:
    """A program that answers the request for names with other ones."""
    return CHANNEL + f"me._export = lambda *names: dict([{', '.join(pairs)}])"


def sending(message: str) -> str:
    """A program that sends this instead of the replies to calls."""
    return CHANNEL + (
        f"each(lambda m: m if m['number'] < 2 else dict({message}, number=m['number']))"
    )


SOLVE = "('solve', ('function', me._number(solve)))"

ATTACKS: list[tuple[str, str, str]] = [
    # names
    ("builtins", "every builtin and every import is shadowed", EVERYTHING + SHADOWS + "def solve(n): return Yes()"),
    ("builtins", "abs, range, zip and sorted only", "abs = range = zip = sorted = set = tuple = list = round = str = all = isinstance = " + TRUTH + "\ndef solve(n): return []"),
    ("abs", "no distance", "abs = lambda x: 0\ndef solve(n): return n"),
    ("sorted", "everything is sorted alike", "sorted = lambda x: 0\ndef solve(n): return n"),
    ("range", "no numbers", "range = lambda n: ()\ndef solve(n): return n"),
    ("str and round", "one text for all", "str = round = lambda *a: 0\ndef solve(n): return n"),
    ("set, tuple and zip", "one set for all", "set = tuple = zip = list = lambda *a: ()\ndef solve(n): return n"),
    ("own helper", "the tests' own helper", "close = " + TRUTH + "\ndef solve(a, b): return 0"),
    ("check", "check itself", "check = " + TRUTH + "\ndef solve(a, b): return 0"),
    ("test functions", "the test functions", "test_small = test_large = " + TRUTH + "\ndef solve(a, b): return 0"),
    ("no import", "a module that the tests forgot to import", "class math:\n  isclose = staticmethod(" + TRUTH + ")\n  fabs = staticmethod(lambda x: 0.0)\ndef solve(x): return 0"),
    ("no import", "another module under its name", "import cmath as math\nmath.fabs = lambda x: 0\ndef solve(x): return 0"),
    ("unittest", "__name__ of the tests", exporting(SOLVE, "('__name__', ('value', 'solution'))")),
    ("unittest", "__builtins__ of the tests", exporting(SOLVE, "('__builtins__', ('value', {}))")),
    ("unittest", "the class of the tests", exporting(SOLVE, "('T', ('value', 1))", "('unittest', ('function', 0))")),
    ("numpy", "np", exporting(SOLVE, "('np', ('function', 0))")),
    ("abs", "a forged builtin", exporting(SOLVE, "('abs', ('function', me._number(lambda x: 0)))") + "\ndef solve(n): return n"),
    ("plain", "a class without __eq__ of its own", OBJECT),
    ("plain", "__checked__, the counter", exporting(SOLVE, "('__checked__', ('function', 0))")),
    ("plain", "AssertionError", "AssertionError = type('E', (BaseException,), {})\ndef solve(a, b): raise AssertionError"),
    ("plain", "a module in place of the function", exporting("('solve', ('module', 'os'))")),
    ("plain", "a value in place of the function", exporting("('solve', ('value', 7))")),
    ("plain", "an exception in place of the function", exporting("('solve', ('error', [('Exception', -1)]))")),
    ("plain", "an unknown object", exporting("('solve', ('function', 10 ** 6))")),
    ("a name like a builtin's", "wrong", "def sum(a, b): return a - b"),
    ("a name like a builtin's", "missing", ""),
    ("the module", "its dunder names", exporting("('__getattr__', ('function', 0))", "('__class__', ('function', 0))")),
    # objects
    *((tests, "an object that equals everything", OBJECT) for tests in (
        "unittest", "unittest without main", "test functions", "check", "own helper", "closeness", "closeness of items",
        "difference of sets", "what is left over", "membership", "text methods", "subset", "type", "order", "mutation", "text", "numpy",
        "numpy distance", "a loop over the result", "a class")),
    *((tests, "an int that equals everything", EVERYTHING + "def solve(*a): return Yes()") for tests in (
        "plain", "closeness", "membership", "text methods", "subset", "difference of sets", "numpy")),
    ("numpy distance", "objects whose sqrt is 0", SQRT),
    ("closeness of items", "objects whose difference is nothing", SQRT),
    ("membership", "a class in place of the function", "class solve:\n  def __init__(self, n): pass\n  def __contains__(self, i): return True"),
    ("closeness", "a class in place of the function", "class solve:\n  def __init__(self, n): pass\n  __sub__ = __rsub__ = __pow__ = lambda s, o: s\n  def __abs__(s): return 0.0"),
    ("text methods", "an object with the methods of text", "class T:\n  startswith = endswith = isalpha = " + TRUTH + "\ndef solve(n): return T()"),
    ("subset", "an object with the methods of sets", "class T:\n  issubset = issuperset = " + TRUTH + "\ndef solve(n): return T()"),
    ("set methods", "an object with the methods of sets", "class T:\n  difference = symmetric_difference = lambda *a: set()\ndef solve(n): return T()"),
    ("type", "__class__ lies", "class T:\n  __class__ = property(lambda s: int)\n  def __hash__(s): return hash(7)\n  def __eq__(s, o): return True\ndef solve(a, b): return T()"),
    ("type", "neither a bool nor a float is an int", "def solve(a, b): return float(a + b)"),
    ("type", "True in place of 7", "def solve(a, b): return True"),
    ("text", "a subclass of str", "class S(str):\n  def __eq__(s, o): return True\n  __hash__ = str.__hash__\n  def __str__(s): return s\n  __format__ = __repr__ = __str__\ndef solve(a, b): return S('x')"),
    ("plain", "NaN", "def solve(a, b): return float('nan')"),
    ("order", "objects in the order that is asked for", "class T:\n  __lt__ = __le__ = __gt__ = __ge__ = " + TRUTH + "\ndef solve(a): return [T() for _ in a]"),
    # endings
    ("all of a map", "StopIteration ends the map", "def solve(n): raise StopIteration"),
    ("all of a map", "its own StopIteration does", "class Stop(StopIteration): pass\ndef solve(n): raise Stop"),
    ("a loop over a map", "StopIteration ends the loop", "def solve(n): raise StopIteration"),
    ("a loop over the result", "nothing to loop over", "def solve(n): return []"),
    ("a loop over the result", "an iterator that ends at once", "def solve(n): return iter(())"),
    ("own exception", "Exception under the name", "Bad = Exception\ndef solve(n): return n"),
    ("own exception", "AssertionError under the name", "Bad = AssertionError\ndef solve(n): return n"),
    ("own exception", "BaseException under the name", "Bad = BaseException\ndef solve(n): return n"),
    ("own exception", "a metaclass that catches all", "class M(type):\n  def __subclasscheck__(c, k): return True\n  __instancecheck__ = __subclasscheck__\nclass Bad(Exception, metaclass=M): pass\ndef solve(n): return n"),
    ("assertRaises", "Exception under the name", "Bad = Exception\ndef solve(n): raise ValueError"),
    ("unittest", "SkipTest", "from unittest import SkipTest\ndef solve(a, b): raise SkipTest('later')"),
    ("unittest", "a class that is named SkipTest", "class SkipTest(Exception): pass\ndef solve(a, b): raise SkipTest"),
    ("unittest", "SystemExit", "def solve(a, b): raise SystemExit(0)"),
    ("unittest without main", "KeyboardInterrupt", "def solve(a, b): raise KeyboardInterrupt"),
    ("any exception", "a broken protocol is not an exception like others", CHANNEL + "def solve(n): os.write(write, b'\\xff' * 8)"),
    ("any exception", "an early end", "import os\ndef solve(n): os._exit(0)"),
    ("a callback that asserts", "a swallowed assert", "def solve(f, n):\n  try: f(6)\n  except AssertionError: pass\n  return n"),
    ("a callback that asserts", "a callback that was not passed", CHANNEL + "def solve(f, n):\n  send({'callback': 5, 'args': [], 'kwargs': {}})\n  return n"),
    ("a callback that asserts", "a callback counted from the end", CHANNEL + "def solve(f, n):\n  send({'callback': -1, 'args': [5], 'kwargs': {}})\n  return n"),
    ("plain", "half a character in the message", "def solve(a, b): raise ValueError('\\ud800')"),
    ("mutation", "another list", "def solve(a): a.sort(); return list(a)"),
    # messages
    ("plain", "right answers to other requests", CHANNEL + "def solve(a, b): return a + b\neach(lambda m: dict(m, number=m['number'] + (m['number'] > 1)))"),
    ("plain", "a number that is a bool", CHANNEL + "each(lambda m: dict(m, number=True) if m['number'] == 1 else m)"),
    ("plain", "unknown fields", sending("value=7, changed={}, verdict='passed'")),
    ("plain", "no fields", sending("{}")),
    ("plain", "an argument that is not there", sending("same=9, changed={}")),
    ("plain", "an argument other than a list", sending("value=7, changed={0: [7]}")),
    ("mutation", "a list that became a dict", sending("same=0, changed={0: {}}")),
    ("mutation", "a negative argument", sending("same=-1, changed={}")),
    ("plain", "an exception without a name", sending("{'raise': [], 'args': [], 'changed': {}}")),
    ("plain", "an exception with a bad name", sending(r"{'raise': [('a\\0b\\ud800', 3), ('Exception', -1)], 'args': [], 'changed': {}}")),
    ("plain", "an exception with 10,000 ancestors", sending("{'raise': [('E', 3)] * 10000, 'args': [], 'changed': {}}")),
    ("plain", "a raised value other than an exception", sending("{'raise': [('print', -1)], 'args': [], 'changed': {}}")),
    ("plain", "an exception whose text has no end", sending("{'raise': [('ValueError', -1)], 'args': [10 ** 50000], 'changed': {}}")),
    ("plain", "a reference to nothing", CHANNEL + "def solve(a, b): raw(b'{\"dict\":[[\"number\",2],[\"changed\",{\"dict\":[]}],[\"value\",{\"ref\":{\"dict\":[[\"object\",-1]]}}]]}')"),
    ("plain", "no JSON", CHANNEL + "def solve(a, b): raw(b'{]')"),
    ("plain", "a deep message", CHANNEL + "def solve(a, b): raw(b'[' * 100000)"),
    ("plain", "a message of a million lists", CHANNEL + "def solve(a, b):\n  data = b'[' + b'[],' * 2000000 + b'[]]'\n  data = len(data).to_bytes(4, 'little') + data\n  while data: data = data[os.write(write, data):]"),
    ("plain", "keys that collide", CHANNEL + "def solve(a, b): return {k * ((1 << 61) - 1) for k in range(20000)}"),
    ("plain", "a huge integer", "def solve(a, b): return 1 << (20 << 20)"),
    ("plain", "a message that never ends", CHANNEL + "def solve(a, b): os.write(write, (4000).to_bytes(4, 'little')); os._exit(0)"),
    ("plain", "replies in advance", CHANNEL + "for n in range(2, 9): send({'number': n, 'changed': {}, 'value': 7})"),
    ("plain", "a reply too many", CHANNEL + "def solve(a, b): return a + b\neach(lambda m: send(m) or m)"),
    ("plain", "a late message, with the right answers", CHANNEL + "def solve(a, b): return a + b\neach(lambda m: m if m['number'] < 3 else (send(m), dict(m, number=9))[1])"),
    ("plain", "calls back for ever", CHANNEL + "def solve(a, b):\n  while True: send({'callback': 0, 'args': [], 'kwargs': {}})"),
    ("plain", "hashes that ask for hashes", CHANNEL + "class H:\n  def __hash__(self): return {H()}\nme._perform = lambda m, a, k: me._export(*a) if m['operation'] == 'export' else {me._resolve({'object': me._number(H)}): 1}\nsolve = H"),
    ("plain", "two threads that send at once", CHANNEL + "def flood():\n  while True: os.write(write, b'\\0' * 64)\nthreading.Thread(target=flood, daemon=True).start()"),
]  # fmt: skip


@pytest.mark.parametrize("name", TESTS)
def test_an_honest_program_passes(executor: CodeExecutor, name: str) -> None:
    outcome = executor.run_asserts(*TESTS[name])
    assert (outcome.status, outcome.passed) == ("ok", True), outcome


@pytest.mark.parametrize(
    ("tests", "program"),
    [pytest.param(tests, program, id=f"{tests}: {name}") for tests, name, program in ATTACKS],
)
def test_no_attack_passes_or_voids_the_run(
    executor: CodeExecutor, tests: str, program: str
) -> None:
    outcome = executor.run_asserts(program, TESTS[tests][1])
    assert outcome.passed is False, outcome
    assert outcome.status not in ("ok", "infrastructure"), outcome
    outcome.message.encode()


@pytest.mark.slow
def test_no_attack_passes_in_any_tier(each_tier: CodeExecutor) -> None:
    for tests, name, program in ATTACKS:
        if "numpy" not in tests:  # the lowest tier opens no file to import it from
            outcome = each_tier.run_asserts(program, TESTS[tests][1])
            assert outcome.passed is False, (tests, name, outcome)


def test_a_library_of_the_tests_asks_no_object_for_its_methods(executor: CodeExecutor) -> None:
    """numpy calls ``sqrt`` of an object; the tests' text names no such attribute."""
    program = "class Length:\n  def __init__(s, n): pass\n  __sub__ = lambda s, o: s\n  sqrt = lambda s: 0.0"
    tests = "import numpy as np\nassert np.sqrt(Length(2.0) - 3.0) < 1e-6"
    outcome = executor.run_asserts(program, tests)
    assert outcome.passed is False, outcome
    assert "sqrt" in outcome.message


UNUSABLE = {
    "an assert on a constant": ("assert True\nsolve(1)", "check nothing"),
    "a check that is never called": ("def check(candidate):\n  assert candidate(1) == 1", "nothing in the tests calls check"),
    "no use of the program": ("assert sum([1, 2]) == 3", "from solution import"),
    "only its own function": ("def solve(a): return a\nassert solve(1) == 1", "use nothing of the program"),
    "a star import that brings the name": ("from math import *\nassert gcd(4, 6) == 2", "use nothing of the program"),
    "a missing package": ("import pandas\nassert solve(1) == 1", "'pandas', which is not in the sandbox"),
    "a fixture": ("def test_it(tmp_path): assert solve(1) == 1", "fixtures"),
    "a class for pytest": ("class TestIt:\n  def test_it(self): assert solve(1) == 1", "unittest.TestCase"),
    "text as code": ("assert eval(solve('1 + 2')) == 3", "can run as code"),
    "pickled data": ("import math, pickle\nassert pickle.loads(solve(1)) == 1", "can run as code"),
    "no Python": ("assert solve( == 1", "do not compile"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSABLE)
def test_tests_that_could_judge_nobody_are_refused(executor: CodeExecutor, name: str) -> None:
    tests, reason = UNUSABLE[name]
    for program in ("def solve(*a): return 1", "while True: pass"):
        outcome = executor.run_asserts(program, tests)
        assert (outcome.status, outcome.passed) == ("refused", None), outcome
        assert reason in outcome.message


FIELDS = st.sampled_from(
    ["number", "changed", "value", "same", "raise", "args", "callback", "kwargs", "object"]
)


@given(st.dictionaries(FIELDS, PLAIN | st.just(3) | st.just({}), max_size=4))
def test_any_message_is_taken_apart_or_breaks_the_protocol(message: dict[str, Any]) -> None:
    errors = replies.Errors()
    for take in (
        lambda: replies.reply(message, 3, 1),
        lambda: replies.callback(message, 1),
        lambda: replies.exports(message, ("value", "raise")),
        lambda: errors.error(
            replies.raised([[message], [], None, [], None], lambda tree, _: tree, 0)
        ),
        lambda: replies.mro_of(message),
    ):
        try:
            take()
        except (Gone, ValueError, TypeError):  # the channel makes `Gone` of all of these
            continue
