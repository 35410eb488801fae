"""Orders of treaties, and what becomes of them when all are carried out at once.

The rules are those of land units in Diplomacy: equal forces stand off, supports add 1 and are cut by an
attack, and no unit drives out one of its own side. Every move is *made*, *failed* or not settled yet, every
support *given*, *cut* or not settled yet. Smallest and largest strengths settle more and more of them. Moves
that stay open form rings of units that follow each other, and all of these are made. So it does not matter in
which order the orders are read. There are no retreats, convoys or fleets: who is driven out is removed.

Source: L. B. Kruijswijk, "The Math of Adjudication", 2009, and "Diplomacy Adjudicator Test Cases", section 5
(decisions with bounds).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from srl_envs.core import require_action
from srl_envs.errors import IllegalMoveError
from srl_envs.families.tables.treaties_map import Land

NO_SEAT = -1


class Order(NamedTuple):
    """Of the unit in province ``at``; provinces are numbers."""

    at: int
    source: int
    """Whose staying or moving this is about: ``at`` itself, or the unit that is supported."""
    target: int
    """Where that unit moves; equal to ``source`` where it stays."""

    @property
    def moves(self) -> bool:
        """Whether the unit itself moves."""
        return self.at == self.source != self.target

    @property
    def supports(self) -> bool:
        """Whether it supports another unit."""
        return self.at != self.source


class Outcome(NamedTuple):
    """What became of all orders."""

    made: frozenset[int]
    """Provinces whose unit moved."""
    given: frozenset[int]
    """Provinces whose unit gave support."""
    driven_out: frozenset[int]
    """Provinces whose unit is removed."""


def carried_out(units: Sequence[int], orders: Mapping[int, Order]) -> Outcome:
    """What becomes of orders.

    Args:
        units: per province the seat of its unit; `NO_SEAT` without one.
        orders: by province; a unit without one stays.
    """
    return _Conflict(units, orders).settled()


def positions(units: Sequence[int], orders: Mapping[int, Order], outcome: Outcome) -> list[int]:
    """Per province the seat of the unit that stands there after the orders."""
    after = list(units)
    for at in (*outcome.made, *outcome.driven_out):
        after[at] = NO_SEAT
    for at in outcome.made:
        after[orders[at].target] = units[at]
    return after


class _Conflict:
    """One set of orders, and what is settled of it by now."""

    def __init__(self, units: Sequence[int], orders: Mapping[int, Order]) -> None:
        self._units = units
        self._moves = {at: order.target for at, order in orders.items() if order.moves}
        self._into: dict[int, list[int]] = {}
        for at, target in self._moves.items():
            self._into.setdefault(target, []).append(at)
        self._made: dict[int, bool | None] = dict.fromkeys(self._moves)
        self._goals: dict[int, int] = {}
        self._backing: dict[int, list[int]] = {}
        """Per supported unit, from where it is supported in what it was ordered to do."""
        for at, order in orders.items():
            if order.supports and self._moves.get(order.source, order.source) == order.target:
                self._goals[at] = order.target
                self._backing.setdefault(order.source, []).append(at)
        self._given: dict[int, bool | None] = dict.fromkeys(self._goals)

    def settled(self) -> Outcome:
        """The outcome of all orders."""
        self._settle()
        for at, made in self._made.items():
            if made is None:  # a ring
                self._made[at] = True
        self._settle()
        made_moves = [at for at, made in self._made.items() if made]
        entered = {self._moves[at] for at in made_moves}
        return Outcome(
            frozenset(made_moves),
            frozenset(at for at, given in self._given.items() if given),
            frozenset(at for at in entered if self._units[at] != NO_SEAT and self._beaten(at)),
        )

    def _settle(self) -> None:
        """Settle what follows from what is settled, until nothing more does."""
        judges = ((self._given, self._is_given), (self._made, self._is_made))
        open_ = [
            (decided, judge, at)
            for decided, judge in judges
            for at, known in decided.items()
            if known is None
        ]
        while open_:
            still = []
            for decided, judge, at in open_:
                found = judge(at)
                if found is None:
                    still.append((decided, judge, at))
                else:
                    decided[at] = found
            if len(still) == len(open_):
                return
            open_ = still

    def _is_given(self, at: int) -> bool | None:
        """A support is cut by another side's attack, but one from where it goes has to drive it out."""
        attackers = self._into.get(at, ())
        goal = self._goals[at]
        if any(a != goal and self._units[a] != self._units[at] for a in attackers):
            return False
        beaten = self._beaten(at)
        return None if beaten is None else not beaten

    def _beaten(self, at: int) -> bool | None:
        """Whether the unit is driven out; None while that is open."""
        left = self._made.get(at, False)
        entered = [self._made[a] for a in self._into.get(at, ())]
        if left or True not in entered:
            return None if left is not True and None in entered else False
        return None if left is None else True

    def _is_made(self, at: int) -> bool | None:
        """A move is made if it is stronger than what stays in its target, and than every other move there."""
        least, most = self._attack(at)
        lower, upper = self._resistance(at)
        for other in self._into[self._moves[at]]:
            if other != at:
                low, high = self._prevention(other)
                lower, upper = max(lower, low), max(upper, high)
        return True if least > upper else False if most <= lower else None

    def _attack(self, at: int) -> tuple[int, int]:
        """Smallest and largest strength of a move."""
        target, side = self._moves[at], self._units[at]
        defender, leaves = self._units[target], self._leaves(at)
        if defender == NO_SEAT or leaves is True:
            return self._strength(at)
        against = (0, 0) if defender == side else self._strength(at, defender)
        return against if leaves is False else (against[0], self._strength(at)[1])

    def _leaves(self, at: int) -> bool | None:
        """Whether the unit in a move's target goes away, other than against the move itself."""
        target = self._moves[at]
        return False if self._moves.get(target) == at else self._made.get(target, False)

    def _resistance(self, at: int) -> tuple[int, int]:
        """Strength of what stays in a move's target, or comes against the move."""
        target = self._moves[at]
        if self._units[target] == NO_SEAT:
            return 0, 0
        if self._moves.get(target) == at:
            return self._strength(target)
        if target not in self._moves:
            return self._strength(target)
        leaves = self._made[target]
        return (0, 0) if leaves else (1, 1) if leaves is False else (0, 1)

    def _prevention(self, at: int) -> tuple[int, int]:
        """Strength with which a move keeps others out of its target; none if beaten head to head."""
        least, most = self._strength(at)
        target = self._moves[at]
        if self._moves.get(target) != at or self._made[target] is False:
            return least, most
        return (0, 0) if self._made[target] else (0, most)

    def _strength(self, at: int, without: int = NO_SEAT) -> tuple[int, int]:
        """1 and the supports, those of the seat ``without`` left out."""
        if at not in self._backing:
            return 1, 1
        votes = [self._given[s] for s in self._backing[at] if self._units[s] != without]
        return 1 + votes.count(True), 1 + len(votes) - votes.count(False)


# -- words ------------------------------------------------------------------------------------

_STAYS = re.compile(r"(\w+) (?:hold|holds|stay|stays|h)")
_MOVES = re.compile(r"(\w+) ?(?:moves? to|moves?|to|->?) ?(\w+)")
_SUPPORTS = re.compile(
    r"(\w+) (?:supports?|s) (\w+)(?: ?(?:moves? to|moves?|to|->?) ?(\w+)| holds?)?"
)
_BETWEEN = re.compile(r"[;,\n]+")
HOLD, MOVE, SUPPORT = "hold", "move", "support"
NO_ORDERS = "none"
"""What a seat without units sends."""


class Table(NamedTuple):
    """Where units stand on a map, for reading and listing orders."""

    land: Land
    units: Sequence[int]
    support: bool
    """Whether supports exist."""

    def read(self, body: str, seat: int) -> tuple[Order, ...]:
        """The orders of a reply, in the order of the provinces; units without one are not among them.

        Raises:
            IllegalMoveError: an order has another form, is not possible, or is for no own unit.
        """
        if seat not in self.units:
            require_action(
                body.strip().lower() == NO_ORDERS, f"you have no units; send {NO_ORDERS}"
            )
            return ()
        found: dict[int, Order] = {}
        for part in filter(None, map(str.strip, _BETWEEN.split(body))):
            order = self._one(" ".join(part.lower().split()))
            require_action(
                self.units[order.at] == seat,
                f"you have no unit in {self.land.names[order.at]}; yours are in {self._own(seat)}",
            )
            require_action(
                order.at not in found, f"two orders for the unit in {self.land.names[order.at]}"
            )
            found[order.at] = order
        require_action(bool(found), "give at least one order, such as " + self._holds(seat))
        return tuple(found[at] for at in sorted(found))

    def _own(self, seat: int) -> str:
        return ", ".join(self.land.names[at] for at in standing(self.units, seat))

    def _holds(self, seat: int) -> str:
        return f"{self.land.names[standing(self.units, seat)[0]]} {HOLD}"

    def _one(self, text: str) -> Order:
        """One order, also for a unit of another seat."""
        if stays := _STAYS.fullmatch(text):
            at = self._place(stays[1])
            return Order(at, at, at)
        if self.support and (backs := _SUPPORTS.fullmatch(text)):
            at, source = self._place(backs[1]), self._place(backs[2])
            return self._checked(Order(at, source, self._place(backs[3]) if backs[3] else source))
        moves = _MOVES.fullmatch(text)
        if moves is None:
            forms = (HOLD, MOVE, SUPPORT) if self.support else (HOLD, MOVE)
            raise IllegalMoveError(
                f"an order is a province and {', '.join(forms[:-1])} or {forms[-1]}, not {text[:60]!r}"
            )
        at = self._place(moves[1])
        return self._checked(Order(at, at, self._place(moves[2])))

    def _place(self, name: str) -> int:
        names = [known.lower() for known in self.land.names]
        require_action(name in names, f"there is no province {name[:20]!r}")
        return names.index(name)

    def _checked(self, order: Order) -> Order:
        """The order, if units could carry it out.

        Raises:
            IllegalMoveError: they could not.
        """
        names, borders = self.land.names, self.land.borders
        at, source, target = order
        require_action(target in borders[at], f"{names[at]} does not border on {names[target]}")
        if order.supports:
            require_action(self.units[source] != NO_SEAT, f"no unit is in {names[source]}")
            require_action(
                target == source or target in borders[source],
                f"the unit in {names[source]} cannot move to {names[target]}",
            )
        return order

    def written(self, order: Order) -> str:
        """The order in words."""
        names = self.land.names
        at, source, target = order
        if not order.supports:
            return f"{names[at]} {MOVE} {names[target]}" if order.moves else f"{names[at]} {HOLD}"
        whom = f"{names[at]} {SUPPORT} {names[source]}"
        return whom if source == target else f"{whom} {MOVE} {names[target]}"

    def possible(self, at: int) -> list[Order]:
        """All orders for the unit in a province: to hold, to move, to support."""
        near = sorted(self.land.borders[at])
        orders = [Order(at, at, at), *(Order(at, at, target) for target in near)]
        if self.support:
            for target in near:
                sources = [target, *sorted(self.land.borders[target])]
                orders += [
                    Order(at, source, target)
                    for source in sources
                    if source != at and self.units[source] != NO_SEAT
                ]
        return orders


def standing(units: Sequence[int], seat: int) -> list[int]:
    """Provinces with a unit of the seat."""
    return [at for at, owner in enumerate(units) if owner == seat]
