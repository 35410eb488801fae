"""What Python calls by itself on an object of the program's: items, numbers, comparison, operators.

`METHODS` is the table that a class of stand-ins takes its special methods from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

from .standins import (
    GIVEN,
    MADE,
    Peer,
    Reasons,
    act,
    alike,
    is_programs,
    is_remote,
    question,
    state_of,
)

MAX_ITEMS = 10_000
"""Items of an object that are read to answer for one of them."""
_SCALARS = (int, float, complex, str, bytes, Decimal, Fraction, type(None))

# -- items -----------------------------------------------------------------------------------------


class _Items:
    """The items of an object, read once, so that later reads return the same."""

    def __init__(self, remote: Any, before: list[Any] | None) -> None:
        self._peer = state_of(remote).peer
        self.found: list[Any] = []
        self.whole = False
        self._before = before
        iterator = self._peer.ask("iter", remote)
        self.itself = iterator is remote
        self._iterator = iterator

    def item(self, place: int) -> Any:
        """The item at a place; raises IndexError behind the last one."""
        while not self.whole and len(self.found) <= place:
            self._pull()
        return self.found[place]

    def _pull(self) -> None:
        try:
            item = next(self._iterator) if not is_remote(self._iterator) else self._next()
        except StopIteration:
            self.whole = True
            if self._before is not None and len(self._before) != len(self.found):
                self._peer.refuse(Reasons.ANSWERS)
            return
        before = self._before
        if before is not None and not (
            len(self.found) < len(before) and alike(before[len(self.found)], item)
        ):
            self._peer.refuse(Reasons.ANSWERS)
        self.found.append(item)

    def _next(self) -> Any:
        return self._peer.ask("next", self._iterator)

    def all(self) -> list[Any]:
        """All of them, within limits."""
        while not self.whole:
            if len(self.found) >= MAX_ITEMS:
                self._peer.refuse("an object whose items have no end is asked for one of them")
            self._pull()
        return self.found


def _items(remote: Any) -> _Items:
    state = state_of(remote)
    clock, items = state.read.get("items", (-1, None))
    if clock == state.peer.clock:
        return items  # type: ignore[no-any-return]
    if state.mixed:
        state.peer.refuse(Reasons.OPERAND)
    free = state.origin == MADE or state.touched > clock or items is None or not items.whole
    items = _Items(remote, None if free else items.found)
    state.read["items"] = (state.peer.clock, items)
    if state.origin == MADE:
        state.peer.fleeting.append((state, "items"))
    return items


def _iter(remote: Any) -> Any:
    state = state_of(remote)
    origin = state.origin
    items = _items(remote)
    if items.itself:
        state.origin = origin
        return remote
    return _walk(remote, items)


def _walk(remote: Any, items: _Items) -> Iterator[Any]:
    place = 0
    while True:
        try:
            item = items.item(place)
        except IndexError:
            _whole(remote, items)
            return
        yield item
        place += 1


def _whole(remote: Any, items: _Items) -> None:
    """Hold a recorded length to the number of items."""
    state = state_of(remote)
    clock, length = state.read.get(("len",), (-1, None))
    if state.origin == GIVEN and clock == state.peer.clock and length != len(items.found):
        state.peer.refuse(Reasons.ANSWERS)


def _next(remote: Any) -> Any:
    state = state_of(remote)
    try:
        item = act(remote, "next")
    except StopIteration:
        state.exhausted = True
        raise
    if state.exhausted and state.origin == GIVEN:
        state.peer.refuse(Reasons.ANSWERS)
    return item


def _is_read(remote: Any) -> bool:
    """Whether the object's items answer for it: a function gave it, and it can be read."""
    kind = type(remote)
    return (
        state_of(remote).origin == GIVEN
        and "__iter__" in vars(kind)
        and "__next__" not in vars(kind)
    )


def _len(remote: Any) -> int:
    length = question(remote, "len", kinds=int)
    state = state_of(remote)
    clock, items = state.read.get("items", (-1, None))
    if _is_read(remote) and clock == state.peer.clock and items.whole:
        _whole(remote, items)
    return length  # type: ignore[no-any-return]


def _getitem(remote: Any, key: Any) -> Any:
    state = state_of(remote)
    if not _is_read(remote) or not isinstance(key, (int, slice)):
        return question(remote, "getitem", key)
    items = _items(remote).all()
    try:
        found = question(remote, "getitem", key)
    except (IndexError, KeyError):
        if isinstance(key, slice) or -len(items) <= key < len(items):
            state.peer.refuse(Reasons.ANSWERS)
        raise
    if isinstance(key, slice):
        same = isinstance(found, (list, tuple, str)) and alike(list(found), items[key])
    else:
        same = -len(items) <= key < len(items) and alike(found, items[key])
    if not same:
        state.peer.refuse(Reasons.ANSWERS)
    return found


def _contains(remote: Any, item: Any) -> bool:
    if state_of(remote).origin == MADE or is_remote(item):
        return question(remote, "contains", item) is True
    if "__iter__" not in vars(type(remote)):
        state_of(remote).peer.refuse(Reasons.OPERAND)
    return any(item is found or item == found for found in _iter(remote))


def _reversed(remote: Any) -> Any:
    if _is_read(remote):
        return reversed(list(_iter(remote)))
    return state_of(remote).peer.ask("reversed", remote)


# -- numbers and comparison ------------------------------------------------------------------------


def _scalar(name: str, kinds: Any) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        value = question(self, name, kinds=kinds)
        _hold_together(self)
        return value

    return method


def _hold_together(remote: Any) -> None:
    """Hold the numbers that an object gave as its value to each other."""
    state = state_of(remote)
    found = {}
    for name in ("int", "float", "index", "complex"):
        clock, value = state.read.get((name,), (-1, None))
        if clock == state.peer.clock:
            found[name] = value
    real = found.get("float")
    whole = [found[name] for name in ("int", "index") if name in found]
    if real is not None and math.isfinite(real) and any(n != math.trunc(real) for n in whole):
        state.peer.refuse(Reasons.ANSWERS)
    if len(set(whole)) > 1 or ("complex" in found and real not in (None, found["complex"])):
        state.peer.refuse(Reasons.ANSWERS)


def _bool(remote: Any) -> bool:
    return question(remote, "bool", kinds=bool)  # type: ignore[no-any-return]


def _unary(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        state = state_of(self)
        value = question(self, name, *args)
        if is_remote(value):
            state_of(value).mixed = state.mixed
        elif state.origin == GIVEN and _NUMERIC & vars(type(self)).keys():
            state.peer.refuse(Reasons.RESULT)  # its number is what `float` returns
        return value

    return method


_NUMERIC = {"__float__", "__int__", "__index__", "__complex__"}


def _binary(name: str, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    """A binary operator; with plain data on one side its result must stay an object."""

    def method(self: Any, other: Any, *_: Any) -> Any:
        peer, given = _asking(self)
        origin = MADE if not given else GIVEN
        plain = not is_programs(other)
        if plain and (given or not isinstance(other, _SCALARS)):
            peer.refuse(Reasons.OPERAND)
        value = peer.act(name, other, self) if swapped else peer.act(name, self, other)
        if value is NotImplemented:
            return value
        if plain and not is_programs(value):
            peer.refuse(Reasons.RESULT)
        if plain and not is_remote(self):
            peer.mixed_data = True
        residual = plain and name.removeprefix("i") in _RESIDUAL
        if value is self and is_remote(value):
            state_of(value).origin = origin
            state_of(value).mixed |= residual and name in _RESIDUAL
        elif is_remote(value):
            state_of(value).mixed = residual or _is_mixed(self) or _is_mixed(other)
        return value

    return method


def _is_mixed(value: Any) -> bool:
    return is_remote(value) and state_of(value).mixed


def _asking(value: Any) -> tuple[Peer, bool]:
    if is_remote(value):
        state = state_of(value)
        return state.peer, state.origin == GIVEN
    return type(value).__peer__, False


def equal(self: Any, other: object) -> bool:
    """``==``, which no plain data answers with True."""
    if self is other:
        return True
    peer, _ = _asking(self)
    if not is_programs(other):
        peer.doubt(Reasons.EQUALITY)
        return False
    return _settled(peer, self, "eq", other)


def _settled(peer: Peer, self: Any, name: str, other: Any) -> bool:
    value = question(self, name, other) if is_remote(self) else peer.ask(name, self, other)
    return value is True


def _order(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        peer, _ = _asking(self)
        if is_programs(other):
            return _settled(peer, self, name, other)
        peer.doubt(Reasons.EQUALITY)
        return NotImplemented

    return method


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    return act(self, "call", args, tuple(kwargs.items()))


def _enter(self: Any) -> Any:
    state = state_of(self)
    origin = state.origin
    value = act(self, "invoke", "__enter__", (), ())
    if value is self:
        state.origin = origin
    return value


def _exit(self: Any, kind: Any, error: Any, _: Any) -> Any:
    return act(self, "invoke", "__exit__", (kind, error, None), ())


def _awaiting(name: str) -> Callable[..., Any]:
    def method(self: Any, *_: Any) -> Any:
        return act(self, "invoke", name, (None, None, None) if name == "__aexit__" else (), ())

    return method


def _await(self: Any) -> Any:
    return act(self, "awaitable").__await__()


def _iterate_async(self: Any) -> Any:
    return act(self, "invoke", "__aiter__", (), ())


_UNARY = "abs neg pos invert round trunc floor ceil"
_ARITHMETIC = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod"
_RESIDUAL = frozenset(["sub", "truediv", "floordiv", "mod", "divmod", "xor"])
"""With the expected value as the other operand, these show how far a result is from it."""
_IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor"
UNARY = frozenset(f"__{name}__" for name in _UNARY.split())
"""Operators on one operand."""
COMPARED = frozenset(
    [f"__{name}__" for name in ("lt", "le", "gt", "ge")]
    + [f"__{side}{name}__" for name in _ARITHMETIC.split() for side in ("", "r")]
)
"""Operators on two operands, whatever these are."""
METHODS: dict[str, Callable[..., Any]] = {
    "__len__": _len,
    "__iter__": _iter,
    "__next__": _next,
    "__getitem__": _getitem,
    "__contains__": _contains,
    "__reversed__": _reversed,
    "__setitem__": lambda self, key, value: act(self, "setitem", key, value),
    "__delitem__": lambda self, key: act(self, "delitem", key),
    "__bool__": _bool,
    "__str__": _scalar("str", str),
    "__float__": _scalar("float", float),
    "__int__": _scalar("int", int),
    "__index__": _scalar("index", int),
    "__complex__": _scalar("complex", complex),
    "__eq__": equal,
    "__call__": _call,
    "__enter__": _enter,
    "__exit__": _exit,
    "__await__": _await,
    "__aiter__": _iterate_async,
    **{f"__{name}__": _awaiting(f"__{name}__") for name in ("aenter", "aexit", "anext")},
    **{f"__{name}__": _unary(name) for name in _UNARY.split()},
    **{f"__{name}__": _order(name) for name in ("lt", "le", "gt", "ge")},
    **{f"__{name}__": _binary(name) for name in (_ARITHMETIC + " " + _IN_PLACE).split()},
    **{f"__r{name}__": _binary(name, swapped=True) for name in _ARITHMETIC.split()},
}
"""What Python calls by itself -> how it is answered."""
