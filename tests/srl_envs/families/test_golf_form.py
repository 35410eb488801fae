"""Size in spec golf: free parts of a program carry no data, and data costs its bytes."""

import ast
import builtins
import importlib
import inspect
import json
import keyword
import re
import sys
import types
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from srl_envs.errors import IllegalMoveError
from srl_envs.families.coding.golf.form import names_bound, one_form
from srl_envs.families.coding.golf.names import BUILTINS, METHODS, MODULES, NAMES
from srl_envs.families.coding.golf.size import program_size
from srl_envs.families.coding.problems import FAMILIES
from srl_envs.families.coding.submissions import read_program

GIVEN = names_bound("def solve(data): pass")
VARIANTS = [(f, f.variants(d)[-1]) for f in FAMILIES.values() for d in (1, 3, 5)]


def form(program: str) -> str:
    return one_form(program, GIVEN)


def solved(program: str, data: Any) -> Any:
    """The program's answer, or the type of what it raises."""
    namespace: dict[str, Any] = {}
    try:
        exec(compile(program, "x", "exec", dont_inherit=True), namespace)
        return namespace["solve"](data)
    except Exception as error:  # noqa: BLE001 - whatever the program raises
        return type(error)


# -- size --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "size"),
    [
        # Module, FunctionDef, arguments, arg, Return, Constant
        ("def solve(data):\n    return 0", 6),
        ("def solve(data): return 0", 6),
        ("def solve(a_very_long_name_for_data):\n    # a comment\n    return (0)", 6),
        # Module, Assign, Name, Lambda, arguments, arg, Name
        ("solve=lambda d:d", 7),
        # six and BinOp, Name, Add, Constant less the Constant
        ("def solve(data):\n    return data + 1", 9),
        ("def solve(data):\n    return ''", 6),
        ("def solve(data):\n    return 'ab'", 7),
        ("def solve(data):\n    return 'éé'", 9),
        ("def solve(data):\n    return b'abcd'", 9),
        ("def solve(data):\n    return 255", 6),
        ("def solve(data):\n    return 0x100", 7),
        ("def solve(data):\n    return True", 6),
        ("def solve(data):\n    return 1.5", 13),
        ("def solve(data):\n    return 1j", 13),
        # Call, Name, keyword, Constant less the Constant; the name of an argument by its bytes
        ("def solve(data):\n    return dict(default=0)", 9),
        ("def solve(data):\n    return dict(abc=0)", 12),
        # Global: a unit a name
        ("def solve(data):\n    global a, b, c\n    return 0", 9),
        # Module, Match, Name, match_case, MatchClass, Name, Pass; each member is a name and a pattern
        ("match max:\n case int(): pass", 7),
        ("match max:\n case int(real=_): pass", 8),
        ("match max:\n case int(real=_, imag=_): pass", 10),
        ("match max:\n case int(real=_, imag=_, numerator=_): pass", 12),
        # Module, ImportFrom, alias, whatever the alias is called
        ("from math import pi", 3),
        ("from math import pi as e", 3),
    ],
)
def test_size_is_nodes_and_data_by_bytes(program: str, size: int) -> None:
    assert program_size(program) == size
    assert program_size(form(program)) == size


# -- the one form keeps what a program does ----------------------------------------------------


@pytest.mark.slow
def test_programs_of_the_families_do_the_same_in_their_form() -> None:
    rng = np.random.default_rng(0)
    for family, parameters in VARIANTS:
        inputs = [family.draw_input(rng, parameters, "small") for _ in range(3)]
        for program in dict.fromkeys(family.sources(parameters).values()):
            written = form(read_program(program))
            assert form(written) == written
            assert program_size(written) == program_size(program)
            for data in inputs:
                copy = json.dumps(data)
                expected = solved(program, json.loads(copy))
                assert solved(written, json.loads(copy)) == expected, (program, written)


@pytest.mark.parametrize(
    "program",
    [
        "import math, re as rx\nfrom math import gcd as g, inf\n"
        "def solve(data): return [math.floor(2.5), g(4, 6), rx.sub('a', 'b', 'xa'), min(3, inf)]",
        "class Node:\n    kinds = 3\n    def __init__(self, value, left=None):\n"
        "        self.value, self.left = value, left\n    @property\n"
        "    def twice(self): return 2 * self.value\n    def __lt__(self, other):\n"
        "        return self.value < other.value\n"
        "def solve(data): return [Node(2) < Node(value=3), Node(4).twice, Node(1).kinds]",
        "class Both(dict):\n    def __missing__(self, key): return key + 1\n"
        "    def get_all(self): return [*self.items()]\n"
        "def solve(data): return [Both()[3], Both(q=1).get_all()]",
        "def solve(data):\n    total = 0\n    def add(n, *rest, by=1, **more):\n"
        "        nonlocal total\n        total += n * by + len(rest) + len(more)\n"
        "        return sorted(more)\n    return [add(1, 2, 3, by=2, w=1, z=3), total]",
        "def solve(data):\n    match data:\n        case [first, *rest]: return [first, rest]\n"
        "        case {'a': x, **others}: return [x, others]\n"
        "        case int(real=part) as whole: return [part, whole]",
        "count = 0\ndef step():\n    global count\n    count += 1\n    return count\n"
        "def solve(data): return [step(), step(), [y := 5, y], (lambda a, /, b=2: a * b)(3)]",
        "from functools import reduce, lru_cache\n@lru_cache(None)\ndef fib(n): "
        "return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        "def solve(data): return [fib(20), reduce(lambda p, q: p * q, range(1, 6))]",
        "def solve(data):\n    try: return {}['x']\n    except KeyError as problem: name = 'k'\n"
        "    return f'{name!r:>5}|{data}|{1.5:.2f}' + '{:03d}'.format(7)",
        "def solve(data):\n    max = [3]\n    return max + [n for n in range(3) for v1 in [n] if v1]",
        "def solve(data): return dict(eval_=1, v0=2, data=3)",
        "def solve(data):\n    compile = lambda s: s + 1\n    input = 3\n    return compile(input)",
        "from typing import List, Optional\n"
        "def solve(data: List[int], extra: Optional[str] = None) -> 'List[int]': return [1]",
    ],
)
def test_any_program_does_the_same_in_its_form(program: str) -> None:
    for data in ([1, 2, 3], {"a": 1, "b": 2}, 7):
        expected = solved(program, data)
        assert not isinstance(expected, type)
        assert solved(form(program), data) == expected


# -- what is free carries nothing --------------------------------------------------------------

PLACES = {
    "variable": "def solve(data):\n    {word} = 1\n    return {word}",
    "function": "def {word}(): pass\ndef solve(data): return {word}.__name__",
    "function, by its text": "def {word}(): pass\ndef solve(data): return '%r' % {word}",
    "coroutine": "async def {word}(): pass\ndef solve(data): return str({word})",
    "class": "class {word}: pass\ndef solve(data): return str({word})",
    "member": "class A:\n    {word} = 1\ndef solve(data): return A().{word}",
    "attribute": "def solve(data):\n    solve.{word} = 1\n    return solve.{word}",
    "parameter": "def solve(data, {word}=1): return {word}",
    "collected keywords": "def f(**k): return [*k]\ndef solve(data): return f({word}=1)",
    "own parameter by name": "def f({word}): return 0\ndef solve(data): return f({word}=1)",
    "keyword of dict": "def solve(data): return ''.join(dict({word}=1))",
    "keyword of a class": "class A(object, {word}=1): pass\ndef solve(data): return 1",
    "lambda": "solve = lambda {word}: {word}",
    "import": "import math as {word}\ndef solve(data): return {word}.pi",
    "imported name": "from math import pi as {word}\ndef solve(data): return {word}",
    "global": "def solve(data):\n    global {word}\n    {word} = 1",
    "nonlocal": "def solve(data):\n    {word} = 1\n    def f():\n        nonlocal {word}\n        {word} = 2",
    "exception": "def solve(data):\n    try: 1\n    except KeyError as {word}: pass",
    "pattern": "def solve(data):\n    match data:\n        case [*{word}]: return {word}",
    "pattern of the rest": "def solve(data):\n    match data:\n        case {{**{word}}}: return 1",
    "pattern of the whole": "def solve(data):\n    match data:\n        case [1] as {word}: return {word}",
    "pattern of a constant": "def solve(data):\n    match data:\n        case None: return {word!r}",
    "pattern of a member": "class A:\n    {word} = 1\ndef solve(data):\n    match data:\n"
    "        case A({word}=1): return 1",
    "annotation": "def solve(data: {word!r}): return 1",
    "annotation of a variable": "{word}: int = 1\ndef solve(data): return 1",
    "annotation without value": "def solve(data):\n    x: {word!r}\n    return 1",
    "type comment": "def solve(data):\n    x = 1  # type: {word}\n    return x",
    "docstring": "def solve(data):\n    {word!r}\n    return solve.__doc__",
    "docstring, unread": "def solve(data):\n    {word!r}\n    return 1",
    "text": "def solve(data): return {word!r}",
    "text with a mark": "def solve(data): return u{word!r}",
    "f-string": "def solve(data): return f'{word}{{data}}'",
    "format of an f-string": "def solve(data): return f'{{data:{word}}}'",
    "bytes": "def solve(data): return b{word!r}",
    "integer": "def solve(data): return {number}",
    "integer in hex": "def solve(data): return {number:#x}",
    "many small integers": "def solve(data): return {items}",
    "comment": "def solve(data):\n    # {word}\n    return 1",
    "lines": "{lines}def solve(data): return 1",
    "columns": "def solve(data):\n{indent}return 1",
    "columns of a value": "def solve(data): return {indent}1",
    "brackets": "def solve(data): return {opened}1{closed}",
    "unused statement": "def solve(data):\n    return 1\n    {word!r}",
    "name of a module": "import {word}\ndef solve(data): return 1",
    "module of a member": "from {word} import x\ndef solve(data): return 1",
    "member of a module": "from math import {word}\ndef solve(data): return 1",
    "unbound name": "def solve(data): return {word}",
    "member in a format": "def solve(data): return '{{0.{word}}}'.format(solve)",
}
if sys.version_info >= (3, 12):
    PLACES |= {
        "parameter of a type": "def f[{word}](data: {word}): pass\ndef solve(data): return 1",
        "parameters of a type": "def f[**{word}](): pass\ndef solve(data): return 1",
        "types of a type": "def f[*{word}](): pass\ndef solve(data): return 1",
    }
if sys.version_info >= (3, 14):
    PLACES["t-string"] = "def solve(data):\n    {word} = 1\n    return t'{{{word}}}'"

WORDS = st.from_regex(r"[a-z_][a-z0-9]{0,40}", fullmatch=True).filter(
    lambda word: not keyword.iskeyword(word) and not word.startswith("__")
)


def program_at(place: str, word: str) -> str:
    return PLACES[place].format(
        word=word,
        number=int.from_bytes(word.encode(), "big"),
        items=list(word.encode()),
        lines="\n" * len(word),
        indent=" " * len(word),
        opened="(" * len(word),
        closed=")" * len(word),
    )


def outcome(place: str, word: str) -> tuple[str, int]:
    """What runs and its size; ("", 0) for what is refused."""
    program = program_at(place, word)
    try:
        return form(program), program_size(program)
    except IllegalMoveError:
        return "", 0


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@given(word=WORDS)
@example(word="q" * 40)
@example(word="eval")
@example(word="f")
@settings(deadline=None, max_examples=25)
def test_a_place_is_refused_or_erased_or_paid_by_its_bytes(place: str, word: str) -> None:
    written, size = outcome(place, word)
    shortest, least = outcome(place, "x")
    if written and written != shortest and word not in NAMES | names_bound(shortest):
        assert size - least >= len(word) - 1, written


def data_fields(kinds: str) -> set[tuple[str, str]]:
    """(node, field) of Python's grammar, as `ast` describes it, where a value of such a kind stands."""
    return {
        (name, field)
        for name, node in vars(ast).items()
        if isinstance(node, type)
        and issubclass(node, ast.AST)
        and f"{name}(" in (node.__doc__ or "")
        for field in re.findall(rf"\b(?:{kinds})[?*]? (\w+)", str(node.__doc__))
    }


def test_every_field_of_the_grammar_that_holds_data_has_its_place() -> None:
    """So a name or a text that a new Python lets a program write cannot go unseen."""
    word = "qqq"
    nodes = [n for place in PLACES for n in ast.walk(ast.parse(program_at(place, word)))]
    met = {
        (type(node).__name__, field)
        for node in nodes
        for field, value in ast.iter_fields(node)
        if value == word or (isinstance(value, list) and word in value)
    }
    comments = {(node, field) for node, field in data_fields("string") if field == "type_comment"}
    never_read = comments | {("TypeIgnore", "tag")}  # `syntax_tree` does not ask for type comments
    few = {("Constant", "kind"), ("MatchSingleton", "value")}  # "u"; None, True or False
    assert data_fields("identifier|string|constant") - met == never_read | few
    t_strings = {("Interpolation", "conversion")} if sys.version_info >= (3, 14) else set()
    assert data_fields("int") - t_strings == {
        ("AnnAssign", "simple"), ("FormattedValue", "conversion"), ("ImportFrom", "level"),
        ("TypeIgnore", "lineno"), ("comprehension", "is_async"),
    }  # fmt: skip


def test_names_of_python_are_a_choice_among_few() -> None:
    """A node names one of these or of its own: with its kind under two bytes."""
    assert len(NAMES) < 1000
    assert max(map(len, MODULES.values())) < 128


# -- what runs text is not there ---------------------------------------------------------------

SOURCE = FAMILIES["knapsack"].source(FAMILIES["knapsack"].variants(5)[0])
TEXT = repr(SOURCE)
WAYS_TO_RUN_TEXT = [
    "exec({text})",
    "def solve(data): return eval({text})",
    "run = exec\nrun({text})",
    "def g(exec): pass\ndict(exec=1)\nexec({text})",
    "def g():\n    exec = 1\nexec({text})",
    "from builtins import exec as run\nrun({text})",
    "__builtins__.exec({text})",
    "__import__('builtins').exec({text})",
    "import importlib\nimportlib.import_module('builtins').exec({text})",
    "import random._os",
    "import collections.abc",
    "from math import *",
    "from re import functools",
    "import re\nre.enum.sys.modules['builtins'].exec({text})",
    "import re\nenum = 1\nre.enum.sys",
    "import typing as t\ndef f(x: {text}): pass\nt.get_type_hints(f)",
    "import functools\ndef f(x: {text}): pass\nfunctools.singledispatch(f).register(f)",
    "from functools import singledispatch as s",
    "import functools\nsingledispatch = 1\nfunctools.singledispatch(solve)",
    "from __future__ import annotations",
    "from collections import namedtuple",
    "from dataclasses import make_dataclass",
    "from typing import NamedTuple",
    "from operator import attrgetter",
    "import operator\noperator.methodcaller('x')",
    "getattr(solve, '__globals__')['__builtins__']",
    "solve.__globals__['__builtins__']",
    "solve.__code__.replace(co_consts=())",
    "solve.__annotations__",
    "(x for x in ()).gi_frame.f_builtins",
    "dict(gi_frame=1)\ngi_frame = 1\n(x for x in ()).gi_frame",
    "try: 1/0\nexcept Exception as e: e.__traceback__.tb_frame",
    "import sys\nsys._getframe(0)",
    "import inspect\ninspect.getsource(solve)",
    "import traceback, ctypes, codecs, pickle, marshal, types",
    "type(solve)(1)",
    "type('P', (), {{'__match_args__': ('gi_frame',)}})",
    "from typing import Type\nclass M(Type): pass",
    "import typing\nclass M(typing.Type): pass",
    "class M(type): pass",
    "class P: __match_args__ = ('gi_frame',)",
    "match solve:\n    case object(__globals__=g): pass",
    "match solve:\n    case object(gi_frame=g): pass",
    "class M:\n    def __class_getitem__(cls, key): pass",
    "class A:\n    __slots__ = {text}",
    "globals()['solve']",
    "vars(solve), dir(solve), locals()",
    "global __builtins__",
    "open(__file__).read()",
    "help(solve), breakpoint(), input()",
    "_ = solve._private",
    "from . import x",
]


@pytest.mark.parametrize("way", WAYS_TO_RUN_TEXT)
def test_what_runs_text_is_refused_or_has_lost_its_name(way: str) -> None:
    program = f"def solve(data): return 0\n{way.format(text=TEXT)}"
    ast.parse(program)
    try:
        written = form(program)
    except IllegalMoveError:
        return
    nodes = list(ast.walk(ast.parse(written)))
    attributes = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
    assert attributes <= METHODS | {f"v{k}" for k in range(9)}
    names = {n.id for n in nodes if isinstance(n, ast.Name)}
    assert not names & (set(dir(builtins)) - BUILTINS)
    assert TEXT not in program or program_size(program) > len(SOURCE)


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ("'{0.v0}'.format(data)", True),
        ("'{.real}'.format(1)", True),
        ("'{:{0.real}}'.format(1)", True),
        ("'{a[0].real}'.format(a=[1])", True),
        ("'{!r:>{w.real}}'.format(1, w=2)", True),
        ("'{.real} {'.format(1)", True),
        ("('{.re' 'al}').format(1)", True),
        ("('{.re' + 'al}').format(1)", True),
        ("f'{data}'.format(1)", True),
        ("str.format('{.real}', 1)", True),
        ("[*map('{.real}'.format, [1])]", True),
        ("data.format(1)", True),
        ("super().format(1)", True),
        ("'{:03d}|{0!r:>{1}}|{{.real}}|{a[b]}'.format", False),
        ("[*map('{:.2f}'.format, [1.5])]", False),
        ("format(1.5, '.2f')", False),
        ("dict(format=1)", False),
    ],
)
def test_a_format_reads_no_attribute(value: str, refused: bool) -> None:
    program = f"def solve(data): return {value}"
    if not refused:
        assert solved(form(program), 1) is not TypeError
        return
    with pytest.raises(IllegalMoveError, match="format"):
        form(program)


@pytest.mark.parametrize(
    "statement",
    [
        "class S(str): pass\nS('').format += 1",
        "match '{.real}':\n    case str(format=f): f(1)",
        "from typing import Text as T\nT.format('{.real}', 1)",
    ],
)
def test_no_other_syntax_reaches_the_method_format(statement: str) -> None:
    with pytest.raises(IllegalMoveError, match="format"):
        form(f"def solve(data): return 0\n{statement}")


def test_a_refusal_is_short_and_names_what_is_refused() -> None:
    with pytest.raises(IllegalMoveError, match="the attribute qqqq") as caught:
        form(f"def solve(data): return data.{'q' * 3000}")
    assert len(str(caught.value)) < 200
    for value, words in {
        "exec('1')": "the name exec",
        "re.sub('', '', data)": "the name re",
    }.items():
        with pytest.raises(IllegalMoveError, match=words):
            form(f"def solve(data): return {value}")


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ("0x" + "f" * 3900, True),
        ("f'{data!s:>{3}} {{}}'", False),
        ("-" * 90 + "1", False),
        ("(" * 45 + "1" + ",)" * 45, False),
        (r"'\ud800' + u'\0' + 'é' 'x'", False),
        ("1e999, -0.0, 1e-320, 3j, 0b11, 1_000, ...", False),
    ],
)
def test_what_is_written_anew_says_the_same(value: str, refused: bool) -> None:
    program = read_program(f"def solve(data): return {value}")
    if refused:
        with pytest.raises(IllegalMoveError, match="simplify it"):
            form(program)
        return
    expected = ast.dump(ast.parse(program)).replace(", kind='u'", "")
    assert ast.dump(ast.parse(form(program))) == expected


def test_a_program_inside_a_text_is_larger_than_the_program() -> None:
    """The second wall: even where text could be run, even packed, it would cost more than code."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    for family, parameters in VARIANTS:
        for source in (family.source(parameters), family.other_source(parameters)):
            text = re.sub(r"\bv([0-9]+)\b", lambda v: letters[int(v[1])], form(source))
            text = re.sub(r" ?([=+\-*/<>,:()\[\]{}]+) ?", r"\1", text.replace("    ", " "))
            deflated = zlib.compress(text.encode(), 9, -15)
            assert program_size(source) < len(deflated) < program_size(f"exec({text!r})")


def test_a_table_costs_what_it_holds() -> None:
    rng = np.random.default_rng(0)
    table = rng.bytes(64)
    ways = [
        repr(table),
        repr(list(table)),
        str(int.from_bytes(table, "big")),
        repr(table.decode("latin-1")),
        repr(table.hex()),
        f"dict({', '.join(f'x{b:02x}=0' for b in set(table))})",
        f"[{', '.join(repr(float(x)) for x in np.frombuffer(table, '>f8') if x == x)}]",
    ]
    assert min(program_size(way) for way in ways) >= 60


def test_no_listed_name_is_a_builtin_that_is_not_listed_or_a_module() -> None:
    hidden = set(dir(builtins)) - BUILTINS
    assert not hidden & NAMES
    for name, members in MODULES.items():
        module = importlib.import_module(name)
        reached = [getattr(module, m) for m in METHODS if hasattr(module, m)]
        assert not [x for x in reached if isinstance(x, types.ModuleType)]
        assert {m for m in members if not hasattr(module, m)} <= {"batched", "sumprod"}
        assert not {m for m in members if m.startswith("_")}


def test_no_listed_name_makes_classes_out_of_texts() -> None:
    """A class that is made so may have any ``__match_args__``, which ``case`` reads by its text."""
    values = [getattr(builtins, name) for name in BUILTINS]
    for name in MODULES:
        module = importlib.import_module(name)
        values += [getattr(module, member) for member in METHODS if hasattr(module, member)]
    for value in values:
        origin = getattr(value, "__origin__", value)
        assert not (isinstance(origin, type) and issubclass(origin, type)), value


def test_no_listed_attribute_leads_to_code_or_frames() -> None:
    def numbers() -> Any:
        yield 1

    generator = numbers()
    next(generator)
    values = [numbers, generator, BUILTINS.__contains__, property(), super(int, 1), ValueError("x")]
    for value in values:
        for name in METHODS:
            found = inspect.getattr_static(value, name, None)
            assert not isinstance(found, types.CodeType | types.FrameType | types.ModuleType), name
            assert not isinstance(found, types.GetSetDescriptorType), (value, name)
