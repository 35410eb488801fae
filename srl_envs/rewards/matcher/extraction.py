r"""Finds the text of the final answer in a reply; never judges it.

Each function takes a whole reply and returns the answer's text, or None. They read what stands outside
thoughts only (`grammar.without_thought`, as in games): what a model drafts is not what it answers, also
where its thought was cut off. All are linear in the reply.

The first four ask the writer to mark the answer, and are the default. ``boxes`` and ``prose`` guess
more: name them where replies are free text, and expect more wrong readings.
"""

from __future__ import annotations

import re

from srl_envs.turns.grammar import without_thought

_BOX = re.compile(r"\\+(?:boxed|fbox)\s?\{|[{}]|\\.", re.DOTALL)
_BOX_IN = ("\\boxed", "\\fbox")
_PHRASE = re.compile(r"####|\b(?:final )?answer(?:\*\*)?(?: is| ?=|:)(?:\*\*)?:?", re.IGNORECASE)
_FINAL = re.compile(r"\bfinal answer is:?\s*[$\\0-9(-]", re.IGNORECASE)
_CLOSING_LINES = {"$$": "$$", "\\]": "\\["}
_REMARK = re.compile(r"(?<=[0-9$)}\]%])\.\s+[A-Z]|[.,]?\s*\bI hope it is correct", re.DOTALL)
_LIST_WORD = re.compile(r"\b(?:and|or)\b")
_MARKUP = re.compile(r"\\[a-z]*|[$(){}\[\]]")
_MAX_WORDS_BETWEEN = 4
_FORMULA = re.compile(
    r"\$\$[^$]{1,500}\$\$|\\\[(?:[^\\]|\\[^\]]){1,500}\\\]|\\\((?:[^\\\n]|\\[^)\n]){1,500}\\\)"
    r"|(?<!\\)\$(?:[^$\\\n]|\\[^\n]){1,500}\$"
)
_LITERAL = re.compile(
    r"(?<![\w.,/])(?<![0-9]-)[$€£]?\s?[-+−]?(?:[0-9]{1,3}(?: [0-9]{3})+(?![0-9])(?:\.[0-9]+)?"
    r"|[0-9](?:[0-9,]*[0-9])?(?:\.[0-9]+)?|\.[0-9]+)(?:/[0-9]+)?"
    r"(?:[eE][-+]?[0-9]+)?(?:\s?(?:%|percent\b|pct\b|[€£$°])|[a-z]{1,2}[²³]?(?!\w)|(?!\w))"
)
_AFTER_FORMULA = re.compile(r"\s?(?:\\?%|percent\b|pct\b)")
_PROSE_WORD = re.compile(r"(?<![\\A-Za-z])(?!and\b|text\b)[A-Za-z]{3,}|\n")
_PHRASE_PART = 2000  # characters
_PROSE_CHARS = 10_000  # at the end of a reply


def visible(reply: str) -> str:
    """The part of ``reply`` after its last ``</think>``, up to a ``<think>`` that is never closed."""
    return without_thought(reply)[0]


def boxes(reply: str) -> list[str]:
    r"""Contents of all complete, outermost ``\boxed{...}``, in order, braces balanced."""
    text = visible(reply)
    return [text[start:end] for _, start, end in _box_spans(text)]


def _box_spans(text: str) -> list[tuple[int, int, int]]:
    """Where each complete, outermost box begins, and where its content begins and ends."""
    if not any(name in text for name in _BOX_IN):
        return []
    found: list[tuple[int, int, int]] = []
    open_boxes: list[tuple[int, int, int]] = []  # box, its content, and the depth outside
    depth = 0
    for piece in _BOX.finditer(text):
        char = piece[0][-1]
        if char == "{" and piece[0] != "\\{":
            if len(piece[0]) > 1:
                open_boxes.append((piece.start(), piece.end(), depth))
            depth += 1
        elif piece[0] == "}" and depth:
            depth -= 1
            if open_boxes and open_boxes[-1][2] == depth:
                box, start, _ = open_boxes.pop()
                found.append((box, start, piece.start()))
    return found


def last_boxed(reply: str) -> str | None:
    r"""The content of the last complete ``\boxed{...}``.

    The last, because drafts box partial results; never any, because listing every candidate would
    then be right.
    """
    found = boxes(reply)
    return found[-1] if found else None


def joined_boxes(reply: str) -> str | None:
    r"""The last boxes of one enumeration, joined: ``\boxed{1} and \boxed{2}`` is ``1, 2``.

    None where a final answer is announced after them: then they held partial results.
    """
    text = visible(reply)
    spans = _box_spans(text)
    if not spans or _FINAL.search(text, spans[-1][2]):
        return None
    first = len(spans) - 1
    while first and _enumerates(text[spans[first - 1][2] + 1 : spans[first][0]]):
        first -= 1
    return ", ".join(text[start:end].strip() for _, start, end in spans[first:])


def _enumerates(between: str) -> bool:
    r"""Whether the text between two values only lists them: ``$ and $``, ``papers and``, nothing."""
    if len(between) > 80 or "\n\n" in between or ". " in between:
        return False
    words = _MARKUP.sub(" ", between).split()
    if _LIST_WORD.search(between):
        return len(words) <= _MAX_WORDS_BETWEEN
    return not words or (len(words) == 1 and words[0] in (",", ";", "&"))


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
    line = _after_phrase(text).partition("\n")[0].strip()
    return line or _last_line(text) or None


def _after_phrase(text: str) -> str:
    """What follows the last announcement of an answer, without closing remarks."""
    end = -1
    for phrase in _PHRASE.finditer(text):
        end = phrase.end()
    if end < 0:
        return ""
    text = text[end : end + _PHRASE_PART].strip()
    for mark, opening in _CLOSING_LINES.items():
        if text.startswith(opening) and (close := text.find(mark, 2)) > 0:
            return " ".join(text[: close + 2].split())
    remark = _REMARK.search(text)
    return text[: remark.start()] if remark else text


def _last_line(text: str) -> str:
    """The last line; the whole of a displayed formula that ends there."""
    line = text.rpartition("\n")[2].strip()
    opening = _CLOSING_LINES.get(line)
    if opening is not None:
        start = text.rfind(opening, 0, len(text) - len(line))
        if start >= 0:
            return " ".join(text[start:].split())
    return line


def prose(reply: str) -> str | None:
    r"""The last formula or number: of what `plain` finds, else of the whole reply.

    Formulas that are enumerated, such as ``$1$ and $2$``, are joined. A reply without a single
    word is taken whole.
    """
    text = visible(reply).strip()
    if text and len(text) <= _PHRASE_PART and not _PROSE_WORD.search(text):
        return text
    return _last_value(_after_phrase(text)) or _last_value(text[-_PROSE_CHARS:])


def _last_value(text: str) -> str | None:
    found = list(_FORMULA.finditer(text))
    tail = found[-1].end() if found else 0
    numbers = list(_LITERAL.finditer(text, tail))
    if not found or (numbers and not _AFTER_FORMULA.match(text, tail)):
        return numbers[-1][0].strip() if numbers else None
    first = len(found) - 1
    while first and _enumerates(text[found[first - 1].end() : found[first].start()]):
        first -= 1
    unit = _AFTER_FORMULA.match(text, tail)
    formulas = [_inside(formula[0]) for formula in found[first:]]
    return ", ".join(formulas) + (unit[0] if unit else "")


def _inside(formula: str) -> str:
    size = 1 if formula[0] == "$" and formula[1] != "$" else 2
    return formula[size:-size].strip()


EXTRACTORS = {
    "boxed": last_boxed,
    "boxes": joined_boxes,
    "answer": answer_tag,
    "action": action_block,
    "plain": plain,
    "prose": prose,
}
"""Ways of finding the answer, by name."""
MARKED = ("boxed", "answer", "action", "plain")
"""Extractors tried by default, in this order."""
