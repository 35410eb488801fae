"""Stand-ins for the program's classes: a real enum, a real named tuple, or a class of remotes.

The program's description of a class is read once. A member of an enum and a named tuple are data, so the
real type's own methods answer for them; what its class adds is asked for where it lives. A dataclass is
compared, ordered and shown by its fields, on the tests' side, where its decorator wrote these methods.
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import enum
import keyword
from collections.abc import Callable
from typing import Any

from ..exchange import codec
from . import operators, standins
from .operators import METHODS
from .replies import Mro, mro_of
from .standins import ClassMeta, Peer, Reasons, Remote

_MAX_CLASSES = 2000
_MAX_FIELDS = 1000
_ENUMS = {k.__name__: k for k in (enum.IntFlag, enum.Flag, enum.IntEnum, enum.StrEnum, enum.Enum)}
_MIXED: dict[str, type] = {"int": int, "str": str, "float": float}
_FUNCTIONS = ("function", "method", "_lru_cache_wrapper")
"""Kinds of functions, which are objects here where they carry attributes; each has a text of its own."""
_SHOWN = ("__str__", "__repr__", "__format__")


class Classes:
    """The stand-ins, by the program's number.

    Args:
        peer: who asks the program.
        decode: reads a value in a description.
    """

    def __init__(self, peer: Peer, decode: Callable[[Any], Any]) -> None:
        self._peer = peer
        self._decode = decode
        self._classes: dict[int, Any] = {}

    def of(self, body: Any) -> Any:
        """The class of a number, or of a number with its description."""
        number, *description = codec.as_kind(list, body)
        if type(number) is not int or number < 0:
            raise codec.CodecError("not a number of a class")
        if number in self._classes:
            return self._classes[number]
        if not description or len(self._classes) >= _MAX_CLASSES:
            raise codec.CodecError("a class that was not described")
        made = self._made(number, *codec.as_kind(list, description[0]))
        self._classes[number] = made
        return made

    def _made(  # noqa: PLR0917 - the parts of a description
        self, number: int, mro: Any, doc: Any, dunders: Any, methods: Any, sort: Any
    ) -> Any:
        ancestors = mro_of(mro)
        names = frozenset(map(_word, codec.as_kind(list, methods)))
        special = [name for name in codec.as_kind(list, dunders) if name in METHODS]
        if sort is not None and sort[0] == "enum":
            made = self._enum(ancestors[0][0], *sort[1:])
        elif sort is not None and sort[0] == "record":
            made = self._record(ancestors[0][0], *sort[1:])
        else:
            made = self._plain(ancestors, special, sort)
        if doc is not None:
            made.__doc__ = codec.as_kind(str, doc)
        if isinstance(made, ClassMeta) and ancestors[0][0] in _FUNCTIONS:
            made.__doc__ = property(_own_doc)  # type: ignore[assignment]
        if not isinstance(made, ClassMeta):
            _lend(made, self._peer, number, names, dunders)
            return made
        made.__number__, made.__methods__ = number, names
        made.__kinds__ = frozenset({number, *(n for _, n, _ in ancestors if n >= 0)})
        return made

    # -- classes of remotes ------------------------------------------------------------------------

    def _plain(self, mro: Mro, special: list[str], sort: Any) -> Any:
        body: dict[str, Any] = {"__slots__": (), "__module__": "solution"}
        body |= {name: METHODS[name] for name in special}
        if "__eq__" in body and "__hash__" not in body:
            body["__hash__"] = Remote.__hash__
        data = next((name for name, number, _ in mro if number < 0 and name != "object"), "")
        if data and "__eq__" in body:
            body["__eq__"] = _equal_to_data
        if sort is not None:
            body |= _dataclass(*sort[1:])
        return ClassMeta(mro[0][0], (Remote,), body, peer=self._peer)

    # -- data --------------------------------------------------------------------------------------

    def _record(self, name: str, fields: Any, defaults: Any) -> Any:
        words = [_word(field) for field in codec.as_kind(list, fields)]
        base = collections.namedtuple(name, words)  # type: ignore[misc]
        known = {_word(key): self._decode(value) for key, value in defaults}
        made = _RecordMeta(name, (base,), {"__slots__": (), "__module__": "solution"})
        type.__setattr__(made, "_field_defaults", known)
        return made

    def _enum(self, name: str, base: Any, mixed: Any, members: Any) -> Any:
        kind: Any = _ENUMS[base]
        pairs = [(_word(key), self._decode(value)) for key, value in members]
        if len(pairs) > _MAX_FIELDS:
            raise codec.CodecError("an enum with too many members")
        mixes = kind is enum.Enum and mixed in _MIXED
        made = kind(name, pairs, **({"type": _MIXED[mixed]} if mixes else {}))
        made.__module__ = "solution"
        return made


class _RecordMeta(type):
    """Type of named tuples that the program makes, when the tests call their class."""

    __class_number__: int
    __peer__: Peer

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make one, where its class lives."""
        return cls.__peer__.act("make", cls, args, tuple(kwargs.items()))

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or not cls.__peer__.may_read(name):
            raise AttributeError(name)
        return cls.__peer__.ask("getattr", cls, name)


def _lend(made: Any, peer: Peer, number: int, methods: frozenset[str], dunders: list[str]) -> None:
    """Let data of this class be asked for what only the program's class has."""

    def missing(self: Any, name: str) -> Any:
        if name.startswith("_") or not peer.may_read(name):
            raise AttributeError(f"{made.__name__!r} object has no attribute {name!r}")
        if name in standins.QUERIES:
            peer.refuse(Reasons.METHOD)
        if name not in methods:
            return _recorded(peer, self, "getattr", name)

        def method(*args: Any, **kwargs: Any) -> Any:
            return peer.act("invoke", self, name, args, tuple(kwargs.items()))

        return method

    lent: dict[str, Any] = {"__getattr__": missing, "__class_number__": number, "__peer__": peer}
    for name in dunders:
        if name in _SHOWN:
            lent[name] = _shown(peer, name)
        elif name in operators.UNARY:
            lent[name] = _unary(peer, name)
        elif name in operators.COMPARED:
            lent[name] = METHODS[name]
    for name, value in lent.items():
        type.__setattr__(made, name, value)


def _own_doc(remote: Any) -> Any:
    return standins.question(remote, "getattr", "__doc__")


def _shown(peer: Peer, name: str) -> Callable[..., Any]:
    def method(self: Any, *spec: Any) -> Any:
        return codec.as_kind(str, _recorded(peer, self, name.strip("_"), *spec))

    return method


def _unary(peer: Peer, name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        if peer.mixed_data:  # it may be what an operator made of the tests' data
            peer.refuse(Reasons.OPERAND)
        return _recorded(peer, self, name.strip("_"), *args)

    return method


def _recorded(peer: Peer, value: Any, name: str, *args: Any) -> Any:
    """An answer about data of the program's class: the data cannot change, nor may the answer."""
    found = peer.ask(name, value, *args)
    try:
        key = (type(value), value, name, args)
        known = peer.answers.setdefault(key, found)
    except TypeError:  # data that holds a list
        return found
    if not standins.alike(known, found):
        peer.refuse(Reasons.ANSWERS)
    return found


def number_of(kind: Any) -> int | None:
    """The program's number of a class; None for any other value."""
    if not isinstance(kind, type):
        return None
    if type(kind) is ClassMeta:
        return None if kind is Remote else kind.__number__
    return vars(kind).get("__class_number__")


# -- dataclasses -----------------------------------------------------------------------------------


def _dataclass(fields: Any, generated: Any) -> dict[str, Any]:
    """What a dataclass has beside the methods that were written by hand."""
    if len(codec.as_kind(list, fields)) > _MAX_FIELDS:
        raise codec.CodecError("a dataclass with too many fields")
    rows = [
        (_word(name), bool(compare), bool(shown), bool(init), shown_kind(kind))
        for name, compare, shown, init, kind in fields
    ]
    template: Any = dataclasses.make_dataclass(
        "template",
        [
            (name, kind, dataclasses.field(compare=compare, repr=shown, init=init))
            for name, compare, shown, init, kind in rows
        ],
    )
    body: dict[str, Any] = {
        "__dataclass_fields__": template.__dataclass_fields__,
        "__dataclass_params__": template.__dataclass_params__,
        "__match_args__": template.__match_args__,
    }
    compared = [name for name, compare, *_ in rows if compare]
    if "__eq__" in generated:
        body["__eq__"] = _fields_equal(compared)
    if "__lt__" in generated:
        body |= {f"__{name}__": _fields_order(compared, name) for name in ("lt", "le", "gt", "ge")}
    if "__repr__" in generated:
        body["__repr__"] = _fields_shown([name for name, _, shown, *_ in rows if shown])
    return body


def shown_kind(kind: Any) -> Any:
    """An annotation that crossed: a builtin type, or a text."""
    how, text = kind
    if how == "type":
        found = vars(builtins).get(codec.as_kind(str, text))
        return found if isinstance(found, type) else text
    return codec.as_kind(str, text)


def _values(remote: Any, names: list[str]) -> tuple[Any, ...]:
    return tuple(standins.question(remote, "getattr", name, may_change=True) for name in names)


def _fields_equal(names: list[str]) -> Callable[[Any, Any], Any]:
    def equal(self: Any, other: Any) -> Any:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        return _values(self, names) == _values(other, names)

    return equal


def _fields_order(names: list[str], how: str) -> Callable[[Any, Any], Any]:
    def order(self: Any, other: Any) -> Any:
        if type(self) is not type(other):
            return NotImplemented
        return getattr(_values(self, names), f"__{how}__")(_values(other, names))

    return order


def _fields_shown(names: list[str]) -> Callable[[Any], str]:
    def shown(self: Any) -> str:
        inner = ", ".join(f"{n}={v!r}" for n, v in zip(names, _values(self, names), strict=True))
        return f"{type(self).__qualname__}({inner})"

    return shown


def _equal_to_data(self: Any, other: Any) -> bool:
    """Equality of an object whose class derives from a plain type."""
    if self is other:
        return True
    if standins.is_programs(other):
        return operators.equal(self, other)
    found = standins.question(self, "base")
    return type(found) is type(other) and bool(found == other)


def _word(name: Any) -> str:
    """A name that a program may give to a field; raises `codec.CodecError` for any other."""
    if type(name) is not str or not name.isidentifier() or keyword.iskeyword(name):
        raise codec.CodecError("not a name")
    return name
