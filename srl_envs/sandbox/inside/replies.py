"""Messages of the program's process, taken apart as what an adversary wrote.

Whatever is not exactly what the protocol allows at its place raises `Gone`: the program has failed.
Values in a message were decoded by `codec` and are plain data or remotes.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import codec
from .channel import Gone

_MAX_NUMBER = 1 << 31
_MAX_MRO = 64
_MAX_ERRORS = 1000
_NAME_CHARS = 200
_MUTABLE = (list, dict, set)
_EXPORTS = ("value", "class", "function", "error")

Mro = list[tuple[str, int]]
"""A class of exceptions and its ancestors: name and the program's number, -1 for a builtin."""


@dataclass(slots=True)
class Reply:
    """What became of one request."""

    changed: dict[int, Any] = field(default_factory=dict)
    """New contents of mutable arguments, by position."""
    value: Any = None
    same: int | None = None
    """Position of the argument that was returned."""
    mro: Mro | None = None
    """Of what was raised."""
    args: tuple[Any, ...] = ()
    """Its arguments."""


def reply(message: Mapping[Any, Any], number: int, args: Sequence[Any]) -> Reply:
    """The reply to the request with this number, which had these arguments."""
    _keys(message, {"number", "changed"}, ("value",), ("same",), ("raise", "args"))
    if _number(message["number"]) != number:
        raise Gone("a reply to another request")
    changed = _kind(dict, message["changed"])
    for place, value in changed.items():
        if type(value) is not _mutable(place, args):
            raise Gone("a malformed message: an argument that became something else")
    if "raise" in message:
        return Reply(changed, mro=_mro(message["raise"]), args=tuple(_kind(list, message["args"])))
    if "same" in message:
        _mutable(message["same"], args)
        return Reply(changed, same=message["same"])
    return Reply(changed, value=message["value"])


def callback(message: Mapping[Any, Any], known: int) -> tuple[int, list[Any], dict[str, Any]]:
    """Number, arguments and keyword arguments of a call of one of the tests' functions."""
    _keys(message, {"callback", "args", "kwargs"}, ())
    number, kwargs = _number(message["callback"]), _kind(dict, message["kwargs"])
    if number >= known or any(type(key) is not str for key in kwargs):
        raise Gone("a malformed message: a call of nothing")
    return number, _kind(list, message["args"]), kwargs


def exports(found: Any, names: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """How each name appears: ``value`` and the value, or a kind and what stands for it."""
    result = {}
    for name, how in _kind(dict, found).items():
        if type(name) is not str or name not in names:
            raise Gone("a malformed message: a name that nobody asked for")
        kind, body = _pair(how)
        if kind not in _EXPORTS:
            raise Gone("a malformed message: an unknown kind")
        if kind == "error":
            body = _mro(body)
        elif kind != "value":
            body = _number(body)
        result[name] = (kind, body)
    return result


def reference(body: Any) -> int:
    """The number of an object of the program's; raises `codec.CodecError`."""
    if type(body) is not dict or list(body) != ["object"] or type(body["object"]) is not int:
        raise codec.CodecError("a malformed reference")
    if not 0 <= body["object"] < _MAX_NUMBER:
        raise codec.CodecError("a reference out of range")
    return int(body["object"])


class Errors:
    """Exception classes of ours that stand for the program's."""

    def __init__(self) -> None:
        self._kinds: dict[int, type[Exception]] = {}

    def error(self, mro: Mro, args: tuple[Any, ...]) -> Exception | None:
        """An exception like the program's; None for what no `Exception` is, such as an exit."""
        if not any(_builtin(entry) is Exception for entry in mro):
            return None
        kind = self.kind(mro)
        try:
            return kind(*args)
        except Exception:  # noqa: BLE001 - a builtin that needs other arguments
            error = kind.__new__(kind)
            error.args = args
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
        name, number = mro[0]
        if number not in self._kinds:
            if number < 0 or len(self._kinds) >= _MAX_ERRORS:
                raise Gone("a malformed message: an unknown exception")
            self._kinds[number] = _like(name, self._bases(mro[1:]))
        return self._kinds[number]

    def _bases(self, rest: Mro) -> tuple[type[Exception], ...]:
        """The nearest ancestors, none of which derives from another."""
        bases: list[type[Exception]] = []
        for place, entry in enumerate(rest):
            if _builtin(entry) is None and entry[1] < 0:
                continue  # object, BaseException, or a class of a library
            ancestor = self.kind(rest[place:])
            if not any(issubclass(base, ancestor) for base in bases):
                bases.append(ancestor)
        return tuple(bases) or (Exception,)


def _like(name: str, bases: tuple[type[Exception], ...]) -> type[Exception]:
    for chosen in (bases, bases[:1], (Exception,)):
        try:
            return type(name, chosen, {"__module__": "solution"})
        except TypeError:  # bases that do not go together
            continue
    raise Gone("a malformed message: an impossible exception")


def _builtin(entry: tuple[str, int]) -> type[Exception] | None:
    name, number = entry
    found = getattr(builtins, name, None) if number < 0 else None
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _mro(body: Any) -> Mro:
    entries = [_pair(item) for item in _kind(list, body)]
    for name, number in entries:
        if type(name) is not str or not name.isidentifier() or len(name) > _NAME_CHARS:
            raise Gone("a malformed message: a name of an exception")
        if type(number) is not int or not -1 <= number < _MAX_NUMBER:
            raise Gone("a malformed message: a number of an exception")
    if not 0 < len(entries) <= _MAX_MRO:
        raise Gone("a malformed message: the ancestors of an exception")
    return entries


def _mutable(place: Any, args: Sequence[Any]) -> type:
    if type(place) is not int or not 0 <= place < len(args) or type(args[place]) not in _MUTABLE:
        raise Gone("a malformed message: an argument that is not there")
    return type(args[place])


def _keys(message: Mapping[Any, Any], always: set[str], *one_of: tuple[str, ...]) -> None:
    if not any(message.keys() == always | set(more) for more in one_of):
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
