# ruff: noqa: E501 - programs and tests are quoted as their authors would write them
"""Wrong programs that try to be judged right: objects with two faces, promotions, leaking methods.

Each entry is a form: the tests, and a program that must not be judged right by them. An honest program
shows that the tests can be passed, except where they hand what they expect to a method of the program's.
"""

from __future__ import annotations

FACES = """
class Face:
    def __init__(self, *faces): self.faces, self.n = faces, -1
    def turn(self):
        self.n += 1
        return self.faces[self.n % len(self.faces)]
    def __len__(self): return len(self.turn())
    def __iter__(self): return iter(self.turn())
    def __getitem__(self, i): return self.turn()[i]
    def __contains__(self, x): return True
    def __reversed__(self): return reversed(self.turn())
    def __eq__(self, other): return True
    def __hash__(self): return 0
    def __bool__(self): return True
"""
NUMBER = """
class Number:
    def __init__(self, *faces): self.faces, self.n = faces, -1
    def turn(self):
        self.n += 1
        return self.faces[self.n % len(self.faces)]
    def __float__(self): return float(self.turn())
    def __int__(self): return int(self.turn())
    def __index__(self): return int(self.turn())
    def __str__(self): return str(self.turn())
    __repr__ = __str__
    def __abs__(self): return 0.0
    def __round__(self, *n): return self.turn()
    def __sub__(self, o): return self
    __rsub__ = __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __sub__
    def __lt__(self, o): return True
    __le__ = __gt__ = __ge__ = __eq__ = __lt__
    def __hash__(self): return 0
"""
YES = """
class Yes:
    def __getattr__(self, name):
        if name.startswith('__'): raise AttributeError(name)
        return lambda *a, **k: self.answer(name, *a)
    def answer(self, name, *a): return True
    def __contains__(self, x): return True
    def __eq__(self, o): return True
    def __hash__(self): return 0
"""
SORT = "import random\nr = random.Random(3)\nfor _ in range(4):\n  xs = [r.randrange(50) for _ in range(5)]\n  got = solve(xs)\n  assert len(got) == 5\n  assert all(got[i] <= got[i + 1] for i in range(4))\n  assert sorted(got) == sorted(xs)\n"
QUEENS = "q = solve(6)\nassert len(q) == 6 and len(set(q)) == 6\nassert all(abs(q[i] - q[j]) != j - i for i in range(6) for j in range(i + 1, 6))\nassert set(q) == set(range(6))"
TOPO = "g = {'a': 'bc', 'b': 'd', 'c': 'd', 'd': ''}\no = list(solve(g))\nassert set(o) == set(g)\no = solve(g)\nassert len(o) == 4\npos = {x: i for i, x in enumerate(o)}\nassert all(pos[u] < pos[v] for u in g for v in g[u])"
KNAP = "items = [(3, 4), (4, 5), (7, 10), (8, 11)]\nchosen = solve(items, 11)\nassert sum(items[i][0] for i in chosen) <= 11\nassert sum(items[i][1] for i in chosen) == 15"
ROOT = "import math\nx = solve([-6, 11, -6, 1])\nassert math.fabs(sum(c * math.pow(x, i) for i, c in enumerate([-6, 11, -6, 1]))) < 1e-4"
HONEST = {
    "sorting": "def solve(xs): return sorted(xs)",
    "sorting, unittest": "def solve(xs): return sorted(xs)",
    "dedupe": "def solve(xs): return list(dict.fromkeys(xs))",
    "topological order": "def solve(g): return ['a', 'b', 'c', 'd']",
    "queens": "def solve(n): return [1, 3, 5, 0, 2, 4]",
    "knapsack": "def solve(items, w): return [0, 3]",
    "colouring": "def solve(g): return {0: 0, 1: 1, 2: 0}",
    "root": "def solve(c): return 1.0",
    "number": "def solve(): return 3.7",
    "text of a number": "def solve(): return 12",
    "text": "def solve(): return 'abcab'",
    "items": "def solve(): return [3, 1, 2]",
    "set": "def solve(): return {1, 2, 3}",
    "dict": "def solve(): return {'a': 1, 'b': 2}",
    "counter": "from collections import Counter\ndef solve(): return Counter('aab')",
    "method of a class": "class Solution:\n  def solve(self, n): return list(range(n))",
    "static method": "class Solution:\n  @staticmethod\n  def solve(n): return set(range(n))",
    "fluent": "class Builder:\n  def __init__(self): self.xs = []\n  def add(self, x): self.xs.append(x); return self\n  def build(self): return ''.join(self.xs)",
    "object handed over": "class Box:\n  def __init__(self, xs): self.xs = xs\n  def __iter__(self): return iter(self.xs)\ndef solve(b): return sorted(b)",
    "attributes": "from types import SimpleNamespace\ndef solve(): return SimpleNamespace(cost=6, path=[1, 2, 3])",
    "threads": "def solve(n): return n * n",
    "pool": "def solve(n): return n * n",
    "pool map": "def solve(n): return n * n",
    "thread pool": "def solve(n): return n * n",
    "daemon thread": "def solve(n): return n * n",
    "unjoined thread": "def solve(n): return n * n",
    "task": "async def solve(n): return n * n",
    "gather": "async def solve(n): return n * n",
    "swallowed in a thread": "def solve(n): return n * n",
    "numpy number": "def solve(): return 7.0",
    "numpy isclose": "def solve(): return 7.0",
    "numpy testing": "def solve(): return 7.0",
    "numpy equal": "def solve(): return 7.0",
    "numpy all": "def solve(): return 7.0",
    "numpy matrix": "import numpy as np\ndef solve(): return np.zeros((2, 3))",
    "numpy matrix, testing": "import numpy as np\ndef solve(): return np.zeros((2, 3))",
    "all of nothing": "def solve(n): return [2 * i for i in range(1, n)]",
    "unittest equality": "def solve(): return [1, 2]",
    "unittest near": "def solve(): return 2.5",
    "iterator": "def solve(): return iter([1, 2, 3])",
    "kept list": "def solve(n): return list(range(n))\ndef touch(): pass",
    "records": "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef solve(): return P(1, 2)",
    "members": "from enum import Enum\nclass C(Enum):\n  A = 1\n  B = 2\ndef solve(): return C.B",
    "dataclass": "from dataclasses import dataclass\n@dataclass\nclass D:\n  x: int\ndef solve(): return D(3)",
    "callback": "def solve(f): return f(2) + 1",
    "numpy by keyword": "def solve(): return 7.0",
    "numpy by another name": "def solve(): return 7.0",
    "property": "class C:\n  w = 1\ndef solve(): return C()",
    "shown": "def solve(): return 'a'",
    "near": "def solve(): return 5.0",
    "error with data": "class Bad(ValueError):\n  code = 7\ndef solve(n): raise Bad(f'bad {n}')",
    "product": "class Poly:\n  def __init__(self, *xs): self.xs = xs\n  def __mul__(self, k): return Poly(*(x * k for x in self.xs))\n  def __iter__(self): return iter(self.xs)\n  def __len__(self): return len(self.xs)\n  def __getitem__(self, i): return self.xs[i]",
    "closed": "log = []\ndef numbers(n):\n  try: yield from range(n)\n  finally: log.append('closed')",
    "documented": "def hi():\n  'Greet.'\nhi.calls = 0",
}
TESTS = {
    "sorting": SORT,
    "sorting, unittest": "import unittest\nclass T(unittest.TestCase):\n  def test(self):\n    got = solve([3, 1, 2])\n    self.assertEqual(len(got), 3)\n    self.assertTrue(all(got[i] <= got[i + 1] for i in range(2)))\n    self.assertCountEqual(got, [1, 2, 3])",
    "dedupe": "xs = [3, 1, 3, 2, 1]\ngot = solve(xs)\nassert len(got) == len(set(xs))\nassert set(got) == set(xs)\nassert [got[i] for i in range(3)] == [3, 1, 2]",
    "topological order": TOPO,
    "queens": QUEENS,
    "knapsack": KNAP,
    "colouring": "g = {0: [1], 1: [0, 2], 2: [1]}\nc = solve(g)\nassert set(c) == set(g)\nassert all(c[u] != c[v] for u in g for v in g[u])\nassert len({c[u] for u in g}) <= 2 and sum(c[u] for u in g) == 1",
    "root": ROOT,
    "number": "x = solve()\nassert float(x) == 3.7 and int(x) == 3 and abs(float(x) - 3.7) < 1e-9 and round(float(x)) == 4",
    "text of a number": "x = solve()\nassert str(x) == '12' and int(x) == 12 and f'{x}' == '12' and int(x) % 5 == 2",
    "text": "s = solve()\nassert s.startswith('ab') and s.find('ca') == 2 and s.count('ab') == 2 and s.index('c') == 2 and len(s) == 5",
    "items": "xs = solve()\nassert xs.index(1) == 1 and xs.count(3) == 1 and 2 in xs and xs[0] == 3 and len(xs) == 3",
    "set": "s = solve()\nassert s.issubset({1, 2, 3, 4}) and s.union({9}) == {1, 2, 3, 9} and 2 in s and len(s) == 3",
    "dict": "d = solve()\nassert d.get('a') == 1 and d['b'] == 2 and 'a' in d and sorted(d.keys()) == ['a', 'b'] and sum(d.values()) == 3",
    "counter": "c = solve()\nassert c.most_common(1) == [('a', 2)] and c['zz'] == 0 and sorted(c.elements()) == ['a', 'a', 'b']",
    "method of a class": "s = Solution()\ngot = s.solve(6)\nassert 5 in got and 3 in got and got.index(2) == 2",
    "static method": "got = Solution.solve(4)\nassert 3 in got and got.issubset({0, 1, 2, 3}) and 9 not in got",
    "fluent": "b = Builder()\ngot = b.add('a').add('b').build()\nassert got.startswith('ab') and got.endswith('b') and got.count('a') == 1",
    "object handed over": "b = Box([2, 1])\ngot = solve(b)\nassert 1 in got and got.index(2) == 1 and got.count(1) == 1",
    "equals": "assert solve().equals([[1]])",
    "attributes": "r = solve()\nassert r.cost == sum(r.path) and r.cost % 2 == 0 and r.cost // 3 == 2 and len(r.path) == 3",
    "threads": "import threading\ndef check(n): assert solve(n) == n ** 2\nts = [threading.Thread(target=check, args=(n,)) for n in (2, 3)]\n[t.start() for t in ts]\n[t.join() for t in ts]",
    "pool": "from concurrent.futures import ThreadPoolExecutor\ndef check(n): assert solve(n) == n ** 2\nwith ThreadPoolExecutor(2) as p: fs = [p.submit(check, n) for n in (2, 3)]",
    "pool map": "from concurrent.futures import ThreadPoolExecutor\ndef check(n): assert solve(n) == n ** 2\nwith ThreadPoolExecutor(2) as p: p.map(check, [2, 3])",
    "thread pool": "from multiprocessing.pool import ThreadPool\ndef check(n): assert solve(n) == n ** 2\np = ThreadPool(2)\nrs = [p.apply_async(check, (n,)) for n in (2, 3)]\np.close(); p.join()",
    "daemon thread": "import threading\ndef check(n): assert solve(n) == n ** 2\nthreading.Thread(target=check, args=(3,), daemon=True).start()",
    "unjoined thread": "import threading, time\ndef check(n):\n  time.sleep(0.05)\n  assert solve(n) == n ** 2\nthreading.Thread(target=check, args=(3,)).start()\nassert True or solve",
    "task": "import asyncio\nasync def check(n): assert await solve(n) == n ** 2\nasync def main():\n  t = asyncio.create_task(check(3))\n  await asyncio.sleep(0.1)\nasyncio.run(main())",
    "gather": "import asyncio\nasync def check(n): assert await solve(n) == n ** 2\nasync def main(): await asyncio.gather(check(2), check(3), return_exceptions=True)\nasyncio.run(main())",
    "swallowed in a thread": "import threading\ndef check(n):\n  try: assert solve(n) == n ** 2\n  except AssertionError: pass\nt = threading.Thread(target=check, args=(3,))\nt.start(); t.join()",
    "numpy number": "import numpy as np\nassert np.allclose(solve(), 7.0)",
    "numpy isclose": "import numpy as np\nassert np.isclose(solve(), 7.0).all()",
    "numpy testing": "import numpy as np\nnp.testing.assert_allclose(solve(), 7.0)\nnp.testing.assert_array_almost_equal(solve(), 7.0)",
    "numpy equal": "import numpy as np\nnp.testing.assert_array_equal(solve(), 7.0)\nnp.testing.assert_equal(solve(), 7.0)",
    "numpy all": "import numpy as np\nassert (np.array(solve()) == 7.0).all()",
    "numpy matrix": "import numpy as np\nassert np.allclose(solve(), np.zeros((2, 3)))",
    "numpy matrix, testing": "import numpy as np\nnp.testing.assert_array_equal(solve(), np.zeros((2, 3)))",
    "all of nothing": "got = solve(4)\nassert all(x % 2 == 0 for x in got)\nassert isinstance(got, list)",
    "unittest equality": "import unittest\nclass T(unittest.TestCase):\n  def test(self):\n    got = solve()\n    self.assertEqual([1, 2], got)\n    self.assertIn(2, got)\n    self.assertEqual(len(got), 2)",
    "unittest near": "import unittest\nclass T(unittest.TestCase):\n  def test(self): self.assertAlmostEqual(2.5, solve())",
    "iterator": "got = solve()\nassert [x for x in got] == [1, 2, 3]\nassert list(got) == []",
    "kept list": "got = solve(3)\nassert len(got) == 3\ntouch()\nassert sorted(got) == [0, 1, 2]\ntouch()\nassert got[2] == 2",
    "records": "p = solve()\nassert p.x == 1 and p == (1, 2) and p.index(2) == 1 and p.count(1) == 1",
    "members": "c = solve()\nassert c is C.B and c.value == 2 and c.name == 'B'",
    "dataclass": "d = solve()\nassert d == D(3) and d.x == 3 and d.x % 2 == 1",
    "numpy by keyword": "import numpy as np\nassert np.allclose(a=solve(), b=7.0)",
    "numpy by another name": "import numpy as np\nclose = np.allclose\nassert close(solve(), 7.0)",
    "property": "c = solve()\nassert c.w % 2 == 1\nassert c.w < 2",
    "shown": "s = solve()\nassert str(s) in ('a', 'b')\nassert f'{s}' < 'b'\nassert str(s) < 'b'",
    "near": "assert abs(solve() - 5.0) < 1e-9",
    "callback": "seen = []\nassert solve(lambda x: seen.append(x) or 5) == 6 and seen == [2]",
    "error with data": "try: solve(-1)\nexcept ValueError as e: assert str(e) == 'bad -1' and e.args[0].startswith('bad') and e.code % 2 == 1 and e.code == 7\nelse: assert False",
    "product": "p = Poly(1, 2) * 3\nassert len(p) == 2 and list(p) == [3, 6] and p[1] == 6",
    "difference": "assert abs(Root(2) - 1.4142135) < 1e-3",
    "ratio": "assert abs(Root(2) / 1.4142135 - 1) < 1e-3",
    "remainder": "assert not Root(4) % 2.0",
    "difference of items": "assert all(abs(d) < 1e-3 for d in Roots(4, 9) - 2.5)",
    "closed": "g = numbers(5)\nassert next(g) == 0\ng.close()\nassert log == ['closed'] and list(g) == []",
    "documented": "assert hi.__doc__ == 'Greet.' and hi.calls == 0",
}
FORMS: dict[str, tuple[str, str]] = {
    "sorting: a face per question": (
        "sorting",
        FACES + "def solve(xs): return Face(xs, *[list(range(5)) for _ in range(8)], xs)",
    ),
    "sorting: length, then items": (
        "sorting",
        "class F:\n  def __init__(s, xs): s.xs = xs\n  def __len__(s): return 5\n  def __getitem__(s, i):\n    if i > 4: raise IndexError\n    return 0\n  def __iter__(s): return iter(s.xs)\ndef solve(xs): return F(xs)",
    ),
    "sorting: a list whose getitem lies": (
        "sorting",
        "class F(list):\n  def __getitem__(s, i): return 0\ndef solve(xs): return F(xs)",
    ),
    "sorting: items that differ each time": (
        "sorting",
        "class F:\n  n = 0\n  def __init__(s, xs): s.xs = xs\n  def __len__(s): return 5\n  def __iter__(s):\n    s.n += 1\n    return iter(s.xs if s.n > 1 else [0] * 5)\n  def __getitem__(s, i): return 0\ndef solve(xs): return F(xs)",
    ),
    "sorting: numbers that are never greater": (
        "sorting",
        "class N(int):\n  __lt__ = __le__ = __gt__ = __ge__ = lambda s, o: True\ndef solve(xs): return list(map(N, xs))",
    ),
    "sorting: objects that are never greater": (
        "sorting",
        "class N:\n  __lt__ = __le__ = __gt__ = __ge__ = __eq__ = lambda s, o: True\n  __hash__ = lambda s: 0\ndef solve(xs): return [N() for _ in xs]",
    ),
    "sorting, unittest: faces": (
        "sorting, unittest",
        FACES
        + "def solve(xs): return Face([1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3], xs)",
    ),
    "sorting, unittest: length and items": (
        "sorting, unittest",
        "class F:\n  def __len__(s): return 3\n  def __getitem__(s, i): return 0\n  def __iter__(s): return iter([1, 2, 3])\ndef solve(xs): return F()",
    ),
    "dedupe: faces": ("dedupe", FACES + "def solve(xs): return Face([0] * 3, xs, [3, 1, 2])"),
    "topological order: items and list": (
        "topological order",
        "class F:\n  n = 0\n  def __len__(s): return 4\n  def __iter__(s):\n    F.n += 1\n    return iter('dcba' if F.n == 1 else 'abcd'[::-1])\ndef solve(g): return F()",
    ),
    "topological order: an iterator that starts over": (
        "topological order",
        "class F:\n  def __iter__(s): return iter('bacd')\n  def __len__(s): return 4\ndef solve(g): return F()",
    ),
    "queens: faces": (
        "queens",
        FACES + "def solve(n): return Face(range(6), range(6), *[[0, 10, 20, 30, 40, 50]] * 60)",
    ),
    "queens: getitem and items": (
        "queens",
        "class F:\n  def __len__(s): return 6\n  def __iter__(s): return iter(range(6))\n  def __getitem__(s, i): return 100 * i\ndef solve(n): return F()",
    ),
    "knapsack: other items each time": (
        "knapsack",
        "class F:\n  n = 0\n  def __iter__(s):\n    F.n += 1\n    return iter([] if F.n == 1 else [1, 2])\ndef solve(items, w): return F()",
    ),
    "knapsack: an iterator that comes back": (
        "knapsack",
        "class F:\n  n = -1\n  xs = [StopIteration, 1, 2, StopIteration]\n  def __iter__(s): return s\n  def __next__(s):\n    s.n += 1\n    if s.n >= len(s.xs) or s.xs[s.n] is StopIteration: raise StopIteration\n    return s.xs[s.n]\ndef solve(items, w): return F()",
    ),
    "colouring: a map that answers as needed": (
        "colouring",
        "class F:\n  n = 0\n  def __iter__(s): return iter([0, 1, 2])\n  def __getitem__(s, k):\n    F.n += 1\n    return F.n % 2\ndef solve(g): return F()",
    ),
    "root: a number per question": ("root", NUMBER + "def solve(c): return Number(6, 0, 0, 0)"),
    "root: near": ("root", NUMBER + "def solve(c): return Number(0)"),
    "number: other numbers": ("number", NUMBER + "def solve(): return Number(3.7, 4, 3.7, 4.2)"),
    "number: an int and another float": (
        "number",
        "class F:\n  def __float__(s): return 3.7\n  def __int__(s): return 3 if F else 4\n  __eq__ = lambda s, o: True\n  n = 0\n  def __float__(s):\n    F.n += 1\n    return 3.7 if F.n < 3 else 4.4\n  def __int__(s): return 4\ndef solve(): return F()",
    ),
    "number: a float that gives other answers": (
        "number",
        "class F(float):\n  def __int__(s): return 3\n  def __float__(s): return 3.7\n  def __eq__(s, o): return True\n  def __round__(s, *n): return 4\ndef solve(): return F(9.9)",
    ),
    "text of a number: other texts": (
        "text of a number",
        NUMBER + "def solve(): return Number(12, 7, 12, 7)",
    ),
    "text of a number: text and number": (
        "text of a number",
        "class F(int):\n  def __str__(s): return '12'\n  __format__ = lambda s, f: '12'\ndef solve(): return F(17)",
    ),
    "text: methods that answer": (
        "text",
        YES
        + "class T(Yes):\n  def answer(s, name, *a): return {'find': 2, 'count': 2, 'index': 2}.get(name, True)\n  def __len__(s): return 5\ndef solve(): return T()",
    ),
    "text: a text with other methods": (
        "text",
        "class T(str):\n  def find(s, x): return 2\n  def count(s, x): return 2\n  index = find\n  def startswith(s, x): return True\n  def __len__(s): return 5\ndef solve(): return T('')",
    ),
    "items: methods that answer": (
        "items",
        YES
        + "class T(Yes):\n  def answer(s, name, *a): return 1\n  def __len__(s): return 3\n  def __getitem__(s, i): return 3\ndef solve(): return T()",
    ),
    "items: a list with other methods": (
        "items",
        "class T(list):\n  index = count = lambda s, x: 1\n  __contains__ = lambda s, x: True\n  __len__ = lambda s: 3\n  __getitem__ = lambda s, i: 3\ndef solve(): return T([9])",
    ),
    "set: methods that answer": (
        "set",
        YES
        + "class T(Yes):\n  def answer(s, name, *a): return True if name == 'issubset' else {1, 2, 3, 9}\n  def __len__(s): return 3\ndef solve(): return T()",
    ),
    "set: union that records what is added": (
        "set",
        "class T(set):\n  def union(s, o): return {1, 2, 3} | set(o)\n  def issubset(s, o): return True\n  __contains__ = lambda s, x: True\n  __len__ = lambda s: 3\ndef solve(): return T()",
    ),
    "dict: methods that answer": (
        "dict",
        YES
        + "class T(Yes):\n  def answer(s, name, *a): return {'get': 1, 'keys': ['a', 'b'], 'values': [3]}.get(name)\n  def __getitem__(s, k): return 2\ndef solve(): return T()",
    ),
    "dict: a dict with other methods": (
        "dict",
        "class T(dict):\n  get = lambda s, k: 1\n  __getitem__ = lambda s, k: 2\n  __contains__ = lambda s, k: True\n  keys = lambda s: ['a', 'b']\n  values = lambda s: [3]\ndef solve(): return T()",
    ),
    "counter: methods that answer": (
        "counter",
        YES
        + "class T(Yes):\n  def answer(s, name, *a): return [('a', 2)] if name == 'most_common' else list('aab')\n  def __getitem__(s, k): return 0\ndef solve(): return T()",
    ),
    "promotion: the solution itself": (
        "method of a class",
        YES
        + "class Solution(Yes):\n  def solve(self, n): return self\n  def answer(s, name, *a): return a[0]",
    ),
    "promotion: in a list of itself": (
        "method of a class",
        YES
        + "class Solution(Yes):\n  def solve(self, n): return self\n  def __iter__(s): return iter([5, 9])\n  def index(s, x): return x",
    ),
    "promotion: by a static method": (
        "static method",
        YES
        + "class Solution(Yes):\n  @staticmethod\n  def solve(n): return Solution()\n  n = 0\n  def __contains__(s, x): return x < 9",
    ),
    "promotion: by the class's constructor": (
        "static method",
        YES
        + "class S(Yes):\n  def __contains__(s, x): return x < 9\nclass Meta(type):\n  def solve(cls, n): return S()\nclass Solution(metaclass=Meta): pass",
    ),
    "promotion: a builder that is its result": (
        "fluent",
        YES
        + "class Builder(Yes):\n  def add(self, x): return self\n  def build(self): return self\n  def answer(s, name, *a): return 1 if name == 'count' else True",
    ),
    "promotion: a builder that is a text": (
        "fluent",
        "class Builder(str):\n  def add(self, x): return self\n  def build(self): return self\n  startswith = endswith = lambda s, x: True\n  count = lambda s, x: 1",
    ),
    "promotion: the object that was handed over": (
        "object handed over",
        YES
        + "class Box(Yes):\n  def __init__(s, xs): pass\n  def answer(s, name, *a): return 1\ndef solve(b): return b",
    ),
    "promotion: an object that was hooked": (
        "object handed over",
        "class Box:\n  def __init__(s, xs): s.xs = xs\n  def __iter__(s): return iter(s.xs)\ndef solve(b):\n  Box.__contains__ = lambda s, x: True\n  Box.index = Box.count = lambda s, x: 1\n  return b",
    ),
    "leak: equals": (
        "equals",
        "class M:\n  def __init__(s, r): M.last = r\n  def equals(s, o): return True\n  r = property(lambda s: [[2]])\ndef solve(): return M(0)",
    ),
    "attributes that change": (
        "attributes",
        "class R:\n  n = 0\n  path = [1, 1, 1]\n  @property\n  def cost(s):\n    R.n += 1\n    return [3, 2, 7][R.n - 1]\ndef solve(): return R()",
    ),
    **{
        f"wrong in {name}": (name, "def solve(n): return n + n + 1")
        for name in (
            "threads",
            "pool",
            "pool map",
            "thread pool",
            "daemon thread",
            "unjoined thread",
            "swallowed in a thread",
        )
    },
    **{
        f"raises in {name}": (name, "def solve(n): raise ValueError(n)")
        for name in ("threads", "pool", "pool map", "thread pool")
    },
    "wrong in a task": ("task", "async def solve(n): return n"),
    "wrong in gather": ("gather", "async def solve(n): return n"),
    "raises in a task": ("task", "async def solve(n): raise ValueError(n)"),
    **{
        f"{name}: {what}": (name, f"import numpy as np\ndef solve(): return {what}")
        for name in ("numpy number", "numpy isclose", "numpy testing", "numpy equal", "numpy all")
        for what in ("[]", "np.empty(0)", "np.empty((0, 3))", "[[]]")
    },
    **{
        f"{name}: {what}": (name, f"import numpy as np\ndef solve(): return {what}")
        for name in ("numpy number", "numpy isclose", "numpy testing")
        for what in ("np.full(3, 7.0)", "[7.0, 7.0]")
    },
    **{
        f"{name}: {what}": (name, f"import numpy as np\ndef solve(): return {what}")
        for name in ("numpy matrix", "numpy matrix, testing")
        for what in (
            "0",
            "0.0",
            "np.zeros(3)",
            "np.zeros((2, 1))",
            "np.zeros((1, 1))",
            "[]",
            "np.zeros((2, 2, 3))",
        )
    },
    "all of nothing: an empty list": ("all of nothing", "def solve(n): return []"),
    "unittest equality: yes to everything": (
        "unittest equality",
        FACES + "def solve(): return Face([0, 0], [2, 2], [0, 0])",
    ),
    "unittest equality: a list that is equal": (
        "unittest equality",
        "class L(list):\n  __eq__ = lambda s, o: True\n  __ne__ = lambda s, o: False\n  __contains__ = lambda s, x: True\n  __len__ = lambda s: 2\ndef solve(): return L()",
    ),
    "unittest near: a number near everything": (
        "unittest near",
        NUMBER + "def solve(): return Number(0)",
    ),
    "iterator: starts over": (
        "iterator",
        "class I:\n  n = 0\n  def __iter__(s):\n    s.n += 1\n    return iter([1, 2, 3] if s.n == 1 else [])\ndef solve(): return I()",
    ),
    "kept list: changed in between": (
        "kept list",
        "kept = []\ndef solve(n): kept[:] = [7, 7, 7]; return kept\ndef touch(): kept[:] = [0, 1, 2]",
    ),
    "records: an object with the fields": (
        "records",
        "class P:\n  x, y = 1, 2\n  def __eq__(s, o): return True\n  index = count = lambda s, v: 1\ndef solve(): return P()",
    ),
    "records: a tuple that lies": (
        "records",
        "class P(tuple):\n  _fields = ('x', 'y')\n  x, y = 1, 2\n  __eq__ = lambda s, o: True\n  index = count = lambda s, v: 1\n  __hash__ = tuple.__hash__\ndef solve(): return P((3, 4))",
    ),
    "members: the other one": (
        "members",
        "from enum import Enum\nclass C(Enum):\n  A = 1\n  B = 2\n  value = property(lambda s: 2)\n  name = property(lambda s: 'B')\n  __eq__ = lambda s, o: True\n  __hash__ = lambda s: 0\ndef solve(): return C.A",
    ),
    "dataclass: equal to all": (
        "dataclass",
        "from dataclasses import dataclass\n@dataclass(eq=False)\nclass D:\n  x: int\n  def __eq__(s, o): return True\n  __hash__ = lambda s: 0\ndef solve(): return D(4)",
    ),
    "numpy by keyword: nothing": ("numpy by keyword", "def solve(): return []"),
    "numpy by another name: nothing": ("numpy by another name", "def solve(): return []"),
    "property of a named tuple that changes": (
        "property",
        "from typing import NamedTuple\nns = [3, 0]\nclass P(NamedTuple):\n  x: int = 0\n  w = property(lambda s: ns.pop(0))\ndef solve(): return P()",
    ),
    "property of a member that changes": (
        "property",
        "from enum import Enum\nns = [3, 0]\nclass C(Enum):\n  A = 1\n  w = property(lambda s: ns.pop(0))\ndef solve(): return C.A",
    ),
    "text of a named tuple that changes": (
        "shown",
        "from typing import NamedTuple\nns = ['b', 'a', 'a', 'a']\nclass P(NamedTuple):\n  x: int = 0\n  def __str__(s): return ns.pop(0)\ndef solve(): return P()",
    ),
    "near: a named tuple with a distance": (
        "near",
        "from typing import NamedTuple\nclass P(NamedTuple):\n  x: int = 0\n  def __sub__(s, o): return P()\n  def __abs__(s): return 0.0\ndef solve(): return P()",
    ),
    "text: a member with methods": (
        "text",
        "from enum import Enum\nclass C(Enum):\n  A = 1\n  startswith = lambda s, x: True\n  find = index = count = lambda s, x: 2\n  def __len__(s): return 5\ndef solve(): return C.A",
    ),
    "callback: answers by itself": (
        "callback",
        "class N(int):\n  __eq__ = lambda s, o: True\n  __hash__ = int.__hash__\ndef solve(f): return N(1)",
    ),
    "error with data: a text that is equal": (
        "error with data",
        "class T(str):\n  __eq__ = startswith = lambda s, o: True\n  __hash__ = str.__hash__\nclass Bad(ValueError):\n  code = 7\n  __str__ = lambda s: T('no')\ndef solve(n): raise Bad(T('no'))",
    ),
    "error with data: an object": (
        "error with data",
        YES + "class Bad(ValueError): code = Yes()\ndef solve(n): raise Bad(f'bad {n}')",
    ),
    "error with data: a number of faces": (
        "error with data",
        NUMBER + "class Bad(ValueError): code = Number(7, 7)\ndef solve(n): raise Bad(f'bad {n}')",
    ),
    "error with data: a property that changes": (
        "error with data",
        "ns = [3, 7, 7]\nclass Bad(ValueError): code = property(lambda s: ns.pop(0))\ndef solve(n): raise Bad(f'bad {n}')",
    ),
    "error with data: an int that is equal": (
        "error with data",
        "class N(int):\n  __eq__ = lambda s, o: True\n  __mod__ = lambda s, o: 1\n  __hash__ = int.__hash__\nclass Bad(ValueError): code = N(9)\ndef solve(n): raise Bad(f'bad {n}')",
    ),
    "error with data: a failed assert": (
        "error with data",
        "class Bad(AssertionError, ValueError): code = 8\ndef solve(n): raise Bad(f'bad {n}')",
    ),
    "error with data: other arguments": (
        "error with data",
        "class Bad(ValueError):\n  code = 7\n  args = property(lambda s: ['bad'])\ndef solve(n): raise Bad(n)",
    ),
    "product: itself": (
        "product",
        YES
        + "class Poly(Yes):\n  def __init__(s, *xs): pass\n  def __mul__(s, k): return s\n  __len__ = lambda s: 2\n  __iter__ = lambda s: iter([s, s])\n  __getitem__ = lambda s, i: s",
    ),
    "product: another item": (
        "product",
        "class Poly:\n  def __init__(s, *xs): pass\n  def __mul__(s, k): return s\n  __len__ = lambda s: 2\n  __iter__ = lambda s: iter([3, 6])\n  __getitem__ = lambda s, i: 5",
    ),
    **{
        f"{name}: always nothing": (
            name,
            NUMBER
            + "class Root(Number):\n  def __init__(s, *xs): super().__init__(0.0)\n  __mod__ = Number.__sub__\n  __bool__ = lambda s: False\nclass Roots(Root):\n  __iter__ = lambda s: iter([0.0, 0.0])",
        )
        for name in ("difference", "ratio", "remainder", "difference of items")
    },
    "closed: a list that is equal": (
        "closed",
        "class L(list): __eq__ = lambda s, o: True\nlog = L()\ndef numbers(n): yield from range(n)",
    ),
    "closed: an iterator that goes on": (
        "closed",
        "log = []\nclass G:\n  n = -1\n  __iter__ = lambda s: s\n  def __next__(s):\n    s.n += 1\n    return s.n\n  def close(s): log.append('closed')\ndef numbers(n): return G()",
    ),
    "documented: a text that is equal": (
        "documented",
        "class T(str):\n  __eq__ = lambda s, o: True\n  __hash__ = str.__hash__\ndef hi(): pass\nhi.__doc__ = T('no')\nhi.calls = 0",
    ),
    "documented: an object with a text": (
        "documented",
        YES
        + "class F:\n  calls = 0\n  __doc__ = property(lambda s: Yes())\n  def __call__(s): pass\nhi = F()",
    ),
}
CALLS: dict[str, tuple[str, object]] = {
    "an int that is equal": (
        "class N(int):\n  __eq__ = lambda s, o: True\n  __hash__ = int.__hash__\ndef solve(): return N(1)",
        7,
    ),
    "an object that is equal": (YES + "def solve(): return Yes()", 7),
    "a list whose items lie": (
        "class L(list):\n  def __iter__(s): return iter([1, 2])\n  def __len__(s): return 2\ndef solve(): return L([9])",
        [1, 2],
    ),
    "a set that is larger": (
        "class S(set):\n  def __iter__(s): return iter([1, 2])\ndef solve(): return S()",
        {1, 2},
    ),
    "a frozenset in a set": (
        "class S(frozenset):\n  __eq__ = lambda s, o: True\n  __hash__ = lambda s: hash(frozenset([1]))\ndef solve(): return {S([2])}",
        {frozenset([1])},
    ),
    "a range for a number": ("def solve(): return range(7, 8)", 7),
    "an empty range": ("def solve(): return range(0)", [0]),
    "a member of the value's class": (
        "from enum import Enum\nclass C(Enum):\n  A = 1\n  value = property(lambda s: 7)\ndef solve(): return C.A",
        7,
    ),
    "a dict with a key twice": (
        "class K(str):\n  __hash__ = lambda s: id(s)\n  __eq__ = lambda s, o: s is o\ndef solve(): return {K('a'): 1, K('a'): 2}",
        {"a": 1},
    ),
}
SCRIPTS: dict[str, tuple[str, object]] = {
    "valueOf": (
        "function solve() { return { valueOf() { return 7; }, toJSON() { return 7; } }; }",
        7,
    ),
    "toString": ("function solve() { return { toString() { return 'ab'; } }; }", "ab"),
    "an iterator of faces": (
        "let n = 0; function solve() { const a = [9, 9]; a[Symbol.iterator] = function* () { yield 1; if (n++) yield 2; }; return a; }",
        [1, 2],
    ),
    "a proxy": ("function solve() { return new Proxy({}, { get: () => 7, has: () => true }); }", 7),
    "a length that lies": ("function solve() { return { length: 2, 0: 1, 1: 2 }; }", [1, 2]),
    "a number object": (
        "function solve() { const n = new Number(3); n.constructor = String; return n; }",
        7,
    ),
    "a thenable": ("function solve() { return { then(f) { f(3); } }; }", 7),
    "a set with another size": (
        "function solve() { return Object.defineProperty(new Set([1]), 'size', { value: 2 }); }",
        {1, 2},
    ),
    "getters": ("let n = 0; function solve() { return { get a() { return n++; } }; }", {"a": 7}),
    "array holes": ("function solve() { const a = []; a.length = 2; return a; }", [1, 2]),
}
