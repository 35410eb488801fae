"""Moves of an expedition: as they are written, read and refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from srl_envs.core import require_action

_SHORT = {"n": "north", "e": "east", "s": "south", "w": "west"}
_MOVE = re.compile(r"(?:(go|cross) )?(north|east|south|west|n|e|s|w)(?: ([0-9]{1,2}))?")
_AMOUNT = re.compile(r"(take|drop) ([0-9]{1,3})")


class Move(NamedTuple):
    """A move, and words for the others."""

    kind: str
    """``go``, ``cross``, ``take``, ``drop``, ``rest`` or ``end``."""
    direction: str = ""
    amount: int = 0
    message: str = ""

    @property
    def body(self) -> str:
        """As it is written."""
        parts = (self.kind, self.direction, str(self.amount) if self.amount else "")
        return " ".join(filter(None, parts))


def read_move(body: str) -> Move:
    """A move as it is written, legal or not."""
    text = " ".join(body.lower().replace(":", " ").split())
    if text in ("rest", "end"):
        return Move(text)
    amount = _AMOUNT.fullmatch(text)
    if amount:
        return Move(amount[1], "", int(amount[2]))
    found = _MOVE.fullmatch(text)
    require_action(
        found is not None,
        "write go and a direction, take or drop and a number, rest or end, for example go north",
    )
    kind, direction, stake = found.groups() if found else ("", "", "")
    return Move(kind or "go", _SHORT.get(direction, direction), int(stake or 0))


def why_illegal(move: Move, legal: Sequence[Move]) -> str:
    """Why a move is not legal."""
    among = [other for other in legal if other.kind == move.kind]
    if not among:
        kinds = list(dict.fromkeys(other.kind for other in legal))
        return f"you cannot {move.kind} now; you can {', '.join(kinds)}"
    if move.kind in ("take", "drop"):
        return f"you can {move.kind} 1 to {among[-1].amount} now"
    ways = list(dict.fromkeys(other.direction for other in among))
    stake = f", with a stake of 1 to {among[-1].amount}" if move.kind == "cross" else ""
    return f"from here you can {move.kind} {', '.join(ways)}{stake}"
