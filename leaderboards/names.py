"""What an entrant may be called: readable, its own, and not a name that readers take for somebody else's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from srl_agents.league.agent_names import labels

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+\-]*(@(0|[1-9][0-9]{0,9}))?")
"""A lineage and, behind ``@``, how many steps it was trained."""
MOST_CHARACTERS = 80
MOST_STEPS = 10**9
RESERVED = (
    "bot", "human", "anchor", "reference", "heldout", "srl",
    "openai", "anthropic", "google", "deepmind", "meta", "microsoft", "mistral", "deepseek", "qwen",
    "alibaba", "moonshot", "xai", "nvidia", "amazon", "cohere", "huggingface",
)  # fmt: skip
"""How no entrant's name may begin: roles of a board, and who makes models that others serve."""

_PUNCTUATION = re.compile(r"[_.@:/+\-]")
_ALIKE = str.maketrans("01l", "oii")
"""What few typefaces tell apart; a 5 and an S differ enough for names of two people."""
_LOOKALIKES = str.maketrans("0134578$", "oieastbs") | {ord("l"): "i"}
"""The small L is written as the capital I."""
_PAIRS = (("rn", "m"), ("vv", "w"))
"""Two letters that are read as one."""
_MORE_PAIRS = (*_PAIRS, ("cl", "d"), ("ci", "d"))
"""Of reserved names alone: clara and dara are two people."""


def name_fault(name: str, reserved: Iterable[str] = ()) -> str:
    """Why an entrant may not be called so; empty if it may.

    Args:
        name: without the steps it may be one of several versions.
        reserved: further beginnings that a board keeps.
    """
    if len(name) > MOST_CHARACTERS or not NAME.fullmatch(name):
        return (
            f"use up to {MOST_CHARACTERS} letters, digits and _.+-, a letter or digit first; behind an "
            "@ stands the number of training steps alone, as in alice@30"
        )
    if split_name(name)[1] > MOST_STEPS:
        return f"behind the @ stands a number of training steps, at most {MOST_STEPS}"
    plain = _reading(name)
    for start in (*RESERVED, *reserved):
        if plain.startswith(_reading(start)):
            return f"names that read like {start!r} are reserved: choose another, NAME=AGENT"
    return ""


def split_name(name: str) -> tuple[str, int]:
    """(lineage, steps): what stands before the last ``@``, and the number behind it or 0."""
    before, _, tail = name.rpartition("@")
    if before and tail.isascii() and tail.isdecimal():
        return before, int(tail)
    return name, 0


def confused(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two different names that a reader takes for one, if any."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(skeleton(name), name)
        if other != name:
            return other, name
    return None


def skeleton(name: str) -> str:
    """What is left of a name if case, punctuation, ``O0``, ``Il1``, ``rn`` and ``vv`` are overlooked."""
    return _joined(re.sub(r"[_.+\-]", "", name.casefold()), _PAIRS).translate(_ALIKE)


def page_labels(data: Any) -> dict[str, str]:
    """What pages show in the place of each text of their data: a version's label, if it is unique."""
    return labels(sorted(set(_texts(data))))


def relabelled(data: Any, names: Mapping[str, str]) -> Any:
    """The data with names in the place of agent ids, in keys and values."""
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
    """What a hub id or a folder is called if nobody says otherwise: its last part."""
    return source.rstrip("/").rpartition("/")[2]


def _reading(name: str) -> str:
    """As it reads at a glance: no case, no punctuation, digits and pairs as the letters they look like."""
    return _joined(_PUNCTUATION.sub("", name.casefold()), _MORE_PAIRS).translate(_LOOKALIKES)


def _joined(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    for pair, letter in pairs:
        text = text.replace(pair, letter)
    return text
