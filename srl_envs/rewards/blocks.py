"""Finds tagged blocks and code fences in a text, in one pass; judges nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


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
    body: str


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


def outside(text: str, blocks: Iterable[Block]) -> str:
    """The text around the blocks."""
    parts, at = [], 0
    for block in blocks:
        parts.append(text[at : block.start])
        at = block.end
    return "".join((*parts, text[at:]))


def scan_fences(text: str) -> tuple[tuple[Fence, ...], bool]:
    """Complete fences of backticks or tildes, and whether one is left open.

    As in CommonMark, a fence closes with the same character, at least as often, and nothing more.
    """
    fences: list[Fence] = []
    mark, language, body = "", "", [""]
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        run = bare[: len(bare) - len(bare.lstrip(bare[0]))] if bare[:3] in ("```", "~~~") else ""
        if not mark:
            if run and not (run[0] == "`" and "`" in bare[len(run) :]):
                words = bare[len(run) :].split()
                mark, language, body = run, words[0].lower() if words else "", []
        elif run == bare and run.startswith(mark):
            fences.append(Fence(language, "".join(body)))
            mark = ""
        else:
            body.append(line)
    return tuple(fences), bool(mark)
