"""Which seat of which match asked for what last: whose turn comes, and what is over."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

Key = tuple[int, ...]
_MOST_MATCHES = 4096
"""Matches that are kept; beyond that, the one that asked least recently is dropped."""


@dataclass(frozen=True, slots=True)
class LastPrompt:
    """Last prompt of one seat."""

    nodes: tuple[int, ...]
    """Names of the prompt's nodes for the eviction policy."""
    blocks: tuple[int, ...]
    """Names of the prompt's blocks beyond the device."""


class Seats:
    """The last prompt of every seat of the matches that go on."""

    def __init__(self) -> None:
        self._matches: OrderedDict[Key, dict[Key, LastPrompt]] = OrderedDict()

    def asked(self, session: Key, prompt: LastPrompt) -> list[LastPrompt]:
        """A seat asks; returns the last prompts of the others of its match, who may ask next.

        Args:
            session: what the keys of all its requests begin with: the match, then the seat.
            prompt: its own.
        """
        match = session[:-1]
        seats = self._matches.setdefault(match, {})
        seats[session] = prompt
        self._matches.move_to_end(match)
        if len(self._matches) > _MOST_MATCHES:
            self._matches.popitem(last=False)
        return [other for seat, other in seats.items() if seat != session]

    def over(self, match: Key) -> list[LastPrompt]:
        """The match has ended; the last prompts of its seats."""
        return list(self._matches.pop(match, {}).values())
