"""Messages between seats: cleaned, quoted, and separated from the move.

A message is data. Shown to another seat it must not read as an action block, as a line of the game,
or as anything that the reader cannot see. Games that let a seat talk while it moves share one form of
the action body, read by `split_body`: only the move, or a line ``say: ...`` above it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from srl_envs.errors import IllegalMoveError

SAY = "say:"
_MARKUP = frozenset("<>`")
_INVISIBLE = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800),
        (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)  # fmt: skip
"""Fillers and variation selectors: letters and marks by category, yet nothing is seen."""
_QUOTES = str.maketrans(dict.fromkeys('"\u201c\u201d\u201e\u201f\u2033\uff02', "'"))
_PLAIN = re.compile(r"[ !-;=?-_a-~]*")
"""ASCII that may stand in a message: no control character, ``<``, ``>`` or backtick."""


class Spoken(NamedTuple):
    """An action body, split into message and move."""

    message: str
    """Cleaned; empty where the seat said nothing."""
    move: str
    """The move as it was written, without surrounding white space."""


def clean_message(text: str, limit: int) -> str:
    """``text`` as one line that is safe to show to another seat.

    White space of any kind, line breaks included, becomes single spaces. Dropped are control,
    format, bidirectional, private and unassigned characters, lone surrogates, fillers that show
    nothing, and ``<``, ``>`` and backticks, also in disguise (full width, or with a stroke). Cleaning twice
    changes nothing more.

    Args:
        text: any text, however long.
        limit: most characters kept; the rest is cut off.

    Returns:
        The message in Unicode's form NFC; empty if nothing is left.
    """
    text = text[: 16 * limit]
    if not _PLAIN.fullmatch(text):
        text = unicodedata.normalize("NFC", "".join(map(_shown, text)))
    return " ".join(text.split())[:limit].rstrip()


def quoted(message: str) -> str:
    """A cleaned message in double quotes, with none inside: where it ends is beyond doubt."""
    plain = message.isascii()  # most are, and replacing is ten times as fast as translating
    inside = message.replace('"', "'") if plain else message.translate(_QUOTES)
    return f'"{inside}"'


def split_body(body: str, limit: int, *, example: str) -> Spoken:
    """Tell the message from the move: one line, or two of which the first starts with ``say:``.

    Empty lines are passed over. A message longer than ``limit`` is cut.

    Args:
        body: of an action block.
        limit: most characters of a message.
        example: a legal move, for the error text.

    Raises:
        IllegalMoveError: the move is missing, or there is more than a message and a move.
    """
    lines = [*filter(None, map(str.strip, body.replace("\r", "\n").split("\n")))]
    if not lines or lines[-1][: len(SAY)].lower() == SAY:
        raise IllegalMoveError(f"the last line must be your move alone, for example {example}")
    message = ""
    if len(lines) > 1:
        if len(lines) > 2 or lines[0][: len(SAY)].lower() != SAY:
            raise IllegalMoveError(
                f"write one line with your move, for example {example}, or one line that starts "
                f"with {SAY!r} and your move on the next line"
            )
        message = clean_message(lines[0][len(SAY) :], limit)
    return Spoken(message, lines[-1])


def join_body(message: str, move: str) -> str:
    """The action body that `split_body` takes apart again."""
    return f"{SAY} {message}\n{move}" if message else move


def whole_number(text: str, low: int, high: int) -> int | None:
    """The number that ``text`` writes in ASCII digits; None unless it is from ``low`` (>= 0) to ``high``.

    A sign, a leading zero, white space or more digits than ``high`` has are not accepted.
    """
    if len(text) > len(str(high)) or not (text.isascii() and text.isdigit()):
        return None
    value = int(text)
    return value if str(value) == text and low <= value <= high else None


def _shown(char: str) -> str:
    """What of one character may be shown: itself, a space, or nothing."""
    if char.isspace():
        return " "
    if char in _INVISIBLE or unicodedata.category(char).startswith("C"):
        return ""
    return "" if _MARKUP & set(unicodedata.normalize("NFKD", char)) else char
