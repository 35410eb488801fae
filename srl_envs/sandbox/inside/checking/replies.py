"""Messages of the program's process, taken apart as what an adversary wrote.

Whatever is not exactly what the protocol allows at its place raises `Gone`: the program has failed.
Values in a message were decoded by `receiving` and are plain data or stand-ins.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..exchange import codec
from ..exchange.channel import Gone
from .standins import QUERIES

_MAX_NUMBER = 1 << 31
_MAX_MRO = 64
_MAX_ERRORS = 1000
_NAME_CHARS = 200
_KINDS = ("value", "error", "nothing")
_RUNNERS = frozenset({"unittest", "doctest", "bdb", "pdb", "_pytest", "pytest"})
"""Libraries whose exceptions decide about tests, such as `unittest.SkipTest`."""

Mro = list[tuple[str, int, str]]
"""A class and its ancestors: name, the program's number or -1 for a builtin, and the module."""


@dataclass(slots=True)
class Raised:
    """An exception of the program's."""

    ancestors: Mro
    args: tuple[Any, ...]
    text: str | None
    """Result of its own ``__str__``; None where it has none."""
    attributes: dict[str, Any] = field(default_factory=dict)
    cause: Raised | None = None


@dataclass(slots=True)
class Reply:
    """Outcome of one request."""

    value: Any = None
    raised: Raised | None = None
    own: int | None = None
    """Number of an exception of the tests' that the program let pass."""
    printed: bytes = b""


def reply(message: Mapping[str, Any], number: int, own_errors: int) -> Reply:
    """The reply to the request with this number, after so many exceptions of the tests' own."""
    _keys(message, {"number"}, ("value",), ("raise",), ("own",))
    if _number(message["number"]) != number:
        raise Gone("a reply to another request")
    printed = _kind(bytes, message.get("printed", b""))
    if "own" in message:
        if _number(message["own"]) >= own_errors:
            raise Gone("a malformed message: an exception that the tests did not raise")
        return Reply(own=message["own"], printed=printed)
    if "raise" in message:
        return Reply(raised=_kind(Raised, message["raise"]), printed=printed)
    return Reply(message["value"], printed=printed)


def callback(message: Mapping[str, Any], known: int) -> tuple[int, tuple[Any, ...], dict[str, Any]]:
    """Number, arguments and keyword arguments of a call of one of the tests' functions."""
    if message.keys() != {"callback", "args", "kwargs"}:
        raise Gone("a malformed message: unknown fields")
    number, pairs = _number(message["callback"]), _kind(tuple, message["kwargs"])
    kwargs = dict(map(_pair, pairs))
    if number >= known or any(type(key) is not str for key in kwargs):
        raise Gone("a malformed message: a call of nothing")
    return number, _kind(tuple, message["args"]), kwargs


@dataclass(slots=True)
class Export:
    """How a name of the program's appears: its value, or the ancestors of an exception."""

    kind: str
    value: Any


def exports(found: Any, names: Sequence[str]) -> dict[str, Export]:
    """How each name appears, those left out that have no form."""
    result = {}
    for name, how in map(_pair, _kind(tuple, found)):
        if type(name) is not str or name not in names:
            raise Gone("a malformed message: a name that was not asked for")
        if _kind(Export, how).kind not in _KINDS:
            raise Gone("a malformed message: an unknown kind")
        if how.kind != "nothing":
            result[name] = how
    return result


def raised(body: Any, decode: Any, depth: int) -> Raised:
    """An exception in a message."""
    mro, args, text, attributes, cause = body
    values = {name: decode(tree, depth + 1) for name, tree in attributes}
    if depth > codec.MAX_DEPTH or any(type(n) is not str or n.startswith("__") for n in values):
        raise codec.CodecError("not an exception")
    return Raised(
        mro_of(mro),
        tuple(decode(tree, depth + 1) for tree in codec.as_kind(list, args)),
        None if text is None else codec.as_kind(str, text),
        values,
        None if cause is None else raised(cause, decode, depth + 1),
    )


def mro_of(body: Any) -> Mro:
    """A class and its ancestors; raises `codec.CodecError` for what no class has."""
    entries = [tuple(entry) for entry in codec.as_kind(list, body)]
    for name, number, module in entries:
        if type(name) is not str or not name.isidentifier() or len(name) > _NAME_CHARS:
            raise codec.CodecError("a name of a class")
        if type(number) is not int or not -1 <= number < _MAX_NUMBER or type(module) is not str:
            raise codec.CodecError("a number of a class")
    if not 0 < len(entries) <= _MAX_MRO:
        raise codec.CodecError("the ancestors of a class")
    return entries


class Errors:
    """Exception classes that stand for the program's."""

    def __init__(self) -> None:
        self._kinds: dict[int, type[Exception]] = {}

    def error(self, found: Raised) -> Exception | None:
        """An exception like the program's; None for what is not an `Exception`, such as an exit."""
        if not any(_builtin(entry) is Exception for entry in found.ancestors):
            return None
        kind = self.kind(found.ancestors)
        try:
            error = kind(*found.args)
        except Exception:  # noqa: BLE001 - a builtin that needs other arguments
            error = kind.__new__(kind)
            error.args = found.args
        for name, value in found.attributes.items():
            if not (callable(value) and name in QUERIES):
                setattr(error, name, value)
        if found.text is not None:
            error.__text__ = found.text  # type: ignore[attr-defined]
        if found.cause is not None:
            error.__cause__ = self.error(found.cause)
        return error

    def named(self, name: str, mro: Mro) -> type[Exception]:
        """The class for a name that the tests use; one that catches no failed assert."""
        kind = self.kind(mro)
        return _like(name, (kind,)) if issubclass(AssertionError, kind) else kind

    def kind(self, mro: Mro) -> type[Exception]:
        """The class for the first entry: Python's own, or one made once for the program's number."""
        known = _builtin(mro[0])
        if known is not None:
            return known
        name, number, _ = mro[0]
        if number not in self._kinds:
            if number < 0 or len(self._kinds) >= _MAX_ERRORS:
                raise Gone("a malformed message: an unknown exception")
            self._kinds[number] = _library(mro[0]) or _like(name, self._bases(mro[1:]))
        return self._kinds[number]

    def number_of(self, kind: Any) -> int | None:
        """The program's number of one of these classes."""
        return next((n for n, known in self._kinds.items() if known is kind), None)

    def _bases(self, rest: Mro) -> tuple[type[Exception], ...]:
        """The nearest ancestors, none of which derives from another."""
        bases: list[type[Exception]] = []
        for place, entry in enumerate(rest):
            if _builtin(entry) is None and entry[1] < 0:
                continue  # object, or BaseException
            if entry[0] == "object" or not any(_builtin(e) is Exception for e in rest[place:]):
                continue  # a class beside the exceptions
            ancestor = self.kind(rest[place:])
            if not any(issubclass(base, ancestor) for base in bases):
                bases.append(ancestor)
        return tuple(bases) or (Exception,)


def _like(name: str, bases: tuple[type[Exception], ...]) -> type[Exception]:
    def shown(self: Exception) -> str:
        text = self.__dict__.get("__text__")
        return text if type(text) is str else bases[0].__str__(self)

    for chosen in (bases, bases[:1], (Exception,)):
        try:
            return type(name, chosen, {"__module__": "solution", "__str__": shown})
        except TypeError:  # bases that do not go together
            continue
    raise Gone("a malformed message: an impossible exception")


def _library(entry: tuple[str, int, str]) -> type[Exception] | None:
    """An exception of the standard library that the tests' process has, too."""
    name, _, module = entry
    root = module.partition(".")[0]
    if root in _RUNNERS or not (root in sys.stdlib_module_names or root == "numpy"):
        return None
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _builtin(entry: tuple[str, int, str]) -> type[Exception] | None:
    name, number, _ = entry
    found = getattr(builtins, name, None) if number < 0 else None
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _keys(message: Mapping[str, Any], always: set[str], *one_of: tuple[str, ...]) -> None:
    if not any(message.keys() - {"printed"} == always | set(more) for more in one_of):
        raise Gone("a malformed message: unknown fields")


def _kind(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise Gone(f"a malformed message: a {kind.__name__} is needed")
    return value


def _pair(value: Any) -> tuple[Any, Any]:
    if type(value) is not tuple or len(value) != 2:
        raise Gone("a malformed message: a pair is needed")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MAX_NUMBER:
        raise Gone("a malformed message: a number is needed")
    return value
