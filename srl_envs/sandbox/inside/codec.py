"""Plain Python data as JSON, in both directions, without pickle.

Scalars and lists are themselves; everything else is an object with one key, its kind:
``{"tuple": [1, 2]}``, ``{"int": "0x..."}``, ``{"dict": [[key, value], ...]}``. What comes out of
the sandbox is a claim by an untrusted program: `loads` accepts nothing it cannot bound.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

MAX_DEPTH = 100
"""Levels of nesting; deeper data is refused on both sides."""
MAX_GENERATED = 200_000
"""Items taken from a returned generator before it counts as endless."""
_EQUAL_HASHES = 64  # more keys than this with one hash value were made to be slow
_SMALL = 1 << 53  # beyond, JSON readers of other languages lose digits


class CodecError(ValueError):
    """The data has no JSON form, or the text is not one that `dumps` writes."""


Other = Callable[[Any], Any]
"""Stands in for values without a JSON form: they become ``{"ref": body}``, and back."""


def dumps(value: Any, other: Other | None = None) -> bytes:
    """Encode plain data. Raises `CodecError` for anything else that `other` does not name."""
    return _TEXT.encode(_Encoder(other).encode(value, 0)).encode("ascii")


def loads(data: bytes, other: Other | None = None) -> Any:
    """Decode what `dumps` wrote. Raises `CodecError` for any other bytes, however hostile."""
    try:
        text = data.decode("ascii")
        tree, end = _JSON.raw_decode(text)
        if end != len(text):
            raise CodecError("more than one value")
        return _Decoder(other).decode(tree, 0)
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


class _Encoder:
    def __init__(self, other: Other | None) -> None:
        self._other = other

    def encode(self, value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise CodecError(f"nested deeper than {MAX_DEPTH} levels")
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if -_SMALL < value < _SMALL else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list:
            return [self.encode(item, depth + 1) for item in value]
        if kind is dict:
            return {"dict": self._pairs(value, depth + 1)}
        if kind in _SEQUENCE_TAGS:
            return {_SEQUENCE_TAGS[kind]: [self.encode(item, depth + 1) for item in value]}
        if kind in _ATOM_TAGS:
            tag, body = _ATOM_TAGS[kind]
            return {tag: body(value)}
        return self._unusual(value, kind, depth)

    def _pairs(self, value: dict[Any, Any], depth: int) -> list[Any]:
        return [[self.encode(key, depth), self.encode(item, depth)] for key, item in value.items()]

    def _unusual(self, value: Any, kind: type, depth: int) -> Any:
        """Subclasses of plain types, numpy data, iterators, and what `other` takes."""
        for base, strip in _STRIP:
            if isinstance(value, base):
                return self.encode(strip(value), depth + 1)
        if kind.__module__ == "numpy" and hasattr(value, "tolist"):
            return self.encode(value.tolist(), depth + 1)
        if kind in _VIEWS:
            return self.encode(list(value), depth + 1)
        if self._other is not None:
            return {"ref": self.encode(self._other(value), depth + 1)}
        if hasattr(kind, "__next__"):
            return self.encode(_taken(value), depth + 1)
        raise CodecError(f"{kind.__name__} is no JSON value")


def _taken(iterator: Any) -> list[Any]:
    taken = []
    for item in iterator:
        taken.append(item)
        if len(taken) > MAX_GENERATED:
            raise CodecError(f"an iterator of more than {MAX_GENERATED} items")
    return taken


_SEQUENCE_TAGS: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "set"}
_ATOM_TAGS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    bytes: ("bytes", bytes.hex),
    bytearray: ("bytes", bytearray.hex),
    complex: ("complex", lambda value: [repr(value.real), repr(value.imag)]),
    Fraction: ("fraction", lambda value: [hex(value.numerator), hex(value.denominator)]),
    Decimal: ("decimal", str),
}

# A subclass is read by its base's own slots, so that its overridden methods say nothing.
_STRIP: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (list, lambda value: list(list.__iter__(value))),
    (tuple, lambda value: tuple(tuple.__iter__(value))),
    (dict, lambda value: dict(dict.items(value))),
    (set, lambda value: set(set.__iter__(value))),
    (frozenset, lambda value: set(frozenset.__iter__(value))),
    (bytes, lambda value: bytes(bytes.__iter__(value))),
)
_VIEWS: tuple[type, ...] = (range, type({}.keys()), type({}.values()), type({}.items()))


def _single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) != 1:
        raise CodecError("an object must have one key")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise CodecError(f"{name} is not JSON")


_JSON = json.JSONDecoder(object_pairs_hook=_single, parse_constant=_no_constant)
_TEXT = json.JSONEncoder(separators=(",", ":"))


class _Decoder:
    def __init__(self, other: Other | None) -> None:
        self._other = other

    def decode(self, tree: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise CodecError(f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(tree, list):
            return [self.decode(item, depth + 1) for item in tree]
        if not isinstance(tree, dict):
            return tree
        ((tag, body),) = tree.items()
        if tag in _SEQUENCES:
            return _SEQUENCES[tag]([self.decode(item, depth + 1) for item in _as(list, body)])
        if tag == "dict":
            return self._dict([self._pair(item, depth + 1) for item in _as(list, body)])
        if tag in _ATOMS:
            return _ATOMS[tag](body)
        if tag == "ref" and self._other is not None:
            return self._other(self.decode(body, depth + 1))
        raise CodecError("unknown kind")

    def _pair(self, item: Any, depth: int) -> tuple[Any, Any]:
        key, value = _as(list, item)
        return self.decode(key, depth), self.decode(value, depth)

    def _dict(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        _hashable([key for key, _ in pairs])
        result = dict(pairs)
        if len(result) != len(pairs):
            raise CodecError("a key twice")
        return result


def _as(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise CodecError(f"a {kind.__name__} is needed")
    return value


def _set(items: list[Any]) -> set[Any]:
    _hashable(items)
    return set(items)


def _hashable(keys: list[Any]) -> None:
    """Refuse keys made to collide: they would cost the trusted process quadratic time."""
    if len(keys) <= _EQUAL_HASHES:
        return
    counts = Counter(hash(key) for key in keys)
    if counts.most_common(1)[0][1] > _EQUAL_HASHES:
        raise CodecError("too many keys with one hash")


def _decimal(text: Any) -> Decimal:
    try:
        value = Decimal(_as(str, text))
    except InvalidOperation:
        raise CodecError("not a decimal") from None
    if value.is_snan():  # raises when it is compared
        raise CodecError("not a decimal")
    return value


_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {"tuple": tuple, "set": _set}
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_ATOMS: dict[str, Callable[[Any], Any]] = {
    "int": lambda body: int(_as(str, body), 16),
    "float": lambda body: _NOT_FINITE[_as(str, body)],
    "bytes": lambda body: bytes.fromhex(_as(str, body)),
    "complex": lambda body: complex(float(_as(list, body)[0]), float(body[1])),
    "fraction": lambda body: _fraction(*map(_digits, _as(list, body))),
    "decimal": _decimal,
}


def _digits(text: Any) -> int:
    return int(_as(str, text), 16)


def _fraction(numerator: int, denominator: int) -> Fraction:
    if denominator <= 0 or max(numerator.bit_length(), denominator.bit_length()) > 20_000:
        raise CodecError("not a fraction of bounded size")
    return Fraction(numerator, denominator)
