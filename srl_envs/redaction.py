"""Takes a key out of what a server sends, in each form in which a server may repeat it.

One rule for every answer of an endpoint: no eight characters in a row of the key stay, as they are, in
another case, reversed, in hexadecimal or base64, nor behind the escapes of URLs, JSON, Python and HTML.
"""

from __future__ import annotations

import base64
import html
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from urllib.parse import quote

HIDDEN = "***"
RUN = 8
"""Characters of a key in a row that are hidden; fewer may stand in any text. A shorter key is a placeholder,
such as the ``EMPTY`` of local servers, and stays."""
_LETTERS = 12
"""Characters from which letters in one case count as a part of a key. Fewer may be an ordinary word that a
key holds, such as the end of ``sk-no-key-required``; at the beginning of a key they count from `RUN` on."""
_BASE64_RUN = 10
"""Letters of base64 that eight characters determine completely, wherever their encoding begins."""
_HEX_RUN = 2 * RUN
_SEED, _STRIDE = 5, 4
"""Every run of eight letters has five that begin at a multiple of four."""
_DEPTH = 5
"""Escapes within escapes that are read: those of the answer's own JSON, and four more."""
_ESCAPE = re.compile(
    r"%(?P<url>[0-9a-f]{2})|\\u(?P<json>[0-9a-f]{4})|\\x(?P<python>[0-9a-f]{2})|\\(?P<octal>[0-3][0-7]{2})"
    r"|(?P<html>&#?\w{1,8};)|\\(?P<itself>[^a-z0-9\s])|\\[rnt]|[\r\n]",
    re.IGNORECASE,
)
"""Ends of lines count as an escape of nothing: they divide long base64."""
_FOLD = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ-_", "abcdefghijklmnopqrstuvwxyz+/")
"""Cases are alike, and so are both alphabets of base64."""


class Redactor:
    """Replaces what a text shows of one key.

    Args:
        key: printable ASCII; nothing is hidden where it has fewer than `RUN` characters.
    """

    def __init__(self, key: str) -> None:
        self._runs: dict[int, frozenset[str]] = {}
        self._beginnings: frozenset[str] = frozenset()
        if len(key) >= RUN:
            plain, coded, hexadecimal = (_both_ways(forms) for forms in _forms(key))
            self._runs = {
                RUN: _runs(plain, RUN),
                _BASE64_RUN: _runs(coded, _BASE64_RUN),
                _HEX_RUN: _runs(hexadecimal, _HEX_RUN),
            }
            self._beginnings = frozenset(form[:RUN] for form in plain)
        self._seeds = _runs(chain.from_iterable(self._runs.values()), _SEED)

    def hide(self, text: str) -> str:
        """The text, with `HIDDEN` in the place of each part that shows eight characters of the key.

        The time is proportional to the text's length.
        """
        if not self._seeds:
            return text
        spans: list[tuple[int, int]] = []
        read: _Reading | None = _Reading(text, range(len(text)), range(1, len(text) + 1))
        for _ in range(_DEPTH + 1):
            if read is None:
                break
            spans += [(read.begins[begin], read.ends[end - 1]) for begin, end in self._shown(read)]
            read = read.unescaped()
        pieces, until = [], 0
        for begin, end in _joined(spans):
            pieces += [text[until:begin], HIDDEN]
            until = end
        return "".join([*pieces, text[until:]])

    def _shown(self, read: _Reading) -> Iterator[tuple[int, int]]:
        """Parts of the letters that show the key; words that happen to be in it are none."""
        folded = read.letters.translate(_FOLD)
        seeds = self._seeds
        near = [at for at in range(0, len(folded), _STRIDE) if folded[at : at + _SEED] in seeds]
        for length, runs in self._runs.items():
            for begin, end in _joined(
                (at, at + length)
                for seed in near
                for at in range(max(0, seed + _SEED - length), seed + 1)
                if folded[at : at + length] in runs
            ):
                beginning = any(first in folded[begin:end] for first in self._beginnings)
                if length != RUN or beginning or not _is_word(read.letters[begin:end]):
                    yield begin, end


@dataclass(frozen=True, slots=True)
class _Reading:
    """Letters of a text, with the place of each in it."""

    letters: str
    begins: Sequence[int]
    ends: Sequence[int]

    def unescaped(self) -> _Reading | None:
        """With one level of escapes read; None where there is none."""
        letters: list[str] = []
        begins, ends = array("Q"), array("Q")
        until = 0
        for found in chain(_ESCAPE.finditer(self.letters), [None]):
            begin, end = found.span() if found else (len(self.letters), len(self.letters))
            letters.append(self.letters[until:begin])
            begins.extend(self.begins[until:begin])
            ends.extend(self.ends[until:begin])
            for letter in _meaning(found) if found else "":
                letters.append(letter)
                begins.append(self.begins[begin])
                ends.append(self.ends[end - 1])
            until = end
        said = "".join(letters)
        return None if said == self.letters else _Reading(said, begins, ends)


def _meaning(escape: re.Match[str]) -> str:
    kind, value = escape.lastgroup, escape[escape.lastgroup or 0]
    if kind is None:
        return ""
    if kind == "itself":
        return value
    return html.unescape(value) if kind == "html" else chr(int(value, 8 if kind == "octal" else 16))


def _forms(key: str) -> tuple[list[str], list[str], list[str]]:
    """The key in letters, in base64 and in hexadecimal, with what of it may be encoded."""
    cases = {case for way in (key, key[::-1]) for case in _cases(way)}
    twice = base64.b64encode(key.encode()).decode()
    sources = [source.encode() for source in {*cases, quote(key, safe=""), twice}]
    coded = [part for source in sources for part in _base64_parts(source)]
    return [key], coded, [source.hex() for source in sources]


def _cases(text: str) -> tuple[str, ...]:
    return text, text.lower(), text.upper(), text.swapcase(), text.title(), text.capitalize()


def _base64_parts(data: bytes) -> Iterator[str]:
    """Letters of base64 that depend only on the data, for each place within three bytes that it begins at."""
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        yield coded[(0, 2, 3)[before] : len(coded) - bool((before + len(data)) % 3)]


def _both_ways(forms: Iterable[str]) -> list[str]:
    return [way for form in forms for way in (form.translate(_FOLD), form.translate(_FOLD)[::-1])]


def _runs(texts: Iterable[str], length: int) -> frozenset[str]:
    """All parts of so many letters."""
    return frozenset(
        text[at : at + length] for text in texts for at in range(len(text) - length + 1)
    )


def _is_word(letters: str) -> bool:
    return (
        len(letters) < _LETTERS
        and letters.isalpha()
        and (letters.islower() or letters.isupper() or letters.istitle())
    )


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order, overlapping and adjoining ones as one."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined
