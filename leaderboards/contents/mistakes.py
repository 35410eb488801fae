"""Kinds of refused replies of a match: whose they were, and why they were refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from leaderboards.contents.record import MatchRecord

CUT = "cut"
"""Refused, and as long as the agent's limit allows: it had no room to end."""
_ENDS = {"length": CUT, "refused": "declined", "empty": "empty"}
"""How an endpoint's reply ended -> what was wrong with it."""


def mistakes_of(record: MatchRecord, limits: Mapping[str, int]) -> dict[str, Counter[str]]:
    """Agent -> kind -> refused replies; only agents that had any.

    ``malformed`` and ``illegal`` are the game's words. A reply that was cut by its length limit is ``cut``
    instead, one that its endpoint declined ``declined``, one without text ``empty``.

    Args:
        record: one match.
        limits: tokens that a reply of a model may have.
    """
    found: dict[str, Counter[str]] = {}
    turns: Counter[int] = Counter()
    for step in record.transcript.steps:
        for seat in step.replies:
            turn, turns[seat] = turns[seat], turns[seat] + 1
            kind = step.invalid[seat]
            if kind is not None:
                agent = record.spec.seats[seat]
                found.setdefault(agent, Counter())[_why(record, seat, turn, limits) or kind] += 1
    return found


def moves_of(record: MatchRecord) -> Counter[str]:
    """Agent -> replies that the game took as moves."""
    found: Counter[str] = Counter()
    for step in record.transcript.steps:
        for seat in step.replies:
            found[record.spec.seats[seat]] += step.invalid[seat] is None
    return found


def _why(record: MatchRecord, seat: int, turn: int, limits: Mapping[str, int]) -> str:
    """Reason for a refused reply by the sampler or the endpoint; empty where the reply ended by itself."""
    if served := record.served.get(seat):
        return _ENDS.get(served[turn].finish, "")
    tokens, limit = record.tokens.get(seat), limits.get(record.spec.seats[seat])
    return CUT if tokens and limit and len(tokens[turn].token_ids) >= limit else ""
