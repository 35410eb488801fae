"""Numbers that a player wrapped in words: a certain number is read, everything else is refused."""

from __future__ import annotations

import re

from srl_envs.messages import whole_number

_WRAPPED = re.compile(
    r"(?:(?:i|my|the|move|action|is|ask|for|take|request|harvest|give)\b[\s:=]*)*"
    r"(\d+)(?:\s+(?:units?|tokens?))?[.,!]?",
    re.IGNORECASE,
)


def one_number(text: str, low: int, high: int) -> int | None:
    """The only number of ``text``, by itself or in words such as ``I ask for 4 units``.

    Args:
        text: a move; digits are ASCII, without sign or leading zero.
        low: least number, 0 or more.
        high: largest number.

    Returns:
        The number; None where there is none, more than one, another word or one out of range.
    """
    bare_number = whole_number(text, low, high)
    if bare_number is not None:
        return bare_number
    wrapped = _WRAPPED.fullmatch(text.strip())
    return whole_number(wrapped.group(1), low, high) if wrapped else None
