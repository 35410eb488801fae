"""What the tests see in place of the program's objects.

A stand-in holds a number and asks the program. These rules keep the verdict with the tests:

- an object of the program's never equals plain data, has no order with it, and takes no operand from
  the tests, unless the tests made it by calling a class and no function has handed it back since;
- what was answered once is the answer, until something happened that may have changed the object:
  its length, items and number are one reading, and another answer to the same question is refused;
- an object that a function gave has none of the methods of plain data, such as ``count``.

What these rules cannot decide is refused, for which `Peer.refuse` and `Peer.doubt` give the reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

GIVEN, MADE = range(2)
"""Where an object comes from: a function gave it, or the tests made it."""


class Peer(Protocol):
    """Interface through which stand-ins ask the program."""

    clock: int
    """Grows with each request that may change an object."""
    answers: dict[Any, Any]
    """Answers about data of the program's classes, by question."""
    mixed_data: bool
    """Whether an operator of such data took an operand of the tests'."""
    fleeting: list[tuple[State, Any]]
    """Answers that are not kept beyond the next such request."""

    def ask(self, operation: str, *args: Any) -> Any:
        """Have the program apply an operator."""

    def act(self, operation: str, *args: Any) -> Any:
        """The same, where it may change something."""

    def may_read(self, name: str) -> bool:
        """Whether the tests' text names this attribute."""

    def refuse(self, reason: str) -> NoReturn:
        """Give up: these tests cannot judge this program."""

    def doubt(self, reason: str) -> None:
        """Note why a failure from now on may not be the program's."""


class Reasons:
    """Why a run is refused; a fixed text each."""

    ANSWERS = "an object that the program gave answers one question in two ways"
    OPERAND = "the tests' data would be an operand of an object that the program gave"
    RESULT = "an operator of the program's on the tests' data would give plain data"
    METHOD = "a method of plain data is called on an object that the program gave"
    EQUALITY = "an object of the program's is compared with plain data"
    SUBCLASS = "the tests derive a class from one of the program's"
    MEMBERS = "a class of the program's that is plain data in part was read as plain data"
    ALIAS = "data that the program gave was changed by it later"
    LARGE = "a container that the tests and the program share is too large to be watched"
    ARGUMENT = "an argument is an object that no program can be given"
    CALLABLE = "an argument is an object of which the program can be given only the call"
    STATE = "the tests set or watch state of their own process, which is not the program's"
    EMPTY = "an assert held only because there was nothing to look at"
    SHAPE = "an array that the program gave is compared with one number"


def _methods_of(*kinds: type) -> frozenset[str]:
    return frozenset(
        name
        for kind in kinds
        for name in dir(kind)
        if not name.startswith("_") and callable(getattr(kind, name))
    )


_CHANGING = (
    _methods_of(list, dict, set, deque, bytearray)
    - _methods_of(tuple, frozenset, str, bytes)
    - {"get", "items", "keys", "values", "fromkeys", "maxlen"}
)
_EQUALS = frozenset(["equals", "equal", "is_equal", "isequal"])
QUERIES = (
    _methods_of(str, bytes, list, tuple, dict, set, frozenset, float) - _CHANGING
    | _EQUALS
    | frozenset(
        """all any allclose as_tuple compare elements is_close isclose isoformat most_common strftime
total_seconds weekday""".split()  # noqa: SIM905 - a word list reads better than many quotes
    )
)
"""Methods that answer questions about plain data."""


class State:
    """What is known of one object of the program's."""

    __slots__ = (
        "before", "born", "exhausted", "hash", "mixed", "number", "origin", "peer", "read", "touched",
    )  # fmt: skip

    def __init__(self, peer: Peer, number: int) -> None:
        self.peer = peer
        self.number = number
        self.origin = self.before = GIVEN
        self.born = 0
        """Number of the request in whose reply it first appeared."""
        self.mixed = False
        """Computed with the tests' data: its number and size would answer about these."""
        self.hash: int | None = None
        self.read: dict[Any, tuple[int, Any]] = {}
        """Answers by question, with the time that each was given at."""
        self.touched = 0
        """When the tests last did something to the object."""
        self.exhausted = False


class ClassMeta(type):
    """Type of the stand-ins for the program's classes; `classes` gives each of them its members."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], body: dict[str, Any], peer: Peer | None = None
    ) -> ClassMeta:
        """A class; without a peer, it is one of the tests' that derives from a stand-in."""
        if peer is None and bases:
            for base in bases:
                if isinstance(base, ClassMeta):
                    base.__peer__.refuse(Reasons.SUBCLASS)
        made = super().__new__(cls, name, bases, body)
        if peer is not None:
            made.__peer__ = peer
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **_: Any) -> None:
        super().__init__(name, bases, body)

    __peer__: Peer
    __number__: int
    __kinds__: frozenset[int]
    __methods__: frozenset[str]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an object, where the class lives."""
        return cls.__peer__.act("make", cls, args, tuple(kwargs.items()))

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, kind: type) -> bool:
        if cls is Remote:
            return type(kind) is ClassMeta
        return isinstance(kind, ClassMeta) and cls.__number__ in kind.__kinds__

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or cls is Remote or not cls.__peer__.may_read(name):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return cls.__peer__.ask("getattr", cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith("_") or name in vars(cls):
            super().__setattr__(name, value)
        else:
            cls.__peer__.act("setattr", cls, name, value)

    def __getitem__(cls, key: Any) -> Any:
        return cls.__peer__.ask("getitem", cls, key)


class Remote(metaclass=ClassMeta):
    """An object of the program that is not data."""

    __slots__ = ("__state__",)
    __match_args__: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        act(self, "setattr", name, value)

    def __delattr__(self, name: str) -> None:
        act(self, "delattr", name)

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return question(self, "vars")  # type: ignore[no-any-return]

    def __copy__(self) -> Any:
        return copied(self, "copy")

    def __deepcopy__(self, _: Any) -> Any:
        return copied(self, "deepcopy")

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("an object of the program cannot be pickled")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        state = state_of(self)
        return hash(("object", state.number)) if state.hash is None else state.hash

    def __str__(self) -> str:
        return question(self, "str", kinds=str)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return question(self, "repr", kinds=str)  # type: ignore[no-any-return]

    def __format__(self, spec: str) -> str:
        return question(self, "format", spec, kinds=str)  # type: ignore[no-any-return]


def state_of(remote: Any) -> State:
    """The state kept for an object."""
    return object.__getattribute__(remote, "__state__")  # type: ignore[no-any-return]


def is_remote(value: Any) -> bool:
    """Whether a value is an object of the program's."""
    return type(type(value)) is ClassMeta


def is_programs(value: Any) -> bool:
    """Whether a value is of a class of the program's."""
    return is_remote(value) or hasattr(type(value), "__class_number__")


def new(peer: Peer, kind: Any, number: int) -> Any:
    """A stand-in for an object of a class."""
    remote = object.__new__(kind)
    object.__setattr__(remote, "__state__", State(peer, number))
    return remote


# -- questions -------------------------------------------------------------------------------------


def question(
    remote: Any, name: str, *args: Any, kinds: Any = object, may_change: bool = False
) -> Any:
    """An answer of the object's: the recorded one, if nothing has happened since it was given.

    Args:
        remote: the object.
        name: the operation.
        args: its other operands.
        kinds: types that an answer may have.
        may_change: any request to the program may change the answer, as with attributes.
    """
    state = state_of(remote)
    if state.mixed and name not in _MIXED_MAY:
        state.peer.refuse(Reasons.OPERAND)
    try:
        key = (name, *map(_key, args))
    except TypeError:  # operands that change are asked about each time
        return state.peer.ask(name, remote, *args)
    clock, value = state.read.get(key, (-1, None))
    if clock == state.peer.clock:
        return _given(value)
    found = _asked(remote, name, args)
    if not isinstance(found, (kinds, _Raised)):
        raise TypeError(f"{name} returned {type(found).__name__}")
    free = may_change or state.origin == MADE or state.touched > clock
    if clock >= 0 and not free and not alike(found, value):
        state.peer.refuse(Reasons.ANSWERS)
    state.read[key] = (state.peer.clock, found)
    if may_change or state.origin == MADE:
        state.peer.fleeting.append((state, key))
    return _given(found)


def _asked(remote: Any, name: str, args: tuple[Any, ...]) -> Any:
    try:
        return state_of(remote).peer.ask(name, remote, *args)
    except Exception as error:  # noqa: BLE001 - an answer like any other
        return _Raised(error)


def _given(value: Any) -> Any:
    if isinstance(value, _Raised):
        raise value.error
    return value


class _Raised:
    def __init__(self, error: Exception) -> None:
        self.error = error


_MIXED_MAY = frozenset({"str", "repr", "format", "eq", "getattr", "vars", "lt", "le", "gt", "ge"})


def _key(value: Any) -> Any:
    """What makes an operand the same; raises TypeError for one that may change."""
    if is_remote(value):
        return ("object", state_of(value).number)
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    hash(value)
    return (type(value), value)


def alike(a: Any, b: Any) -> bool:
    """Whether two answers are the same, without asking any object."""
    if type(a) is not type(b):
        return False
    if is_remote(a):
        return a is b
    if isinstance(a, _Raised):
        return type(a.error) is type(b.error)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(map(alike, a.items(), b.items()))
    if type(a).__module__ == "numpy":
        return bool(a.shape == b.shape and a.tobytes() == b.tobytes())
    if callable(a):
        return True
    return bool(a == b) or bool(repr(a) == repr(b) == "nan")


def act(remote: Any, name: str, *args: Any) -> Any:
    """Apply an operation that may change the object."""
    state = state_of(remote)
    try:
        return state.peer.act(name, remote, *args)
    finally:
        state.touched = state.peer.clock


def attribute(remote: Any, name: str) -> Any:
    """An attribute, or a method that is called where the object lives."""
    state = state_of(remote)
    special = name.startswith("__") and name.endswith("__") and name not in _READABLE
    if special or not state.peer.may_read(name):
        raise AttributeError(f"{type(remote).__name__!r} object has no attribute {name!r}")
    if name in type(remote).__methods__:
        return _method(remote, name)
    value = question(remote, "getattr", name, may_change=True)
    if state.origin == GIVEN and name in QUERIES and callable(value):
        state.peer.refuse(Reasons.METHOD)
    return value


_READABLE = frozenset(["__name__", "__qualname__", "__wrapped__", "__annotations__"])
"""Attributes of functions that carry attributes of their own, and are objects therefore."""


def _method(remote: Any, name: str) -> Callable[..., Any]:
    state = state_of(remote)
    if state.origin == GIVEN and name in QUERIES:
        state.peer.refuse(Reasons.METHOD)

    def method(*args: Any, **kwargs: Any) -> Any:
        if name in _EQUALS and not all(map(is_remote, (*args, *kwargs.values()))):
            state.peer.refuse(Reasons.EQUALITY)
        return act(remote, "invoke", name, args, tuple(kwargs.items()))

    method.__name__ = method.__qualname__ = name
    return method


def copied(remote: Any, how: str) -> Any:
    """A copy, which is the tests' own where the object is."""
    value = act(remote, how)
    if is_remote(value):
        state_of(value).origin = state_of(remote).origin
    return value
