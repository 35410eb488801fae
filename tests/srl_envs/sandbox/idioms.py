# ruff: noqa: E501 - programs and tests are quoted as their authors would write them
"""Idiomatic tests over the types that programs return: a right program, its tests, a wrong program.

The wrong program is the right one with one text replaced, so that no entry can pass in vain.
"""

from __future__ import annotations

from typing import NamedTuple


class Idiom(NamedTuple):
    """One entry: ``old`` in the program becomes ``new``, and the program is wrong."""

    program: str
    tests: str
    old: str
    new: str


def _entries(*groups: dict[str, tuple[str, str, str, str]]) -> dict[str, Idiom]:
    return {name: Idiom(*entry) for group in groups for name, entry in group.items()}


POINT = "from collections import namedtuple\nPoint = namedtuple('Point', 'x y')\ndef move(p, dx): return Point(p.x + dx, p.y)\n"
TYPED = "from typing import NamedTuple\nclass Emp(NamedTuple):\n  name: str\n  pay: int = 10\n  def raised(self, n): return self._replace(pay=self.pay + n)\n  @property\n  def label(self): return f'{self.name}:{self.pay}'\ndef top(xs): return max(xs, key=lambda e: e.pay)\n"
COLOR = "from enum import Enum, auto\nclass Color(Enum):\n  RED = 1\n  GREEN = 2\n  BLUE = 3\n  def next(self): return Color(self.value % 3 + 1)\n  @property\n  def warm(self): return self is Color.RED\ndef mix(a, b): return Color.BLUE if a != b else a\n"
COUNT = "from collections import Counter\ndef words(s): return Counter(s.split())\n"
GROUP = "from collections import defaultdict\ndef group(ws):\n  d = defaultdict(list)\n  for w in ws: d[len(w)].append(w)\n  return d\n"
DATE = "from datetime import date, datetime, timedelta, time, timezone\ndef due(d, n): return d + timedelta(days=n)\ndef at(h): return datetime(2024, 2, 28, h, 30)\ndef span(a, b): return b - a\ndef noon(): return time(12, 0)\ndef utc(): return datetime(2024, 1, 2, 3, 4, tzinfo=timezone.utc)\n"
DC = "from dataclasses import dataclass, field\n@dataclass\nclass Item:\n  name: str\n  price: float = 1.0\n  tags: list = field(default_factory=list)\n  def total(self, n): return self.price * n\ndef cheapest(items): return min(items, key=lambda i: i.price)\ndef build(n): return Item(n, 2.5, ['a'])\n"
ORDERED = "from dataclasses import dataclass\n@dataclass(frozen=True, order=True)\nclass V:\n  major: int\n  minor: int = 0\n  def bump(self): return V(self.major, self.minor + 1)\ndef newest(vs): return max(vs)\n"
NP = "import numpy as np\ndef scale(a, k): return np.asarray(a) * k\ndef eye(n): return np.eye(n)\ndef mean(a): return np.mean(a)\ndef rows(a): return np.asarray(a).sum(axis=1)\ndef clip(a): a[a > 5] = 5\n"
BANK = "class InsufficientFunds(Exception):\n  def __init__(self, balance, amount):\n    super().__init__(f'balance {balance}, asked for {amount}')\n    self.balance, self.amount = balance, amount\n  @property\n  def short(self): return self.amount - self.balance\nclass Account:\n  def __init__(self, owner, balance=0): self.owner, self._balance = owner, balance\n  @property\n  def balance(self): return self._balance\n  def deposit(self, n):\n    if n <= 0: raise ValueError('amount must be positive')\n    self._balance += n\n  def withdraw(self, n):\n    if n > self._balance: raise InsufficientFunds(self._balance, n)\n    self._balance -= n\n  def __repr__(self): return f'Account({self.owner!r}, {self._balance})'\n"
VEC = "class Vec:\n  def __init__(self, *xs): self.xs = tuple(xs)\n  def __eq__(self, o): return isinstance(o, Vec) and self.xs == o.xs\n  def __hash__(self): return hash(self.xs)\n  def __repr__(self): return f'Vec({\", \".join(map(repr, self.xs))})'\n  def __add__(self, o): return Vec(*(a + b for a, b in zip(self.xs, o.xs)))\n  def __mul__(self, k): return Vec(*(a * k for a in self.xs))\n  __rmul__ = __mul__\n  def __matmul__(self, o): return sum(a * b for a, b in zip(self.xs, o.xs))\n  def __neg__(self): return self * -1\n  def __len__(self): return len(self.xs)\n  def __getitem__(self, i): return self.xs[i]\n  def __iter__(self): return iter(self.xs)\n  def __bool__(self): return any(self.xs)\n"
LRU = "class LRUCache:\n  def __init__(self, capacity): self.cap, self.d = capacity, {}\n  def get(self, k):\n    if k not in self.d: return -1\n    self.d[k] = self.d.pop(k)\n    return self.d[k]\n  def put(self, k, v):\n    self.d.pop(k, None)\n    self.d[k] = v\n    if len(self.d) > self.cap: del self.d[next(iter(self.d))]\n"
TREE = "class Node:\n  def __init__(self, val, left=None, right=None): self.val, self.left, self.right = val, left, right\ndef insert(root, v):\n  if root is None: return Node(v)\n  if v < root.val: root.left = insert(root.left, v)\n  else: root.right = insert(root.right, v)\n  return root\ndef walk(root):\n  if root:\n    yield from walk(root.left)\n    yield root.val\n    yield from walk(root.right)\ndef depth(root): return 1 + max(depth(root.left), depth(root.right)) if root else 0\ndef invert(root):\n  if root: root.left, root.right = invert(root.right), invert(root.left)\n  return root\n"

RECORDS = {
    "namedtuple attributes": (
        POINT,
        "p = move(Point(1, 2), 3)\nassert p.x == 4 and p.y == 2",
        "p.x + dx",
        "p.x - dx",
    ),
    "namedtuple is a tuple": (
        POINT,
        "assert move(Point(1, 2), 3) == (4, 2) and isinstance(move(Point(0, 0), 1), tuple)",
        "p.x + dx",
        "p.x",
    ),
    "namedtuple equality": (
        POINT,
        "assert move(Point(1, 2), 3) == Point(4, 2) != Point(4, 3)",
        "p.x + dx",
        "p.x",
    ),
    "namedtuple unpacking": (
        POINT,
        "x, y = move(Point(1, 2), 1)\nassert (x, y) == (2, 2)",
        "p.y)",
        "p.x)",
    ),
    "namedtuple _asdict": (
        POINT,
        "assert move(Point(1, 2), 3)._asdict() == {'x': 4, 'y': 2}",
        "p.y)",
        "0)",
    ),
    "namedtuple _fields": (
        POINT,
        "assert Point._fields == ('x', 'y') and move(Point(1, 2), 3)._replace(y=9) == (4, 9)",
        "'x y'",
        "'x z'",
    ),
    "namedtuple repr": (
        POINT,
        "assert repr(move(Point(1, 2), 3)) == 'Point(x=4, y=2)'",
        "p.x + dx",
        "dx",
    ),
    "namedtuple in a set": (
        POINT,
        "assert {move(Point(1, 2), 3), Point(4, 2)} == {Point(4, 2)}",
        "p.y)",
        "p.y + 1)",
    ),
    "namedtuple type": (
        POINT,
        "assert isinstance(move(Point(1, 2), 0), Point) and type(move(Point(1, 2), 0)).__name__ == 'Point'",
        "return Point(p.x + dx, p.y)",
        "return (p.x + dx, p.y)",
    ),
    "typed namedtuple defaults": (
        TYPED,
        "assert Emp('a').pay == 10 and Emp('b', 5) == ('b', 5)",
        "= 10",
        "= 11",
    ),
    "typed namedtuple methods": (
        TYPED,
        "assert Emp('a').raised(5).pay == 15 and Emp('a', 1).label == 'a:1'",
        "self.pay + n",
        "self.pay - n",
    ),
    "list of namedtuples": (
        TYPED,
        "assert top([Emp('a', 1), Emp('b', 3)]).name == 'b'\nassert sorted([Emp('b', 3), Emp('a', 1)])[0] == Emp('a', 1)",
        "max(",
        "min(",
    ),
    "namedtuple with an operator": (
        "from typing import NamedTuple\nclass P(NamedTuple):\n  x: int\n  y: int\n  def __add__(self, o): return P(self.x + o.x, self.y + o.y)\n",
        "assert P(1, 2) + P(3, 4) == P(4, 6) and (P(1, 2) + P(3, 4)).x == 4",
        "self.y + o.y",
        "self.y",
    ),
    "namedtuple with a size": (
        "from typing import NamedTuple\nclass V(NamedTuple):\n  x: int\n  y: int\n  def __abs__(self): return (self.x ** 2 + self.y ** 2) ** .5\n",
        "assert abs(V(3, 4)) == 5.0",
        "** .5",
        "** 2",
    ),
}
ENUMS = {
    "enum names and values": (
        COLOR,
        "assert [c.name for c in Color] == ['RED', 'GREEN', 'BLUE'] and Color.RED.value == 1",
        "GREEN = 2",
        "GREN = 2",
    ),
    "enum result": (
        COLOR,
        "assert mix(Color.RED, Color.GREEN) is Color.BLUE and mix(Color.RED, Color.RED) == Color.RED",
        "!= b",
        "== b",
    ),
    "enum name of a result": (
        COLOR,
        "assert mix(Color.RED, Color.GREEN).name == 'BLUE' and mix(Color.RED, Color.GREEN).value == 3",
        "Color.BLUE if",
        "Color.RED if",
    ),
    "enum lookup": (
        COLOR,
        "assert Color(2) is Color.GREEN and Color['BLUE'].value == 3\ntry: Color(9); assert False\nexcept ValueError: pass",
        "GREEN = 2",
        "GREEN = 4",
    ),
    "enum methods": (
        COLOR,
        "assert Color.RED.next() is Color.GREEN and Color.BLUE.next() is Color.RED and Color.RED.warm and not Color.BLUE.warm",
        "% 3 + 1",
        "% 3 + 2",
    ),
    "enum as keys": (
        COLOR,
        "d = {Color.RED: 1, mix(Color.RED, Color.GREEN): 2}\nassert d[Color.BLUE] == 2 and len(Color) == 3 and Color.RED in Color",
        "Color.BLUE if",
        "Color.GREEN if",
    ),
    "enum text": (
        COLOR,
        "assert str(mix(Color.RED, Color.GREEN)) == 'Color.BLUE' and repr(Color.RED) == '<Color.RED: 1>'",
        "Color.BLUE if",
        "Color.RED if",
    ),
    "enum members": (
        COLOR,
        "assert list(Color.__members__) == ['RED', 'GREEN', 'BLUE']",
        "BLUE = 3",
        "BLU = 3\n  BLUE = 3",
    ),
    "int enum": (
        "from enum import IntEnum\nclass P(IntEnum):\n  LOW = 1\n  HIGH = 5\ndef top(ps): return max(ps)",
        "assert top([P.LOW, P.HIGH]) == 5 and top([P.HIGH, P.LOW]) is P.HIGH and P.LOW < P.HIGH and P.HIGH.name == 'HIGH'",
        "max(",
        "min(",
    ),
    "text enum": (
        "from enum import Enum\nclass S(str, Enum):\n  ON = 'on'\n  OFF = 'off'\ndef flip(s): return S.OFF if s is S.ON else S.ON",
        "assert flip(S.ON) == 'off' and flip(S.OFF).value == 'on' and flip(S.ON).upper() == 'OFF' and isinstance(flip(S.ON), str)",
        "is S.ON",
        "is S.OFF",
    ),
    "flags": (
        "from enum import Flag, auto\nclass A(Flag):\n  R = auto()\n  W = auto()\ndef both(): return A.R | A.W",
        "assert both() == A.R | A.W and A.R in both() and both().value == 3",
        "A.R | A.W",
        "A.R",
    ),
    "enum with data": (
        "from enum import Enum\nclass Planet(Enum):\n  EARTH = (6, 2)\n  def __init__(self, m, r): self.m = m; self.r = r\n  @property\n  def g(self): return self.m / self.r",
        "assert Planet.EARTH.g == 3.0 and Planet.EARTH.m == 6 and Planet.EARTH.value == (6, 2)",
        "self.m / self.r",
        "self.m * self.r",
    ),
    "dict of enums": (
        COLOR + "def tally(cs):\n  d = {}\n  for c in cs: d[c] = d.get(c, 0) + 1\n  return d\n",
        "assert tally([Color.RED, Color.RED, Color.BLUE]) == {Color.RED: 2, Color.BLUE: 1}",
        "+ 1\n  return",
        "+ 2\n  return",
    ),
}
COLLECTIONS = {
    "Counter equality": (COUNT, "assert words('a b a') == {'a': 2, 'b': 1}", "s.split()", "s"),
    "Counter most_common": (
        COUNT,
        "assert words('a b a').most_common(1) == [('a', 2)]",
        "s.split()",
        "set(s.split())",
    ),
    "Counter missing keys": (
        COUNT,
        "c = words('a b a')\nassert c['zz'] == 0 and c['a'] == 2 and c.total() == 3",
        "s.split()",
        "s.split() + ['a']",
    ),
    "Counter elements": (
        COUNT,
        "assert sorted(words('b a b').elements()) == ['a', 'b', 'b']",
        "s.split()",
        "s.split()[1:]",
    ),
    "Counter arithmetic": (
        COUNT,
        "from collections import Counter\nassert words('a a') + Counter('ab') == Counter(a=3, b=1) and isinstance(words(''), Counter)",
        "Counter(s.split())",
        "dict(Counter(s.split()))",
    ),
    "Counter subtract": (
        COUNT,
        "c = words('a a b')\nc.subtract(['a'])\nassert c == {'a': 1, 'b': 1}",
        "s.split()",
        "s.split()[:-1]",
    ),
    "defaultdict access": (
        GROUP,
        "d = group(['ab', 'c'])\nassert d[2] == ['ab'] and d[7] == [] and len(d) == 3",
        "len(w)]",
        "len(w) + 1]",
    ),
    "defaultdict equality": (
        GROUP,
        "assert group(['ab', 'c', 'de']) == {2: ['ab', 'de'], 1: ['c']}",
        "append(w)",
        "append(w[0])",
    ),
    "defaultdict items": (
        GROUP,
        "assert sorted(group(['ab', 'c']).items()) == [(1, ['c']), (2, ['ab'])] and set(group(['x']).keys()) == {1}",
        "len(w)]",
        "0]",
    ),
    "defaultdict get": (
        GROUP,
        "d = group(['ab'])\nassert d.get(9) is None and d.default_factory is list",
        "defaultdict(list)",
        "defaultdict(set)\n  d = {2: ['ab']}",
    ),
    "defaultdict of lambda": (
        "from collections import defaultdict\ndef make(): return defaultdict(lambda: 7, a=1)",
        "d = make()\nassert d['a'] == 1 and d['b'] == 7 and dict(d) == {'a': 1, 'b': 7}",
        "lambda: 7",
        "lambda: 8",
    ),
    "nested defaultdict": (
        "from collections import defaultdict\ndef tree():\n  t = defaultdict(lambda: defaultdict(int))\n  t['a']['b'] += 2\n  return t",
        "t = tree()\nassert t['a']['b'] == 2 and t['a'] == {'b': 2} and t['z']['q'] == 0",
        "+= 2",
        "+= 3",
    ),
    "OrderedDict": (
        "from collections import OrderedDict\ndef lru(xs):\n  d = OrderedDict()\n  for x in xs:\n    d[x] = len(d)\n    d.move_to_end(x)\n  return d",
        "d = lru('aba')\nassert list(d) == ['b', 'a']\nd.move_to_end('b')\nassert list(d.keys()) == ['a', 'b'] and d.popitem(last=False)[0] == 'a'",
        "    d.move_to_end(x)\n",
        "",
    ),
    "OrderedDict order counts": (
        "from collections import OrderedDict\ndef od(): return OrderedDict([('b', 1), ('a', 2)])",
        "from collections import OrderedDict\nassert od() == OrderedDict([('b', 1), ('a', 2)]) and od() != OrderedDict([('a', 2), ('b', 1)])",
        "[('b', 1), ('a', 2)]",
        "[('a', 2), ('b', 1)]",
    ),
    "deque": (
        "from collections import deque\ndef last(xs, n): return deque(xs, maxlen=n)",
        "from collections import deque\nd = last(range(5), 2)\nassert d == deque([3, 4]) and d.maxlen == 2 and d[0] == 3 and list(d) == [3, 4]",
        "maxlen=n",
        "maxlen=n + 1",
    ),
    "deque methods": (
        "from collections import deque\ndef rot(xs): d = deque(xs); d.rotate(1); return d",
        "d = rot([1, 2, 3])\nd.appendleft(0)\nassert d.popleft() == 0 and d.pop() == 2 and d.count(3) == 1 and len(d) == 2",
        "rotate(1)",
        "rotate(2)",
    ),
    "deque argument": (
        "def push(d, x): d.appendleft(x); d.pop()",
        "from collections import deque\nd = deque([1, 2])\npush(d, 9)\nassert d == deque([9, 1])",
        "appendleft",
        "append",
    ),
    "range result": (
        "def evens(n): return range(0, n, 2)",
        "assert evens(6) == range(0, 6, 2) and list(evens(5)) == [0, 2, 4] and 4 in evens(6) and len(evens(6)) == 3 and evens(6)[-1] == 4",
        "0, n, 2",
        "0, n, 3",
    ),
    "frozenset": (
        "def pair(a, b): return frozenset((a, b))",
        "assert pair(1, 2) == frozenset({2, 1}) and isinstance(pair(1, 2), frozenset) and pair(1, 2) | {3} == {1, 2, 3} and hash(pair(1, 2)) == hash(pair(2, 1))",
        "frozenset(",
        "set(",
    ),
    "set of frozensets": (
        "def groups(xs): return {frozenset(x) for x in xs}",
        "assert groups(['ab', 'ba', 'c']) == {frozenset('ab'), frozenset('c')}",
        "xs}",
        "xs[:1]}",
    ),
    "dict keyed by frozensets": (
        "def anagrams(ws):\n  d = {}\n  for w in ws: d.setdefault(frozenset(w), []).append(w)\n  return d",
        "assert anagrams(['ab', 'ba'])[frozenset('ab')] == ['ab', 'ba']",
        "append(w)",
        "append(w[0])",
    ),
    "dict keyed by tuples": (
        "def grid(n): return {(i, j): i * j for i in range(n) for j in range(n)}",
        "g = grid(3)\nassert g[2, 2] == 4 and g[(1, 2)] == 2 and len(g) == 9",
        "i * j",
        "i + j",
    ),
    "set methods": (
        "def common(a, b): return set(a) & set(b)",
        "s = common([1, 2, 3], [2, 3, 4])\nassert s.issubset({2, 3}) and s.union({9}) == {2, 3, 9} and s.isdisjoint({1}) and s.symmetric_difference({2}) == {3} and 2 in s",
        "& set(b)",
        "| set(b)",
    ),
    "dict methods": (
        "def inv(d): return {v: k for k, v in d.items()}",
        "d = inv({'a': 1, 'b': 2})\nassert d.get(1) == 'a' and d.get(9, 'z') == 'z' and sorted(d.keys()) == [1, 2] and d.pop(2) == 'b' and list(d.values()) == ['a']",
        "v: k",
        "k: v",
    ),
    "dict views": (
        "def ks(d): return d.keys()\ndef its(d): return d.items()\ndef vs(d): return d.values()",
        "assert ks({'a': 1}) == {'a'} and its({'a': 1}) == {('a', 1)} and list(vs({'a': 1})) == [1] and 'a' in ks({'a': 2})",
        "return d.keys()",
        "return {}.keys()",
    ),
    "nested data": (
        "def plan(): return {'a': [(1, {'x'}), None], 'b': ({'y': 2.5},)}",
        "p = plan()\nassert p['a'][0][1] == {'x'} and p['b'][0]['y'] == 2.5 and p == {'a': [(1, {'x'}), None], 'b': ({'y': 2.5},)}",
        "2.5",
        "2.4",
    ),
    "ChainMap": (
        "from collections import ChainMap\ndef conf(a, b): return ChainMap(a, b)",
        "c = conf({'x': 1}, {'x': 2, 'y': 3})\nassert c['x'] == 1 and c['y'] == 3",
        "ChainMap(a, b)",
        "ChainMap(b, a)",
    ),
}
TIMES = {
    "date arithmetic": (
        DATE,
        "from datetime import date\nassert due(date(2024, 2, 28), 2) == date(2024, 3, 1)",
        "days=n",
        "days=n + 1",
    ),
    "date attributes": (
        DATE,
        "from datetime import date\nd = due(date(2023, 12, 31), 1)\nassert (d.year, d.month, d.day) == (2024, 1, 1) and d.isoformat() == '2024-01-01' and d.weekday() == 0",
        "days=n",
        "days=-n",
    ),
    "date order": (
        DATE,
        "from datetime import date\nassert due(date(2024, 1, 1), 1) > date(2024, 1, 1) and isinstance(due(date(2024, 1, 1), 0), date)",
        "d + timedelta",
        "d - timedelta",
    ),
    "datetime": (
        DATE,
        "from datetime import datetime\nassert at(9) == datetime(2024, 2, 28, 9, 30) and at(9).strftime('%H:%M') == '09:30' and at(9).date().day == 28",
        "h, 30",
        "h, 31",
    ),
    "timedelta": (
        DATE,
        "from datetime import date, timedelta\nassert span(date(2024, 1, 1), date(2024, 1, 3)) == timedelta(days=2) and span(date(2024, 1, 1), date(2024, 1, 3)).total_seconds() == 172800",
        "b - a",
        "a - b",
    ),
    "time": (
        DATE,
        "from datetime import time\nassert noon() == time(12) and noon().hour == 12",
        "time(12, 0)",
        "time(11, 0)",
    ),
    "aware datetime": (
        DATE,
        "from datetime import datetime, timezone, timedelta\nassert utc().tzinfo is timezone.utc or utc().tzinfo == timezone.utc\nassert utc().utcoffset() == timedelta(0) and utc() == datetime(2024, 1, 2, 3, 4, tzinfo=timezone.utc)",
        "2, 3, 4",
        "2, 3, 5",
    ),
    "dates in a dict": (
        DATE + "def cal(d, n): return {due(d, i): i for i in range(n)}\n",
        "from datetime import date\nassert cal(date(2024, 1, 1), 2) == {date(2024, 1, 1): 0, date(2024, 1, 2): 1}",
        "i for i in range(n)}",
        "0 for i in range(n)}",
    ),
    "Decimal": (
        "from decimal import Decimal\ndef tax(x): return (Decimal(x) * Decimal('0.1')).quantize(Decimal('0.01'))",
        "from decimal import Decimal\nassert tax('12.34') == Decimal('1.23') and str(tax('10')) == '1.00' and tax('10').as_tuple().exponent == -2",
        "'0.1'",
        "'0.2'",
    ),
    "Decimal near": (
        "from decimal import Decimal\ndef third(): return Decimal(1) / 3",
        "from decimal import Decimal\nassert abs(third() - Decimal('0.3333333333')) < Decimal('1e-9') and isinstance(third(), Decimal)",
        "/ 3",
        "/ 4",
    ),
    "Fraction": (
        "from fractions import Fraction\ndef half(a): return Fraction(a, 2)",
        "from fractions import Fraction\nassert half(3) == Fraction(3, 2) == 1.5 and half(4).denominator == 1 and half(3).numerator == 3 and half(1) + half(1) == 1",
        "(a, 2)",
        "(a, 3)",
    ),
    "complex": (
        "def roots(): return [1j, -1j]",
        "assert roots()[0] ** 2 == -1 and roots()[1].imag == -1.0 and sum(roots()) == 0",
        "-1j]",
        "-2j]",
    ),
    "complex distance": (
        "def f(z): return z * 1j",
        "import cmath\nassert abs(f(1) - 1j) < 1e-9 and cmath.isclose(f(2), 2j) and f(1).conjugate() == -1j",
        "* 1j",
        "* 2j",
    ),
    "UUID": (
        "import uuid\ndef ident(n): return uuid.uuid5(uuid.NAMESPACE_DNS, n)",
        "import uuid\nassert isinstance(ident('a'), uuid.UUID) and ident('a').version == 5 and ident('a') == uuid.uuid5(uuid.NAMESPACE_DNS, 'a')",
        "NAMESPACE_DNS",
        "NAMESPACE_URL",
    ),
    "Path": (
        "from pathlib import Path\ndef out(n): return Path('out') / f'{n}.txt'",
        "from pathlib import Path\nassert out('a') == Path('out/a.txt') and out('a').suffix == '.txt' and out('a').stem == 'a' and out('a').parent == Path('out') and str(out('b')) == 'out/b.txt'",
        ".txt",
        ".csv",
    ),
    "PurePath": (
        "from pathlib import PurePosixPath\ndef up(p): return PurePosixPath(p).parent",
        "from pathlib import PurePosixPath\nassert up('/a/b/c') == PurePosixPath('/a/b') and up('/a/b').name == 'a'",
        ".parent",
        ".parent.parent",
    ),
    "Path argument": (
        "def ext(p): return p.suffix",
        "from pathlib import Path\nassert ext(Path('a/b.py')) == '.py'",
        "p.suffix",
        "p.stem",
    ),
    "date argument": (
        "def quarter(d): return (d.month - 1) // 3 + 1",
        "from datetime import date\nassert quarter(date(2024, 5, 1)) == 2 and quarter(date(2024, 12, 1)) == 4",
        "// 3",
        "// 4",
    ),
    "bytes": (
        "def enc(s): return s.encode('utf-8')",
        "assert enc('é') == b'\\xc3\\xa9' and enc('ab').hex() == '6162' and enc('ab')[0] == 97 and isinstance(enc(''), bytes)",
        "utf-8",
        "latin-1",
    ),
    "bytearray": (
        "def flip(b):\n  b.reverse()\n  return bytearray(b)",
        "b = bytearray(b'ab')\nr = flip(b)\nassert r == b'ba' and b == bytearray(b'ba') and isinstance(r, bytearray)\nr.append(1)\nassert len(r) == 3",
        "b.reverse()",
        "pass",
    ),
    "regular expression": (
        "import re\ndef find(s): return re.search(r'(\\d+)-(\\d+)', s)\ndef pat(): return re.compile(r'a+')",
        "m = find('x 12-34 y')\nassert m.group(1) == '12' and m.groups() == ('12', '34') and m.span() == (2, 7) and pat().match('aaa') and find('zz') is None",
        "(\\d+)-",
        "(\\d)-",
    ),
    "slices": (
        "def mid(xs): n = len(xs); return slice(n // 4, n - n // 4)",
        "xs = list(range(8))\nassert xs[mid(xs)] == [2, 3, 4, 5] and mid(xs) == slice(2, 6)",
        "// 4, n",
        "// 2, n",
    ),
    "array": (
        "from array import array\ndef ints(xs): return array('i', xs)",
        "from array import array\nassert ints([1, 2]) == array('i', [1, 2]) and ints([3]).typecode == 'i' and ints([5])[0] == 5",
        "'i', xs",
        "'h', [x + 1 for x in xs]",
    ),
}
DATACLASSES = {
    "dataclass equality": (
        DC,
        "assert build('x') == Item('x', 2.5, ['a']) and Item('a') != Item('b')",
        "2.5",
        "2.4",
    ),
    "dataclass attributes": (
        DC,
        "i = build('x')\nassert i.name == 'x' and i.price == 2.5 and i.tags == ['a']",
        "['a']",
        "[]",
    ),
    "dataclass repr": (
        DC,
        "assert repr(build('x')) == \"Item(name='x', price=2.5, tags=['a'])\"",
        "2.5",
        "2",
    ),
    "dataclass defaults": (
        DC,
        "assert Item('x').price == 1.0 and Item('x').tags == [] and Item('y') is not Item('y')",
        "= 1.0",
        "= 2.0",
    ),
    "dataclass asdict": (
        DC,
        "from dataclasses import asdict, astuple\nassert asdict(build('x')) == {'name': 'x', 'price': 2.5, 'tags': ['a']} and astuple(build('y')) == ('y', 2.5, ['a'])",
        "Item(n, 2.5",
        "Item(n, 3.5",
    ),
    "dataclass fields": (
        DC,
        "import dataclasses\nassert [f.name for f in dataclasses.fields(Item)] == ['name', 'price', 'tags'] and dataclasses.is_dataclass(Item)",
        "price: float = 1.0",
        "cost: float = 1.0",
    ),
    "dataclass replace": (
        DC,
        "from dataclasses import replace\nassert replace(build('x'), price=9.0).price == 9.0 and replace(build('x'), name='q').name == 'q' and build('x').tags == ['a']",
        "['a']",
        "['b']",
    ),
    "dataclass methods": (
        DC,
        "assert build('x').total(2) == 5.0 and cheapest([Item('a', 3.0), Item('b', 2.0)]).name == 'b'",
        "self.price * n",
        "self.price + n",
    ),
    "dataclass changes": (
        DC,
        "i = Item('x')\ni.price = 4.0\ni.tags.append('k')\nassert i.total(2) == 8.0 and i.tags == ['k'] and Item('y').tags == []",
        "self.price * n",
        "self.price",
    ),
    "frozen dataclass": (
        ORDERED,
        "import dataclasses\ntry:\n  V(1).major = 2\n  assert False\nexcept dataclasses.FrozenInstanceError: pass\nassert {V(1), V(1)} == {V(1)} and hash(V(1)) == hash(V(1))",
        "frozen=True, ",
        "",
    ),
    "ordered dataclass": (
        ORDERED,
        "assert V(1, 2) < V(2) and newest([V(1, 9), V(2), V(1)]) == V(2) and sorted([V(2), V(1)]) == [V(1), V(2)]",
        "max(",
        "min(",
    ),
    "dataclass returns itself": (
        ORDERED,
        "assert V(1).bump() == V(1, 1) and V(1).bump().bump().minor == 2",
        "+ 1",
        "+ 2",
    ),
    "nested dataclasses": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\n@dataclass\nclass L:\n  a: P\n  b: P\ndef line(n): return L(P(0), P(n))",
        "from dataclasses import asdict\nassert line(3).b.x == 3 and line(3) == L(P(0), P(3)) and asdict(line(2)) == {'a': {'x': 0}, 'b': {'x': 2}}",
        "P(n)",
        "P(n + 1)",
    ),
    "dataclass pattern": (
        ORDERED,
        "match V(3, 4).bump():\n  case V(major=3, minor=m): assert m == 5\n  case _: assert False",
        "self.minor + 1",
        "self.minor",
    ),
    "post init": (
        "from dataclasses import dataclass, field\n@dataclass\nclass R:\n  w: int\n  h: int\n  area: int = field(init=False)\n  def __post_init__(self):\n    if self.w < 0: raise ValueError('w')\n    self.area = self.w * self.h",
        "assert R(2, 3).area == 6\ntry: R(-1, 1); assert False\nexcept ValueError as e: assert str(e) == 'w'",
        "self.w * self.h",
        "self.w + self.h",
    ),
    "SimpleNamespace": (
        "from types import SimpleNamespace\ndef ns(): return SimpleNamespace(a=1, b='x')",
        "n = ns()\nassert n.a == 1 and n.b == 'x' and vars(n) == {'a': 1, 'b': 'x'}",
        "a=1",
        "a=2",
    ),
}
ARGUMENTS = {
    "keyword argument changed": (
        "def add(*, to, x): to.append(x)",
        "xs = [1]\nadd(to=xs, x=2)\nassert xs == [1, 2]",
        "append(x)",
        "append(1)",
    ),
    "nested argument changed": (
        "def mark(g, i, j): g[i][j] = 'x'",
        "g = [['.', '.'], ['.', '.']]\nmark(g, 1, 0)\nassert g == [['.', '.'], ['x', '.']]",
        "g[i][j]",
        "g[j][i]",
    ),
    "aliased rows": (
        "def bump(m): m[0][0] += 1",
        "row = [0]\nm = [row, row]\nbump(m)\nassert row == [1] and m == [[1], [1]] and m[0] is m[1]",
        "+= 1",
        "+= 2",
    ),
    "dict argument changed": (
        "def count(ws, into):\n  for w in ws: into[w] = into.get(w, 0) + 1",
        "d = {'a': 1}\ncount(['a', 'b'], d)\nassert d == {'a': 2, 'b': 1}",
        "+ 1",
        "+ 2",
    ),
    "set argument changed": (
        "def keep(s, f): s -= {x for x in s if not f(x)}",
        "s = {1, 2, 3}\nkeep(s, lambda x: x > 1)\nassert s == {2, 3}",
        "not f(x)",
        "f(x)",
    ),
    "kept and changed later": (
        "class Log:\n  def __init__(self, out): self.out = out\n  def write(self, x): self.out.append(x)",
        "out = []\nlog = Log(out)\nlog.write(1)\nlog.write(2)\nassert out == [1, 2]",
        "append(x)",
        "insert(0, x)",
    ),
    "closure over an argument": (
        "def recorder(out):\n  def f(x): out.append(x * 2)\n  return f",
        "seen = []\nr = recorder(seen)\nr(1); r(4)\nassert seen == [2, 8]",
        "* 2",
        "* 3",
    ),
    "change by the tests is seen": (
        "class Pool:\n  def __init__(self, xs): self.xs = xs\n  def size(self): return len(self.xs)",
        "xs = [1]\np = Pool(xs)\nxs.append(2)\nassert p.size() == 2",
        "self.xs = xs",
        "self.xs = list(xs)",
    ),
    "defensive copy": (
        "class Pool:\n  def __init__(self, xs): self.xs = list(xs)\n  def size(self): return len(self.xs)",
        "xs = [1]\np = Pool(xs)\nxs.append(2)\nassert p.size() == 1",
        "list(xs)",
        "xs",
    ),
    "argument left unchanged": (
        "def top(xs): return sorted(xs)[-1]",
        "xs = [3, 1, 2]\nassert top(xs) == 3 and xs == [3, 1, 2]",
        "sorted(xs)",
        "(xs.sort() or xs)",
    ),
    "returns its argument": (
        "def sort(xs): xs.sort(); return xs",
        "xs = [2, 1]\nassert sort(xs) is xs and xs == [1, 2]",
        "xs.sort(); return xs",
        "return sorted(xs)",
    ),
    "memo argument": (
        "def fib(n, memo=None):\n  memo = {} if memo is None else memo\n  if n not in memo: memo[n] = n if n < 2 else fib(n - 1, memo) + fib(n - 2, memo)\n  return memo[n]",
        "m = {}\nassert fib(10, m) == 55 and m[5] == 5 and len(m) == 11 and fib(7) == 13",
        "fib(n - 2, memo)",
        "fib(n - 2)",
    ),
    "list in itself": (
        "def size(xs): return sum(1 for x in xs if x is xs)",
        "xs = [1]\nxs.append(xs)\nassert size(xs) == 1",
        "x is xs",
        "x is not xs or 0 * 1 or 1",
    ),
    "data handed back": (
        "def make(n): return list(range(n))\ndef union(p, a, b): p[b] = p[a]\ndef find(p, a): return p[a]",
        "p = make(4)\nunion(p, 0, 2)\nassert find(p, 2) == find(p, 0) == 0 and p == [0, 1, 0, 3]",
        "p[b] = p[a]",
        "p[a] = p[b]",
    ),
    "text buffer": (
        "def emit(rows, out):\n  for r in rows: out.write(','.join(r) + '\\n')",
        "import io\nbuf = io.StringIO()\nemit(['ab', 'cd'], buf)\nassert buf.getvalue() == 'a,b\\nc,d\\n'",
        "','",
        "';'",
    ),
    "text input": (
        "def total(f): return sum(int(line) for line in f)",
        "import io\nassert total(io.StringIO('1\\n2\\n')) == 3",
        "int(line)",
        "1",
    ),
    "args and kwargs": (
        "def f(*a, **k): return len(a), sorted(k)",
        "assert f(1, 2, x=1, a=2) == (2, ['a', 'x'])",
        "sorted(k)",
        "list(k)",
    ),
    "a library function as argument": (
        "def apply(f, xs): return [f(x) for x in xs]",
        "import math\nimport operator\nassert apply(math.sqrt, [4, 9]) == [2, 3] and apply(str.upper, ['a']) == ['A'] and apply(operator.neg, [1]) == [-1]",
        "f(x) for",
        "f(x + x) for",
    ),
    "types as arguments": (
        "def convert(xs, t): return [t(x) for x in xs]",
        "from collections import Counter\nassert convert(['1'], int) == [1] and convert(['aa'], Counter) == [{'a': 2}]",
        "t(x)",
        "x",
    ),
}
FUNCTIONS = {
    "generator": (
        "def count(n):\n  for i in range(n): yield i * i",
        "assert list(count(3)) == [0, 1, 4] and sum(count(4)) == 14",
        "i * i",
        "i + i",
    ),
    "generator type": (
        "def gen(): yield 1",
        "import types\nfrom collections.abc import Iterator\ng = gen()\nassert isinstance(g, types.GeneratorType) and isinstance(g, Iterator) and next(g) == 1 and next(g, None) is None",
        "yield 1",
        "yield 2",
    ),
    "endless generator": (
        "def nat():\n  n = 0\n  while True:\n    yield n\n    n += 1",
        "from itertools import islice\nassert list(islice(nat(), 3)) == [0, 1, 2]",
        "n += 1",
        "n += 2",
    ),
    "send to a generator": (
        "def avg():\n  t = n = 0\n  v = None\n  while True:\n    x = yield v\n    t += x; n += 1; v = t / n",
        "a = avg()\nnext(a)\nassert a.send(2) == 2 and a.send(4) == 3",
        "t / n",
        "t",
    ),
    "map and zip": (
        "def sq(xs): return map(lambda x: x * x, xs)\ndef pairs(a, b): return zip(a, b)",
        "assert list(sq([1, 2])) == [1, 4] and dict(pairs('ab', [1, 2])) == {'a': 1, 'b': 2} and next(sq([3])) == 9",
        "x * x",
        "x + x",
    ),
    "iterator class": (
        "class Down:\n  def __init__(self, n): self.n = n\n  def __iter__(self): return self\n  def __next__(self):\n    if self.n == 0: raise StopIteration\n    self.n -= 1\n    return self.n + 1",
        "assert list(Down(3)) == [3, 2, 1]\nd = Down(1)\nassert iter(d) is d and next(d) == 1 and next(d, 'end') == 'end'",
        "self.n + 1",
        "self.n",
    ),
    "restarting iterable": (
        "class R:\n  def __init__(self, n): self.n = n\n  def __iter__(self): return iter(range(self.n))\n  def __len__(self): return self.n",
        "r = R(3)\nassert list(r) == [0, 1, 2] == list(r) and len(r) == 3 and 2 in r and max(r) == 2",
        "iter(range(self.n))",
        "iter(range(self.n, 0, -1))",
    ),
    "closures": (
        "def counter():\n  n = 0\n  def inc():\n    nonlocal n\n    n += 1\n    return n\n  return inc",
        "a, b = counter(), counter()\nassert a() == 1 and a() == 2 and b() == 1",
        "n += 1",
        "n += 2",
    ),
    "currying": (
        "def add(a): return lambda b: lambda c: a + b + c",
        "assert add(1)(2)(3) == 6",
        "a + b + c",
        "a + b",
    ),
    "compose": (
        "def compose(f, g): return lambda x: f(g(x))",
        "assert compose(str, lambda x: x + 1)(2) == '3'",
        "f(g(x))",
        "g(f(x))",
    ),
    "decorator with wraps": (
        "import functools\ndef twice(f):\n  @functools.wraps(f)\n  def w(*a, **k): return 2 * f(*a, **k)\n  return w",
        "@twice\ndef g(x):\n  'doc of g'\n  return x\nassert g(4) == 8 and g.__name__ == 'g' and g.__doc__ == 'doc of g'",
        "@functools.wraps(f)\n",
        "\n",
    ),
    "decorator counts calls": (
        "def counted(f):\n  def w(*a):\n    w.calls += 1\n    return f(*a)\n  w.calls = 0\n  return w",
        "seen = []\n@counted\ndef g(x): seen.append(x); return x\ng(1); g(2)\nassert seen == [1, 2] and g.calls == 2",
        "+= 1",
        "+= 2",
    ),
    "memoise": (
        "def memo(f):\n  known = {}\n  def w(x):\n    if x not in known: known[x] = f(x)\n    return known[x]\n  return w",
        "n = []\nf = memo(lambda x: n.append(x) or x * 2)\nassert f(2) == f(2) == 4 and n == [2]",
        "if x not in known: ",
        "",
    ),
    "retry": (
        "def retry(f, n):\n  for i in range(n):\n    try: return f()\n    except ValueError:\n      if i == n - 1: raise",
        "tries = []\ndef flaky():\n  tries.append(1)\n  if len(tries) < 3: raise ValueError('no')\n  return 'ok'\nassert retry(flaky, 5) == 'ok' and len(tries) == 3",
        "except ValueError",
        "except KeyError",
    ),
    "signature": (
        "def f(a, b=2, *c, d: int, **e) -> str: return 'x'",
        "import inspect\ns = inspect.signature(f)\nassert list(s.parameters) == ['a', 'b', 'c', 'd', 'e'] and s.parameters['b'].default == 2 and s.parameters['d'].annotation is int and s.return_annotation is str",
        "b=2",
        "b=3",
    ),
    "docstring and name": (
        "def area(r):\n  'Area of a circle.'\n  return 3 * r * r",
        "assert area.__doc__ == 'Area of a circle.' and area.__name__ == 'area' and callable(area)",
        "Area of",
        "The area of",
    ),
    "annotations": (
        "def f(x: int) -> str: return str(x)",
        "assert f.__annotations__ == {'x': int, 'return': str} and f(1) == '1'",
        "-> str",
        "-> int",
    ),
    "cached function": (
        "from functools import lru_cache\n@lru_cache(maxsize=None)\ndef sq(n): return n * n",
        "sq(2); sq(2); sq(3)\nassert sq(3) == 9 and sq.cache_info().hits >= 2",
        "@lru_cache(maxsize=None)\n",
        "",
    ),
    "partial": (
        "from functools import partial\ndef power(b, e): return b ** e\nsquare = partial(power, e=2)",
        "assert square(3) == 9",
        "e=2",
        "e=3",
    ),
    "own exception": (
        "class Low(Exception):\n  def __init__(self, need):\n    super().__init__(f'need {need}')\n    self.need = need\ndef pay(x):\n  if x < 5: raise Low(5 - x)\n  return x",
        "try:\n  pay(3)\n  assert False\nexcept Low as e:\n  assert e.need == 2 and str(e) == 'need 2'\nassert pay(7) == 7",
        "5 - x",
        "x",
    ),
    "chained exception": (
        "def parse(s):\n  try: return int(s)\n  except ValueError as e: raise RuntimeError('bad') from e",
        "try:\n  parse('x')\n  assert False\nexcept RuntimeError as e:\n  assert isinstance(e.__cause__, ValueError)\nassert parse('4') == 4",
        " from e",
        "",
    ),
    "library exception": (
        "import json\ndef load(s): return json.loads(s)",
        "import json\ntry:\n  load('{')\n  assert False\nexcept json.JSONDecodeError: pass\nassert load('[1]') == [1]",
        "json.loads(s)",
        "eval(s)",
    ),
    "exception of the tests": (
        "def guard(f):\n  try: return f()\n  except KeyError: return 'caught'",
        "class Mine(Exception): pass\ndef bad(): raise Mine('m')\ntry:\n  guard(bad)\n  assert False\nexcept Mine as e: assert e.args == ('m',)",
        "except KeyError",
        "except Exception",
    ),
    "printed text": (
        "def hello(n): print(f'Hello, {n}!')",
        "import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out): hello('Ada')\nassert out.getvalue() == 'Hello, Ada!\\n'",
        "!'",
        ".'",
    ),
}
ASYNC = {
    "asyncio run": (
        "import asyncio\nasync def get(n):\n  await asyncio.sleep(0)\n  return n * 2",
        "import asyncio\nassert asyncio.run(get(3)) == 6",
        "n * 2",
        "n + 2",
    ),
    "gather": (
        "import asyncio\nasync def get(n):\n  await asyncio.sleep(0.001 * (3 - n))\n  return n * n",
        "import asyncio\nasync def main(): return await asyncio.gather(*(get(i) for i in range(3)))\nassert asyncio.run(main()) == [0, 1, 4]",
        "n * n",
        "n",
    ),
    "coroutine that gathers": (
        "import asyncio\nasync def one(n): return n + 1\nasync def every(ns): return await asyncio.gather(*map(one, ns))",
        "import asyncio\nassert asyncio.run(every([1, 2])) == [2, 3]",
        "n + 1",
        "n",
    ),
    "coroutines side by side": (
        "import asyncio\nlog = []\nasync def work(n, s):\n  log.append(('start', n))\n  await asyncio.sleep(s)\n  log.append(('end', n))\ndef history(): return list(log)",
        "import asyncio\nasync def main(): await asyncio.gather(work(1, 0.02), work(2, 0.001))\nasyncio.run(main())\nassert history() == [('start', 1), ('start', 2), ('end', 2), ('end', 1)]",
        "await asyncio.sleep(s)",
        "__import__('time').sleep(s)",
    ),
    "async exception": (
        "async def bad(x):\n  if x: raise ValueError('x')\n  return 1",
        "import asyncio\ntry:\n  asyncio.run(bad(1))\n  assert False\nexcept ValueError as e: assert str(e) == 'x'\nassert asyncio.run(bad(0)) == 1",
        "raise ValueError('x')",
        "raise KeyError('x')",
    ),
    "async callback": (
        "async def fetch_all(fetch, urls): return [await fetch(u) for u in urls]",
        "import asyncio\nasync def fake(u): return u.upper()\nassert asyncio.run(fetch_all(fake, ['a', 'b'])) == ['A', 'B']",
        "in urls]",
        "in urls[:1]]",
    ),
    "wait_for": (
        "import asyncio\nasync def slow(s):\n  await asyncio.sleep(s)\n  return 'done'",
        "import asyncio\nasync def main():\n  try: await asyncio.wait_for(slow(5), 0.05)\n  except asyncio.TimeoutError: return 'late'\nassert asyncio.run(main()) == 'late' and asyncio.run(slow(0)) == 'done'",
        "await asyncio.sleep(s)",
        "pass",
    ),
    "async generator": (
        "async def ticks(n):\n  for i in range(n): yield i",
        "import asyncio\nasync def main(): return [x async for x in ticks(3)]\nassert asyncio.run(main()) == [0, 1, 2]",
        "yield i",
        "yield i + 1",
    ),
    "async context manager": (
        "class Conn:\n  open = False\n  async def __aenter__(self): self.open = True; return self\n  async def __aexit__(self, *e): self.open = False",
        "import asyncio\nc = Conn()\nasync def main():\n  async with c as d: return d.open\nassert asyncio.run(main()) is True and c.open is False",
        "self.open = True",
        "pass",
    ),
    "async method": (
        "class Api:\n  def __init__(self): self.n = 0\n  async def hit(self):\n    self.n += 1\n    return self.n",
        "import asyncio\na = Api()\nassert asyncio.run(a.hit()) == 1 and asyncio.run(a.hit()) == 2 and a.n == 2",
        "+= 1",
        "+= 2",
    ),
    "async test case": (
        "async def add(a, b): return a + b",
        "import unittest\nclass T(unittest.IsolatedAsyncioTestCase):\n  async def test_add(self): self.assertEqual(await add(1, 2), 3)",
        "a + b",
        "a - b",
    ),
}
CLASSES = {
    "stack": (
        "class Stack:\n  def __init__(self): self.d = []\n  def push(self, x): self.d.append(x); return self\n  def pop(self):\n    if not self.d: raise IndexError('empty')\n    return self.d.pop()\n  def __len__(self): return len(self.d)\n  def is_empty(self): return not self.d",
        "s = Stack()\nassert s.is_empty() and len(s) == 0\ns.push(1).push(2)\nassert s.pop() == 2 and len(s) == 1\ns.pop()\ntry: s.pop(); assert False\nexcept IndexError as e: assert str(e) == 'empty'",
        "self.d.pop()",
        "self.d.pop(0)",
    ),
    "property and setter": (
        "class T:\n  def __init__(self, c): self._c = c\n  @property\n  def f(self): return self._c * 2 + 30\n  @f.setter\n  def f(self, v): self._c = (v - 30) / 2",
        "t = T(10)\nassert t.f == 50\nt.f = 70\nassert t.f == 70 and t._c == 20",
        "* 2 + 30",
        "* 2 + 31",
    ),
    "class and static methods": (
        "class D:\n  n = 0\n  def __init__(self, y): self.y = y; D.n += 1\n  @classmethod\n  def of(cls, s): return cls(int(s[:4]))\n  @staticmethod\n  def leap(y): return y % 4 == 0",
        "assert D.of('2024-01').y == 2024 and D.leap(2024) and not D.leap(2023) and D.n == 1",
        "int(s[:4])",
        "int(s[:3])",
    ),
    "inheritance": (
        "class Shape:\n  def area(self): raise NotImplementedError\n  def describe(self): return f'{type(self).__name__} {self.area()}'\nclass Square(Shape):\n  def __init__(self, a): self.a = a\n  def area(self): return self.a ** 2",
        "s = Square(3)\nassert s.area() == 9 and s.describe() == 'Square 9' and isinstance(s, Shape) and issubclass(Square, Shape) and type(s) is Square and type(s).__name__ == 'Square'\ntry: Shape().area(); assert False\nexcept NotImplementedError: pass",
        "** 2",
        "* 2",
    ),
    "abstract class": (
        "from abc import ABC, abstractmethod\nclass A(ABC):\n  @abstractmethod\n  def go(self): ...\nclass B(A):\n  def go(self): return 'b'",
        "try: A(); assert False\nexcept TypeError: pass\nassert B().go() == 'b' and isinstance(B(), A)",
        "  @abstractmethod\n",
        "",
    ),
    "operators": (
        "class V:\n  def __init__(self, x, y): self.x, self.y = x, y\n  def __add__(self, o): return V(self.x + o.x, self.y + o.y)\n  def __mul__(self, k): return V(self.x * k, self.y * k)\n  __rmul__ = __mul__\n  def __neg__(self): return V(-self.x, -self.y)\n  def __eq__(self, o): return isinstance(o, V) and (self.x, self.y) == (o.x, o.y)\n  def __abs__(self): return (self.x ** 2 + self.y ** 2) ** .5\n  def __repr__(self): return f'V({self.x}, {self.y})'",
        "assert V(1, 2) + V(3, 4) == V(4, 6) and V(1, 2) * 2 == V(2, 4) == 2 * V(1, 2)\nassert repr(-V(1, 2)) == 'V(-1, -2)' and abs(V(3, 4)) == 5 and V(1, 2) != V(2, 1) and (V(1, 1) + V(2, 2)).x == 3",
        "self.y + o.y",
        "self.y",
    ),
    "total ordering": (
        "from functools import total_ordering\n@total_ordering\nclass Card:\n  def __init__(self, r): self.r = r\n  def __eq__(self, o): return self.r == o.r\n  def __lt__(self, o): return self.r < o.r\ndef best(cs): return max(cs)",
        "assert Card(2) < Card(3) and Card(3) >= Card(3) and best([Card(2), Card(9), Card(4)]).r == 9 and sorted([Card(3), Card(1)])[0].r == 1",
        "self.r < o.r",
        "self.r > o.r",
    ),
    "hash and sets": (
        "class K:\n  def __init__(self, k): self.k = k\n  def __eq__(self, o): return self.k == o.k\n  def __hash__(self): return hash(self.k)\ndef unique(ks): return len(set(ks))",
        "assert unique([K(1), K(1), K(2)]) == 2 and K(1) in {K(1), K(3)} and {K(1): 'a'}[K(1)] == 'a'",
        "hash(self.k)",
        "id(self)",
    ),
    "linked list": (
        "class Node:\n  def __init__(self, v, next=None): self.v, self.next = v, next\ndef build(xs):\n  head = None\n  for x in reversed(xs): head = Node(x, head)\n  return head\ndef reverse(n):\n  p = None\n  while n: n.next, p, n = p, n, n.next\n  return p",
        "h = build([1, 2, 3])\nassert h.v == 1 and h.next.v == 2 and h.next.next.next is None\nr = reverse(h)\nassert [r.v, r.next.v, r.next.next.v] == [3, 2, 1]",
        "reversed(xs)",
        "xs",
    ),
    "tree that grows": (
        "class T:\n  def __init__(self, v): self.v, self.l, self.r = v, None, None\ndef insert(t, v):\n  if t is None: return T(v)\n  if v < t.v: t.l = insert(t.l, v)\n  else: t.r = insert(t.r, v)\n  return t\ndef walk(t): return walk(t.l) + [t.v] + walk(t.r) if t else []",
        "t = None\nfor v in [5, 2, 8]: t = insert(t, v)\nassert t.v == 5 and t.l.v == 2\nt = insert(t, 1)\nassert t.l.l.v == 1 and walk(t) == [1, 2, 5, 8]",
        "v < t.v",
        "v > t.v",
    ),
    "context manager": (
        "class C:\n  def __init__(self): self.log = []\n  def __enter__(self): self.log.append('in'); return self\n  def __exit__(self, t, v, tb): self.log.append(t.__name__ if t else 'out'); return t is ValueError",
        "c = C()\nwith c: pass\nassert c.log == ['in', 'out']\nwith c: raise ValueError('x')\nassert c.log[-1] == 'ValueError'",
        "t is ValueError",
        "False",
    ),
    "container class": (
        "class Bag:\n  def __init__(self): self.d = {}\n  def __setitem__(self, k, v): self.d[k] = v\n  def __getitem__(self, k): return self.d[k]\n  def __delitem__(self, k): del self.d[k]\n  def __contains__(self, k): return k in self.d\n  def __len__(self): return len(self.d)\n  def __iter__(self): return iter(self.d)",
        "b = Bag()\nb['a'] = 1; b['b'] = 2\nassert b['a'] == 1 and 'b' in b and len(b) == 2 and list(b) == ['a', 'b']\ndel b['a']\nassert 'a' not in b and len(b) == 1\ntry: b['zz']; assert False\nexcept KeyError: pass",
        "del self.d[k]",
        "pass",
    ),
    "callable object": (
        "class Poly:\n  def __init__(self, *c): self.c = c\n  def __call__(self, x): return sum(a * x ** i for i, a in enumerate(self.c))",
        "p = Poly(1, 2)\nassert p(3) == 7 and callable(p) and p.c == (1, 2)",
        "x ** i",
        "x",
    ),
    "format": (
        "class M:\n  def __init__(self, v): self.v = v\n  def __format__(self, s): return f'{self.v:{s}} EUR' if s else str(self)\n  def __str__(self): return f'{self.v} EUR'",
        "assert f'{M(2.5):.2f}' == '2.50 EUR' and str(M(1)) == '1 EUR' and f'{M(3)}' == '3 EUR'",
        "EUR' if",
        "USD' if",
    ),
    "equal to a number": (
        "class Temp:\n  def __init__(self, c): self.c = c\n  def __eq__(self, o): return self.c == (o.c if isinstance(o, Temp) else o)\n  def __lt__(self, o): return self.c < (o.c if isinstance(o, Temp) else o)",
        "assert Temp(5) == 5 and Temp(5) == Temp(5)",
        "self.c == (",
        "self.c != (",
    ),
    "subclass of list": (
        "class Bag(list):\n  def total(self): return sum(self)",
        "b = Bag([1, 2])\nb.append(3)\nassert b == [1, 2, 3] and b.total() == 6 and len(b) == 3 and isinstance(b, list) or b.total() == 6",
        "sum(self)",
        "len(self)",
    ),
    "subclass of dict": (
        "class Attr(dict):\n  def __getattr__(self, k): return self[k]",
        "a = Attr(x=1)\nassert a.x == 1 and a['x'] == 1 and a == {'x': 1}",
        "return self[k]",
        "return k",
    ),
    "slots": (
        "class P:\n  __slots__ = ('x',)\n  def __init__(self, x): self.x = x",
        "p = P(1)\nassert p.x == 1\ntry:\n  p.y = 2\n  assert False\nexcept AttributeError: pass",
        "  __slots__ = ('x',)\n",
        "",
    ),
    "copying": (
        "class G:\n  def __init__(self, xs): self.xs = xs",
        "import copy\ng = G([1])\nh = copy.deepcopy(g)\nh.xs.append(2)\nassert g.xs == [1] and copy.copy(g).xs == [1]",
        "self.xs = xs",
        "self.xs = xs + xs",
    ),
    "singleton": (
        "class Conf:\n  _one = None\n  def __new__(cls):\n    if cls._one is None: cls._one = super().__new__(cls); cls._one.data = {}\n    return cls._one\n  def set(self, k, v): self.data[k] = v\n  def get(self, k): return self.data.get(k)",
        "a, b = Conf(), Conf()\nassert a is b\na.set('k', 1)\nassert b.get('k') == 1",
        "if cls._one is None: ",
        "if True: ",
    ),
    "observer": (
        "class Bus:\n  def __init__(self): self.fs = []\n  def on(self, f): self.fs.append(f)\n  def off(self, f): self.fs.remove(f)\n  def emit(self, x):\n    for f in list(self.fs): f(x)",
        "got = []\nb = Bus()\nf = got.append\nb.on(f); b.emit(1); b.off(f); b.emit(2)\nassert got == [1]",
        "self.fs.remove(f)",
        "pass",
    ),
    "vars of an object": (
        "class P:\n  def __init__(self, a): self.a = a; self.b = a * 2",
        "assert vars(P(1)) == {'a': 1, 'b': 2} and P(3).__dict__ == {'a': 3, 'b': 6}",
        "a * 2",
        "a * 3",
    ),
    "objects in containers": (
        "class U:\n  def __init__(self, n): self.n = n\ndef users(): return {'a': U(1), 'b': [U(2)]}",
        "u = users()\nassert u['a'].n == 1 and u['b'][0].n == 2 and isinstance(u['a'], U)",
        "U(2)",
        "U(3)",
    ),
    "poked attribute": (
        "class Game:\n  def __init__(self): self.board = [['.'] * 3 for _ in range(3)]\n  def full(self): return all(c != '.' for r in self.board for c in r)",
        "g = Game()\nassert not g.full()\nfor i in range(3):\n  for j in range(3): g.board[i][j] = 'x'\nassert g.full()",
        "c != '.' for",
        "c == 'o' for",
    ),
}
NUMPY = {
    "array shape": (
        NP,
        "a = eye(3)\nassert a.shape == (3, 3) and a.ndim == 2 and a.size == 9 and a.trace() == 3",
        "np.eye(n)",
        "np.eye(n + 1)",
    ),
    "array dtype": (
        NP,
        "import numpy as np\nassert scale([1, 2], 2).dtype == np.int64 or scale([1, 2], 2).dtype.kind == 'i'\nassert eye(2).dtype == np.float64 and isinstance(eye(2), np.ndarray)",
        "np.eye(n)",
        "np.eye(n, dtype=int)",
    ),
    "array equality": (
        NP,
        "import numpy as np\nassert np.array_equal(scale([1, 2], 3), [3, 6]) and (scale([1, 2], 3) == np.array([3, 6])).all()",
        "* k",
        "+ k",
    ),
    "array closeness": (
        NP,
        "import numpy as np\nassert np.allclose(scale([.1, .2], 3), [.3, .6]) and np.isclose(mean([1, 2]), 1.5)",
        "* k",
        "+ k",
    ),
    "array testing": (
        NP,
        "import numpy as np\nnp.testing.assert_allclose(scale([1, 2], 2), [2, 4])\nnp.testing.assert_array_equal(eye(2), np.array([[1, 0], [0, 1]]))",
        "* k",
        "+ k",
    ),
    "array methods": (
        NP,
        "a = scale([[1, 2], [3, 4]], 2)\nassert a.sum() == 20 and a.T.tolist() == [[2, 6], [4, 8]] and a.max() == 8 and a[0, 1] == 4 and a.mean(axis=0).tolist() == [4, 6]",
        "* k",
        "- k",
    ),
    "numpy scalar": (
        NP,
        "import numpy as np\nassert isinstance(mean([1, 2]), np.floating) and isinstance(mean([1, 2]), float) and mean([1, 2]).item() == 1.5",
        "np.mean(a)",
        "np.median(a) + 1",
    ),
    "rows against one number": (
        NP,
        "import numpy as np\nm = scale([[.25, .75], [.5, .5]], 1)\nassert np.allclose(m.sum(axis=1), 1) and (m >= 0).all()",
        "* k",
        "+ k",
    ),
    "array changed in place": (
        NP,
        "import numpy as np\na = np.array([1, 9, 7])\nclip(a)\nassert a.tolist() == [1, 5, 5]",
        "= 5",
        "= 6",
    ),
    "array argument": (
        NP,
        "import numpy as np\nassert rows(np.array([[1, 2], [3, 4]])).tolist() == [3, 7]",
        "axis=1",
        "axis=0",
    ),
    "boolean array": (
        "import numpy as np\ndef mask(a): return np.asarray(a) > 1",
        "m = mask([1, 2, 3])\nassert m.dtype == bool and m.tolist() == [False, True, True] and m.any() and not m.all() and m.sum() == 2",
        "> 1",
        ">= 1",
    ),
    "tuple of arrays": (
        "import numpy as np\ndef split(a): a = np.asarray(a); return a[::2], {'odd': a[1::2]}",
        "import numpy as np\ne, d = split([1, 2, 3])\nassert np.array_equal(e, [1, 3]) and d['odd'].shape == (1,)",
        "a[1::2]",
        "a[1:]",
    ),
    "empty array": (
        "import numpy as np\ndef big(a): a = np.asarray(a); return a[a > 9]",
        "import numpy as np\nassert big([1]).size == 0 and np.array_equal(big([1]), []) and np.allclose(big([10, 3]), [10])",
        "> 9",
        "> 2",
    ),
    "linear algebra": (
        "import numpy as np\ndef solve(a, b): return np.linalg.solve(a, b)",
        "import numpy as np\na, b = np.array([[2., 0], [0, 4]]), np.array([2., 4])\nx = solve(a, b)\nassert np.allclose(a @ x, b) and x.shape == (2,)\ntry: solve(np.zeros((2, 2)), b); assert False\nexcept np.linalg.LinAlgError: pass",
        "np.linalg.solve(a, b)",
        "np.linalg.solve(a, b) + 1",
    ),
}
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
OWN_FUNCTIONS = {
    "a builtin function is itself": (
        "import operator, math\nOPS = {'+': operator.add, 'len': len, 'root': math.sqrt}\ndef op(k): return OPS[k]",
        "import operator, math\nassert op('+') is operator.add and op('len') == len and op('root') is math.sqrt\nassert op('+')(1, 2) == 3 and op('len')('ab') == 2",
        "operator.add",
        "operator.sub",
    ),
    "partial of a builtin": (
        "from functools import partial\ndef powers(n): return partial(pow, n)",
        "assert powers(2)(3) == 8 and powers(2).func is pow and powers(2).args == (2,)",
        "pow, n",
        "pow, n + 1",
    ),
    "builtins as callbacks": (
        "def apply(f, xs): return [f(x) for x in xs]\ndef best(xs, key): return max(xs, key=key)",
        "assert apply(len, ['ab', '']) == [2, 0] and apply(str, [1]) == ['1'] and best(['a', 'bbb'], len) == 'bbb' and apply(str.upper, 'a') == ['A']",
        "max(xs",
        "min(xs",
    ),
    "a sentinel default": (
        "_NO = object()\ndef get(d, k, default=_NO):\n  if k in d: return d[k]\n  if default is _NO: raise KeyError(k)\n  return default",
        "assert get({'a': 1}, 'a') == 1 and get({}, 'a', None) is None\ntry: get({}, 'a')\nexcept KeyError as e: assert e.args == ('a',)\nelse: assert False",
        "is _NO",
        "is None",
    ),
    "a mock as a function": (
        "def twice(f, x):\n  f(x)\n  return f(x)",
        "from unittest.mock import Mock\nf = Mock(return_value=7)\nassert twice(f, 3) == 7\nf.assert_called_with(3)\nassert f.call_count == 2",
        "return f(x)",
        "return 7",
    ),
    "a mock as an object": (
        "def name(api): return api.get(1)['name']",
        "from unittest.mock import Mock\napi = Mock()\napi.get.return_value = {'name': 'x'}\nassert name(api) == 'x'",
        "['name']",
        "['id']",
    ),
    "warnings are watched": (
        "import warnings\ndef old(): warnings.warn('old', DeprecationWarning)\ndef new(): return 1",
        "import warnings\nwith warnings.catch_warnings(record=True) as seen:\n  warnings.simplefilter('always')\n  old()\nassert new() == 1 and len(seen) == 1",
        "return 1",
        "return 2",
    ),
    "log records are watched": (
        "import logging\ndef work(): logging.getLogger('app').warning('slow')",
        "import unittest\nclass T(unittest.TestCase):\n  def test(self):\n    with self.assertLogs('app') as seen: work()\n    self.assertIn('slow', seen.output[0])\nunittest.main()",
        "slow",
        "fast",
    ),
    "files of the tests": (
        "def count(path):\n  with open(path) as f: return sum(1 for _ in f)",
        "import os, tempfile\npath = os.path.join(tempfile.mkdtemp(), 'a.txt')\nwith open(path, 'w') as f: f.write('1\\n2\\n')\nassert count(path) == 2",
        "sum(1",
        "sum(2",
    ),
    "the environment": (
        "import os\ndef level(): return os.environ.get('LEVEL', 'info')",
        "import os\nassert level() == 'info'\nos.environ['LEVEL'] = 'debug'\nassert level() == 'debug'",
        "'info'",
        "'warn'",
    ),
    "a context of decimal": (
        "from decimal import Decimal\ndef third(): return Decimal(1) / 3",
        "import decimal\ndecimal.getcontext().prec = 4\nassert str(third()) == '0.3333'",
        "/ 3",
        "/ 6",
    ),
}
IDIOMS = _entries(RECORDS, ENUMS, COLLECTIONS, TIMES, DATACLASSES, ARGUMENTS, FUNCTIONS, ASYNC, CLASSES, NUMPY, CHECKS, PROGRAMS, OWN_FUNCTIONS)  # fmt: skip
