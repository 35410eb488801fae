"""Answers that are a number with a unit: lengths, money, angles, clock times, counted things."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from srl_envs.rewards.matcher.words.counters import GROUPS, split_counted
from srl_envs.rewards.matcher.words.hedges import is_hedge
from srl_envs.rewards.matcher.words.texts import month_number
from srl_envs.rewards.matcher.words.units import read_unit


class Quantity(NamedTuple):
    """A number, still as text, and what it counts."""

    number: str
    dimension: str
    """As in `units.Unit`; ``things:apple`` for an unknown noun."""
    factor: Fraction
    """Value of one unit in the base unit of its dimension."""


_TAIL_CHARS = 60
_CIRCLE = re.compile(r"\s?\^\s?(?:\\circ|\{\s?\\circ\s?\})\s*$")
_FUNCTION = re.compile(r"\\|[a-z]{3}")
_PRIMES = {"'": "ft", '"': "in"}
_LETTER = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1effμµΩ"
_TAIL = re.compile(
    rf"(?:(?<=[0-9}})!.])|(?<=\\pi)(?=\s))(\s*)((?:[{_LETTER}¥₹]{{1,20}}\.?|/)"
    rf"(?:[ ·*/-]{{1,3}}\(?[{_LETTER}]{{1,20}}\)?\.?"
    r"|\s?\^\s?\{?-?[0-9]\}?){0,6})$"
)
_CURRENCIES = r"[$€£¥₹]|USD|EUR|GBP|JPY|CNY|RMB|INR|Rs\.?"
_PREFIXED = re.compile(
    rf"([+-]?)\s?(?:US|U\.S\.)?\s?({_CURRENCIES})\s?([+-]?\s?\.?[0-9].*)", re.DOTALL
)
_NAMED_TWICE = re.compile(
    r"\s?(?:dollars?|usd|euros?|eur|pounds?|gbp|yen|yuan|rupees?|each)$", re.IGNORECASE
)
_PER = re.compile(r"(?<=[0-9.)}])\s?(?:per\b|/)\s?(?=[A-Za-z]{1,12}$)")
_PART = re.compile(
    r"([0-9]+(?:\.[0-9]+)?)\s{0,3}([A-Za-z]{1,10}\.?|'|\")(?:\s{0,3},?\s{0,3}(?:and\s+)?|$)"
)
_PARTS = re.compile(rf"(?:{_PART.pattern}){{2,4}}")
_CLOCK = re.compile(
    r"([0-9]{1,2})(?::([0-9]{2}))?(?::([0-9]{2}))?\s?(?:([ap])\.?\s?m\.?)?", re.IGNORECASE
)
_NAMED_TIMES = {
    "noon": "12 pm", "12 noon": "12 pm", "midday": "12 pm", "midnight": "12 am", "12 midnight": "12 am",
}  # fmt: skip
_MAX_NOUN_WORDS = 3
_NO_NOUNS = frozenset(
    ("and", "is", "mod", "for", "to", "in", "pi", "of", "with", "sin", "cos", "tan",
     "log", "exp", "sqrt", "choose", "be", "are", "was", "were", "can", "will", "has", "have", "at",
     "times", "divided", "multiplied", "by", "squared", "cubed", "factorial", "double",
     "triple", "dozen", "dozens", "hundred", "hundreds", "thousand", "thousands", "million", "millions",
     "billion", "trillion", "half", "halves", "third", "thirds", "fifths", "sixths", "eighths", "tens",
     "tenth", "tenths", "hundredths", "thousandths", "remainder", "base", "choices", "negative",
     "twice", "thrice", "doubled", "tripled", "halved", "maximum", "minimum", "max", "score", "scores",
     "gross", "grosses", "lakh", "lakhs", "crore", "crores", "mio", "mrd", "mln", "mlrd", "bn", "tn", "bis",
     "thou", "grand", "mil", "mill", "fold", "off", "percent", "percentage", "basis", "permille",
     "hex", "hexadecimal", "octal", "binary", "decimal",
     # the like in other languages
     "und", "tausend", "millionen", "et", "mille", "y", "millones", "mila", "milioni", "milhões",
     "sino", "sondern")
)  # fmt: skip


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
        number, _, per = _PER.sub("\n", _NAMED_TWICE.sub("", priced[3])).partition("\n")
        return _measured(priced[1] + number, f"{priced[2].rstrip('.')}/{per}" if per else priced[2])
    if text[-1:] in "CF" and (circle := _CIRCLE.search(text[:-1])):
        return _measured(text[: circle.start()], text[-1])
    circle = _CIRCLE.search(text)
    value = text[: circle.start()].rpartition("=")[2] if circle else ""
    if circle and not _FUNCTION.search(value.replace("\\frac", "")):
        return _measured(text[: circle.start()], "deg")
    if text.endswith(("%", "‰", "€", "£", "¢", "$", "¥", "₹")) and len(text) > 1:
        return _measured(text[:-1], text[-1])
    if _PARTS.fullmatch(text):
        return _sum_of_parts(text)
    if text[-1:] in _PRIMES and text[-2:-1].isdigit():
        return _measured(text[:-1], _PRIMES[text[-1]])
    counted = split_counted(text)
    if counted:
        number, (unit, noun) = counted
        return _measured(number, unit) if unit else Quantity(number, f"things:{noun}", Fraction(1))
    found = _TAIL.search(text[-_TAIL_CHARS:])
    if found is None:
        return None
    number = text[: len(text) - len(found[0])]
    return _with_unit(number, found[2], spaced=bool(found[1]) or glued)


def _measured(number: str, name: str) -> Quantity | None:
    unit = read_unit(name)
    return unit and Quantity(number, unit.dimension, unit.factor)


def _sum_of_parts(text: str) -> Quantity | None:
    """``5 ft 6 in`` or ``2 hours and 30 minutes``: one dimension, from large to small units."""
    parts = [
        (Fraction(number), read_unit(_PRIMES.get(name, name)))
        for number, name in _PART.findall(text)
    ]
    units = [unit for _, unit in parts if unit]
    dimensions = {unit.dimension for unit in units}
    factors = [unit.factor for unit in units]
    if (
        len(units) < len(parts)
        or len(dimensions) > 1
        or factors != sorted(set(factors), reverse=True)
    ):
        return None
    total = sum((number * unit.factor for number, unit in parts if unit), Fraction(0))
    return Quantity(f"({total})", units[0].dimension, Fraction(1))


def _with_unit(number: str, name: str, *, spaced: bool) -> Quantity | None:
    noun = name.rstrip(".").lower()
    words = noun.split()
    if any(map(is_hedge, words)):  # ``ca.`` is not a centiampere
        return None
    unit = read_unit(name)
    if unit and (spaced or len(name) > 1):
        return Quantity(number, unit.dimension, unit.factor)
    if (
        len(words) > _MAX_NOUN_WORDS
        or len(noun) < 3
        or not noun.replace(" ", "").isalpha()
        or _NO_NOUNS & {*words, *(word.rstrip("s") for word in words)}
        or any(map(month_number, words))
    ):
        return None
    if len(words) == 1 and not spaced:
        return None
    return Quantity(number, f"things:{noun.rstrip('s')}", Fraction(1))


def is_group(quantity: Quantity) -> bool:
    """Whether what is counted are groups of a known size, such as ``42 pairs``."""
    kind, _, noun = quantity.dimension.partition(":")
    return kind == "things" and not GROUPS.isdisjoint({word.rstrip("s") for word in noun.split()})


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
    text = _NAMED_TIMES.get(text.strip().lower(), text.strip())
    found = _CLOCK.fullmatch(text)
    if found is None or not (found[2] or found[4]):
        return None
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    half = (found[4] or "").lower()
    if minute > 59 or second > 59 or hour > 23 or (half and not 1 <= hour <= 12):
        return None
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return (hour * 60 + minute) * 60 + second
