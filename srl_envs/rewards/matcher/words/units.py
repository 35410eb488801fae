"""Units of measurement: what a name such as ``km/h`` measures, and how large it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple


class Unit(NamedTuple):
    """Dimension and size of a unit."""

    dimension: str
    """Base quantities with their exponents, such as ``length time^-1``; ``money``, ``ratio``, ..."""
    factor: Fraction
    """Its size in the base units: metre, gram, second, dollar, bit, 1."""


_MAX_NAME = 60
_FORCE = "mass length time^-2"
_ENERGY = "mass length^2 time^-2"
_POWER = "mass length^2 time^-3"
_VOLT = "mass length^2 time^-3 current^-1"
_PRESSURE = "mass length^-1 time^-2"
_PREFIXES = {
    "T": "1e12", "G": "1e9", "M": "1e6", "k": "1e3", "h": "1e2", "d": "1e-1", "c": "1e-2",
    "m": "1e-3", "μ": "1e-6", "µ": "1e-6", "u": "1e-6", "n": "1e-9", "p": "1e-12",
}  # fmt: skip
_LONG_PREFIXES = {
    "tera": "1e12", "giga": "1e9", "mega": "1e6", "kilo": "1e3", "hecto": "1e2", "deci": "1e-1",
    "centi": "1e-2", "milli": "1e-3", "micro": "1e-6", "nano": "1e-9", "pico": "1e-12",
}  # fmt: skip
_WITH_PREFIX: Iterable[tuple[str, str, str, str]] = (
    # dimension, factor, symbols, words
    ("length", "1", "m", "meter metre"),
    ("mass", "1", "g", "gram gramme"),
    ("time", "1", "s", "second"),
    ("length^3", "0.001", "l L", "liter litre"),
    ("current", "1", "A", "ampere amp"),
    ("kelvin", "1", "K", "kelvin"),
    ("mole", "1", "mol", "mole"),
    (_FORCE, "1000", "N", "newton"),
    (_ENERGY, "1000", "J", "joule"),
    (_ENERGY, "4184", "cal", "calorie"),
    (_ENERGY, "1.602176634e-16", "eV", "electronvolt"),
    (_POWER, "1000", "W", "watt"),
    (_ENERGY, "3600000", "Wh", "watthour"),
    (_VOLT, "1000", "V", "volt"),
    ("mass length^2 time^-3 current^-2", "1000", "Ω", "ohm"),
    ("current time", "1", "", "coulomb"),
    (_PRESSURE, "1000", "Pa", "pascal"),
    (_PRESSURE, "100000000", "bar", ""),
    ("time^-1", "1", "Hz", "hertz"),
    ("data", "8", "B", "byte"),
    ("data", "1", "bit b", "bit"),
    ("length^2 mass time^-2", "1000", "Nm", ""),
)  # fmt: skip
_PLAIN: Iterable[tuple[str, str, str]] = (
    ("length", "0.0254", "in inch inches"),
    ("length", "0.3048", "ft foot feet"),
    ("length", "0.9144", "yd yard yards"),
    ("length", "1609.344", "mi mile miles"),
    ("mass", "1000", "kilo kilos"),
    ("mass", "1000000", "t ton tons tonne tonnes"),
    ("mass", "453.59237", "lb lbs pound pounds"),
    ("mass", "28.349523125", "oz ounce ounces"),
    ("time", "1", "sec secs"),
    ("time", "60", "min mins minute minutes"),
    ("time", "3600", "h hr hrs hour hours"),
    ("time", "86400", "d day days"),
    ("time", "604800", "week weeks wk wks"),
    ("months", "1", "month months mo"),
    ("months", "12", "yr yrs year years"),
    ("months", "120", "decade decades"),
    ("months", "1200", "century centuries"),
    ("length^3", "0.000001", "cc"),
    ("length^3", "0.003785411784", "gallon gallons gal"),
    ("length^3", "0.000946352946", "quart quarts qt"),
    ("length^3", "0.000473176473", "pint pints pt"),
    ("length^3", "0.0002365882365", "cup cups"),
    ("length^2", "10000", "ha hectare hectares"),
    ("length^2", "4046.8564224", "acre acres"),
    ("length time^-1", "0.44704", "mph"),
    ("length time^-1", "5/18", "kmh kph kmph"),
    ("time^-1", "1/60", "rpm"),
    (_PRESSURE, "101325000", "atm"),
    ("angle", "1", "deg degs degree degrees"),
    ("radian", "1", "rad rads radian radians"),
    ("money", "1", "$ usd dollar dollars buck bucks"),
    ("money", "0.01", "¢ cent cents"),
    ("euro", "1", "€ eur euro euros"),
    ("sterling", "1", "£ gbp"),
    ("yen", "1", "¥ jpy yen"),
    ("yuan", "1", "cny rmb yuan"),
    ("rupee", "1", "₹ inr rs rupee rupees"),
    ("ratio", "0.01", "% percent pct percentage percents"),
    ("ratio", "0.001", "‰ permille promille permil"),
    ("ratio", "0.0001", "bp bps"),
    ("celsius", "1", "celsius"),
    ("fahrenheit", "1", "fahrenheit"),
)  # fmt: skip


def _table() -> tuple[dict[str, Unit], dict[str, Unit]]:
    """Names that are written exactly so, and names in lower case."""
    symbols: dict[str, Unit] = {}
    words: dict[str, Unit] = {}
    for kind, factor, short, long in _WITH_PREFIX:
        dimension = " ".join(sorted(kind.split()))
        for prefix, power in (("", "1"), *_PREFIXES.items()):
            for name in short.split():
                symbols.setdefault(
                    prefix + name, Unit(dimension, Fraction(factor) * Fraction(power))
                )
        for prefix, power in (("", "1"), *_LONG_PREFIXES.items()):
            for name in long.split():
                unit = Unit(dimension, Fraction(factor) * Fraction(power))
                words[prefix + name] = words[prefix + name + "s"] = unit
    for kind, factor, names in _PLAIN:
        dimension = " ".join(sorted(kind.split()))
        words |= {name: Unit(dimension, Fraction(factor)) for name in names.split()}
    molar = Unit("length^-3 mole", Fraction(1000))
    symbols |= {"M": molar, "mM": Unit(molar.dimension, molar.factor / 1000)}
    symbols |= {"μM": Unit(molar.dimension, molar.factor / 10**6), "KB": symbols["kB"]}
    symbols |= {"C": words["celsius"], "F": words["fahrenheit"]}
    for name in ("min", "pt", "ft", "cd"):  # not milli-inches, pico-tonnes, ...
        symbols.pop(name, None)
    return symbols, words


_SYMBOLS, _WORDS = _table()


def _any_case() -> dict[str, Unit]:
    """Symbols in lower case, where only one unit is written with these letters."""
    units: dict[str, set[Unit]] = {}
    for name, unit in _SYMBOLS.items():
        units.setdefault(name.lower(), set()).add(unit)
    return {low: found.pop() for low, found in units.items() if len(found) == 1 < len(low)}


_ANY_CASE = _any_case()
_SQUARE = re.compile(r"\b(square|sq\.?|cubic|cu\.?) ([A-Za-z]+)|([A-Za-z]+) (squared|cubed)")
_DEGREES = re.compile(r"^(?:degrees?|deg) (c|f|celsius|fahrenheit)$", re.IGNORECASE)
_ATOM = re.compile(r"([^\s^*/.0-9()-]+\.?)\s?\^?\s?(-?[0-9])?")


@lru_cache(maxsize=1024)
def read_unit(name: str) -> Unit | None:
    """The unit of a name: ``km``, ``square feet``, ``kg*m/s^2``, ``miles per hour``; else None."""
    name = " ".join(name.replace("{", "").replace("}", "").split()).replace("per cent", "percent")
    name = _DEGREES.sub(lambda found: found[1].upper(), name)
    if not name or len(name) > _MAX_NAME or name[-1] in "^/*":
        return None
    unit = _one(name)
    if unit is not None:
        return unit
    name = _SQUARE.sub(_power, name).replace(" per ", "/")
    return _product(name)


def _one(name: str) -> Unit | None:
    """A unit without products or powers; the case of a letter, and of an ambiguous symbol, counts."""
    bare = name.rstrip(".")
    low = bare.lower()
    word = _WORDS.get(bare if len(bare) == 1 else low)
    return _SYMBOLS.get(bare) or word or _ANY_CASE.get(low)


def _power(found: re.Match[str]) -> str:
    name, power = found[2] or found[3], found[1] or found[4]
    return f"{name}^{2 if power.startswith('sq') else 3}"


def _product(name: str) -> Unit | None:
    exponents: Counter[str] = Counter()
    factor = Fraction(1)
    sign, position = 1, 0
    while position < len(name):
        if name[position] in " */()-":
            sign = -1 if name[position] == "/" else sign
            position += 1
            continue
        atom = _ATOM.match(name, position)
        unit = _one(atom[1]) if atom else None
        if atom is None or unit is None:
            return None
        power = sign * int(atom[2] or 1)
        factor *= unit.factor**power
        for base in unit.dimension.split():
            base_name, _, exponent = base.partition("^")
            exponents[base_name] += power * int(exponent or 1)
        position = atom.end()
    return Unit(_written(exponents), factor)


def _written(exponents: Counter[str]) -> str:
    parts = [
        base if exponent == 1 else f"{base}^{exponent}"
        for base, exponent in sorted(exponents.items())
        if exponent
    ]
    return " ".join(parts) or "ratio"
