"""What a test file uses, checks and runs, decided on its tree before anything of the program's.

The tests are the task author's and are believed; the program is not. So only the text of the tests
decides which names the program contributes, which attributes of its objects it is asked for, and
whether a check has run.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import symtable
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

FILE = "tests.py"
PROGRAM = "solution"
"""Module from which tests may import what they test."""
CHECKED = "__checked__"
"""Name that the tests' code finds the counter of checks under."""
_ALIASES = {"np": "numpy"}
_EVALUATORS = frozenset({"eval", "exec", "compile", "__import__"})
_LOADERS = frozenset({"pickle", "_pickle", "marshal", "shelve", "doctest", "runpy", "dill"})
_RUNNERS = frozenset({"TextTestRunner", "TestResult"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_FILES = frozenset({"tempfile", "shutil"})
_STATE = frozenset(
    """addHandler basicConfig catch_warnings chdir environ filterwarnings getcontext getLogger localcontext
makedirs mkdir patch putenv remove seed setcontext seterr setlocale setrecursionlimit setstate simplefilter
stdin argv tzset""".split()  # noqa: SIM905 - a word list reads better than many quotes
)
"""Names in modules that set or watch what each process has for itself."""
_STATE_METHODS = frozenset(
    """assertLogs assertNoLogs assertWarns assertWarnsRegex read_bytes read_text write_bytes
write_text""".split()  # noqa: SIM905 - as above
)


Nodes = tuple[ast.AST, ...]


class Unusable(Exception):
    """These tests cannot judge a program; the text names the reason and what to write instead."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A test file, read."""

    code: CodeType
    """With a call of `CHECKED` around all that is asserted."""
    names: tuple[str, ...]
    """Global names that the program contributes; none is a builtin, a dunder or the tests' own."""
    attributes: frozenset[str]
    """Attributes that the text reads from anything but a module that it imports."""
    words: frozenset[str]
    """All names and attributes in the text."""
    modules: dict[str, str]
    """Modules that the text uses without importing them: name, module."""
    functions: tuple[str, ...]
    """Test functions that nothing in the file calls, in their order."""
    runs_cases: bool
    """Whether the file runs its own `unittest` classes."""
    sets_state: bool
    """Whether the text sets or watches files, warnings, random states and the like of its own process."""


def read(tests: str) -> Suite:
    """Read a test file, and import what it imports.

    Raises:
        Unusable: it is not Python, imports what is not there, checks nothing, runs text as code, uses
            nothing of the program, or needs a test runner that we are not.
    """
    try:
        tree = ast.parse(tests, FILE)
        used, own = _globals(symtable.symtable(tests, FILE, "exec"))
        nodes = tuple(ast.walk(tree))
        _refuse_text_as_code(nodes, own)
        imported = _imported(tree, nodes)
        loaded = {n.id for n in nodes if type(n) is ast.Name and type(n.ctx) is ast.Load}
        functions = _test_functions(tree, loaded)
        _refuse_without_checks(tree, loaded)
        modules = _modules(nodes, used - own)
        explicit = _from_program(nodes)
        free = used - own - modules.keys() - _star_names(tree)
        names = () if explicit else _contributed(free)
        if not (explicit or names):
            raise Unusable(
                "the tests use nothing of the program. A function that is named like a builtin must "
                f"be imported: from {PROGRAM} import NAME"
            )
        attributes = frozenset(_attributes(nodes, imported | modules.keys()))
        words = frozenset(_words(nodes))
        runs_cases = _runs_cases(nodes)
        sets_state = _sets_state(nodes, imported | modules.keys(), own)
        tree = ast.fix_missing_locations(_Counting(imported | modules.keys()).visit(tree))
        code = compile(tree, FILE, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unusable(f"the tests do not compile: {error}") from None
    return Suite(code, names, attributes, words, modules, functions, runs_cases, sets_state)


def is_dunder(name: str) -> bool:
    """Whether a name is Python's own, such as ``__name__``."""
    return name.startswith("__") and name.endswith("__")


def _refuse_text_as_code(nodes: Nodes, own: set[str]) -> None:
    """What the program returns is text at worst, unless the tests run it."""
    for node in nodes:
        names = {module.partition(".")[0] for module in _sources(node)} & _LOADERS
        if isinstance(node, ast.Name):
            names = {node.id} & ((_EVALUATORS | _LOADERS) - own)
        for name in names:
            raise Unusable(f"the tests use {name}, which can run as code what a program returns")


# -- names -----------------------------------------------------------------------------------------


def _globals(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """Global names that any scope reads, and those that any scope binds."""
    used, own = set(), set()
    for scope in _scopes(table):
        module = scope.get_type() == "module"
        for symbol in scope.get_symbols():
            if not (module or symbol.is_global()):
                continue
            if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                own.add(symbol.get_name())
            if symbol.is_referenced():
                used.add(symbol.get_name())
    return used, own


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _scopes(child)


def _contributed(free: set[str]) -> tuple[str, ...]:
    known = vars(builtins)
    return tuple(sorted(name for name in free if name not in known and not is_dunder(name)))


def _from_program(nodes: Nodes) -> bool:
    """Whether the file names what it imports from the program; a star import does not."""
    return any(
        PROGRAM in _sources(node) and all(alias.name != "*" for alias in node.names)
        for node in nodes
        if isinstance(node, (ast.Import, ast.ImportFrom))
    )


def _imported(tree: ast.Module, nodes: Nodes) -> set[str]:
    """Names of imported modules; imports at the top level must be there."""
    for node in tree.body:
        for module in _sources(node):
            _load(module)
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in nodes
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and not any(module == PROGRAM for module in _sources(node))
        for alias in node.names
    }


def _sources(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def _load(module: str) -> None:
    if module in (PROGRAM, "__future__"):
        return
    try:
        importlib.import_module(module)
    except (ImportError, ValueError) as error:
        raise Unusable(
            f"the tests import {module!r}, which is not in the sandbox ({error}). Name its package "
            "in CodeExecutor(packages=...), or do without it."
        ) from None


def _star_names(tree: ast.Module) -> set[str]:
    """What the tests' own star imports bring."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            module = sys.modules.get(node.module or "")
            if module is not None and node.module != PROGRAM:
                names.update(getattr(module, "__all__", vars(module)))
    return names


def _modules(nodes: Nodes, free: set[str]) -> dict[str, str]:
    """Free names that stand for modules: ``math`` in ``math.pi``, but not in ``math(3)``."""
    known = {name: name for name in free if name in sys.stdlib_module_names} | {
        name: module for name, module in _ALIASES.items() if name in free
    }
    if not known:
        return {}
    bases = {id(n.value) for n in nodes if isinstance(n, ast.Attribute)}
    not_modules = {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in bases}
    return {name: module for name, module in known.items() if name not in not_modules}


def _attributes(nodes: Nodes, modules: set[str]) -> Iterator[str]:
    """Names after a dot, in a pattern or in quotes (for `getattr`), those of modules left out."""
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if _root(node) not in modules:
                yield node.attr
        elif isinstance(node, ast.MatchClass):
            yield from node.kwd_attrs
        elif isinstance(node, ast.Constant) and type(node.value) is str:
            yield node.value


def _words(nodes: Nodes) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.name for alias in node.names)


def _sets_state(nodes: Nodes, modules: set[str], own: set[str]) -> bool:
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            sources = {source.partition(".")[0] for source in _sources(node)}
            if sources & _FILES or {alias.name for alias in node.names} & _STATE:
                return True
        elif isinstance(node, ast.Name) and node.id == "open" and "open" not in own:
            return True
        elif isinstance(node, ast.Attribute):
            in_module = _root(node) in modules
            replaced = in_module and not isinstance(node.ctx, ast.Load)
            if replaced or node.attr in (_STATE if in_module else _STATE_METHODS):
                return True
    return False


def _root(node: ast.expr) -> str:
    """The name that a chain of attributes begins with; empty for another expression."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


# -- checks ----------------------------------------------------------------------------------------


def _is_check(node: ast.AST) -> bool:
    """An assert on more than a constant, or a call such as ``self.assertEqual`` and ``raises``."""
    if isinstance(node, ast.Assert):
        return not isinstance(node.test, (ast.Constant, ast.Tuple))
    return isinstance(node, ast.Call) and _asserts_by_name(node.func)


def _asserts_by_name(function: ast.expr) -> bool:
    name = _name_of(function)
    return name.startswith("assert") or name == "raises"


COMPARISONS = frozenset(
    """allclose isclose array_equiv assert_allclose assert_almost_equal assert_approx_equal
assert_array_almost_equal assert_array_equal assert_equal assert_array_almost_equal_nulp
assert_array_max_ulp assert_array_less""".split()  # noqa: SIM905 - as elsewhere
)
"""Comparisons of numpy that stretch one shape to another."""


class _Counting(ast.NodeTransformer):
    """Puts calls of `CHECKED` around what is checked, so that it is known what ran and held."""

    def __init__(self, modules: set[str]) -> None:
        self._modules = modules
        self._sites = 0

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self._look(node.test)
        self.generic_visit(node)
        if _is_check(node):
            node.test = _called(None, node.test)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _name_of(node.func) == "assertTrue" and node.args:
            self._look(node.args[0])
        self.generic_visit(node)
        is_check = _is_check(node)
        if _name_of(node.func) in COMPARISONS:
            node.func = _called("close", node.func, self._constants(node.args[:2]))
        if is_check:
            node.func = _called("method", node.func)
        return node

    def _look(self, test: ast.expr) -> None:
        """Note where an assert rests on calls of ``all`` only."""
        parts = test.values if isinstance(test, ast.BoolOp) else [test]
        if isinstance(test, ast.BoolOp) and not isinstance(test.op, ast.And):
            return
        calls = [part for part in parts if isinstance(part, ast.Call)]
        if len(calls) != len(parts) or any(_name_of(call.func) != "all" for call in calls):
            return
        for call in calls:
            self._compare(call)
            call.func = _called(
                "every", ast.copy_location(ast.Constant(self._sites), call), call.func
            )
            self._sites += 1

    def _compare(self, call: ast.Call) -> None:
        """``(a == b).all()`` and ``np.all(a == b)``: arrays of one shape."""
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Compare):
            call.func.value = self._compared(call.func.value)
        elif call.args and isinstance(call.args[0], ast.Compare):
            call.args[0] = self._compared(call.args[0])

    def _compared(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
            return node
        sides = [node.left, node.comparators[0]]
        function = _called("equal", self._constants(sides), at=node)
        return ast.copy_location(ast.Call(function, sides, []), node)

    def _constants(self, nodes: list[ast.expr]) -> ast.expr:
        """Of each expression, whether the tests' text determines its value; as an expression."""
        said = [
            all(n.id in self._modules for n in ast.walk(node) if isinstance(n, ast.Name))
            for node in nodes
        ]
        return ast.Tuple([ast.Constant(value) for value in [*said, False, False]], ast.Load())


def _called(method: str | None, *args: ast.expr, at: ast.expr | None = None) -> ast.expr:
    """A call of the counter, or of one of its methods."""
    place = at or args[0]
    name: ast.expr = ast.Name(CHECKED, ast.Load())
    if method is not None:
        name = ast.Attribute(name, method, ast.Load())
    return ast.copy_location(ast.Call(name, list(args), []), place)


def _name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _refuse_without_checks(tree: ast.Module, loaded: set[str]) -> None:
    if any(_checks(node) for node in tree.body if not _is_idle(node, loaded)):
        return
    idle = [node.name for node in tree.body if isinstance(node, _FUNCTIONS) and _checks(node)]
    if idle:
        raise Unusable(
            f"nothing in the tests calls {idle[0]}(); call it with the function to check"
        )
    raise Unusable("the tests check nothing: they have no assert and no call of an assert method")


def _is_idle(node: ast.stmt, loaded: set[str]) -> bool:
    """A definition that neither the file nor we ever use."""
    if isinstance(node, _FUNCTIONS):
        return node.name not in loaded and not node.name.startswith("test")
    return isinstance(node, ast.ClassDef) and node.name not in loaded and not node.bases


def _checks(node: ast.AST) -> bool:
    return any(map(_is_check, ast.walk(node)))


def _test_functions(tree: ast.Module, loaded: set[str]) -> tuple[str, ...]:
    """Functions that a test runner would call."""
    found = []
    for node in tree.body:
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)) or node.name in loaded:
            continue
        if isinstance(node, ast.ClassDef):
            if node.name.startswith("Test") and not node.bases and _checks(node):
                raise Unusable(f"class {node.name}: derive it from unittest.TestCase")
        elif node.name.startswith("test"):
            given = len(node.args.posonlyargs) + len(node.args.args) - len(node.args.defaults)
            if given or None in node.args.kw_defaults or isinstance(node, ast.AsyncFunctionDef):
                raise Unusable(
                    f"{node.name}: fixtures, parametrize and async need pytest, which does not run "
                    "here. Write a function without parameters."
                )
            found.append(node.name)
    return tuple(dict.fromkeys(found))


def _runs_cases(nodes: Nodes) -> bool:
    for node in nodes:
        names = {node.attr} if isinstance(node, ast.Attribute) else set()
        if isinstance(node, ast.ImportFrom) and node.module == "unittest":
            names = {alias.name for alias in node.names}
        if names & {"main", *_RUNNERS}:
            return True
    return False
