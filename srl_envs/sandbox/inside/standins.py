"""What the tests see in place of the program's functions, classes and objects.

A stand-in holds a number and asks the program. Three rules keep the verdict with the tests:

- an object of the program's never equals plain data and has no order with it;
- an object that a function *gave* (instead of the plain data that the tests expect) answers nothing
  about the tests' data: no arithmetic with it, no ``startswith``, and ``in`` looks at its items;
- an object that the tests *made*, by calling a class, takes numbers and texts as operands, but the
  result says nothing of its size, sign or truth.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

from . import suite


class Peer(Protocol):
    """Who asks the program."""

    def ask(self, operation: str, *args: Any) -> Any:
        """Have the program apply an operator."""

    def call(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Have the program call one of its objects."""

    def may_read(self, name: str) -> bool:
        """Whether the tests' text names this attribute."""


GIVEN, MADE, MIXED = range(3)
"""Where a remote comes from: the program gave it, the tests made it, arithmetic with plain data."""

_PREDICATES = frozenset(
    name
    for kind in (str, bytes, set, frozenset, float)
    for name in dir(kind)
    if name.startswith("is") or name.endswith(("swith", "difference", "intersection"))
)
"""Methods of plain data that compare it with what they are given."""
_SCALARS = (int, float, complex, str, bytes, Decimal, Fraction, type(None))


class Remote:
    """An object of the program's that has no JSON form."""

    __slots__ = ("__number__", "__origin__", "__peer__")  # the program may have a `_number`

    def __init__(self, peer: Peer, number: int) -> None:
        object.__setattr__(self, "__peer__", peer)
        object.__setattr__(self, "__number__", number)
        object.__setattr__(self, "__origin__", GIVEN)

    def __getattr__(self, name: str) -> Any:
        if suite.is_dunder(name) or not _peer_of(self).may_read(name):
            raise AttributeError(f"{name}: the tests' text does not name it")
        if name in _PREDICATES and _origin(self) == GIVEN:
            raise TypeError(f"{name}() of an object that is no plain data")
        return _ask("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        _ask("delattr", self, name)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("an object of the program cannot be copied by the tests")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object, where it lives."""
        return _peer_of(self).call(object.__getattribute__(self, "__number__"), args, kwargs)

    def __eq__(self, other: object) -> bool:
        return type(other) is Remote and (self is other or _ask("eq", self, other) is True)

    def __ne__(self, other: object) -> bool:
        return type(other) is not Remote or _ask("ne", self, other) is True

    def __hash__(self) -> int:
        value = _ask("hash", self)
        if type(value) is not int:
            raise TypeError(f"hash returned {type(value).__name__}")
        return value

    def __iter__(self) -> Iterator[Any]:
        iterator = _ask("iter", self)
        if type(iterator) is not Remote:
            return iter(iterator)
        return _items(iterator)

    def __next__(self) -> Any:
        return _ask("next", self)

    def __contains__(self, item: Any) -> bool:
        if _origin(self) == MADE:
            return _ask("contains", self, item) is True
        return any(item is found or item == found for found in self)

    def __getitem__(self, key: Any) -> Any:
        return _ask("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _ask("setitem", self, key, value)

    def __delitem__(self, key: Any) -> None:
        _ask("delitem", self, key)

    def __reversed__(self) -> Any:
        return _ask("reversed", self)

    def __enter__(self) -> Any:
        return _ask("getattr", self, "__enter__")()

    def __exit__(self, *_: object) -> None:
        _ask("getattr", self, "__exit__")(None, None, None)


def _items(iterator: Any) -> Iterator[Any]:
    while True:
        try:
            item = _ask("next", iterator)
        except StopIteration:
            return
        yield item


def _peer_of(remote: Remote) -> Peer:
    return object.__getattribute__(remote, "__peer__")  # type: ignore[no-any-return]


def _origin(remote: Remote) -> int:
    return object.__getattribute__(remote, "__origin__")  # type: ignore[no-any-return]


def _ask(operation: str, remote: Remote, *args: Any) -> Any:
    return _peer_of(remote).ask(operation, remote, *args)


# -- operators -------------------------------------------------------------------------------------


def _question(operation: str, kinds: type | tuple[type, ...]) -> Callable[[Remote], Any]:
    """An operator on the object alone, whose answer has a known type.

    Refused for the result of arithmetic with plain data: ``abs(Money(2) - 1.5) < 1e-6`` would
    otherwise be decided by the program's own ``__sub__`` and ``__abs__``.
    """

    def method(self: Remote) -> Any:
        if _origin(self) == MIXED:
            raise TypeError(f"{operation} of an object that was computed with the tests' data")
        value = _ask(operation, self)
        if not isinstance(value, kinds) and type(value) is not Remote:
            raise TypeError(f"{operation} returned {type(value).__name__}")
        if type(value) is Remote:
            mark(value, _origin(self))
        return value

    return method


def _arithmetic(operation: str, *, swapped: bool = False) -> Callable[[Remote, Any], Any]:
    """A binary operator; with plain data on one side its result must stay an object."""

    def method(self: Remote, other: Any) -> Any:
        plain = type(other) is not Remote
        if plain and (_origin(self) == GIVEN or not isinstance(other, _SCALARS)):
            raise TypeError(
                f"{operation} of an object that is no plain data and the tests' own data"
            )
        value = _ask2(operation, other, self) if swapped else _ask(operation, self, other)
        if plain and type(value) is not Remote:
            raise TypeError(f"{operation} of an object and plain data gave plain data")
        if type(value) is Remote:
            mark(value, MIXED if plain else max(_origin(self), _origin(other)))
        return value

    return method


def _ask2(operation: str, other: Any, remote: Remote) -> Any:
    return _peer_of(remote).ask(operation, other, remote)


def mark(remote: Remote, origin: int) -> None:
    """Note where an object comes from; what was once mixed stays so."""
    object.__setattr__(remote, "__origin__", max(origin, _origin(remote)))


def _order(operation: str) -> Callable[[Remote, Any], Any]:
    def method(self: Remote, other: Any) -> Any:
        return _ask(operation, self, other) is True if type(other) is Remote else NotImplemented

    return method


_NUMBER = (int, float, complex)
_BINARY = """
add sub mul truediv floordiv mod pow matmul and or xor lshift rshift
""".split()  # noqa: SIM905 - a word list reads better than many quotes
for _name, _kinds in {"str": str, "repr": str, "len": int, "int": int, "float": float}.items():
    setattr(Remote, f"__{_name}__", _question(_name, _kinds))
for _name in ("abs", "neg", "pos", "invert", "index", "round"):
    setattr(Remote, f"__{_name}__", _question(_name, _NUMBER))
Remote.__bool__ = _question("bool", bool)  # type: ignore[attr-defined]
for _name in _BINARY:
    _operator = _name + "_" if _name in ("and", "or") else _name
    setattr(Remote, f"__{_name}__", _arithmetic(_operator))
    setattr(Remote, f"__r{_name}__", _arithmetic(_operator, swapped=True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Remote, f"__{_name}__", _order(_name))


# -- functions and classes -------------------------------------------------------------------------


def function(peer: Peer, name: str, number: int) -> types.FunctionType:
    """A stand-in for a function of the program's."""

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return peer.call(number, args, kwargs)

    stand_in.__name__ = stand_in.__qualname__ = name
    assert isinstance(stand_in, types.FunctionType)
    return stand_in


class ClassMeta(type):
    """Type of the stand-ins for the program's classes."""

    _peer: Peer
    _number: int

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an object, where the class lives."""
        value = cls._peer.call(cls._number, args, kwargs)
        # Only the tests' spelling says that they call a class: a program may say so of any name.
        if type(value) is Remote and cls.__name__[:1].isupper():
            mark(value, MADE)
        return value

    def __instancecheck__(cls, instance: Any) -> bool:
        if type(instance) is not Remote:
            return False
        return cls._peer.ask("isinstance", instance, cls) is True

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_") or not cls._peer.may_read(name):
            raise AttributeError(f"{name}: the tests' text does not name it")
        return cls._peer.ask("getattr", cls, name)

    def __getitem__(cls, key: Any) -> Any:
        return cls._peer.ask("getitem", cls, key)

    def __iter__(cls) -> Iterator[Any]:
        return iter(cls._peer.ask("list", cls))


def make_class(peer: Peer, name: str, number: int) -> type:
    """A stand-in for a class of the program's."""
    return ClassMeta(
        name, (), {"_peer": peer, "_number": number, "__init_subclass__": _no_subclass}
    )


def _no_subclass(_cls: type, **_: Any) -> None:
    raise TypeError("the tests cannot derive a class from one of the program's")


def number_of(value: Any) -> int | None:
    """The program's number for an object or a class; None for anything else."""
    if type(value) is Remote:
        return object.__getattribute__(value, "__number__")  # type: ignore[no-any-return]
    return value._number if type(value) is ClassMeta else None
