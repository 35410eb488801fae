"""The parts of an observation's text: the constant rules, the position, and the shell's notice."""

from __future__ import annotations

from typing import NamedTuple

BLANK_LINE = "\n\n"
NOTICE = "\n\nYour last reply was not accepted: "
"""How the notice begins that `GameEnv` appends after a refused reply."""


class ObservedText(NamedTuple):
    """The three parts; joined they are the text."""

    rules: str
    """The first paragraph with the blank line after it; the whole text if it has no blank line."""
    position: str
    notice: str


def split_text(text: str) -> ObservedText:
    """Take an observation apart."""
    seen, mark, notice = text.rpartition(NOTICE)
    if not mark:
        seen, notice = text, ""
    rules, blank, position = seen.partition(BLANK_LINE)
    return ObservedText(rules + blank, position, mark + notice)
