"""Leases of parts of an order: a part whose worker is lost is played by another worker.

A part is a fixed set of matches that are played together, so what it comes to does not depend on who
plays it. This module has no processes, clocks or networks: its callers report what happened.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts.buffer import MatchOrder, groups_of, needed
from srl_envs.errors import ModelError

PartKey = tuple[int, int]
"""(number of the order, place of the part in it)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Matches of one order that are played together."""

    key: PartKey
    specs: tuple[MatchSpec, ...]
    """Matches of the part, in whole groups."""


def parts_of(order: MatchOrder, size: int) -> list[Part]:
    """An order in parts: a function of the order and nothing else.

    Args:
        order: to be played.
        size: most matches of a part, which has one group at least. Each group of spares is a part.

    Returns:
        Parts with the matches of the order, in its order.
    """
    bins: list[list[MatchSpec]] = []
    for group in groups_of(order.specs):
        if not bins or len(bins[-1]) + len(group) > size:
            bins.append([])
        bins[-1] += group
    bins += [list(group) for group in groups_of(order.spares)]
    return [Part(key=(order.number, place), specs=tuple(specs)) for place, specs in enumerate(bins)]


def due(order: MatchOrder, episodes: Mapping[str, Episode], size: int) -> list[Part]:
    """Parts that have to be played as far as is known: of spares, those that flat groups asked for.

    A part of which some matches were played is due whole: played together they end alike, bit for bit
    where the order of play is ``exact``.

    Args:
        order: to be played.
        episodes: what was played of it, by match id.
        size: as in `parts_of`.
    """
    wanted = {spec.match_id for spec in needed(order, episodes)} - episodes.keys()
    return [
        part
        for part in parts_of(order, size)
        if any(spec.match_id in wanted for spec in part.specs)
    ]


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
        self._held: dict[int, _Lease] = {}
        self._deaths: dict[PartKey, int] = {}
        self.reissued = 0
        """Parts that were taken from a worker and wait, or waited, again."""

    def want(self, parts: Sequence[Part]) -> None:
        """Queue the parts that no player has."""
        held = {lease.part.key for lease in self._held.values()}
        for part in parts:
            if part.key not in held:
                self._waiting.setdefault(part.key, part)

    def take(self, worker: int, now_s: float) -> Part | None:
        """The oldest part that waits; from now on the worker has it."""
        if worker in self._held:
            raise ValueError(f"worker {worker} has a part already.")
        if not self._waiting:
            return None
        part = self._waiting.pop(min(self._waiting))
        self._held[worker] = _Lease(part, now_s + self._lease_s)
        return part

    @property
    def waiting(self) -> int:
        """Parts that no player has."""
        return len(self._waiting)

    def busy_with(self, number: int) -> bool:
        """Whether a part of this order waits or is being played."""
        held = {lease.part.key[0] for lease in self._held.values()}
        return number in held or any(key[0] == number for key in self._waiting)

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
        self._waiting[key] = lease.part
        return lease.part

    def expired(self, now_s: float) -> list[int]:
        """Workers whose time is over."""
        return [worker for worker, lease in self._held.items() if lease.until_s <= now_s]

    def drop(self, numbers: Collection[int]) -> None:
        """Forget what waits of these orders; what is being played of them is ignored later."""
        for key in [key for key in self._waiting if key[0] in numbers]:
            del self._waiting[key]
