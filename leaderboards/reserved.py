"""Reserved names and their owners: ``reserved_names.json``, and the comparison of a name with it.

The same rule holds at registration, in a run, in a bundle, when it is verified or published, and when pages
are built. Reasons: docs/design/trust.md, "Names".
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

_DIGITS = str.maketrans("012345789", "oizeastbg") | {ord("l"): "i"}
"""No two digits become one letter, so that a look-alike of ``v3`` is not ``v8``; small L is capital I."""
_PAIRS = (("rn", "m"), ("vv", "w"))
"""Pairs of letters that look like one letter."""
_MORE_PAIRS = (*_PAIRS, ("ci", "d"))
"""Applied only to reserved names, where ``cl`` is already ``ci``: clara and dara stay distinct."""
_MORE_DIGITS = ("69", ("gq", "bg"))
"""What else these digits are taken for, in reserved names only."""
_SEPARATORS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Reserved:
    """One name of the list."""

    name: str
    kind: str
    """``maker``, ``model``, ``level``, ``bot``, ``role``, ``word of programs`` or ``board``."""
    match: str
    """``start``, ``begins``, ``word``, ``exact`` or ``is``; see the file's ``about``."""
    maker: str = ""
    """Maker who may prove that the name is theirs; empty for a name without proof."""
    since: str = ""
    """Day from which registrations are held to it; empty means always."""
    prefixed: bool = True
    """Whether an owner's prefix opens the name."""


def reservation(
    name: str, *, maker: str = "", when: str = "", more: Iterable[str] = ()
) -> Reserved | None:
    """The first entry of the list that a name reads like; None if it is free.

    Args:
        name: or a part of one, without steps.
        maker: whose names are proven to be the entrant's.
        when: UTC time of the registration; entries that joined the list later do not count. Now if empty.
        more: beginnings that a board reserves beside the list.
    """
    if in_catalog(name):
        return None
    readings = [_Reading.of(name, digits) for digits in _MORE_DIGITS[1]]
    own = [Reserved(start, "board", "start") for start in more]
    for entry in (*_entries(), *own):
        if when and entry.since and when[:10] < entry.since:
            continue
        if maker and entry.maker == maker:
            continue
        if any(reading.fits(entry) for reading in readings):
            return entry
    return None


def in_catalog(name: str) -> bool:
    """Whether a name reads like a model of SRL's catalog, which only the model's weights may be called."""
    return skeleton(name) in _catalog()


def makers() -> list[str]:
    """Makers whose names can be proven."""
    return sorted({entry.maker for entry in _entries() if entry.maker})


def skeleton(name: str) -> str:
    """What is left of a name if case, separators, look-alike letters and digits are overlooked.

    Two names with one skeleton read alike. ``@``, ``:`` and ``/`` stay, since they part a name.
    """
    plain = re.sub(r"[^\w@:/]|_", "", _folded(name))
    return _joined(plain.translate(_DIGITS), _PAIRS)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A name as it reads at a glance, its parts between separators, and the whole without them."""

    whole: str
    parts: frozenset[str]
    words: frozenset[str]
    """The parts with digits behind them cut off in every way."""
    plain: frozenset[str]
    """The parts with digits as they are, and ``i`` for ``l``."""

    @classmethod
    def of(cls, name: str, digits: str) -> _Reading:
        """Read a name with 6 and 9 taken for these letters."""
        seen = str.maketrans(_MORE_DIGITS[0], digits)
        folded = _folded(name)
        parts = {_SEPARATORS.sub("", folded), *filter(None, _SEPARATORS.split(folded))}
        heads = {
            part[:cut]
            for part in parts
            for cut in range(1, len(part) + 1)
            if cut == len(part) or part[cut].isdigit()
        }
        return cls(
            _read(folded.translate(seen)),
            frozenset(_read(part.translate(seen)) for part in parts),
            frozenset(_read(head.translate(seen)) for head in heads),
            frozenset(part.replace("l", "i") for part in parts),
        )

    def fits(self, entry: Reserved) -> bool:
        """Whether a name reads like an entry."""
        wanted = _read(entry.name)
        match entry.match:
            case "is":
                return self.whole == wanted
            case "word":
                return wanted in self.words
            case "begins":
                return any(part.startswith(wanted) for part in self.parts)
            case "exact":
                exact = entry.name.replace("l", "i")
                return any(re.match(rf"{exact}(?!\d)", part) for part in self.plain)
            case _:
                return self.whole.startswith(wanted)


@lru_cache(maxsize=1 << 14)
def _read(text: str) -> str:
    plain = _SEPARATORS.sub("", _folded(text))
    return _joined(plain.translate(_DIGITS), _MORE_PAIRS)


def _folded(text: str) -> str:
    """Lower case, compatibility forms and accents taken off, look-alikes of other alphabets as Latin ones."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    bare = "".join(c for c in plain if not unicodedata.combining(c))
    return bare.translate(_letters())


def _joined(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    for pair, letter in pairs:
        text = text.replace(pair, letter)
    return text


@cache
def _list() -> dict[str, Any]:
    text = (files("leaderboards") / "reserved_names.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


@cache
def _entries() -> tuple[Reserved, ...]:
    return tuple(_read_groups(_list()["groups"]))


def _read_groups(groups: Iterable[dict[str, Any]]) -> Iterator[Reserved]:
    for group in groups:
        owned = group["of"].items() if "of" in group else [("", group["names"])]
        for maker, names in owned:
            for name in names:
                yield Reserved(
                    name,
                    group["kind"],
                    group["match"],
                    maker,
                    group["since"],
                    group.get("prefixed", True),
                )


@cache
def _letters() -> dict[int, str]:
    return {ord(letter): latin for letter, latin in _list()["confusables"]["letters"].items()}


@cache
def _catalog() -> frozenset[str]:
    return frozenset(map(skeleton, _list()["catalog"]["names"]))
