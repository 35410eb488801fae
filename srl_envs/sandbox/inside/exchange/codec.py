"""Plain Python data as JSON, in both directions, without pickle.

Scalars and lists are themselves; everything else is an object with one key, its kind:
``{"tuple": [1, 2]}``, ``{"int": "0x..."}``, ``{"dict": [[key, value], ...]}``. What comes out of
the sandbox is a claim by an untrusted program: `loads` accepts nothing it cannot bound.
"""

from __future__ import annotations

import array
import dataclasses
import enum
import json
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any

from . import atoms

MAX_DEPTH = 100
"""Levels of nesting; deeper data is refused on both sides."""
MAX_GENERATED = 200_000
"""Items taken from a returned generator before it counts as endless."""
_EQUAL_HASHES = 64  # more keys than this with one hash value were made to be slow
NO_VALUE = "is no JSON value"
"""What the message of a `CodecError` about an object of some class ends in."""
_SMALL = 1 << 53  # beyond, JSON readers of other languages lose digits


class CodecError(ValueError):
    """The data has no JSON form, or the text is not one that `dumps` writes."""


def dumps(value: Any) -> bytes:
    """Encode plain data. Raises `CodecError` for anything else."""
    return text_of(_PLAIN.encode(value))


def text_of(tree: Any) -> bytes:
    """A tree as text."""
    return _TEXT.encode(tree).encode("ascii")


def tree_of(data: bytes) -> Any:
    """The tree of a text; raises an error of Python's for bad values, or `CodecError`."""
    text = data.decode("ascii")
    tree, end = _JSON.raw_decode(text)
    if end != len(text):
        raise CodecError("more than one value")
    return tree


def loads(data: bytes) -> Any:
    """Decode what `dumps` wrote. Raises `CodecError` for any other bytes, however hostile."""
    try:
        return _READING.decode(tree_of(data))
    except CodecError:
        raise
    except (
        ValueError,
        RecursionError,
        MemoryError,
        TypeError,
        LookupError,
        ArithmeticError,
    ) as error:
        raise CodecError(type(error).__name__) from None


class Encoder:
    """Plain data as a JSON tree; `unusual` decides about everything else."""

    def encode(self, value: Any, depth: int = 0) -> Any:
        """The tree of one value. Raises `CodecError`."""
        if depth > MAX_DEPTH:
            raise CodecError(f"nested deeper than {MAX_DEPTH} levels")
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if -_SMALL < value < _SMALL else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind in CONTAINERS:
            return self.container(value, kind, depth)
        if kind is tuple or kind is frozenset:
            return {kind.__name__: self.items(value, depth)}
        if kind in atoms.WRITERS:
            return self._atom(value, kind)
        return self.unusual(value, kind, depth)

    def container(self, value: Any, kind: type, depth: int) -> Any:
        """A list, set, dict or bytearray."""
        if kind is list:
            return self.items(value, depth)
        if kind is dict:
            return {"dict": self.pairs(value, depth)}
        return (
            {"bytearray": value.hex()} if kind is bytearray else {"set": self.items(value, depth)}
        )

    def items(self, value: Iterable[Any], depth: int) -> list[Any]:
        """Trees of the items."""
        return [self.encode(item, depth + 1) for item in value]

    def pairs(self, value: dict[Any, Any], depth: int) -> list[Any]:
        """Trees of the keys and values."""
        inner = depth + 1
        return [
            [self.encode(key, inner), self.encode(item, inner)] for key, item in dict.items(value)
        ]

    def _atom(self, value: Any, kind: type) -> Any:
        tag, body = atoms.WRITERS[kind]
        try:
            return {tag: body(value)}
        except ValueError as error:
            raise CodecError(str(error)) from None

    def unusual(self, value: Any, kind: type, depth: int) -> Any:
        """Anything but an exact plain type, as the plain data that it amounts to."""
        if isinstance(value, enum.Enum):
            return self.encode(value._value_, depth + 1)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = dataclasses.fields(value)
            return self.encode({f.name: getattr(value, f.name) for f in fields}, depth + 1)
        for base, strip in STRIP:
            if isinstance(value, base):
                return self.encode(strip(value), depth + 1)
        if kind.__module__ == "numpy" and hasattr(value, "tolist"):
            return self.encode(value.tolist(), depth + 1)
        if kind in LISTED:
            return self.encode(list(value), depth + 1)
        for base in atoms.WRITERS:
            if isinstance(value, base):
                return self._atom(value, base)
        if hasattr(kind, "__next__"):
            return self.encode(_taken(value), depth + 1)
        raise CodecError(f"{kind.__name__} {NO_VALUE}")


def _taken(iterator: Any) -> list[Any]:
    taken = []
    for item in iterator:
        taken.append(item)
        if len(taken) > MAX_GENERATED:
            raise CodecError(f"an iterator of more than {MAX_GENERATED} items")
    return taken


CONTAINERS = frozenset({list, dict, set, bytearray})

# A subclass is read by its base's own slots, so that its overridden methods say nothing.
STRIP: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (list, lambda value: list(list.__iter__(value))),
    (tuple, lambda value: tuple(tuple.__iter__(value))),
    (dict, lambda value: dict(dict.items(value))),
    (set, lambda value: set(set.__iter__(value))),
    (frozenset, lambda value: frozenset(frozenset.__iter__(value))),
    (bytes, lambda value: bytes(bytes.__iter__(value))),
    (bytearray, lambda value: bytearray(bytearray.__iter__(value))),
)
LISTED: tuple[type, ...] = (
    deque,
    array.array,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)


def _single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) != 1:
        raise CodecError("an object must have one key")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise CodecError(f"{name} is not JSON")


_JSON = json.JSONDecoder(object_pairs_hook=_single, parse_constant=_no_constant)
_TEXT = json.JSONEncoder(separators=(",", ":"))


class Decoder:
    """Values from JSON trees; `other` reads the tags that plain data has not."""

    def decode(self, tree: Any, depth: int = 0) -> Any:
        """The value of one tree. Raises `CodecError`, or an error of Python's for bad values."""
        if depth > MAX_DEPTH:
            raise CodecError(f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(tree, list):
            return [self.decode(item, depth + 1) for item in tree]
        if not isinstance(tree, dict):
            return tree
        ((tag, body),) = tree.items()
        if tag in _SEQUENCES:
            return _SEQUENCES[tag](self.items(body, depth))
        if tag == "dict":
            return self.filled({}, body, depth)
        if tag == "bytearray":
            return bytearray.fromhex(as_kind(str, body))
        if tag in atoms.READERS:
            return atoms.READERS[tag](body)
        return self.other(tag, body, depth)

    def other(self, tag: str, body: Any, depth: int) -> Any:
        """What another tag stands for."""
        raise CodecError("unknown kind")

    def items(self, body: Any, depth: int) -> list[Any]:
        """The values of a list of trees."""
        return [self.decode(item, depth + 1) for item in as_kind(list, body)]

    def filled(self, empty: Any, body: Any, depth: int) -> Any:
        """A mapping, filled with the pairs of a body."""
        pairs = [self._pair(item, depth + 1) for item in as_kind(list, body)]
        hashable([key for key, _ in pairs])
        for key, value in pairs:
            dict.__setitem__(empty, key, value)
        if len(empty) != len(pairs):
            raise CodecError("a key twice")
        return empty

    def _pair(self, item: Any, depth: int) -> tuple[Any, Any]:
        key, value = as_kind(list, item)
        return self.decode(key, depth), self.decode(value, depth)


def as_kind(kind: type, value: Any) -> Any:
    """The value, if it is exactly of this kind."""
    if type(value) is not kind:
        raise CodecError(f"a {kind.__name__} is needed")
    return value


def _set(items: list[Any]) -> set[Any]:
    hashable(items)
    return set(items)


def hashable(keys: list[Any]) -> None:
    """Refuse keys made to collide: they would cost the trusted process quadratic time."""
    if len(keys) <= _EQUAL_HASHES:
        return
    counts = Counter(hash(key) for key in keys)
    if counts.most_common(1)[0][1] > _EQUAL_HASHES:
        raise CodecError("too many keys with one hash")


_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "set": _set,
    "frozenset": lambda items: frozenset(_set(items)),
}
_PLAIN = Encoder()
_READING = Decoder()
