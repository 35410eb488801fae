"""The reply grammar: what of a model's text is a move.

A reply may think first. Its thought ends with the last ``</think>``, and what follows a ``<think>``
that is never closed is thought as well: no move. Of the rest, the last ``<action>...</action>`` is the
move; nothing else is ever read as one, no other bracket and no prose. Tags may be written in any
case. All functions are linear in the length of the reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

OPEN, CLOSE = "<action>", "</action>"
MAX_REPLY_CHARS = 65_536
_TAG = re.compile(r"<\s{0,8}(/?)\s{0,8}action\s{0,8}>", re.IGNORECASE)
_THOUGHT = re.compile(r"<\s{0,8}(/?)\s{0,8}think(?:ing)?\s{0,8}>", re.IGNORECASE)
_PAIRS = {
    "(": ")", "[": "]", "{": "}", "<": ">", '"': '"', "'": "'", "`": "`", "*": "*", "_": "_",
    "\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb",
}  # fmt: skip
"""What may stand around a move, and what closes it."""
_AFTER = ".,;:!\u3002"
"""Punctuation that may stand behind a move."""
_MOST_LAYERS = 8
_FENCE = re.compile(r"```[A-Za-z]{0,10}\s*\n([^`]*)\n\s*```")
"""A code fence with a language, as models write around JSON."""


def parse_reply(reply: str, max_action_chars: int) -> tuple[str, None] | tuple[None, str]:
    """Find the action block of a reply.

    Args:
        reply: any text, however long.
        max_action_chars: longest body that counts.

    Returns:
        ``(body, None)`` with surrounding white space removed, or ``(None, reason)`` where the reply
        is malformed; the reason is written for the one who wrote it.
    """
    if len(reply) > MAX_REPLY_CHARS:
        return None, f"the reply has {len(reply)} characters; at most {MAX_REPLY_CHARS} are read"
    before, _, rest = reply.partition(OPEN)
    if rest.endswith(CLOSE) and "<" not in before:  # most replies: words without a tag, one block
        body = rest[: -len(CLOSE)]
        if "<" not in body and len(body) <= max_action_chars:
            return body.strip(), None
    said, thinks = without_thought(reply)
    tags = list(_TAG.finditer(said))
    if not tags:
        end = " after its thought, which is never closed" if thinks else ""
        return None, f"it has no {OPEN}...{CLOSE} block{end}"
    last = tags[-1]
    if not last.group(1):
        return None, f"its last {OPEN} block is never closed"
    if len(tags) == 1 or tags[-2].group(1):
        return None, f"its last {CLOSE} closes no {OPEN}"
    body = said[tags[-2].end() : last.start()].strip()
    if len(body) > max_action_chars:
        return (
            None,
            f"its action has {len(body)} characters; at most {max_action_chars} are allowed",
        )
    return body, None


def without_thought(reply: str) -> tuple[str, bool]:
    """What is said outside thoughts, and whether a thought is never closed."""
    if "<" not in reply:
        return reply, False
    start, end, opened = 0, len(reply), False
    for tag in _THOUGHT.finditer(reply):
        if tag.group(1):
            start, end, opened = tag.end(), len(reply), False
        elif not opened:
            end, opened = tag.start(), True
    return reply[start:end], opened


def bare_forms(body: str) -> Iterator[str]:
    """The body without what may stand around a move, one layer after the other.

    Emphasis, quotes, brackets in pairs, a code fence and punctuation at the end: ``**4**``, ``[4]``,
    ``"4".``. A game that refuses the body as it stands is asked for these in turn.
    """
    seen = body.strip()
    fenced = _FENCE.fullmatch(seen) if seen.startswith("```") else None
    if fenced:
        seen = fenced.group(1).strip()
        yield seen
    for _ in range(_MOST_LAYERS):
        inner = seen.rstrip(_AFTER)
        if inner == seen and _is_wrapped(seen):
            inner = seen[1:-1]
        inner = inner.strip()
        if inner == seen or not inner:
            return
        seen = inner
        yield seen


def _is_wrapped(text: str) -> bool:
    """Whether the first mark is closed by the last one, and by none before: not in ``[0] or [4]``."""
    if len(text) < 2 or _PAIRS.get(text[0]) != text[-1]:
        return False
    first, last = text[0], text[-1]
    if first == last:
        return first not in text.strip(first)
    depth = 0
    for character in text[1:-1]:
        depth += (character == first) - (character == last)
        if depth < 0:
            return False
    return depth == 0


def action(body: object) -> str:
    """A well-formed reply whose action is ``body``: ``action(4)`` is ``<action>4</action>``."""
    return f"{OPEN}{body}{CLOSE}"


def body_of(reply: str) -> str:
    """The body that `action` made ``reply`` from."""
    return reply.removeprefix(OPEN).removesuffix(CLOSE)


@lru_cache(maxsize=4096)
def replies_of(bodies: tuple[str, ...]) -> tuple[str, ...]:
    """`action` of each body; games offer the same lists again and again."""
    return tuple(map(action, bodies))
