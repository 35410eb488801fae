"""Reads one JSON value and refuses what the standard library lets pass.

Refused are keys that stand twice, ``NaN``, infinities, numbers too large for a double, half
characters, and anything after the value. Size and depth are capped before a value is built.
Source: RFC 8259; the choices where it leaves one are those of RFC 7493 (I-JSON).
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

MAX_INTEGER_DIGITS = 300  # a double holds 308
_WHITE_SPACE = " \t\n\r"
_TOKEN = re.compile(r'\\.|["\[\]{}]', re.DOTALL)  # every match is one or two characters: linear


class JsonFaultError(ValueError):
    """A text is not acceptable JSON; ``reason`` is a label of `reasons.FORMAT_REASONS`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse_json(text: str, *, max_chars: int, max_depth: int) -> Any:
    """The one JSON value that ``text`` holds, white space around it aside.

    Args:
        text: any text.
        max_chars: longest text that is read.
        max_depth: deepest nesting of arrays and objects; a bare number has depth 0.

    Raises:
        JsonFaultError: with the label of what is wrong.
    """
    text = text.strip(_WHITE_SPACE)
    if not text:
        raise JsonFaultError("json_missing")
    if len(text) > max_chars:
        raise JsonFaultError("json_too_long")
    if _deeper_than(max_depth, text):
        raise JsonFaultError("json_too_deep")
    try:
        value, end = _DECODER.raw_decode(text)
        if "\\u" in text or not text.isascii():  # other texts hold no half characters
            json.dumps(value, ensure_ascii=False).encode()
    except JsonFaultError:
        raise
    except (json.JSONDecodeError, UnicodeEncodeError):
        raise JsonFaultError("json_invalid") from None
    if end < len(text):
        raise JsonFaultError("json_trailing")
    return value


def _deeper_than(limit: int, text: str) -> bool:
    """Whether brackets outside of strings nest more than ``limit`` deep."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth, in_string = 0, False
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark == '"':
            in_string = not in_string
        elif not in_string and mark in "[{":
            depth += 1
            if depth > limit:
                return True
        elif not in_string and mark in "]}":
            depth -= 1
    return False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise JsonFaultError("json_duplicate_key")
    return value


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:  # reading n digits takes time n squared
        raise JsonFaultError("json_number")
    return int(digits)


def _decimal(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise JsonFaultError("json_number")
    return value


def _constant(_: str) -> float:
    raise JsonFaultError("json_number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_decimal,
    parse_constant=_constant,
)
