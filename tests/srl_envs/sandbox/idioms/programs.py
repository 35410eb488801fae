# ruff: noqa: E501 - programs and tests are quoted as their authors would write them
"""Forms of asserts, and whole small programs."""

BANK = "class InsufficientFunds(Exception):\n  def __init__(self, balance, amount):\n    super().__init__(f'balance {balance}, asked for {amount}')\n    self.balance, self.amount = balance, amount\n  @property\n  def short(self): return self.amount - self.balance\nclass Account:\n  def __init__(self, owner, balance=0): self.owner, self._balance = owner, balance\n  @property\n  def balance(self): return self._balance\n  def deposit(self, n):\n    if n <= 0: raise ValueError('amount must be positive')\n    self._balance += n\n  def withdraw(self, n):\n    if n > self._balance: raise InsufficientFunds(self._balance, n)\n    self._balance -= n\n  def __repr__(self): return f'Account({self.owner!r}, {self._balance})'\n"
VEC = "class Vec:\n  def __init__(self, *xs): self.xs = tuple(xs)\n  def __eq__(self, o): return isinstance(o, Vec) and self.xs == o.xs\n  def __hash__(self): return hash(self.xs)\n  def __repr__(self): return f'Vec({\", \".join(map(repr, self.xs))})'\n  def __add__(self, o): return Vec(*(a + b for a, b in zip(self.xs, o.xs)))\n  def __mul__(self, k): return Vec(*(a * k for a in self.xs))\n  __rmul__ = __mul__\n  def __matmul__(self, o): return sum(a * b for a, b in zip(self.xs, o.xs))\n  def __neg__(self): return self * -1\n  def __len__(self): return len(self.xs)\n  def __getitem__(self, i): return self.xs[i]\n  def __iter__(self): return iter(self.xs)\n  def __bool__(self): return any(self.xs)\n"
LRU = "class LRUCache:\n  def __init__(self, capacity): self.cap, self.d = capacity, {}\n  def get(self, k):\n    if k not in self.d: return -1\n    self.d[k] = self.d.pop(k)\n    return self.d[k]\n  def put(self, k, v):\n    self.d.pop(k, None)\n    self.d[k] = v\n    if len(self.d) > self.cap: del self.d[next(iter(self.d))]\n"
TREE = "class Node:\n  def __init__(self, val, left=None, right=None): self.val, self.left, self.right = val, left, right\ndef insert(root, v):\n  if root is None: return Node(v)\n  if v < root.val: root.left = insert(root.left, v)\n  else: root.right = insert(root.right, v)\n  return root\ndef walk(root):\n  if root:\n    yield from walk(root.left)\n    yield root.val\n    yield from walk(root.right)\ndef depth(root): return 1 + max(depth(root.left), depth(root.right)) if root else 0\ndef invert(root):\n  if root: root.left, root.right = invert(root.right), invert(root.left)\n  return root\n"

CHECKS = {
    "threads": (
        "import threading\nclass Count:\n  def __init__(self): self.n = 0; self.lock = threading.Lock()\n  def inc(self):\n    with self.lock: self.n += 1",
        "import threading\nc = Count()\nts = [threading.Thread(target=c.inc) for _ in range(5)]\n[t.start() for t in ts]; [t.join() for t in ts]\nassert c.n == 5",
        "+= 1",
        "= 1",
    ),
    "asserts in threads": (
        "def sq(n): return n * n",
        "import threading\ndef check(n): assert sq(n) == n * n\nts = [threading.Thread(target=check, args=(n,)) for n in range(3)]\n[t.start() for t in ts]; [t.join() for t in ts]",
        "n * n",
        "n + n",
    ),
    "pool map": (
        "def sq(n): return n * n",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as p: assert list(p.map(sq, range(4))) == [0, 1, 4, 9]",
        "n * n",
        "n",
    ),
    "pool submit": (
        "def sq(n): return n * n",
        "from concurrent.futures import ThreadPoolExecutor\ndef check(n): assert sq(n) == n ** 2\nwith ThreadPoolExecutor(2) as p:\n  for n in range(4): p.submit(check, n)",
        "n * n",
        "n",
    ),
    "thread pool": (
        "def sq(n): return n * n",
        "from multiprocessing.pool import ThreadPool\nwith ThreadPool(2) as p: assert p.map(sq, [1, 2, 3]) == [1, 4, 9]",
        "n * n",
        "n",
    ),
    "unittest": (
        "def add(a, b): return a + b",
        "import unittest\nclass T(unittest.TestCase):\n  def setUp(self): self.x = 1\n  def test_a(self): self.assertEqual(add(self.x, 2), 3)\n  def test_b(self):\n    for a in range(3):\n      with self.subTest(a=a): self.assertEqual(add(a, 1), a + 1)",
        "a + b",
        "a - b",
    ),
    "unittest collections": (
        "def ev(xs): return [x for x in xs if x % 2 == 0]\ndef tab(xs): return {x: x * x for x in xs}",
        "import unittest\nclass T(unittest.TestCase):\n  def test(self):\n    self.assertListEqual(ev([1, 2, 4]), [2, 4])\n    self.assertDictEqual(tab([2]), {2: 4})\n    self.assertIn(2, ev([2]))\n    self.assertCountEqual(ev([4, 2]), [2, 4])\n    self.assertIsInstance(tab([]), dict)\n    self.assertAlmostEqual(sum(ev([2])), 2.0)",
        "== 0]",
        "== 1]",
    ),
    "unittest raises": (
        "def div(a, b):\n  if b == 0: raise ZeroDivisionError('no zero')\n  return a / b",
        "import unittest\nclass T(unittest.TestCase):\n  def test(self):\n    with self.assertRaises(ZeroDivisionError) as c: div(1, 0)\n    self.assertEqual(str(c.exception), 'no zero')\n    self.assertRaisesRegex(ZeroDivisionError, 'zero', div, 1, 0)\n    self.assertAlmostEqual(div(1, 3), 0.33333333)",
        "a / b",
        "a // b",
    ),
    "property of sorting": (
        "def sort(xs): return sorted(xs)",
        "import random\nr = random.Random(0)\nfor _ in range(20):\n  xs = [r.randrange(9) for _ in range(r.randrange(6))]\n  got = sort(xs)\n  assert len(got) == len(xs) and all(a <= b for a, b in zip(got, got[1:])) and sorted(xs) == list(got)",
        "sorted(xs)",
        "sorted(set(xs))",
    ),
    "topological order": (
        "def topo(g):\n  out, seen = [], set()\n  def go(n):\n    if n in seen: return\n    seen.add(n)\n    for m in g.get(n, ()): go(m)\n    out.append(n)\n  for n in g: go(n)\n  return out[::-1]",
        "g = {'a': ['b', 'c'], 'b': ['c'], 'c': []}\no = topo(g)\nassert len(o) == 3 and set(o) == set(g) and all(o.index(u) < o.index(v) for u in g for v in g[u])",
        "[::-1]",
        "",
    ),
    "math isclose": (
        "def mean(xs): return sum(xs) / len(xs)",
        "import math\nassert math.isclose(mean([.1, .2]), .15) and abs(mean([1, 2]) - 1.5) < 1e-9 and round(mean([1, 2, 2]), 2) == 1.67",
        "/ len(xs)",
        "// len(xs)",
    ),
    "global state": (
        "cache = {}\ndef put(k, v): cache[k] = v\ndef size(): return len(cache)",
        "put('a', 1)\nassert size() == 1 and cache == {'a': 1}\nput('b', 2)\nassert cache['b'] == 2",
        "cache[k] = v",
        "cache[k] = k",
    ),
    "text methods": (
        "def cap(s): return s.title()",
        "assert cap('ab cd').startswith('Ab') and cap('ab').isalpha() and cap('a b').split() == ['A', 'B'] and cap('xy').find('y') == 1 and cap('aa').count('a') == 1",
        "s.title()",
        "s.upper()",
    ),
    "json text": (
        "import json\ndef dump(x): return json.dumps(x, sort_keys=True)",
        "import json\nassert json.loads(dump({'b': 1, 'a': [1, None]})) == {'a': [1, None], 'b': 1} and dump({'b': 1, 'a': 2}) == '{\"a\": 2, \"b\": 1}'",
        "sort_keys=True",
        "sort_keys=False",
    ),
}
PROGRAMS = {
    "exception with attributes": (
        BANK,
        "a = Account('Ann', 10)\ntry: a.withdraw(25)\nexcept InsufficientFunds as e: assert (e.balance, e.amount, e.short) == (10, 25, 15) and str(e) == 'balance 10, asked for 25' and e.args == (str(e),)\nelse: assert False, 'no error'\nassert a.balance == 10",
        "self.amount - self.balance",
        "self.amount",
    ),
    "account": (
        BANK,
        "a = Account('Ann', 10)\na.deposit(5)\nassert a.balance == 15 and repr(a) == \"Account('Ann', 15)\" and a.owner == 'Ann'\nfor bad in (0, -3):\n  try: a.deposit(bad)\n  except ValueError as e: assert 'positive' in str(e)\n  else: raise AssertionError(bad)\ntry: a.balance = 3\nexcept AttributeError: pass\nelse: assert False",
        "self._balance += n",
        "self._balance = n",
    ),
    "vector class": (
        VEC,
        "v, w = Vec(1, 2), Vec(3, 4)\nassert v + w == Vec(4, 6) and 2 * v == v * 2 == Vec(2, 4) and v @ w == 11 and -v == Vec(-1, -2)\nassert v != w and len(v) == 2 and v[1] == 2 and list(v) == [1, 2] and repr(v) == 'Vec(1, 2)'\nassert not Vec(0, 0) and v and hash(v) == hash(Vec(1, 2)) and len({v, Vec(1, 2), w}) == 2",
        "a * b for",
        "a + b for",
    ),
    "vector class, unpacked and summed": (
        VEC,
        "x, y = Vec(1, 2) + Vec(0, 1)\nassert (x, y) == (1, 3) and sum([Vec(1, 1), Vec(2, 2)], Vec(0, 0)) == Vec(3, 3) and max(Vec(5, 7)) == 7 and Vec(1, 2) in [Vec(1, 2)] and [Vec(9), Vec(1)].index(Vec(1)) == 1 and {Vec(1): 'a'}[Vec(1)] == 'a'",
        "a + b for",
        "a - b for",
    ),
    "least recently used cache": (
        LRU,
        "c = LRUCache(2)\nc.put(1, 1); c.put(2, 2)\nassert c.get(1) == 1\nc.put(3, 3)\nassert c.get(2) == -1\nc.put(4, 4)\nassert [c.get(k) for k in (1, 3, 4)] == [-1, 3, 4]",
        "    self.d[k] = self.d.pop(k)\n",
        "",
    ),
    "search tree": (
        TREE,
        "import random\nrng = random.Random(7)\nxs = [rng.randrange(100) for _ in range(12)]\nroot = None\nfor x in xs: root = insert(root, x)\nassert list(walk(root)) == sorted(xs) and depth(None) == 0 and 4 <= depth(root) <= 12\nassert list(walk(invert(root))) == sorted(xs, reverse=True)",
        "if v < root.val",
        "if v != root.val",
    ),
    "tree given by the tests": (
        TREE,
        "t = Node(4, Node(2, Node(1), Node(3)), Node(7))\nassert depth(t) == 3\nu = invert(t)\nassert u is t and u.val == 4 and u.left.val == 7 and u.right.left.val == 3 and u.right.right.val == 1 and u.left.left is None",
        "invert(root.right), invert(root.left)",
        "root.left, root.right",
    ),
    "context manager that suppresses": (
        "class Suppress:\n  def __init__(self, *kinds): self.kinds, self.caught = kinds, None\n  def __enter__(self): return self\n  def __exit__(self, kind, error, trace):\n    if kind and issubclass(kind, self.kinds):\n      self.caught = error\n      return True\n    return False",
        "with Suppress(KeyError, ValueError) as s: {}['x']\nassert isinstance(s.caught, KeyError) and s.caught.args == ('x',)\ntry:\n  with Suppress(KeyError): 1 / 0\nexcept ZeroDivisionError: pass\nelse: assert False\nwith Suppress(KeyError) as s: pass\nassert s.caught is None",
        "      return True",
        "      return kind is ValueError",
    ),
    "contextmanager restores": (
        "from contextlib import contextmanager\nsettings = {'level': 1}\n@contextmanager\ndef override(**kw):\n  old = dict(settings)\n  settings.update(kw)\n  try: yield settings\n  finally:\n    settings.clear()\n    settings.update(old)",
        "with override(level=3, extra=True) as s: assert s['level'] == 3 and settings['extra'] is True\nassert settings == {'level': 1}\ntry:\n  with override(level=9): raise KeyError('boom')\nexcept KeyError as e: assert e.args[0] == 'boom'\nassert settings == {'level': 1}",
        "    settings.clear()\n",
        "",
    ),
    "itertools pipelines": (
        "from itertools import groupby, accumulate, chain, islice, count, combinations, product\ndef runs(s): return [(k, sum(1 for _ in g)) for k, g in groupby(s)]\ndef partial(xs): return accumulate(xs)\ndef primes():\n  for n in count(2):\n    if all(n % p for p in range(2, int(n ** .5) + 1)): yield n\ndef pairs(xs): return combinations(xs, 2)\ndef flat(xss): return chain.from_iterable(xss)",
        "from itertools import islice, takewhile\nassert runs('aabccc') == [('a', 2), ('b', 1), ('c', 3)] and list(partial([1, 2, 3])) == [1, 3, 6]\nassert list(islice(primes(), 5)) == [2, 3, 5, 7, 11] and list(takewhile(lambda p: p < 8, primes())) == [2, 3, 5, 7]\nassert set(pairs('abc')) == {('a', 'b'), ('a', 'c'), ('b', 'c')} and list(flat([[1], [], [2, 3]])) == [1, 2, 3]",
        "int(n ** .5) + 1",
        "int(n ** .5)",
    ),
    "decorator with arguments": (
        "import functools\ndef repeat(times):\n  def wrap(f):\n    @functools.wraps(f)\n    def inner(*a, **k): return [f(*a, **k) for _ in range(times)]\n    inner.times = times\n    return inner\n  return wrap\n@repeat(2)\ndef hi(name='x'):\n  'Greet.'\n  return f'hi {name}'",
        "assert hi('a') == ['hi a'] * 2 and hi(name='b') == ['hi b', 'hi b'] and hi.__name__ == 'hi' and hi.__doc__ == 'Greet.' and hi.times == 2\n@repeat(3)\ndef one(): return 1\nassert one() == [1, 1, 1] and one.__name__ == 'one' and repeat(0)(len)('ab') == []",
        "@functools.wraps(f)\n    ",
        "",
    ),
    "class decorator registers": (
        "REGISTRY = {}\ndef register(name):\n  def wrap(cls):\n    REGISTRY[name] = cls\n    return cls\n  return wrap\n@register('square')\nclass Square:\n  def __init__(self, a): self.a = a\n  def area(self): return self.a ** 2\n@register('circle')\nclass Circle:\n  def __init__(self, r): self.r = r\n  def area(self): return 3 * self.r ** 2\ndef make(kind, *args): return REGISTRY[kind](*args)",
        "assert make('square', 3).area() == 9 and make('circle', 2).area() == 12 and isinstance(make('square', 1), Square) and sorted(REGISTRY) == ['circle', 'square'] and REGISTRY['circle'] is Circle",
        "self.a ** 2",
        "self.a * 2",
    ),
    "heap of tasks": (
        "import heapq, itertools\nclass PriorityQueue:\n  def __init__(self): self.heap, self.order = [], itertools.count()\n  def push(self, item, priority=0): heapq.heappush(self.heap, (-priority, next(self.order), item))\n  def pop(self):\n    if not self.heap: raise IndexError('pop from an empty queue')\n    return heapq.heappop(self.heap)[-1]\n  def __len__(self): return len(self.heap)",
        "q = PriorityQueue()\nfor item, p in [('low', 1), ('high', 9), ('also high', 9), ('none', 0)]: q.push(item, p)\nassert len(q) == 4 and [q.pop() for _ in range(4)] == ['high', 'also high', 'low', 'none']\ntry: q.pop()\nexcept IndexError as e: assert 'empty' in str(e)\nelse: assert False\nassert not len(q)",
        "-priority",
        "priority",
    ),
    "heap property": (
        "import heapq\ndef heap(xs): h = list(xs); heapq.heapify(h); return h\ndef smallest(xs, k): return heapq.nsmallest(k, xs)\ndef merge(*xs): return heapq.merge(*xs)",
        "import heapq\nxs = [5, 1, 8, 3, 9, 2]\nh = heap(xs)\nassert all(h[i] <= h[j] for i in range(6) for j in (2 * i + 1, 2 * i + 2) if j < 6) and sorted(h) == sorted(xs)\nheapq.heappush(h, 0)\nassert [heapq.heappop(h) for _ in range(7)] == [0, 1, 2, 3, 5, 8, 9] and smallest(xs, 2) == [1, 2] and list(merge([1, 4], [2, 3])) == [1, 2, 3, 4]",
        "heapq.heapify(h)",
        "h.reverse()",
    ),
    "bisect": (
        "from bisect import bisect_left, insort\ndef add(xs, x): insort(xs, x); return xs\ndef find(xs, x):\n  i = bisect_left(xs, x)\n  return i if i < len(xs) and xs[i] == x else -1\ndef grade(score, cuts=(60, 70, 80, 90), names='FDCBA'): return names[bisect_left(cuts, score + 1)]",
        "xs = [1, 3, 5]\nassert add(xs, 4) is xs and xs == [1, 3, 4, 5] and find(xs, 4) == 2 and find(xs, 2) == -1 and find([], 1) == -1\nassert [grade(s) for s in (33, 60, 89, 90, 100)] == list('FDBAA') and grade(1, cuts=[1], names='ab') == 'b'",
        "score + 1",
        "score",
    ),
    "stable sorting of records": (
        "from dataclasses import dataclass\nfrom operator import attrgetter\n@dataclass(frozen=True)\nclass Row:\n  name: str\n  age: int\ndef by_age(rows): return sorted(rows, key=attrgetter('age'))",
        "rows = [Row('b', 3), Row('a', 1), Row('c', 3), Row('d', 1)]\ngot = by_age(rows)\nassert [r.name for r in got] == ['a', 'd', 'b', 'c'] and got[0] is rows[1] and rows[0] == Row('b', 3) and set(got) == set(rows) and len({*got, Row('a', 1)}) == 4",
        "key=attrgetter('age')",
        "key=attrgetter('age', 'name'), reverse=True",
    ),
    "dataclass with equality of its own": (
        "from dataclasses import dataclass\n@dataclass(eq=False)\nclass Word:\n  text: str\n  def __eq__(self, o): return isinstance(o, Word) and self.text.lower() == o.text.lower()\n  def __hash__(self): return hash(self.text.lower())\ndef unique(ws): return list(dict.fromkeys(ws))",
        "assert Word('A') == Word('a') != Word('b') and Word('x') != 'x' and len({Word('A'), Word('a')}) == 1\ngot = unique([Word('A'), Word('b'), Word('a')])\nassert [w.text for w in got] == ['A', 'b'] and got == [Word('a'), Word('B')]",
        "o.text.lower()",
        "o.text.upper()",
    ),
    "dataclass with a cached property": (
        "from dataclasses import dataclass, field\nfrom functools import cached_property\n@dataclass\nclass Basket:\n  prices: list[float] = field(default_factory=list)\n  calls: int = 0\n  @cached_property\n  def total(self):\n    self.calls += 1\n    return sum(self.prices)\n  def __len__(self): return len(self.prices)\n  def __contains__(self, p): return p in self.prices\n  def __iadd__(self, p): self.prices.append(p); return self",
        "b = Basket([1.5])\nb += 2.0\nassert b.total == 3.5 and b.calls == 1 and len(b) == 2 and 2.0 in b and 9 not in b and b.prices == [1.5, 2.0]\nassert Basket().prices == [] and Basket().prices is not Basket().prices",
        "sum(self.prices)",
        "max(self.prices)",
    ),
    "generator with cleanup": (
        "log = []\ndef numbers(n):\n  try:\n    for i in range(n): yield i\n  finally: log.append('closed')\ndef average():\n  total = n = 0\n  mean = None\n  while True:\n    x = yield mean\n    total += x; n += 1\n    mean = total / n",
        "g = numbers(5)\nassert next(g) == 0\ng.close()\nassert log == ['closed'] and list(g) == []\na = average()\nassert next(a) is None and a.send(10) == 10 and a.send(20) == 15.0\ntry: next(numbers(0)); assert False\nexcept StopIteration: pass",
        "log.append('closed')",
        "log.extend(['closed'] * n)",
    ),
    "iterator protocol": (
        "class Countdown:\n  def __init__(self, n): self.n = n\n  def __iter__(self): return self\n  def __next__(self):\n    if self.n <= 0: raise StopIteration\n    self.n -= 1\n    return self.n + 1\nclass Evens:\n  def __init__(self, top): self.top = top\n  def __iter__(self): return iter(range(0, self.top, 2))",
        "c = Countdown(3)\nassert iter(c) is c and next(c) == 3 and list(c) == [2, 1] and list(c) == [] and next(c, 'end') == 'end'\ne = Evens(5)\nassert list(e) == [0, 2, 4] == list(e) and sum(e) == 6 and 4 in e and list(zip(e, Countdown(2))) == [(0, 2), (2, 1)] and [*map(str, Evens(3))] == ['0', '2']",
        "self.n + 1",
        "self.n",
    ),
    "closures share a cell": (
        "def counter(start=0):\n  n = start\n  def up(by=1):\n    nonlocal n\n    n += by\n    return n\n  def reset():\n    nonlocal n\n    n = start\n  return up, reset\ndef adders(): return [lambda x, k=k: x + k for k in range(3)]",
        "up, reset = counter(5)\nassert up() == 6 and up(by=4) == 10\nreset()\nassert up() == 6 and counter()[0]() == 1 and [f(10) for f in adders()] == [10, 11, 12]",
        "k=k",
        "k=2",
    ),
    "recursion over nested data": (
        "def flatten(x):\n  return [z for y in x for z in flatten(y)] if isinstance(x, (list, tuple)) else [x]\ndef depth(x): return 1 + max(map(depth, x), default=0) if isinstance(x, list) else 0\ndef perms(xs): return [[x, *p] for i, x in enumerate(xs) for p in perms(xs[:i] + xs[i + 1:])] or [[]]\ndef hanoi(n, a='A', b='B', c='C'):\n  return [] if n == 0 else hanoi(n - 1, a, c, b) + [(a, c)] + hanoi(n - 1, b, a, c)",
        "assert flatten([1, [2, (3, [4])], []]) == [1, 2, 3, 4] and depth([1, [2, [3]]]) == 3 and depth([]) == 1\nassert sorted(map(tuple, perms([1, 2, 3]))) == [(1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)]\nmoves = hanoi(3)\npegs = {'A': [3, 2, 1], 'B': [], 'C': []}\nfor a, b in moves:\n  d = pegs[a].pop()\n  assert not pegs[b] or pegs[b][-1] > d\n  pegs[b].append(d)\nassert pegs['C'] == [3, 2, 1] and len(moves) == 7",
        "a, c, b)",
        "a, b, c)",
    ),
    "formatting": (
        "def table(rows, width=6): return '\\n'.join(''.join(f'{c:>{width}}' for c in row) for row in rows)\ndef money(x): return f'${x:,.2f}'\ndef percent(x): return '{:.1%}'.format(x)\ndef binary(n): return f'{n:#010b}'",
        "assert table([('a', 1), ('bb', 20)]) == '     a     1\\n    bb    20' and table([('x',)], width=2) == ' x' and table([]) == ''\nassert money(1234567.5) == '$1,234,567.50' and percent(.125) == '12.5%' and binary(5) == '0b00000101' and table([('a',)]).strip().upper().center(3, '*') == '*A*'",
        "{c:>",
        "{c:<",
    ),
    "seeded random": (
        "import random\ndef draw(seed, n):\n  random.seed(seed)\n  return [random.randint(1, 6) for _ in range(n)]\ndef deal(seed, deck):\n  deck = list(deck)\n  random.Random(seed).shuffle(deck)\n  return deck",
        "import random\nassert draw(3, 5) == draw(3, 5) != draw(4, 5) and len(draw(0, 9)) == 9 and all(1 <= x <= 6 for x in draw(1, 50)) and set(draw(1, 200)) == {1, 2, 3, 4, 5, 6}\nrandom.seed(8)\nexpected = [random.randint(1, 6) for _ in range(4)]\nassert draw(8, 4) == expected\ndeck = list(range(10))\ngot = deal(2, deck)\nassert sorted(got) == deck and got != deck and deck == list(range(10))",
        "randint(1, 6)",
        "randint(0, 5) + 1 if n < 40 else 6",
    ),
    "exception hierarchy": (
        "class AppError(Exception):\n  code = 1\nclass NotFound(AppError, LookupError):\n  code = 404\n  def __init__(self, key, hint=None):\n    super().__init__(key)\n    self.key, self.hint = key, hint\n  def __str__(self): return f'{self.key!r} not found' + (f', try {self.hint!r}' if self.hint else '')\ndef fetch(d, k):\n  try: return d[k]\n  except KeyError as e: raise NotFound(k, next(iter(d), None)) from e",
        "assert fetch({'a': 1}, 'a') == 1\nfor kind in (NotFound, AppError, LookupError):\n  try: fetch({'a': 1}, 'b')\n  except kind as e: assert e.code == 404 and e.key == 'b' and e.hint == 'a' and str(e) == \"'b' not found, try 'a'\" and isinstance(e.__cause__, KeyError)\n  else: assert False\nassert issubclass(NotFound, AppError) and not issubclass(AppError, LookupError)",
        "LookupError):",
        "ValueError):",
    ),
    "matrix class": (
        "class Matrix:\n  def __init__(self, rows): self.rows = [list(r) for r in rows]\n  @classmethod\n  def identity(cls, n): return cls([[int(i == j) for j in range(n)] for i in range(n)])\n  @property\n  def shape(self): return len(self.rows), len(self.rows[0])\n  @property\n  def T(self): return Matrix(zip(*self.rows))\n  def __getitem__(self, ij): return self.rows[ij[0]][ij[1]]\n  def __setitem__(self, ij, v): self.rows[ij[0]][ij[1]] = v\n  def __matmul__(self, o): return Matrix([[sum(a * b for a, b in zip(r, c)) for c in zip(*o.rows)] for r in self.rows])\n  def __eq__(self, o): return isinstance(o, Matrix) and self.rows == o.rows\n  def __pow__(self, n): return Matrix.identity(len(self.rows)) if n == 0 else self @ self ** (n - 1)",
        "m = Matrix([[1, 1], [1, 0]])\nassert (m ** 5)[0, 0] == 8 and m.T == m and m @ Matrix.identity(2) == m and Matrix([[1, 2, 3]]).shape == (1, 3) and Matrix([[1, 2]]).T.rows == [[1], [2]]\nm[0, 1] = 7\nassert m[0, 1] == 7 and m != m.T and (m @ m).rows == [[8, 7], [1, 7]]",
        "a * b for",
        "a + b for",
    ),
    "event emitter": (
        "class Emitter:\n  def __init__(self): self.on_ = {}\n  def on(self, name, f):\n    self.on_.setdefault(name, []).append(f)\n    return lambda: self.on_[name].remove(f)\n  def emit(self, name, *args): return [f(*args) for f in self.on_.get(name, ())]",
        "e, seen = Emitter(), []\noff = e.on('x', lambda v: seen.append(v))\ne.on('x', lambda v: v * 2)\nassert e.emit('x', 3) == [None, 6] and seen == [3] and e.emit('y') == []\noff()\nassert e.emit('x', 4) == [8] and seen == [3]",
        "self.on_[name].remove(f)",
        "self.on_[name].clear()",
    ),
    "numpy statistics": (
        "import numpy as np\ndef standardise(x):\n  x = np.asarray(x, float)\n  return (x - x.mean(axis=0)) / x.std(axis=0)\ndef sample(seed, n): return np.random.default_rng(seed).normal(size=n)\ndef top(x, k): return np.argsort(x)[::-1][:k]\ndef onehot(y, n): return np.eye(n, dtype=int)[np.asarray(y)]",
        "import numpy as np\nx = np.array([[1., 2.], [3., 6.], [5., 4.]])\nz = standardise(x)\nassert z.shape == x.shape and np.allclose(z.mean(axis=0), np.zeros(2)) and np.allclose(z.std(axis=0), [1, 1]) and z[0, 0] < 0\nnp.testing.assert_array_equal(sample(1, 4), sample(1, 4))\nassert not np.array_equal(sample(1, 4), sample(2, 4)) and top([3, 9, 5], 2).tolist() == [1, 2] and (onehot([0, 2], 3) == np.array([[1, 0, 0], [0, 0, 1]])).all() and onehot([1], 2).dtype.kind == 'i'",
        "x.std(axis=0)",
        "x.std()",
    ),
}
