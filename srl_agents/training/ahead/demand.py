"""What an order demands as far as is known: its matches, then the branches of the recipe's forks.

Branches follow from what was played and from nothing else. So all processes that read the buffer find the
same, and one that begins again goes on alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts.buffer import MatchOrder, left, needed
from srl_agents.rollouts.leases import Part, due, parts_of
from srl_agents.training.parts.forking import Forking, Rounds, answered

Played = Mapping[str, Episode]
"""Match id -> episode of an order, branches included."""


class Demand:
    """The matches of one order, for one reader of the buffer, who asks with more and more of them played.

    Args:
        order: of one update.
        forking: branches of the recipe's forks, if it has any.
    """

    def __init__(self, order: MatchOrder, forking: Forking | None) -> None:
        self.order, self._forking = order, forking
        self._rounds: Rounds | None = None
        self._ended = forking is None
        self._branches: list[dict[str, MatchSpec]] = []
        """Of each round that is known, by match id."""

    def matches(self, played: Played) -> list[MatchSpec]:
        """Matches from their start: those of the order, and spares for flat groups."""
        return needed(self.order, played)

    def branches(self, played: Played) -> list[MatchSpec]:
        """Branches of the rounds that are known; the first one is when all matches have ended."""
        while not self._ended:
            specs = self._next_round(played)
            if specs is None:
                break
            self._branches.append({spec.match_id: spec for spec in specs})
        return [spec for specs in self._branches for spec in specs.values()]

    def left(self, played: Played) -> list[MatchSpec]:
        """What can be played now and was not; empty where the order is finished."""
        first = left(self.order, played)
        if first:
            return first
        self.branches(played)
        return [
            spec for specs in self._branches for name, spec in specs.items() if name not in played
        ]

    def due(self, played: Played, size: int | None) -> list[Part]:
        """Parts that can be played now and were not, or not whole; see `srl_agents.rollouts.leases.due`.

        Args:
            played: of the order so far.
            size: most matches of a part; None: those of the order together, and those of each round.
        """
        if self.left(played) and not self._branches:
            return due(self.order, played, len(self.order.specs) if size is None else size)
        place = len(parts_of(self.order, len(self.order.specs) if size is None else size))
        found: list[Part] = []
        for specs in self._branches:
            own = replace(self.order, specs=tuple(specs.values()), spares=())
            most = len(specs) if size is None else size
            found += [
                replace(part, key=(self.order.number, place + part.key[1]))
                for part in due(own, played, most)
            ]
            place += len(parts_of(own, most))
        return found

    def _next_round(self, played: Played) -> list[MatchSpec] | None:
        """The round behind those that are known; None where there is none, or none yet."""
        if self._forking is None:
            return None
        if self._rounds is None:
            if left(self.order, played):
                return None
            whole = [played[spec.match_id] for spec in self.matches(played)]
            self._rounds = self._forking.rounds(whole, self.order.players)
            specs = next(self._rounds, None)
        else:
            last = self._branches[-1]
            if not all(name in played for name in last):
                return None
            specs = answered(self._rounds, [played[name] for name in last])
        self._ended = specs is None
        return specs
