r"""Finds the text of the final answer in a reply; never judges it.

Each function takes a whole reply and returns the answer's text, or None. They read the part after
the last ``</think>`` only: what a model drafts is not what it answers. All are linear in the reply.
"""

from __future__ import annotations

import re

THINK_END = "</think>"
_BOX = re.compile(r"\\(?:boxed|fbox)\s?\{|[{}]|\\.", re.DOTALL)
_PHRASE = re.compile(r"####|\b(?:final )?answer(?:\*\*)?(?: is| ?=|:)(?:\*\*)?:?", re.IGNORECASE)
_BOX_IN = ("\\boxed", "\\fbox")


def visible(reply: str) -> str:
    """The part of ``reply`` after its last ``</think>``; all of it where there is none."""
    return reply.rpartition(THINK_END)[2]


def boxes(reply: str) -> list[str]:
    r"""Contents of all complete, outermost ``\boxed{...}``, in order, braces balanced."""
    text = visible(reply)
    if not any(name in text for name in _BOX_IN):
        return []
    found: list[str] = []
    open_boxes: list[tuple[int, int]] = []  # where the content starts, and the depth outside
    depth = 0
    for piece in _BOX.finditer(text):
        char = piece[0][-1]
        if char == "{" and piece[0] != "\\{":
            if len(piece[0]) > 1:
                open_boxes.append((piece.end(), depth))
            depth += 1
        elif piece[0] == "}" and depth:
            depth -= 1
            if open_boxes and open_boxes[-1][1] == depth:
                start, _ = open_boxes.pop()
                found.append(text[start : piece.start()])
    return found


def last_boxed(reply: str) -> str | None:
    r"""The content of the last complete ``\boxed{...}``.

    The last, because drafts box partial results; never any, because listing every candidate would
    then be right.
    """
    found = boxes(reply)
    return found[-1] if found else None


def tagged(reply: str, tag: str) -> str | None:
    """The content of the last complete ``<tag>...</tag>``."""
    text = visible(reply)
    head, closed, _ = text.rpartition(f"</{tag}>")
    _, opened, body = head.rpartition(f"<{tag}>")
    return body if closed and opened else None


def answer_tag(reply: str) -> str | None:
    """The content of the last ``<answer>...</answer>``."""
    return tagged(reply, "answer")


def action_block(reply: str) -> str | None:
    """The content of the last ``<action>...</action>``."""
    return tagged(reply, "action")


def plain(reply: str) -> str | None:
    """What follows the last ``answer is``, ``answer:`` or ``####``, else the last line."""
    text = visible(reply).strip()
    end = -1
    for phrase in _PHRASE.finditer(text):
        end = phrase.end()
    if end >= 0:
        line = text[end:].strip().partition("\n")[0].strip()
        if line:
            return line
    return text.rpartition("\n")[2].strip() or None


EXTRACTORS = {
    "boxed": last_boxed,
    "answer": answer_tag,
    "action": action_block,
    "plain": plain,
}
"""Ways of finding the answer, by name, in the order in which they are tried by default."""
