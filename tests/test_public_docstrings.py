"""Docstrings of public names: the errors they raise, what their numbers are, and the source of a formula.

The tests read the modules of the API reference, with public methods, properties and fields of their classes,
and the algorithms, estimators and coordination kinds that a recipe can name. A docstring may refer to another
one (`GameEnv.reset`) that holds what is asked for; the reference has to exist.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from docs.site import reference
from srl_agents.cli.documentation.topics import MODULES
from srl_agents.coordination.settings import KINDS
from srl_agents.credit.estimators import ESTIMATORS
from srl_agents.trainers.algorithms import ALGORITHMS
from srl_envs.errors import ConfigError, ShapeError

OURS = ("srl_envs", "srl_agents")
BUILT = ("__init__", "__post_init__")
PROTOCOL = (AttributeError, NotImplementedError, StopIteration)
"""What the language asks a method to raise."""
NUMBER = re.compile(r"\b(int|float|NDArray|Floats|Flags|Ints)\b")
ARRAY = re.compile(r"\b(NDArray|Floats|Flags|Ints)\b")
UNIT = re.compile(
    r"seconds?|\b[KMG]iB\b|bytes|tokens?\b|characters|reward|outcome|paid|earn|probabilit|share|weight"
    r"|\bnats\b|\bscore|discount|from 0 to|\[-?[01], 1[\])]|\(0, 1\]|capability|relative|chance|divide"
    r"|multipl|\bMEANINGS\b",
    re.IGNORECASE,
)
"""Words that say what a fraction measures; `srl_agents.metrics.MEANINGS` has the unit of every metric."""
PAPER = re.compile(r"arXiv:\d{4}\.\d{4,5}|doi:10\.\S+")
PLACE = re.compile(r"(equations?|sections?|algorithm|theorem) \d|abstract")


@dataclass(frozen=True)
class Subject:
    """One function or method, and the class whose user reads it."""

    name: str
    function: Callable[..., Any]
    owner: type | None = None

    @property
    def text(self) -> str:
        """Its docstring; of what builds an object, with that of the class."""
        own = inspect.getdoc(self.function) or ""
        if self.owner is None or self.function.__name__ not in BUILT:
            return own
        return f"{inspect.getdoc(self.owner) or ''}\n{own}"

    @property
    def texts(self) -> str:
        """The docstring with those that it refers to."""
        names = re.findall(r"`(?!`)([\w.]+)`", self.text)
        return "\n".join([self.text, *(self._referred(name) for name in names)])

    def _referred(self, name: str) -> str:
        places: list[Any] = [self.owner, *vars_of(self.function)]
        first, *rest = name.split(".")
        if first in OURS:
            found = imported(name)
        else:
            found = next((hit for hit in (part(p, first) for p in places) if hit is not None), None)
            for attribute in rest:
                found = part(found, attribute)
        return (inspect.getdoc(found) or "") if callable(found) else ""


def vars_of(function: Callable[..., Any]) -> list[Any]:
    """The module of a function and the public modules, as places where a name may be looked up."""
    home = importlib.import_module(function.__module__)
    return [home, *map(importlib.import_module, MODULES), home_of_games()]


def home_of_games() -> Any:
    """Where `GameEnv` is."""
    return importlib.import_module("srl_envs.parallel")


def part(place: Any, name: str) -> Any:
    """A name below a module, a class or nothing."""
    return None if place is None else inspect.getattr_static(place, name, None)


def imported(name: str) -> Any:
    """What stands under a dotted name; None where nothing does."""
    module, _, last = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), last, None)
    except ImportError:
        return None


def public() -> Iterator[tuple[str, Any]]:
    """(name, object) of the API reference, each object once."""
    seen: set[int] = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in reference.public_names(module):
            value = getattr(module, name)
            if inspect.ismodule(value):  # srl_agents.credit
                value = importlib.import_module(f"{value.__name__}.crediting").credit
            if id(value) not in seen and getattr(value, "__module__", "").startswith(OURS):
                seen.add(id(value))
                yield f"{module_name}.{name}", value


def subjects() -> Iterator[Subject]:
    """Every function, and every method that a user of a class can call."""
    seen: set[Callable[..., Any]] = set()
    for name, value in public():
        if inspect.isfunction(value):
            yield Subject(name, value)
        elif inspect.isclass(value):
            for attribute, method, base in methods(value):
                if method not in seen:
                    seen.add(method)
                    owner = base if attribute in BUILT else value
                    yield Subject(f"{name}.{attribute}", method, owner)


def methods(owner: type) -> Iterator[tuple[str, Callable[..., Any], type]]:
    """(name, function, class that has it) of methods, properties and constructors in our source."""
    for base in owner.__mro__:
        for name, value in vars(base).items():
            inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            shown = not name.startswith("_") or name in (*BUILT, "__call__")
            if not shown or not inspect.isfunction(inner) or not inner.__module__.startswith(OURS):
                continue
            if "<" not in inner.__code__.co_filename:  # not written by dataclasses
                yield name, inner, base


def source(value: Any) -> ast.AST:
    """Its syntax tree."""
    return ast.parse(textwrap.dedent(inspect.getsource(value)))


def raised(
    function: Callable[..., Any], owner: type | None, seen: set[Any] | None = None
) -> set[type[Exception]]:
    """Exceptions that it raises by name, itself or in private functions and methods that it calls."""
    seen = set() if seen is None else seen
    if function in seen:
        return set()
    seen.add(function)
    names: Mapping[str, Any] = vars(builtins) | inspect.unwrap(function).__globals__
    found: set[type[Exception]] = set()
    for node in ast.walk(source(function)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            kind = names.get(made.id) if isinstance(made, ast.Name) else None
            if inspect.isclass(kind) and issubclass(kind, Exception):
                found.add(kind)
        if isinstance(node, ast.Call):
            called = private(node.func, names, owner)
            if called is not None:
                found |= raised(called, owner, seen)
    return found - set(PROTOCOL)


def private(
    called: ast.expr, names: Mapping[str, Any], owner: type | None
) -> Callable[..., Any] | None:
    """The private function or method behind a call, if it is one."""
    found: Any = None
    if isinstance(called, ast.Name) and called.id.startswith("_"):
        found = names.get(called.id)
    elif isinstance(called, ast.Attribute) and called.attr.startswith("_") and owner is not None:
        own = isinstance(called.value, ast.Name) and called.value.id in ("self", "cls")
        found = getattr(owner, called.attr, None) if own else None
    found = getattr(found, "__func__", found)
    return found if inspect.isfunction(found) else None


def is_named(kind: type[Exception], text: str) -> bool:
    """Whether a text has the class, or a class of ours or of Python that it derives from."""
    bases = [base.__name__ for base in kind.__mro__ if base not in (Exception, BaseException)]
    return any(
        re.search(rf"\b{base}\b", text) for base in bases if base not in ("SRLError", "object")
    )


@cache
def our_errors() -> frozenset[str]:
    """Names of the errors page."""
    return frozenset(reference.errors())


def errors_left_out(one: Subject) -> list[str]:
    """What it raises and does not name; and what it names under ``Raises`` that no class is called."""
    texts = one.texts
    left = [k.__name__ for k in raised(one.function, one.owner) if not is_named(k, texts)]
    section = one.text.partition("Raises:")[2].partition("\n\n")[0]
    claimed = re.findall(r"^ {4}(\w[\w, ]*):", section, flags=re.MULTILINE)
    names = [name for line in claimed for name in re.split(r", | or ", line)]
    known = {*our_errors(), *vars(builtins)} | {*inspect.unwrap(one.function).__globals__}
    return left + [f"no class {name}" for name in names if name not in known]


def numbers_left_out(one: Subject) -> list[str]:
    """Parameters and results that are numbers or arrays, of which the docstring states too little."""
    texts = one.texts
    signature = inspect.signature(one.function)
    left = []
    for parameter in signature.parameters.values():
        kind = str(parameter.annotation)
        if NUMBER.search(kind):
            said = sentence_of(parameter.name, texts)
            left += [
                f"{parameter.name}: {why}" for why in faults(parameter.name, kind, said, texts)
            ]
    result = str(signature.return_annotation)
    if re.search(r"\bfloat\b", result) and not UNIT.search(in_words(one.name) + texts):
        left.append("result: no unit")
    if ARRAY.search(result) and not re.search(r"\([A-Z](, [A-Z])*,?\)", texts):
        left.append("result: no shape")
    return left


def sentence_of(name: str, texts: str) -> str:
    """The entry of a parameter in ``Args``, else each line that has its name."""
    entry = re.search(rf"^ +{name}: (.*(?:\n {{8,}}.*)*)", texts, flags=re.MULTILINE)
    if entry:
        return entry[1]
    return "\n".join(re.findall(rf"^.*\b{name}\b.*$", texts, flags=re.MULTILINE))


def in_words(name: str) -> str:
    """A name with its unit written out."""
    return re.sub(r"_s$", " seconds", name).replace("_", " ") + " "


def faults(name: str, kind: str, said: str, texts: str) -> Iterator[str]:
    """What is left unsaid of one number, by its type."""
    if not said:
        yield "not documented"
    elif ARRAY.search(kind):
        axes = name.rpartition("_")[2]
        shape = rf"\({', '.join(axes)},?\)"
        if not re.search(shape, texts) and not all(f"``{axis}``" in texts for axis in axes):
            yield f"no shape ({', '.join(axes)})"
    elif "float" in kind and not UNIT.search(in_words(name) + said):
        yield "no unit"


def fields_left_out(owner: type) -> list[str]:
    """Fields of a dataclass that are numbers or arrays, of which neither text nor class states enough."""
    (body,) = (node for node in ast.walk(source(owner)) if isinstance(node, ast.ClassDef))
    whole = inspect.getdoc(owner) or ""
    for base in owner.__mro__[1:]:
        whole += f"\n{inspect.getdoc(base) or ''}" if base.__module__.startswith(OURS) else ""
    left = []
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        name, kind = node.target.id, ast.unparse(node.annotation)
        if name.startswith("_") or "ClassVar" in kind or not NUMBER.search(kind):
            continue
        said = sentence_of(name, whole)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            said = f"{said}\n{after.value.value!s}"
        left += [f"{name}: {why}" for why in faults(name, kind, said.strip(), f"{whole}\n{said}")]
    return left


def cites(kind: Any) -> bool:
    """Whether a docstring names a paper, and its equation or section or the formula itself."""
    text = kind.__doc__ or ""
    _, _, cited = text.partition("Source: ")
    return bool(PAPER.search(cited) and (PLACE.search(cited) or re.search(r"(=|<-) ", text)))


@pytest.mark.parametrize("one", [*subjects()], ids=lambda one: one.name)
def test_a_public_function_says_what_it_raises_and_what_its_numbers_are(one: Subject) -> None:
    assert one.text or one.function.__name__ in BUILT, "no docstring"
    assert errors_left_out(one) == []
    assert numbers_left_out(one) == []


@pytest.mark.parametrize(
    "owner",
    [value for _, value in public() if dataclasses.is_dataclass(value)],
    ids=lambda owner: owner.__name__,
)
def test_a_public_field_says_what_its_number_is(owner: type) -> None:
    assert fields_left_out(owner) == []


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (family, name)
        for family in (ALGORITHMS, ESTIMATORS, KINDS)
        for name in family.built_in
        if name != "independent"  # no formula: each learner's own gradient
    ],
    ids=lambda one: getattr(one, "what", one),
)
def test_a_kind_that_computes_a_formula_names_its_paper_and_place(family: Any, name: str) -> None:
    assert cites(family.find(name))


def _refuse() -> None:
    raise ShapeError("too wide")


def _silent(rate: float, wait_s: float, lag: NDArray[np.float64]) -> float:
    """Nothing of use."""
    if not rate:
        raise ConfigError(f"{wait_s} {lag}")
    _refuse()
    return rate


def _pointing() -> None:
    """See `_complete`."""
    _refuse()


def _complete() -> None:
    """Complete.

    Raises:
        ShapeError: too wide.
    """
    _refuse()


def _inventing() -> None:
    """Claims an error of no kind.

    Raises:
        WideError: never.
    """


def test_the_rules_find_what_is_left_out() -> None:
    silent = Subject("silent", _silent)
    assert {*errors_left_out(silent)} == {"ConfigError", "ShapeError"}
    left = numbers_left_out(silent)
    assert left == [
        "rate: not documented",
        "wait_s: not documented",
        "lag: not documented",
        "result: no unit",
    ]
    assert [*faults("rate", "float", "How fast.", "")] == ["no unit"]
    assert [*faults("wait_s", "float", "How long.", "")] == []
    assert [*faults("mask_RT", "NDArray[np.bool_]", "What counts.", "(R,) rows")] == [
        "no shape (R, T)"
    ]
    assert errors_left_out(Subject("pointing", _pointing)) == []
    assert errors_left_out(Subject("inventing", _inventing)) == ["no class WideError"]

    @dataclass
    class Wide:
        """A class."""

        width: float
        height: float
        """Share of the page."""

    assert fields_left_out(Wide) == ["width: not documented"]
    Wide.__doc__ = "As in good papers. Source: arXiv:2402.03300."
    assert not cites(Wide)
    Wide.__doc__ = "Source: arXiv:2402.03300 section 4.1."
    assert cites(Wide)
