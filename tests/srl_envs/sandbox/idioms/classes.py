# ruff: noqa: E501 - programs and tests are quoted as their authors would write them
"""Named tuples, enums, dataclasses and other classes."""

POINT = "from collections import namedtuple\nPoint = namedtuple('Point', 'x y')\ndef move(p, dx): return Point(p.x + dx, p.y)\n"
TYPED = "from typing import NamedTuple\nclass Emp(NamedTuple):\n  name: str\n  pay: int = 10\n  def raised(self, n): return self._replace(pay=self.pay + n)\n  @property\n  def label(self): return f'{self.name}:{self.pay}'\ndef top(xs): return max(xs, key=lambda e: e.pay)\n"
COLOR = "from enum import Enum, auto\nclass Color(Enum):\n  RED = 1\n  GREEN = 2\n  BLUE = 3\n  def next(self): return Color(self.value % 3 + 1)\n  @property\n  def warm(self): return self is Color.RED\ndef mix(a, b): return Color.BLUE if a != b else a\n"
DC = "from dataclasses import dataclass, field\n@dataclass\nclass Item:\n  name: str\n  price: float = 1.0\n  tags: list = field(default_factory=list)\n  def total(self, n): return self.price * n\ndef cheapest(items): return min(items, key=lambda i: i.price)\ndef build(n): return Item(n, 2.5, ['a'])\n"
ORDERED = "from dataclasses import dataclass\n@dataclass(frozen=True, order=True)\nclass V:\n  major: int\n  minor: int = 0\n  def bump(self): return V(self.major, self.minor + 1)\ndef newest(vs): return max(vs)\n"

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
