"""The reply grammar: what of a model's text is a move.

The text after the last ``</think>`` (the whole reply if there is none) must hold exactly one
distinct ``<action>...</action>``. Nothing else is ever read as a move: no other bracket, no prose.
All functions are linear in the length of the reply.
"""

from __future__ import annotations

import re
from functools import lru_cache

OPEN, CLOSE = "<action>", "</action>"
MAX_REPLY_CHARS = 65_536
_TAG = re.compile(f"{OPEN}|{CLOSE}")


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
    tail = reply[reply.rfind("</think>") + 1 :]
    start = tail.find(OPEN)
    if start < 0:
        return None, f"it has no {OPEN}...{CLOSE} block"
    end = tail.find(CLOSE, start)
    if end < 0:
        return None, f"its {OPEN} block is never closed"
    body = tail[start + len(OPEN) : end]
    alone = tail.find(OPEN, start + 1) < 0 and tail.find(CLOSE, end + 1) < 0
    if not alone or tail.find(CLOSE, 0, start) >= 0:
        blocks = _blocks(tail)
        if blocks is None:
            return None, f"its {OPEN} and {CLOSE} tags do not pair up"
        if len(blocks) > 1:
            return None, f"it has {len(blocks)} different {OPEN} blocks; write exactly one"
    body = body.strip()
    if len(body) > max_action_chars:
        return (
            None,
            f"its action has {len(body)} characters; at most {max_action_chars} are allowed",
        )
    return body, None


def _blocks(text: str) -> set[str] | None:
    """The distinct bodies, or None where tags nest, overlap or stay open."""
    bodies: set[str] = set()
    start = 0
    for tag in _TAG.finditer(text):
        if (tag.group() == OPEN) == bool(start):
            return None
        if start:
            bodies.add(text[start : tag.start()].strip())
        start = 0 if start else tag.end()
    return None if start else bodies


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
