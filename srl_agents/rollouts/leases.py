"""Leases of parts of an order: a part whose worker is lost is played by another worker.

A part is a fixed set of matches that are played together, so what it comes to does not depend on who
plays it. This module has no processes, clocks or networks: its callers report what happened.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts.buffer import MatchOrder, groups_of, is_flat
from srl_envs.errors import ModelError

PartKey = tuple[int, int]
"""(number of the order, place of the part in it)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Matches of one order that are played together."""

    key: PartKey
    specs: tuple[MatchSpec, ...]
    """Matches of the part, in whole groups."""


def parts_of(order: MatchOrder, size: int, place: int = 0) -> list[Part]:
    """An order in parts: a function of the order and nothing else.

    Args:
        order: to be played.
        size: most matches of a part, which has one group at least. Each group of spares is a part.
        place: of the first part.

    Returns:
        Parts with the matches of the order, in its order.
    """
    bins: list[list[MatchSpec]] = []
    for group in groups_of(order.specs):
        if not bins or len(bins[-1]) + len(group) > size:
            bins.append([])
        bins[-1] += group
    bins += [list(group) for group in groups_of(order.spares)]
    return [
        Part(key=(order.number, at), specs=tuple(specs)) for at, specs in enumerate(bins, place)
    ]


class Wanted:
    """What of an order has to be played as far as is known: all matches, and a spare per flat group.

    It is a function of what was played, so a process that begins again goes on alike. The n-th flat group
    of a learner, spares included, asks for its n-th spare, as long as there are spares. A part of which some
    matches were played is due whole: played together they end alike, bit for bit where the order of play
    is ``exact``. Each match costs the same when it ends, however many there are.

    Args:
        order: to be played.
        size: as in `parts_of`; None: the matches of the order are one part.
        place: of the first part.
    """

    def __init__(self, order: MatchOrder, size: int | None = None, place: int = 0) -> None:
        self._order = order
        self._parts = parts_of(order, len(order.specs) if size is None else size, place)
        self.after = place + len(self._parts)
        """Place behind all parts, those of spares included."""
        first, spares = groups_of(order.specs), groups_of(order.spares)
        self._groups, self._asked = [*first, *spares], [True] * len(first) + [False] * len(spares)
        self._names = [[spec.match_id for spec in group] for group in self._groups]
        self._group_of = {name: at for at, names in enumerate(self._names) for name in names}
        self._missing = [len(names) for names in self._names]
        place_of = {
            (spec.schedule, spec.number): at
            for at, part in enumerate(self._parts)
            for spec in part.specs
        }
        self._place = [place_of[group[0].schedule, group[0].number] for group in self._groups]
        self._missing_in = [len(part.specs) for part in self._parts]
        self._spares: dict[str, deque[int]] = defaultdict(deque)
        for at in range(len(first), len(self._groups)):
            self._spares[_learner(self._groups[at])].append(at)
        self._open = {self._place[at]: self._parts[self._place[at]] for at in range(len(first))}
        self._new = [*self._open]
        self._seen = 0
        self.matches = self.left = len(order.specs)
        """Numbers of matches that have to be played, and of those that were not."""

    def see(self, played: dict[str, Episode]) -> None:
        """Look at what was played since the last call.

        Args:
            played: matches by id, to which only new ones were added, at its end.
        """
        new = [*islice(reversed(played), len(played) - self._seen)]
        self._seen = len(played)
        for at in [at for name in new if (at := self._group_of.get(name)) is not None]:
            self._missing[at] -= 1
            place = self._place[at]
            self._missing_in[place] -= 1
            if not self._missing_in[place]:
                self._open.pop(place, None)
            if self._asked[at]:
                self.left -= 1
                if not self._missing[at]:
                    self._replace(at, played)

    def specs(self) -> list[MatchSpec]:
        """All matches that have to be played, played or not, spares last."""
        groups = zip(self._groups, self._asked, strict=True)
        asked = [spec for group, is_asked in groups if is_asked for spec in group]
        return [*self._order.specs, *asked[len(self._order.specs) :]]

    def due(self) -> list[Part]:
        """Parts that have to be played and were not, or not whole, in their order."""
        return [self._open[place] for place in sorted(self._open)]

    def newly_due(self) -> list[Part]:
        """Parts that are due and were not when this was called before."""
        new, self._new = self._new, []
        return [self._open[place] for place in sorted(new) if place in self._open]

    def _replace(self, at: int, played: Mapping[str, Episode]) -> None:
        """Ask for a spare where a group turned out flat, and for another where that one did, too."""
        while not self._missing[at] and is_flat(played[name] for name in self._names[at]):
            spares = self._spares[_learner(self._groups[at])]
            if not spares:
                return
            at = spares.popleft()
            self._asked[at] = True
            self.matches += len(self._groups[at])
            self.left += self._missing[at]
            place = self._place[at]
            if self._missing_in[place]:
                self._open[place] = self._parts[place]
                self._new.append(place)


def _learner(group: Sequence[MatchSpec]) -> str:
    """Learner that a match was scheduled for: ``train/alice`` and ``refill/alice`` are alice's."""
    return group[0].schedule.partition("/")[2]


@dataclass(frozen=True, slots=True)
class _Lease:
    part: Part
    until_s: float


class Leases:
    """Which parts wait, and which worker has which.

    Args:
        lease_s: how long a worker may take for one part.
        deaths: workers that one part may take with it.
    """

    def __init__(self, lease_s: float, deaths: int) -> None:
        self._lease_s, self._most = lease_s, deaths
        self._waiting: dict[PartKey, Part] = {}
        self._keys: list[PartKey] = []
        """A heap of the keys that wait, and of some that no longer do."""
        self._busy: Counter[int] = Counter()
        """By order, its parts that wait or are being played."""
        self._held: dict[int, _Lease] = {}
        self._deaths: dict[PartKey, int] = {}
        self.reissued = 0
        """Parts that were taken from a worker and wait, or waited, again."""

    def want(self, parts: Sequence[Part]) -> None:
        """Queue the parts that no player has."""
        held = {lease.part.key for lease in self._held.values()}
        for part in parts:
            if part.key not in held and part.key not in self._waiting:
                self._wait(part)
                self._busy[part.key[0]] += 1

    def take(self, worker: int, now_s: float) -> Part | None:
        """The oldest part that waits; from now on the worker has it."""
        if worker in self._held:
            raise ValueError(f"worker {worker} has a part already.")
        while self._keys and self._keys[0] not in self._waiting:
            heapq.heappop(self._keys)
        if not self._keys:
            return None
        part = self._waiting.pop(heapq.heappop(self._keys))
        self._held[worker] = _Lease(part, now_s + self._lease_s)
        return part

    @property
    def waiting(self) -> int:
        """Parts that no player has."""
        return len(self._waiting)

    def busy_with(self, number: int) -> bool:
        """Whether a part of this order waits or is being played."""
        return self._busy[number] > 0

    def held(self, worker: int) -> Part | None:
        """The part that a worker has."""
        lease = self._held.get(worker)
        return None if lease is None else lease.part

    def done(self, worker: int) -> Part | None:
        """A worker has played its part; None if it has none any more."""
        lease = self._held.pop(worker, None)
        if lease is None:
            return None
        self._deaths.pop(lease.part.key, None)
        self._busy[lease.part.key[0]] -= 1
        return lease.part

    def lost(self, worker: int, how: str) -> Part | None:
        """A worker is gone; what it had waits again.

        Args:
            worker: that is gone.
            how: it went, for the error.

        Raises:
            ModelError: too many workers in a row went with the same part.
        """
        lease = self._held.pop(worker, None)
        if lease is None:
            return None
        key = lease.part.key
        deaths = self._deaths[key] = self._deaths.get(key, 0) + 1
        if deaths > self._most:
            raise ModelError(
                f"{deaths} workers were lost while they played part {key[1]} of update {key[0]}; the last "
                f"one: {how}. Look at its log, or lower asynchronous.part_matches if memory ran out."
            )
        self.reissued += 1
        self._wait(lease.part)
        return lease.part

    def expired(self, now_s: float) -> list[int]:
        """Workers whose time is over."""
        return [worker for worker, lease in self._held.items() if lease.until_s <= now_s]

    def drop(self, numbers: Collection[int]) -> None:
        """Forget what waits of these orders; what is being played of them is ignored later."""
        for key in [key for key in self._waiting if key[0] in numbers]:
            del self._waiting[key]
            self._busy[key[0]] -= 1

    def _wait(self, part: Part) -> None:
        self._waiting[part.key] = part
        heapq.heappush(self._keys, part.key)
