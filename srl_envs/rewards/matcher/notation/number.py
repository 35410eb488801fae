"""Reads one written number exactly, as a `Fraction`; the fast path of the answer matcher.

A *written number* is a literal: integer, decimal, scientific, fraction, mixed number. Something to
be worked out (``7*8``) is not one, so restating a question never reads as its answer.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

MAX_NUMBER_CHARS = 2000
"""Longer texts are not read as numbers; below Python's own limit of 4300 digits."""
MAX_EXPONENT = 4000
"""Largest power of ten in scientific notation."""

_ASCII = str.maketrans(
    {"−": "-", "–": "-", "⁄": "/", "\u00a0": " ", "\u202f": " "}
    | {chr(0xFF01 + i): chr(0x21 + i) for i in range(94)}
)
_DECIMAL = re.compile(
    r"([+-]?)\s?((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)(?:\.[0-9]*)?)(?:[eE]([+-]?[0-9]{1,9}))?"
)
_RATIO = re.compile(
    r"([+-]?)\s?(?:([0-9]+)\s{0,2}/\s{0,2}([+-]?[0-9]+)"
    r"|\\[dt]?frac\s?\{\s?([+-]?[0-9]+)\s?\}\s?\{\s?([+-]?[0-9]+)\s?\}"
    r"|\\[dt]?frac\s?([0-9])([0-9]))"
)
_MIXED = re.compile(
    r"([+-]?)\s?([0-9]+)(?:\s{1,2}([0-9]+)/([0-9]+)|\s?\\[dt]?frac\s?\{([0-9]+)\}\{([0-9]+)\})"
)


def plain_characters(text: str) -> str:
    """Digits of any script, full-width characters, minus signs and hard spaces as ASCII."""
    if text.isascii():
        return text
    text = text.translate(_ASCII)
    return "".join(str(unicodedata.decimal(char, char)) for char in text)


def read_number(text: str) -> Fraction | None:
    """The exact value of a written number, or None where ``text`` is anything else.

    Args:
        text: for example ``-3``, ``1,234.5``, ``6.02e23``, ``7/2``, ``1 1/2``, ``\\frac{1}{2}``.
    """
    if len(text) > MAX_NUMBER_CHARS:
        return None
    text = plain_characters(text).strip()
    for reader in (_decimal, _ratio, _mixed):
        value = reader(text)
        if value is not None:
            return value
    return None


def _decimal(text: str) -> Fraction | None:
    found = _DECIMAL.fullmatch(text)
    if found is None or not any(c.isdigit() for c in found[2]):
        return None
    exponent = int(found[3] or 0)
    if abs(exponent) > MAX_EXPONENT:
        return None
    value = Fraction(found[2].replace(",", "").rstrip(".")) * Fraction(10) ** exponent
    return -value if found[1] == "-" else value


def _ratio(text: str) -> Fraction | None:
    found = _RATIO.fullmatch(text)
    if found is None:
        return None
    sign, *parts = found.groups()
    top, bottom = (int(part) for part in parts if part is not None)
    if bottom == 0:
        return None
    return Fraction(-top if sign == "-" else top, bottom)


def _mixed(text: str) -> Fraction | None:
    found = _MIXED.fullmatch(text)
    if found is None:
        return None
    sign, *parts = found.groups()
    whole, top, bottom = (int(part) for part in parts if part is not None)
    if top >= bottom:
        return None
    value = whole + Fraction(top, bottom)
    return -value if sign == "-" else value
