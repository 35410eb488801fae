"""What every scorer returns: a value and the reason for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """The verdict of a scorer on one reply."""

    value: float
    """Score in [0, 1]: 0 is wrong, 1 is right."""
    reason: str
    """One of the scorer's fixed labels, such as ``"match"``; never free text: it is counted."""
