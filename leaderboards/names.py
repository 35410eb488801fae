"""Rules for entrants' names: readable, unique, and not to be mistaken for another's.

A name is ``LINEAGE``, ``LINEAGE@STEPS`` or ``OWNER/LINEAGE@STEPS``. `leaderboards.reserved` has the list of
reserved names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from leaderboards.reserved import Reserved, reservation, skeleton
from srl_agents.league.agents import labels

_PART = r"[A-Za-z0-9][A-Za-z0-9_.+\-]*"
NAME = re.compile(rf"({_PART}/)?{_PART}(@(0|[1-9][0-9]{{0,9}}))?")
MOST_CHARACTERS = 80
MOST_STEPS = 10**9


def name_fault(name: str, *, maker: str = "", when: str = "", reserved: Iterable[str] = ()) -> str:
    """Why an entrant may not be called so; empty if it may.

    Args:
        name: of the entrant.
        maker: whose names a board accepted as the entrant's own; see `registration.Request.maker`.
        when: UTC time of the registration; names that were reserved later do not count. Now if empty.
        reserved: further beginnings that a board keeps.
    """
    if len(name) > MOST_CHARACTERS or not NAME.fullmatch(name):
        return (
            f"use up to {MOST_CHARACTERS} letters, digits and _.+-, a letter or digit first; an owner and a "
            "/ may stand before it, and behind an @ only the number of training steps, as in alice/tiny@30"
        )
    lineage, steps = split_name(name)
    if steps > MOST_STEPS:
        return f"behind the @ stands a number of training steps, at most {MOST_STEPS}"
    owner, slash, own = lineage.rpartition("/")
    found = reservation(owner or own, maker=maker, when=when, more=reserved)
    if found is None and slash:
        found = _never(reservation(own, maker=maker, when=when))
    return "" if found is None else _reserved(found, own)


def submitter_fault(text: str, *, maker: str = "", when: str = "") -> str:
    """Why a row may not name this submitter; empty if it may. Arguments as `name_fault`."""
    found = reservation(text, maker=maker, when=when)
    if found is None or found.kind not in ("maker", "model"):
        return ""
    return (
        f"it reads like {found.name!r}, which is reserved for {found.maker}: use a name of your own"
    )


def _never(found: Reserved | None) -> Reserved | None:
    """The reserved name, unless a prefix opens it."""
    return None if found is None or found.prefixed else found


def _reserved(found: Reserved, own: str) -> str:
    whose = f" for {found.maker}" if found.maker else ""
    opened = f", or put your name before it, OWNER/{own}" if found.prefixed else ""
    return f"names that read like {found.name!r} are reserved{whose}: choose another, NAME=AGENT{opened}"


def split_name(name: str) -> tuple[str, int]:
    """(lineage, steps): what stands before the last ``@``, and the number behind it or 0."""
    before, _, tail = name.rpartition("@")
    if before and tail.isascii() and tail.isdecimal():
        return before, int(tail)
    return name, 0


def name_key(name: str) -> str:
    """What decides whose a name is: the skeleton of its owner's prefix, or else of its lineage.

    All names with one key belong to the owner who registered the first of them.
    """
    lineage, _ = split_name(name)
    owner, _, own = lineage.rpartition("/")
    return skeleton(owner or own)


def confused(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two different names that read alike, if any."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(skeleton(name), name)
        if other != name:
            return other, name
    return None


def page_labels(data: Any) -> dict[str, str]:
    """Text that pages show for each agent id of their data: a version's label, if it is unique."""
    return labels(sorted(set(_texts(data))))


def relabelled(data: Any, names: Mapping[str, str]) -> Any:
    """The data with names instead of agent ids, in keys and values."""
    if isinstance(data, str):
        return names.get(data, data)
    if isinstance(data, Mapping):
        return {relabelled(key, names): relabelled(value, names) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [relabelled(value, names) for value in data]
    return data


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _texts(value)


def default_name(source: str) -> str:
    """What a hub id or a folder is called by default: its last part."""
    return source.rstrip("/").rpartition("/")[2]
