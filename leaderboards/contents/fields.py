"""Kinds of JSON values: each checks a value and names the place of a fault.

A kind is data, so that a forger (`leaderboards.redteam`) can read which values are allowed and make
those that are not. Nothing here trusts a value: every kind bounds what it lets through, `True` is not a
number, and text holds no half of a surrogate pair.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol

from srl_envs.errors import SRLError, nearest

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
FORMULA = ("=", "+", "-", "@")
"""How cells begin that spreadsheets compute. Source: OWASP, "CSV Injection"."""
_SHOWN_CHARACTERS = 60
_SHOWN_BITS = 200


class FieldError(SRLError, ValueError):
    """A value is not what its place allows; the text names the place, the value and what is allowed."""

    def __init__(self, given: str, allowed: str, path: str = "") -> None:
        self.given, self.allowed, self.path = given, allowed, path
        super().__init__(f"{path.lstrip('.') or 'the value'} is {given}; allowed: {allowed}.")

    def below(self, step: str) -> FieldError:
        """The same, seen from the value that holds this one."""
        return FieldError(self.given, self.allowed, step + self.path)


class Kind(Protocol):
    """Kind of value that a place of a file may hold."""

    def check(self, value: Any) -> None:
        """Raise `FieldError` unless the value may stand here."""


@dataclass(frozen=True, slots=True)
class Text:
    """Characters of one line that everybody sees: no control, invisible or bidirectional ones."""

    most: int
    """Most characters."""
    least: int = 0
    pattern: re.Pattern[str] | None = None
    """Regular expression that the whole text matches."""
    form: str = ""
    """The pattern in words."""
    free: bool = False
    """Any character, line breaks too: what a model wrote or reads."""
    cell: bool = False
    """It may stand in a spreadsheet, so it does not begin as a formula does."""

    def fits(self, value: Any) -> bool:
        """Whether the value may stand here."""
        if type(value) is not str or not self.least <= len(value) <= self.most:
            return False
        if self.pattern is not None and not self.pattern.fullmatch(value):
            return False
        if self.cell and value.startswith(FORMULA):
            return False
        if self.free:
            return value.isascii() or not _SURROGATE.search(value)
        return value.isprintable()

    def check(self, value: Any) -> None:
        """Raise a `FieldError` that names the place, unless the value fits."""
        if not self.fits(value):
            size = f"{self.least} to {self.most}" if self.least else f"at most {self.most}"
            seen = "no half of a surrogate pair" if self.free else "all printable, on one line"
            first = f", not beginning with one of {' '.join(FORMULA)}" if self.cell else ""
            raise FieldError(shown(value), self.form or f"text, {size} characters, {seen}{first}")


def hexadecimal(digits: int) -> Text:
    """A hash: lowercase, exactly this long."""
    pattern = re.compile(f"[0-9a-f]{{{digits}}}")
    return Text(digits, digits, pattern, f"{digits} lowercase hexadecimal digits")


@dataclass(frozen=True, slots=True)
class Instant:
    """A second of UTC that the calendar has, as `datetime.isoformat` writes it."""

    first_year: int

    def fits(self, value: Any) -> bool:
        """Whether the value may stand here."""
        if type(value) is not str or not _INSTANT.fullmatch(value):
            return False
        try:
            return datetime.fromisoformat(value).year >= self.first_year
        except ValueError:
            return False

    def check(self, value: Any) -> None:
        """Raise a `FieldError` that names the place, unless the value fits."""
        if not self.fits(value):
            wanted = f"a second of UTC from {self.first_year} on, such as 2030-01-31T23:59:59+00:00"
            raise FieldError(shown(value), wanted)


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number."""

    least: int
    most: int

    def fits(self, value: Any) -> bool:
        """Whether the value may stand here."""
        return type(value) is int and self.least <= value <= self.most

    def check(self, value: Any) -> None:
        """Raise a `FieldError` that names the place, unless the value fits."""
        if not self.fits(value):
            raise FieldError(shown(value), f"an integer from {self.least} to {self.most}")


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number that is written with a point or an exponent; zero has no sign."""

    least: float
    most: float

    def fits(self, value: Any) -> bool:
        """Whether the value may stand here."""
        return (
            type(value) is float
            and self.least <= value <= self.most
            and (value != 0.0 or math.copysign(1.0, value) > 0.0)
        )

    def check(self, value: Any) -> None:
        """Raise a `FieldError` that names the place, unless the value fits."""
        if not self.fits(value):
            wanted = f"a number with a point, from {self.least} to {self.most}, 0 without a sign"
            raise FieldError(shown(value), wanted)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few plain values; `1`, `1.0` and `true` are three."""

    values: tuple[str | int | float | bool | None, ...]

    def fits(self, value: Any) -> bool:
        """Whether the value may stand here."""
        return any(type(value) is type(known) and value == known for known in self.values)

    def check(self, value: Any) -> None:
        """Raise a `FieldError` that names the place, unless the value fits."""
        if not self.fits(value):
            raise FieldError(shown(value), " or ".join(map(shown, self.values)))


Scalar = Text | Instant | Integer | Number | OneOf


@dataclass(frozen=True, slots=True)
class Nullable:
    """Null, or the kind."""

    kind: Kind

    def check(self, value: Any) -> None:
        """Raise a `FieldError` that names the place, unless the value fits."""
        if value is not None:
            try:
                self.kind.check(value)
            except FieldError as error:
                raise FieldError(error.given, f"null, or {error.allowed}", error.path) from None


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one kind."""

    kind: Kind
    most: int
    least: int = 0
    named_by: str = ""
    """Key whose value identifies the entries of the list in messages."""

    def check(self, value: Any) -> None:
        """Raise a `FieldError` that names the place, unless the value fits."""
        if type(value) is not list or not self.least <= len(value) <= self.most:
            raise FieldError(shown(value), f"a list of {self.least} to {self.most} entries")
        if isinstance(self.kind, Scalar) and all(map(self.kind.fits, value)):
            return
        for place, item in enumerate(value):
            try:
                self.kind.check(item)
            except FieldError as error:
                raise error.below(f"[{place}]{self._name(item)}") from None

    def _name(self, item: Any) -> str:
        name = item.get(self.named_by) if self.named_by and isinstance(item, dict) else None
        return f" ({shown(name)})" if name is not None else ""


@dataclass(frozen=True, slots=True)
class Row:
    """A list of fixed length, each entry of its own kind."""

    kinds: tuple[Kind, ...]

    def check(self, value: Any) -> None:
        """Raise a `FieldError` that names the place, unless the value fits."""
        if type(value) is not list or len(value) != len(self.kinds):
            raise FieldError(shown(value), f"a list of {len(self.kinds)} entries")
        for place, kind in enumerate(self.kinds):
            try:
                kind.check(value[place])
            except FieldError as error:
                raise error.below(f"[{place}]") from None


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with keys of one kind and values of another."""

    key: Text
    value: Kind
    most: int

    def check(self, value: Any) -> None:
        """Raise a `FieldError` that names the place, unless the value fits."""
        if type(value) is not dict or len(value) > self.most:
            raise FieldError(shown(value), f"an object of at most {self.most} keys")
        for name, item in value.items():
            if not self.key.fits(name):
                wanted = self.key.form or f"text of at most {self.key.most} printable characters"
                raise FieldError(f"the key {shown(name)}", f"as a key, {wanted}")
            try:
                self.value.check(item)
            except FieldError as error:
                raise error.below(f".{name}") from None


@dataclass(frozen=True)
class Object:
    """An object with exactly these keys."""

    fields: Mapping[str, Kind]
    optional: frozenset[str] = field(default=frozenset())
    """Keys that may be absent."""

    def check(self, value: Any) -> None:
        """Raise a `FieldError` that names the place, unless the value fits."""
        if type(value) is not dict:
            raise FieldError(shown(value), f"an object with the keys {', '.join(self.fields)}")
        if value.keys() != self.fields.keys():
            self._check_keys(value)
        for name, item in value.items():
            try:
                self.fields[name].check(item)
            except FieldError as error:
                raise error.below(f".{name}") from None

    @cached_property
    def required(self) -> frozenset[str]:
        """Keys that may not be absent."""
        return frozenset(self.fields) - self.optional

    def _check_keys(self, value: Mapping[str, Any]) -> None:
        names = ", ".join(self.fields)
        for name in value:
            if name not in self.fields:
                hint = nearest(name, self.fields) if len(name) < _SHOWN_CHARACTERS else ""
                given = f"unknown ({hint.strip()})" if hint else "unknown"
                raise FieldError(given, f"the keys {names}", f".{_key(name)}")
        if missing := sorted(self.required - value.keys()):
            raise FieldError("missing", f"the keys {names}", f".{missing[0]}")


@dataclass(frozen=True, slots=True)
class Variant:
    """One of several objects, distinguished by a key that only one of them has."""

    by_key: Mapping[str, Object]
    """Key -> the object that has it."""

    def check(self, value: Any) -> None:
        """Raise a `FieldError` that names the place, unless the value fits."""
        found = [key for key in self.by_key if type(value) is dict and key in value]
        if len(found) != 1:
            given = f"an object with {' and '.join(found)}" if found else shown(value)
            raise FieldError(given, f"an object with one of the keys {', '.join(self.by_key)}")
        self.by_key[found[0]].check(value)


def visible(text: str) -> str:
    """Text for a terminal: no character that moves the cursor, hides, or turns the direction of others."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def shown(value: Any) -> str:
    """A hostile value for a message: one short line of ASCII."""
    if isinstance(value, dict):
        return f"an object with {len(value)} keys"
    if isinstance(value, list):
        return f"a list of {len(value)} entries"
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else "null"
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, str) and len(value) > _SHOWN_CHARACTERS:
        return f"{value[: _SHOWN_CHARACTERS // 2]!a}... ({len(value)} characters)"
    return ascii(value)


def _key(name: str) -> str:
    return name if name.isidentifier() and len(name) < _SHOWN_CHARACTERS else shown(name)
