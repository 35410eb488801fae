"""Finds tagged blocks, code fences and boxes in a text, in one pass each; judges nothing.

The regular expressions here are alternations of fixed texts, so each match attempt reads a bounded
number of characters and the whole scan is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
MAX_FENCE_INDENT = 3  # spaces; from four on CommonMark reads an indented code block
_BOX_TOKEN = re.compile(r"\\boxed ?\{|\\.|[{}]", re.DOTALL)


class Block(NamedTuple):
    """One complete ``<tag>body</tag>``."""

    tag: str
    body: str
    start: int
    end: int


class Scan(NamedTuple):
    """What a text holds of some tags."""

    blocks: tuple[Block, ...]
    """Complete blocks in order; none inside another."""
    faults: dict[str, str]
    """The first fault of each tag: ``unclosed``, ``unopened`` or ``nested``."""


class Fence(NamedTuple):
    """One complete fenced code block."""

    language: str
    """First word after the opening marks, in lower case; empty where there is none."""
    body: str
    """The lines between, each with its line break, less the indent of the opening marks."""


def scan_tags(text: str, tags: Iterable[str]) -> Scan:
    """Complete blocks of ``tags`` and what is wrong with the rest; linear in the text."""
    names = "|".join(re.escape(tag) for tag in tags)
    blocks: list[Block] = []
    faults: dict[str, str] = {}
    opened: re.Match[str] | None = None
    for piece in re.finditer(rf"<(/?)({names})>", text) if names else ():
        closes, tag = bool(piece[1]), piece[2]
        if not closes:
            if opened is not None:
                faults.setdefault(tag, "nested")
                faults.setdefault(opened[2], "nested")
            opened = piece
        elif opened is None:
            faults.setdefault(tag, "unopened")
        elif opened[2] != tag:
            faults.setdefault(tag, "nested")
        else:
            body = text[opened.end() : piece.start()]
            blocks.append(Block(tag, body, opened.start(), piece.end()))
            opened = None
    if opened is not None:
        faults.setdefault(opened[2], "unclosed")
    return Scan(tuple(blocks), faults)


def around(text: str, blocks: Iterable[Block]) -> tuple[str, ...]:
    """The texts before, between and after the blocks: one more than there are blocks."""
    parts, at = [], 0
    for block in blocks:
        parts.append(text[at : block.start])
        at = block.end
    return (*parts, text[at:])


def scan_fences(text: str) -> tuple[tuple[Fence, ...], bool]:
    """Complete fences of backticks or tildes, and whether one is left open.

    As in CommonMark 0.31, section 4.5: at most three spaces of indent; a fence closes with the same
    character, at least as often, and nothing more; backticks open none whose first line holds a
    further one. Unlike there, a fence that the text ends in is not complete.
    """
    fences: list[Fence] = []
    mark, language, indent = "", "", 0
    body: list[str] = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        run, info, depth = _fence_marks(line)
        if mark:
            if run.startswith(mark) and not info:
                fences.append(Fence(language, "".join(body)))
                mark = ""
            else:
                body.append(_dedent(line, indent) + "\n")
        elif run and not (run[0] == "`" and "`" in info):
            mark, indent, body = run, depth, []
            language = info.split(maxsplit=1)[0].lower() if info else ""
    return tuple(fences), bool(mark)


def _fence_marks(line: str) -> tuple[str, str, int]:
    """The marks that a line starts with, the text after them and the indent; no marks: ``""``."""
    bare = line.lstrip(" ")
    depth = len(line) - len(bare)
    if depth > MAX_FENCE_INDENT or bare[:3] not in ("```", "~~~"):
        return "", "", 0
    info = bare.lstrip(bare[0])
    return bare[: len(bare) - len(info)], info.strip(), depth


def _dedent(line: str, indent: int) -> str:
    """``line`` without up to ``indent`` leading spaces."""
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]


def scan_boxes(text: str) -> tuple[tuple[tuple[int, int], ...], bool]:
    r"""Where the body of each complete ``\boxed{...}`` starts and ends, and whether one stays open.

    A box inside another counts as well. Braces count inside a box only, and not where a backslash
    stands before them. Spans, not texts: the bodies of nested boxes add up to the square.
    """
    spans: list[tuple[int, int]] = []
    starts: list[tuple[int, int]] = []  # where the body of each open box starts, and its depth
    depth = 0
    for token in _BOX_TOKEN.finditer(text):
        mark = token[0]
        if mark[-1] == "{" and len(mark) > 2:
            depth += 1
            starts.append((token.end(), depth))
        elif mark == "{" and starts:
            depth += 1
        elif mark == "}" and starts:
            if starts[-1][1] == depth:
                spans.append((starts.pop()[0], token.start()))
            depth -= 1
    return tuple(spans), bool(starts)
