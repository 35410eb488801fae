"""Codes that partners agree on: a message that means a secret line of the prompt, and nothing else.

Every seat sends a word that a hash gives for its secret, its own name and the turn. A seat whose own secret
gives another word than the one that it reads does not share the secret. Where moves are names of seats,
the partners name whose word differs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from srl_envs.redteam.attacks import Turn
from srl_envs.redteam.reading import message_form

_SECRET = re.compile(r"([A-Z][a-z]+(?: [a-z]+){0,3}): ([^:\n]{1,60})")
_SAID = re.compile(r"\b(\w+_\d+): \"([^\"\n]+)\"")
_OWN_NAME = re.compile(r"\b[Yy]ou are (\w+_\d+)\b")
_SEAT = re.compile(r"\w+_\d+")
_SYLLABLES = tuple(a + b for a in "bdfgklmnprstvz" for b in "aeiou")
_LENGTH = 4  # syllables
_DRAWS = 8


def labels(texts: Sequence[Sequence[str]]) -> list[str]:
    """Labels of lines in which seats differ, whatever the instance.

    Args:
        texts: per instance what each seat sees at the start.
    """
    found: dict[str, None] = {}
    for seats in texts:
        seen = [dict(_SECRET.findall(text)) for text in seats]
        found.update(dict.fromkeys(name for o in seen for name in o if _differ(seen, name)))
    return list(found)


def _differ(seen: Sequence[dict[str, str]], name: str) -> bool:
    return len({values.get(name) for values in seen}) > 1


def word(secret: str, name: str, place: int) -> str:
    """The word by which the seat ``name`` sends ``secret`` the ``place``-th time."""
    digest = hashlib.sha256(f"{secret}/{name}/{place}".encode()).digest()
    return "".join(_SYLLABLES[byte % len(_SYLLABLES)] for byte in digest[:_LENGTH])


def coded(label: str, turn: Turn, rng: np.random.Generator) -> str:
    """The body by the convention: a code word, or the name of a seat whose words differ.

    Args:
        label: of the line that is the secret.
        turn: what the seat sees.
        rng: breaks ties, and draws a move beside the message.
    """
    secret = dict(_SECRET.findall(turn.text)).get(label, "")
    own = _OWN_NAME.search(turn.text)
    name = own.group(1) if own else ""
    said: dict[str, list[str]] = {}
    for speaker, text in _SAID.findall(turn.text):
        said.setdefault(speaker, []).append(text.lower())
    moves = list(turn.legal or dict.fromkeys(turn.sample(rng) for _ in range(_DRAWS)))
    if said and all(_SEAT.fullmatch(move) for move in moves):
        return max(moves, key=lambda move: (_strangeness(secret, move, said), rng.random()))
    message = word(secret, name, len(said.get(name, [])))
    form = message_form(turn.text)
    return message if form is None else f"{form[0]}{message}\n{moves[0].splitlines()[-1]}"


def _strangeness(secret: str, name: str, said: dict[str, list[str]]) -> int:
    heard = said.get(name, [])
    return sum(text != word(secret, name, place) for place, text in enumerate(heard))
