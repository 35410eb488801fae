"""Answers that are a number with a unit: lengths, money, angles, clock times, counted things."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple


class Quantity(NamedTuple):
    """A number, still as text, and what it counts."""

    number: str
    dimension: str
    """``length``, ``money``, ...; ``things:apple`` for a noun that we do not know."""
    factor: Fraction
    """Value of one unit in the base unit of its dimension."""


def _table() -> dict[str, tuple[str, Fraction]]:
    rows: Iterable[tuple[str, str, str]] = (
        ("length", "1", "m meter meters metre metres"),
        ("length", "0.01", "cm centimeter centimeters centimetre centimetres"),
        ("length", "0.001", "mm millimeter millimeters millimetre millimetres"),
        ("length", "1000", "km kilometer kilometers kilometre kilometres"),
        ("length", "0.0254", "in inch inches"),
        ("length", "0.3048", "ft foot feet"),
        ("length", "0.9144", "yd yard yards"),
        ("length", "1609.344", "mi mile miles"),
        ("mass", "1", "g gram grams gramme grammes"),
        ("mass", "1000", "kg kilogram kilograms kilo kilos"),
        ("mass", "0.001", "mg milligram milligrams"),
        ("mass", "1000000", "tonne tonnes"),
        ("mass", "453.59237", "lb lbs"),
        ("mass", "28.349523125", "oz ounce ounces"),
        ("time", "1", "s sec secs second seconds"),
        ("time", "0.001", "ms millisecond milliseconds"),
        ("time", "60", "min mins minute minutes"),
        ("time", "3600", "h hr hrs hour hours"),
        ("time", "86400", "day days"),
        ("time", "604800", "week weeks"),
        ("months", "1", "month months"),
        ("months", "12", "yr yrs year years"),
        ("volume", "1", "l liter liters litre litres"),
        ("volume", "0.001", "ml milliliter milliliters millilitre millilitres"),
        ("volume", "3.785411784", "gallon gallons gal"),
        ("volume", "1000", "m^3"),
        ("volume", "0.001", "cm^3 cc"),
        ("area", "1", "m^2"),
        ("area", "0.0001", "cm^2"),
        ("area", "0.000001", "mm^2"),
        ("area", "1000000", "km^2"),
        ("area", "0.09290304", "ft^2"),
        ("area", "0.00064516", "in^2"),
        ("speed", "1", "m/s"),
        ("speed", "5/18", "km/h kmh kph"),
        ("speed", "0.44704", "mph mi/h"),
        ("acceleration", "1", "m/s^2"),
        ("angle", "1", "deg degree degrees"),
        ("money", "1", "$ usd dollar dollars"),
        ("money", "0.01", "¢ cent cents"),
        ("euro", "1", "€ euro euros eur"),
        ("sterling", "1", "£ gbp"),
        ("ratio", "0.01", "percent pct"),
        ("force", "1", "n newton newtons"),
        ("energy", "1", "j joule joules"),
        ("power", "1", "w watt watts"),
        ("frequency", "1", "hz hertz"),
        ("temperature", "1", "c celsius"),
        ("fahrenheit", "1", "f fahrenheit"),
        ("mole", "1", "mol mole moles"),
    )
    return {
        name: (dimension, Fraction(factor))
        for dimension, factor, names in rows
        for name in names.split()
    }


_UNITS = _table()
_SPELLED = (
    ("square ", "", "^2"), ("sq ", "", "^2"), ("sq. ", "", "^2"), ("cubic ", "", "^3"),
    ("", " squared", "^2"), ("", " cubed", "^3"),
)  # fmt: skip
_TAIL_CHARS = 60
_TAIL = re.compile(
    r"(?<=[0-9})!.])(\s*)([A-Za-z]{1,20}\.?(?: [A-Za-z]{1,20}){0,3}"
    r"(?:\s?/\s?[A-Za-z]{1,10})?(?:\s?\^\s?\{?[0-9]\}?)?)$"
)
_PREFIXED = re.compile(r"([+-]?)\s?([$€£])\s?([+-]?[0-9].*)", re.DOTALL)
_CLOCK = re.compile(
    r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?\s?(?:([ap])\.?\s?m\.?)?", re.IGNORECASE
)
_WORDS = frozenset(("or", "and", "is", "not", "mod", "if", "for", "to", "in", "pi", "of", "with"))


def read_quantity(text: str, *, glued: bool = False) -> Quantity | None:
    """Number and unit of a text in unified notation, None where it has no unit.

    Args:
        text: for example ``5 cm``, ``$3``, ``90^\\circ`` or ``20 apples``.
        glued: read the letter of ``5m`` as a unit; by default that is a product.
    """
    found = _number_and_unit(text.strip(), glued=glued)
    return found if found and found.number.strip() else None


def _number_and_unit(text: str, *, glued: bool) -> Quantity | None:
    priced = _PREFIXED.fullmatch(text)
    if priced:
        return Quantity(priced[1] + priced[3], *_UNITS[priced[2]])
    for circle in ("^\\circ", "^{\\circ}"):
        if text.endswith(circle) and "\\" not in text[: -len(circle)].replace("\\frac", ""):
            return Quantity(text[: -len(circle)], *_UNITS["deg"])
    if text.endswith(("%", "€", "£", "¢", "$")) and len(text) > 1:
        return Quantity(text[:-1], *_UNITS["percent" if text[-1] == "%" else text[-1]])
    found = _TAIL.search(text[-_TAIL_CHARS:])
    if found is None:
        return None
    number = text[: len(text) - len(found[0])]
    return _with_unit(number, found[2], spaced=bool(found[1]) or glued)


def _with_unit(number: str, name: str, *, spaced: bool) -> Quantity | None:
    unit = name.replace("{", "").replace("}", "").rstrip(".").lower()
    for before, after, power in _SPELLED:
        if (before or after) and unit.startswith(before) and unit.endswith(after):
            unit = f"{unit[len(before) : len(unit) - len(after)]}{power}"
    for spelling in (unit, unit.replace(" ", ""), _base_plural(unit)):
        if spelling in _UNITS and (spaced or len(spelling) > 1):
            return Quantity(number, *_UNITS[spelling])
    words = unit.split()
    if len(unit) < 3 or not unit.replace(" ", "").isalpha() or _WORDS & set(words):
        return None
    if len(words) == 1 and not spaced:
        return None
    return Quantity(number, f"things:{unit.rstrip('s')}", Fraction(1))


def _base_plural(unit: str) -> str:
    """``centimeters^2`` as ``cm^2``, ``meters per second`` as ``m/s``."""
    short = {
        "meter": "m", "metre": "m", "centimeter": "cm", "centimetre": "cm", "millimeter": "mm",
        "kilometer": "km", "kilometre": "km", "foot": "ft", "feet": "ft", "inch": "in",
        "inches": "in", "second": "s", "hour": "h", "hr": "h",
        "mile": "mi",
    }  # fmt: skip
    base, caret, power = unit.replace(" per ", "/").replace(" / ", "/").partition("^")
    parts = [short.get(part.removesuffix("s"), short.get(part, part)) for part in base.split("/")]
    return "/".join(parts) + caret + power.strip()


def same_dimension(left: Quantity, right: Quantity) -> bool:
    """Whether two quantities count the same: also ``red apples`` and ``apples``."""
    if left.dimension == right.dimension:
        return True
    if not (left.dimension.startswith("things:") and right.dimension.startswith("things:")):
        return False
    return left.dimension[7:].split()[-1] == right.dimension[7:].split()[-1] and 1 in (
        len(left.dimension.split()),
        len(right.dimension.split()),
    )


def read_clock(text: str) -> int | None:
    """Seconds since midnight of ``14:30`` or ``2:30 PM``; None for anything else.

    Without ``am`` or ``pm`` the hour must be followed by two-digit minutes, as a clock writes it.
    """
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    half = (found[4] or "").lower()
    if minute > 59 or second > 59 or hour > 23 or (half and not 1 <= hour <= 12):
        return None
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return (hour * 60 + minute) * 60 + second
