"""Containers that both processes of a test run hold: one number, two copies, kept alike.

Python passes lists and dicts by reference: a function may change its argument, keep it, and change it
again in a later call. Each side holds a copy under the same number, and each message carries what
changed on its sender's side since the last one. Where only the table holds a copy, its number is given
up on both sides.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any

SCANNED = 4000
"""Items of containers that are looked through per message, those of the present call aside."""


def _dict_state(value: dict[Any, Any]) -> tuple[Any, ...]:
    return (*dict.keys(value), *dict.values(value))


def _stream_state(value: Any) -> tuple[Any, ...]:
    return (value.getvalue(), value.tell())


def state_of(kind: str, value: Any) -> tuple[Any, ...]:
    """What a container holds now; its parts by reference."""
    return _STATES.get(kind, tuple)(value)  # type: ignore[no-any-return]


_STATES: dict[str, Callable[[Any], Any]] = {
    "dict": _dict_state,
    "Counter": _dict_state,
    "OrderedDict": lambda value: (*value.keys(), *value.values()),
    "defaultdict": _dict_state,
    "bytearray": lambda value: (bytes(value),),
    "ndarray": lambda value: (value.shape, value.tobytes()),
    "StringIO": _stream_state,
    "BytesIO": _stream_state,
}
_BY_VALUE = frozenset({"bytearray", "ndarray", "StringIO", "BytesIO"})


class Shared:
    """One container of the table."""

    __slots__ = ("foreign", "kind", "state", "value")

    def __init__(self, kind: str, value: Any, *, foreign: bool) -> None:
        self.kind = kind
        self.value = value
        self.foreign = foreign
        """Whether the other side made it."""
        self.state: tuple[Any, ...] = ()

    def changed(self) -> bool:
        """Whether it holds something else than at the last message."""
        now = state_of(self.kind, self.value)
        if self.kind in _BY_VALUE:
            return now != self.state
        same = len(now) == len(self.state) and all(map(operator.is_, now, self.state))
        return not same

    def settle(self) -> None:
        """Take what it holds as known to both sides."""
        self.state = state_of(self.kind, self.value)

    def held(self) -> bool:
        """Whether anything but the table holds it."""
        return sys.getrefcount(self.value) > _IDLE


_PROBE = Shared("list", [], foreign=False)
_IDLE = sys.getrefcount(_PROBE.value)


class Heap:
    """The containers that the other side has a copy of.

    Args:
        parity: 0 or 1; numbers of this side's own containers are 2 k + parity.
    """

    def __init__(self, parity: int) -> None:
        self._next = parity
        self._shared: dict[int, Shared] = {}
        self._numbers: dict[int, int] = {}  # id of a container, which the table keeps -> number
        self._fresh: list[int] = []
        self._parity = parity

    def number_of(self, value: Any) -> int | None:
        """Number of a container; None where the other side has no copy."""
        return self._numbers.get(id(value))

    def add(self, kind: str, value: Any) -> int:
        """A number for a container that is about to be sent."""
        number = self._next
        self._next += 2
        self._keep(number, Shared(kind, value, foreign=False))
        return number

    def receive(self, number: Any, kind: str, value: Any) -> None:
        """Take up a container that the other side sends; raises ValueError for a wrong number."""
        if type(number) is not int or number < 0 or number % 2 == self._parity:
            raise ValueError("not a number of the other side")
        if number in self._shared:
            raise ValueError("a number twice")
        self._keep(number, Shared(kind, value, foreign=True))

    def _keep(self, number: int, shared: Shared) -> None:
        self._shared[number] = shared
        self._numbers[id(shared.value)] = number
        self._fresh.append(number)

    def __getitem__(self, number: int) -> Shared:
        return self._shared[number]

    def __contains__(self, number: int) -> bool:
        return number in self._shared

    def replace(self, number: int, value: Any) -> None:
        """Let another copy stand under this number."""
        shared = self._shared[number]
        self._numbers.pop(id(shared.value), None)
        shared.value = value
        self._numbers[id(value)] = number

    def settle(self) -> None:
        """The message with what was added has crossed."""
        for number in self._fresh:
            if number in self._shared:
                self._shared[number].settle()
        self._fresh = []

    def mark(self) -> int:
        """How many containers were added for the present message."""
        return len(self._fresh)

    def undo(self, mark: int = 0) -> None:
        """What was added since the mark is not sent."""
        self.drop(self._fresh[mark:])
        del self._fresh[mark:]

    def drop(self, numbers: Iterable[int]) -> None:
        """Give up numbers."""
        for number in numbers:
            shared = self._shared.pop(number, None)
            if shared is not None:
                self._numbers.pop(id(shared.value), None)

    def sweep(self, needed: frozenset[int] = frozenset()) -> tuple[list[int], list[int], bool]:
        """Look through the table.

        Args:
            needed: numbers that are looked at whatever their size.

        Returns:
            Numbers whose content changed; numbers that were given up; whether one of these was
            still held, but too large to be looked through at each message.
        """
        if not self._shared:
            return [], [], False
        changed, gone, lost, scanned = [], [], False, 0
        for number in reversed(self._shared):
            shared = self._shared[number]
            idle = number not in needed and not shared.held()
            scanned += len(shared.state) + 1
            if scanned > SCANNED and number not in needed:
                gone.append(number)
                lost = lost or not idle
            elif shared.changed():
                changed.append(number)
            elif idle:
                gone.append(number)
        self.drop(gone)
        return changed, gone, lost
