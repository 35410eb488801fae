"""Numbers in words: ``seven``, ``twenty-first``, ``two thirds``, ``one and a half``."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
     "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
     "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_POWERS = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_NUMBER_WORDS = frozenset((*_UNITS, *_TENS, *_POWERS, "hundred", "and"))
_IRREGULAR = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
    "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip
_CARDINALS = {
    _IRREGULAR.get(word, word.removesuffix("y") + ("ieth" if word.endswith("y") else "th")): word
    for word in (*_UNITS[1:], *_TENS, "hundred", "thousand", "million", "billion")
}
"""Ordinals of one word, and the number that each comes from."""
_PARTS = {
    ordinal: cardinal for ordinal, cardinal in _CARDINALS.items() if cardinal not in ("one", "two")
} | {"half": "two", "quarter": "four"}
"""Names of the parts of a fraction, in the singular."""
_FIRST_WORDS = _NUMBER_WORDS - {"and"} | {"half", "a", "an", "minus", "negative"}
_MAX_WORDS = 24
_ORDINAL = re.compile(r"(?:the )?([0-9]{1,9})\s?(?:\^\s?)?\{?\s?(?:st|nd|rd|th)\s?\}?", re.I)
_LEADING_ORDINAL = re.compile(
    r"(?:[0-9]{1,2}\s?(?:\^\s?)?\{?\s?(?:st|nd|rd|th)\s?\}?(?=\s[A-Za-z]{3}))"
    r"(?!\s(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))",
    re.I,
)
_MEASURED_WORDS = re.compile(r"[A-Za-z -]{3,120}")
_NO_NOUNS = frozenset(("or", "of", "to", "point", "over", "by", "times", "is", "but", "if"))


def read_number_word(text: str) -> Fraction | None:
    """The number that words spell; None for anything else, and for ordinals.

    Args:
        text: for example ``seven``, ``one hundred and forty-two``, ``minus two``, ``two thirds``,
            ``a half``, ``one and a half`` or ``three point five``.
    """
    words = text.lower().replace("-", " ").split()
    if not 0 < len(words) <= _MAX_WORDS or words[0] not in _FIRST_WORDS:
        return None
    if words[0] in ("minus", "negative"):
        value = _unsigned(words[1:])
        return None if value is None else -value
    return _unsigned(words)


def read_ordinal(text: str) -> int | None:
    """``3rd``, ``3^{rd}``, ``third`` and ``the third`` as 3; None for anything else."""
    found = _ORDINAL.fullmatch(text.strip())
    if found:
        return int(found[1])
    words = text.lower().replace("-", " ").split()
    words = words[1:] if words[:1] == ["the"] else words
    if not 0 < len(words) <= _MAX_WORDS or words[-1] not in _CARDINALS:
        return None
    return _whole([*words[:-1], _CARDINALS[words[-1]]]) or _whole_scale(words)


def with_digits(text: str) -> str:
    """``two hours`` as ``2 hours``, and ``3rd place`` as ``third place``; other texts as they are."""
    if text[:1].isdigit():
        found = _LEADING_ORDINAL.match(text)
        number = read_ordinal(found[0]) if found else None
        return f"{_ordinal_word(number)}{text[found.end() :]}" if found and number else text
    if not _MEASURED_WORDS.fullmatch(text):
        return text
    words = text.replace("-", " ").split()
    if words[0].lower() not in _FIRST_WORDS:
        return text
    for end in range(len(words) - 1, 0, -1):
        value = read_number_word(" ".join(words[:end]))
        if value is not None:
            rest = words[end].lower()
            spoiled = rest in _NO_NOUNS or rest in _NUMBER_WORDS or rest.removesuffix("s") in _PARTS
            ordinal = rest in _CARDINALS and value != 1  # ``twenty second``
            return text if spoiled or ordinal else f"{value} {' '.join(words[end:])}"
    return text


def _ordinal_word(number: int) -> str:
    """The ordinal of a number from 1 to 99, in words."""
    names = {cardinal: ordinal for ordinal, cardinal in _CARDINALS.items()}
    if number < len(_UNITS):
        return names[_UNITS[number]]
    tens = _TENS[number // 10 - 2]
    return f"{tens}-{names[_UNITS[number % 10]]}" if number % 10 else names[tens]


def _unsigned(words: list[str]) -> Fraction | None:
    whole = _whole(words)
    if whole is not None:
        return Fraction(whole)
    if "point" in words:
        return _decimal(words)
    if "and" in words:
        joint = len(words) - 1 - words[::-1].index("and")
        size, part = _whole(words[:joint]), _fraction(words[joint + 1 :])
        return size + part if size is not None and part is not None and part < 1 else None
    return _fraction(words)


def _decimal(words: list[str]) -> Fraction | None:
    """``three point one four``."""
    point = words.index("point")
    whole = _whole(words[:point])
    digits = [_UNITS.index(word) for word in words[point + 1 :] if word in _UNITS[:10]]
    if whole is None or not digits or len(digits) < len(words) - point - 1:
        return None
    return whole + Fraction(int("".join(map(str, digits))), 10 ** len(digits))


def _fraction(words: list[str]) -> Fraction | None:
    """``two thirds``, ``a half``; ``twenty third`` is an ordinal, ``twenty thirds`` a fraction."""
    if not words:
        return None
    name = "half" if words[-1] == "halves" else words[-1].removesuffix("s")
    if name not in _PARTS:
        return None
    top = 1 if words[:-1] in (["a"], ["an"], ["one"]) else _whole(words[:-1])
    if words == ["half"]:
        top = 1
    several = name != words[-1]
    bottom = _whole([_PARTS[name]]) or _whole(["one", _PARTS[name]])
    return Fraction(top, bottom) if top and bottom and several == (top > 1) else None


def _whole_scale(words: list[str]) -> int | None:
    """``hundredth`` as 100: a scale without a number before it."""
    return _whole(["one", _CARDINALS[words[0]]]) if len(words) == 1 else None


def _whole(words: list[str]) -> int | None:
    if not words or not set(words) <= _NUMBER_WORDS:
        return None
    total, limit = 0, max(_POWERS.values()) * 1000
    group: list[str] = []
    for word in words:
        if word not in _POWERS:
            group.append(word)
            continue
        size = _below_thousand(group)
        if not size or _POWERS[word] >= limit:
            return None
        limit = _POWERS[word]
        total, group = total + size * limit, []
    if total and not group:
        return total
    last = _below_thousand(group[1:] if total and group[0] == "and" else group)
    return None if last is None or (total and not last) else total + last


def _below_thousand(words: list[str]) -> int | None:
    hundreds = 0
    if len(words) >= 2 and words[1] == "hundred" and words[0] in _UNITS[1:10]:
        hundreds, words = 100 * _UNITS.index(words[0]), words[2:]
        words = words[1:] if words[:1] == ["and"] and len(words) > 1 else words
        if not words:
            return hundreds
    if len(words) == 1 and words[0] in _UNITS:
        small = _UNITS.index(words[0])
        return hundreds + small if small or not hundreds else None
    if not words or words[0] not in _TENS or len(words) > 2:
        return None
    tens = (_TENS.index(words[0]) + 2) * 10
    if len(words) == 1:
        return hundreds + tens
    return hundreds + tens + _UNITS.index(words[1]) if words[1] in _UNITS[1:10] else None
