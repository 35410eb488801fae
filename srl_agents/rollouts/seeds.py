"""Seeds of bots and replies, derived from the match, the seat and the turn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace

from srl_agents.records import MatchSpec


def bot_seed(spec: MatchSpec, seat: int) -> int:
    """A bot's seed: the same start state and attempt give the same bot, against any opponents."""
    name = json.dumps([spec.cluster, spec.attempt, seat])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")


def match_key(
    root_seed: int, spec: MatchSpec, contents: Mapping[str, str] | None = None
) -> tuple[int, int]:
    """The part of `sampling_key` that all replies of a match share; same arguments."""
    if contents:
        spec = replace(spec, seats=tuple(contents.get(name, name) for name in spec.seats))
    return (root_seed, int(spec.match_id[:15], 16))


def sampling_key(
    root_seed: int, spec: MatchSpec, seat: int, turn: int, contents: Mapping[str, str] | None = None
) -> tuple[int, ...]:
    """What the random numbers of a reply belong to: the match, the seat and its turn, no neighbour.

    Args:
        root_seed: of the run.
        spec: of the match.
        seat: on move.
        turn: of this seat, from 0.
        contents: policy version id -> digest of its contents. With it, renaming an agent changes no
            reply: a name cannot be chosen for the numbers that it gives.
    """
    return (*match_key(root_seed, spec, contents), seat, turn)
