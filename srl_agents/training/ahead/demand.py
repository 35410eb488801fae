"""What an order demands as far as is known: its matches, then the branches of the recipe's forks.

Branches follow from what was played and from nothing else. So all processes that read the buffer find the
same, and one that begins again goes on alike.
"""

from __future__ import annotations

from dataclasses import replace

from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts.buffer import MatchOrder
from srl_agents.rollouts.leases import Part, Wanted
from srl_agents.training.parts.forking import Forking, Rounds, answered

Played = dict[str, Episode]
"""Match id -> episode of an order, branches included; only added to."""


class Demand:
    """The matches of one order, for one reader of the buffer, who asks with more and more of them played.

    Args:
        order: of one update.
        forking: branches of the recipe's forks, if it has any.
        size: most matches of a part; None: those of the order together, and those of each round.
    """

    def __init__(self, order: MatchOrder, forking: Forking | None, size: int | None = None) -> None:
        self.order, self._forking, self._size = order, forking, size
        self._first = Wanted(order, size)
        self._rounds: Rounds | None = None
        self._ended = forking is None
        self._branches: list[Wanted] = []
        """Of each round that is known; the last one may have matches to play."""

    def matches(self, played: Played) -> list[MatchSpec]:
        """Matches from their start: those of the order, and spares for flat groups."""
        self._first.see(played)
        return self._first.specs()

    def branches(self, played: Played) -> list[MatchSpec]:
        """Branches of the rounds that are known; the first one is when all matches have ended."""
        self._see(played)
        return [spec for known in self._branches for spec in known.specs()]

    def counts(self, played: Played) -> tuple[int, int]:
        """Numbers of matches and branches that are known: all, and those that were not played."""
        self._see(played)
        known = (self._first, *self._branches)
        return sum(each.matches for each in known), sum(each.left for each in known)

    def left(self, played: Played) -> list[MatchSpec]:
        """What can be played now and was not; empty where the order is finished."""
        specs = [*self.matches(played), *self.branches(played)]
        return [spec for spec in specs if spec.match_id not in played] if self.open(played) else []

    def open(self, played: Played) -> bool:
        """Whether something can be played now and was not."""
        return self.counts(played)[1] > 0

    def due(self, played: Played) -> list[Part]:
        """Parts that can be played now and were not, or not whole: `srl_agents.rollouts.leases.Wanted`."""
        self._see(played)
        return [part for known in (self._first, *self._branches) for part in known.due()]

    def newly_due(self, played: Played) -> list[Part]:
        """Parts that are due and were not when this was called before."""
        self._see(played)
        return [part for known in (self._first, *self._branches) for part in known.newly_due()]

    def _see(self, played: Played) -> None:
        """Take in what was played, and begin the rounds whose turn it is."""
        latest = self._branches[-1] if self._branches else self._first
        latest.see(played)
        while not self._ended and not latest.left:
            specs = self._next_round(played)
            self._ended = specs is None
            if specs is not None:
                own = replace(self.order, specs=tuple(specs), spares=())
                latest = Wanted(own, self._size, latest.after)
                latest.see(played)
                self._branches.append(latest)

    def _next_round(self, played: Played) -> list[MatchSpec] | None:
        """The round behind those that are known; None where there is none."""
        if self._forking is None:
            return None
        if self._rounds is None:
            whole = [played[spec.match_id] for spec in self._first.specs()]
            self._rounds = self._forking.rounds(whole, self.order.players)
            return next(self._rounds, None)
        last = self._branches[-1].specs()
        return answered(self._rounds, [played[spec.match_id] for spec in last])
