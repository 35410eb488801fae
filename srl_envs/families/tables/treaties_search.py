"""The orders of the strong player of treaties: guesses what the others do, and searches the best answer.

Each rival is guessed by how it played in the last round: one that helped its units does so again, one that
moved without help goes on, one that stood still stays, and one that supported what was not ordered is taken
for random. A few guesses are drawn for all rivals near; own orders have to do well in the mean over them.
The search starts from the best of some plans, and then changes one unit's order at a time, or a move
together with its support.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from srl_envs.families.tables.treaties_orders import NO_SEAT, Order, carried_out, positions
from srl_envs.families.tables.treaties_plans import (
    ALONE,
    ERRATIC,
    HELPING,
    STILL,
    UNKNOWN,
    Orders,
    Seen,
    advance,
    all_hold,
    any_order,
    together,
)

_SCENARIOS, _PLANS = 4, 6
"""Guesses of the rivals' orders, and plans from which the search starts."""
_NEAR = 2
"""Moves from its units within which the bot looks at others, and at centres."""
_HOPELESS = 1.0
"""A change that is so far behind after some of the guesses is not tried on the others."""
_HORIZON = 2.0
"""With fewer rounds left, what the positions may lead to is worth less; nothing after the last one."""
_ODDS = {
    STILL: (0.04, 0.04, 0.02),
    ERRATIC: (0.04, 0.04, 0.9),
    ALONE: (0.7, 0.2, 0.0),
    HELPING: (0.1, 0.8, 0.0),
    UNKNOWN: (0.4, 0.4, 0.0),
}
"""How likely a rival advances, attacks together, or does anything; else it stays."""


class _Centre(NamedTuple):
    """A supply centre near own units."""

    at: int
    owner: int
    borders: tuple[int, ...]


def searched(seen: Seen, rng: np.random.Generator) -> Orders:
    """The orders with the best mean value over guesses of what the others near do."""
    return _Search(seen, rng).best()


class _Search:
    """One decision."""

    def __init__(self, seen: Seen, rng: np.random.Generator) -> None:
        self._seen, self._rng = seen, rng
        self._own = own = seen.own()
        steps = seen.land.steps

        def close(at: int) -> bool:
            return any(steps[unit][at] <= _NEAR for unit in own)

        rivals = {at: s for at, s in enumerate(seen.units) if s not in (NO_SEAT, seen.me)}
        self._near = [at for at in rivals if close(at)]
        self._local = [NO_SEAT] * len(seen.units)
        """Own units, and those that matter."""
        for at in (*own, *self._near):
            self._local[at] = seen.units[at]
        self._centres = [
            _Centre(at, seen.owners[at], tuple(seen.land.borders[at]))
            for at in seen.land.centres
            if close(at)
        ]
        self._far_centres = seen.owners.count(seen.me) - sum(
            centre.owner == seen.me for centre in self._centres
        )
        self._later = min(1.0, (seen.rounds - seen.round) / _HORIZON)
        self._guesses = [self._guess() for _ in range(_SCENARIOS)]

    def best(self) -> Orders:
        """Plans first, then changes of the best one."""
        seen, rng = self._seen, self._rng
        plans = [all_hold(self._own), advance(seen, seen.me, rng)]
        plans += [together(seen, seen.me, rng) for _ in range(_PLANS - len(plans))]
        values = [[self._value({**guess, **plan}) for guess in self._guesses] for plan in plans]
        start = max(range(len(plans)), key=lambda k: sum(values[k]))
        best, known = plans[start], values[start]
        for at in [self._own[k] for k in rng.permutation(len(self._own))]:
            for tried in self._changes(best, at):
                found = self._better(tried, known) if tried != best else None
                if found is not None:
                    best, known = tried, found
        return best

    def _guess(self) -> Orders:
        """What other players' units near may do."""
        seen, rng, found = self._seen, self._rng, Orders()
        for seat in sorted({seen.units[at] for at in self._near}):
            advances, attacks, anything = _ODDS[seen.past[seat]]
            drawn = rng.random()
            if drawn < advances:
                found |= advance(seen, seat, rng)
            elif drawn < advances + attacks:
                found |= together(seen, seat, rng)
            elif drawn < advances + attacks + anything:
                units = [at for at in self._near if seen.units[at] == seat]
                found |= {at: any_order(seen, at, rng) for at in units}
        return {at: found[at] for at in self._near if at in found}

    def _changes(self, orders: Orders, at: int) -> Iterator[Orders]:
        """Other orders for a unit, each useful move also with one support for it."""
        seen, borders = self._seen, self._seen.land.borders
        yield {**orders, at: Order(at, at, at)}
        for target in sorted(borders[at]):
            ahead = {**orders, at: Order(at, at, target)}
            yield ahead
            if seen.support and seen.units[target] != seen.me:
                for helper in self._own:
                    if helper != at and target in borders[helper]:
                        yield {**ahead, helper: Order(helper, at, target)}
        for other in self._own if seen.support else ():
            goal = orders[other].target if orders[other].moves else other
            if other != at and goal in borders[at]:
                yield {**orders, at: Order(at, other, goal)}

    def _better(self, orders: Orders, known: Sequence[float]) -> list[float] | None:
        """Values in all guesses if they are better in the mean than those known; else None."""
        ahead, found = 0.0, list[float]()
        for guess, before in zip(self._guesses, known, strict=True):
            found.append(self._value({**guess, **orders}))
            ahead += found[-1] - before
            if len(found) > 1 and ahead < -_HOPELESS:
                return None
        return found if ahead > 1e-9 else None

    def _value(self, orders: Orders) -> float:
        """How good the positions after these orders are: centres, units, and what they lead to."""
        after = positions(self._local, orders, carried_out(self._local, orders))
        me, now, later, owned = self._seen.me, 0.0, 0.0, self._far_centres
        for at, before, borders in self._centres:
            owner = after[at] if after[at] != NO_SEAT else before
            around = [after[other] for other in borders]
            mine = around.count(me)
            if owner == me:
                owned += 1
                theirs = len(around) - mine - around.count(NO_SEAT)
                safe = mine + (1.5 if after[at] == me else 0.0)
                now += 1.0
                later += 2.0 - 0.5 * max(0.0, theirs - safe)
            else:
                now -= 0.1 if owner != NO_SEAT else 0.0
                later += 0.5 * min(2, mine)
        return now + self._later * (later + 0.6 * self._supplied(after, owned))

    def _supplied(self, after: Sequence[int], owned: int) -> int:
        """Own units once they follow the centres: too many go, new ones stand in free homes."""
        seen = self._seen
        units = after.count(seen.me)
        free = sum(
            after[home] == NO_SEAT and seen.owners[home] == seen.me
            for home in seen.land.homes[seen.me]
        )
        return min(owned, units + free)
