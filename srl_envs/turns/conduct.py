"""Tries, default moves, notices and forfeits of the seats in one episode, and their cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from srl_envs.turns.prompt_header import FORMAT_COST

FORMAT_FLOOR = -0.3
"""The ``format`` component of a seat never falls below this in one episode."""


class Conduct:
    """What has become of the seats' replies; every list has one entry per seat.

    Args:
        seats: their number.
        attempts: replies in one turn before a move is played for the seat.
        forfeit_after: default moves that forfeit the game.
    """

    __slots__ = (
        "attempts", "defaults", "forfeit_after", "format", "moved", "notices", "retrying", "tries",
    )  # fmt: skip

    def __init__(self, seats: int, attempts: int, forfeit_after: int) -> None:
        self.attempts, self.forfeit_after = attempts, forfeit_after
        self.tries = [0] * seats
        """Refused replies of this turn."""
        self.retrying = False
        """Whether any seat has refused replies in its turn."""
        self.defaults = [0] * seats
        """Default moves of the episode."""
        self.moved: set[int] = set()
        """Seats that made a move of their own."""
        self.format = [0.0] * seats
        """The ``format`` component so far."""
        self.notices = [""] * seats
        """Why the last reply was refused, as it stands behind the observation; "" for no reason."""

    def charge(self, seat: int) -> float:
        """What one more refused reply costs, in reward units (<= 0)."""
        before = self.format[seat]
        self.format[seat] = max(FORMAT_FLOOR, before - FORMAT_COST)
        return self.format[seat] - before

    def may_retry(self, seat: int, problem: str) -> bool:
        """Count a refused reply and write its notice; False where the seat's tries are used up."""
        self.tries[seat] += 1
        self.retrying = True
        left = self.attempts - self.tries[seat]
        if left <= 0:
            return False
        self.notices[seat] = (
            f"\n\nYour last reply was not accepted: {problem.rstrip('.')}. "
            f"Tries left for this turn: {left}."
        )
        return True

    def may_default(self, seat: int) -> bool:
        """Count a default move; False where it is one too many, so that the seat forfeits."""
        self.defaults[seat] += 1
        return self.defaults[seat] < self.forfeit_after

    def clear(self, seats: Iterable[int]) -> None:
        """The turn of these seats is over: forget its refused replies."""
        for seat in seats:
            self.tries[seat], self.notices[seat] = 0, ""
        self.retrying = any(self.tries)

    def idle(self) -> tuple[int, ...]:
        """Seats for which only default moves were played: short games forfeit them as well."""
        if not any(self.defaults):  # as in most episodes
            return ()
        return tuple(s for s, n in enumerate(self.defaults) if n and s not in self.moved)

    def encode(self) -> dict[str, Any]:
        """The tallies as JSON values."""
        return {
            "tries": list(self.tries),
            "fallbacks": list(self.defaults),
            "moved": sorted(self.moved),
            "format": list(self.format),
            "errors": list(self.notices),
        }

    def decode(self, data: Mapping[str, Collection[Any]]) -> None:
        """Restore the tallies from the values of `encode`."""
        self.tries, self.defaults = list(data["tries"]), list(data["fallbacks"])
        self.moved, self.format = set(data["moved"]), list(data["format"])
        self.notices, self.retrying = list(data["errors"]), any(data["tries"])
