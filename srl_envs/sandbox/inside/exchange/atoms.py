"""Values of the standard library that are data without parts: how each is written, and read back.

Each is written as its tag and a body of plain JSON. Reading builds the real type, so that its own
methods answer; a body that the constructor refuses raises one of Python's errors for bad values.
"""

from __future__ import annotations

import datetime
import math
import pathlib
import uuid
import zoneinfo
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

_FRACTION_BITS = 20_000
_PATHS = {
    kind.__name__: kind
    for kind in (pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path()))
}
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("a text is needed")
    return value


def _hex(value: Any) -> int:
    return int(_text(value), 16)


def _decimal(text: Any) -> Decimal:
    try:
        value = Decimal(_text(text))
    except InvalidOperation:
        raise ValueError("not a decimal") from None
    if value.is_snan():  # raises when it is compared
        raise ValueError("not a decimal")
    return value


def _fraction(body: Any) -> Fraction:
    numerator, denominator = map(_hex, body)
    bits = max(numerator.bit_length(), denominator.bit_length())
    if denominator <= 0 or bits > _FRACTION_BITS:
        raise ValueError("not a fraction of bounded size")
    return Fraction(numerator, denominator)


def _microseconds(value: datetime.timedelta) -> int:
    return value // datetime.timedelta(microseconds=1)


def zone_body(zone: datetime.tzinfo | None) -> Any:
    """A time zone: None, a name of the database, or an offset with its name.

    Raises:
        ValueError: a zone of the program's own making.
    """
    if zone is None:
        return None
    if type(zone) is datetime.timezone:
        return [_microseconds(zone.utcoffset(None)), zone.tzname(None)]
    if type(zone) is zoneinfo.ZoneInfo and zone.key:
        return zone.key
    raise ValueError(f"a time zone of kind {type(zone).__name__}")


def _zone(body: Any) -> datetime.tzinfo | None:
    if body is None or type(body) is str:
        return None if body is None else zoneinfo.ZoneInfo(body)
    offset = datetime.timedelta(microseconds=body[0])
    plain = datetime.timezone(offset)
    return plain if plain.tzname(None) == body[1] else datetime.timezone(offset, _text(body[1]))


def _clock(value: Any) -> list[Any]:
    parts = [value.hour, value.minute, value.second, value.microsecond]
    return [*parts, zone_body(value.tzinfo), value.fold]


def _at(kind: Any, body: list[Any]) -> Any:
    *parts, zone, fold = body
    return kind(*parts, tzinfo=_zone(zone), fold=fold)


def _path(body: Any) -> pathlib.PurePath:
    kind, text = body
    return _PATHS[kind](_text(text))


WRITERS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    bytes: ("bytes", bytes.hex),
    complex: ("complex", lambda value: [repr(value.real), repr(value.imag)]),
    Fraction: ("fraction", lambda value: [hex(value.numerator), hex(value.denominator)]),
    Decimal: ("decimal", str),
    range: ("range", lambda value: [hex(value.start), hex(value.stop), hex(value.step)]),
    datetime.datetime: ("datetime", lambda v: [v.year, v.month, v.day, *_clock(v)]),
    datetime.date: ("date", lambda value: [value.year, value.month, value.day]),
    datetime.time: ("time", _clock),
    datetime.timedelta: ("timedelta", _microseconds),
    datetime.timezone: ("timezone", zone_body),
    zoneinfo.ZoneInfo: ("timezone", zone_body),
    uuid.UUID: ("uuid", str),
    **{
        kind: ("path", lambda value: [type(value).__name__, str(value)]) for kind in _PATHS.values()
    },
}
"""Type -> tag, and what makes the body. Subclasses are written as the type."""

READERS: dict[str, Callable[[Any], Any]] = {
    "int": _hex,
    "float": lambda body: _NOT_FINITE[_text(body)],
    "bytes": lambda body: bytes.fromhex(_text(body)),
    "complex": lambda body: complex(float(_text(body[0])), float(_text(body[1]))),
    "fraction": _fraction,
    "decimal": _decimal,
    "range": lambda body: range(*map(_hex, body)),
    "datetime": lambda body: _at(datetime.datetime, body),
    "date": lambda body: datetime.date(*body),
    "time": lambda body: _at(datetime.time, body),
    "timedelta": lambda body: datetime.timedelta(microseconds=body),
    "timezone": _zone,
    "uuid": lambda body: uuid.UUID(_text(body)),
    "path": _path,
}
"""Tag -> what reads the body."""
