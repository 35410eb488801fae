"""Finds the text of the final answer in a reply; never judges it.

Each function takes a whole reply and returns the answer's text, or None. They read the part after
the last ``</think>`` only: what a model drafts is not what it answers.
"""

from __future__ import annotations

THINK_END = "</think>"


def visible(reply: str) -> str:
    """The part of ``reply`` after its last ``</think>``; all of it where there is none."""
    return reply.rpartition(THINK_END)[2]


def last_boxed(reply: str) -> str | None:
    r"""The content of the last complete ``\boxed{...}``, braces balanced; in linear time."""
    text = visible(reply)
    start = text.rfind("\\boxed{")
    while start >= 0:
        body = _balanced(text, start + len("\\boxed{"))
        if body is not None:
            return body
        start = text.rfind("\\boxed{", 0, start)
        return None if start < 0 else _balanced(text, start + len("\\boxed{"))
    return None


def _balanced(text: str, start: int) -> str | None:
    depth = 1
    for i in range(start, len(text)):
        if text[i] == "{":
            depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0:
                return text[start:i]
    return None


def tagged(reply: str, tag: str) -> str | None:
    """The content of the last complete ``<tag>...</tag>``."""
    text = visible(reply)
    head, closed, _ = text.rpartition(f"</{tag}>")
    _, opened, body = head.rpartition(f"<{tag}>")
    return body if closed and opened else None
