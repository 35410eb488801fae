"""Scripted players of treaties: they read map, positions and orders, and never what is said.

Messages of others cannot move them, true or not: only lines that the game itself writes are read, and these
begin as no message does. They do speak.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from srl_envs.core import seat_name
from srl_envs.families.tables.treaties import SILENCE, random_message
from srl_envs.families.tables.treaties_map import Land, steps_from
from srl_envs.families.tables.treaties_orders import (
    NO_ORDERS,
    NO_SEAT,
    Order,
    Table,
    carried_out,
    positions,
    standing,
)
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]
Orders = dict[int, Order]

_MAP = re.compile(r"^Map, with the borders of each province:\n((?:(?:[A-G]\d|hub)\b.*\n)+)", re.M)
_PLACE = re.compile(r"^(\w+)( \(centre(?:, home of player_(\d))?\))?: (.*)$", re.MULTILINE)
_HOLDINGS = re.compile(r"^player_(\d)(?: \(you\))? has units in (.*); centres (.*)$", re.MULTILINE)
_DUE = re.compile(r"^ROUND (\d+) of (\d+), (talk|orders)\. You are player_(\d)\.", re.MULTILINE)
_SUPPORTED = re.compile(r'^"A1 support B1"', re.MULTILINE)
_SCENARIOS, _PROPOSALS = 6, 6
"""Guesses of the others' orders, and of good orders, of the strong bot."""
_NEAR = 2
"""Moves from its units within which the strong bot looks at others."""


class Seen(NamedTuple):
    """What a bot reads."""

    land: Land
    units: tuple[int, ...]
    owners: tuple[int, ...]
    """Per province; `NO_SEAT` where there is no centre, or no owner."""
    players: int
    me: int
    round: int
    """From 1 on."""
    speaks: bool
    support: bool

    def own(self) -> list[int]:
        """Provinces with own units."""
        return standing(self.units, self.me)

    def rivals(self) -> list[int]:
        """The other players."""
        return [seat for seat in range(self.players) if seat != self.me]

    def table(self) -> Table:
        """For lists of orders."""
        return Table(self.land, self.units, self.support)


@lru_cache(maxsize=256)
def _read_map(text: str) -> Land:
    rows = _PLACE.findall(text)
    names = tuple(row[0] for row in rows)
    number = {name: at for at, name in enumerate(names)}
    borders = tuple(frozenset(number[name] for name in row[3].split(", ")) for row in rows)
    homes: dict[int, list[int]] = {}
    for at, row in enumerate(rows):
        if row[2]:
            homes.setdefault(int(row[2]), []).append(at)
    return Land(
        names,
        borders,
        tuple(tuple(homes[seat]) for seat in sorted(homes)),
        tuple(at for at, row in enumerate(rows) if row[1]),
        tuple(steps_from(borders, at) for at in range(len(names))),
    )


def read(text: str) -> Seen:
    """The facts of an observation."""
    shown, due = _MAP.search(text), _DUE.search(text)
    if shown is None or due is None:
        raise ValueError("the text asks for nothing in a game of treaties")
    land = _read_map(shown[1])
    number = {name: at for at, name in enumerate(land.names)}
    units, owners = [NO_SEAT] * len(number), [NO_SEAT] * len(number)
    for seat, standing_in, centres in _HOLDINGS.findall(text):
        for names, of in ((standing_in, units), (centres, owners)):
            for name in names.split(", "):
                if name in number:  # else "none"
                    of[number[name]] = int(seat)
    return Seen(
        land, tuple(units), tuple(owners), len(land.homes), int(due[4]),
        int(due[1]), due[3] == "talk", _SUPPORTED.search(text) is not None,
    )  # fmt: skip


def _sent(seen: Seen, orders: Mapping[int, Order]) -> str:
    table = seen.table()
    return action("; ".join(table.written(orders[at]) for at in seen.own()) or NO_ORDERS)


def random_bot(rng: np.random.Generator) -> Bot:
    """Words that mean nothing; any orders."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.speaks:
            return action(random_message(rng, seen.rivals()))
        return _sent(seen, {at: _any(seen, at, rng) for at in seen.own()})

    return act


def holder_bot(_rng: np.random.Generator) -> Bot:
    """Silence, and no unit moves."""

    def act(text: str) -> str:
        seen = read(text)
        return action(SILENCE) if seen.speaks else _sent(seen, _all_hold(seen.own()))

    return act


def middle_bot(rng: np.random.Generator) -> Bot:
    """Silence; every unit goes the shortest way to a centre that is not its own, and none supports."""

    def act(text: str) -> str:
        seen = read(text)
        return action(SILENCE) if seen.speaks else _sent(seen, _advance(seen, seen.me, rng))

    return act


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Moves where most of its units can help, and has them help; guards the rest. For ratings only."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.speaks:
            first = "to all: I keep what I own, and take what is left open."
            return action(first if seen.round == 1 else SILENCE)
        return _sent(seen, _together(seen, seen.me, rng))

    return act


def strong_bot(rng: np.random.Generator) -> Bot:
    """Guesses what the others may do, and searches orders that do best on average."""

    def act(text: str) -> str:
        seen = read(text)
        return action(_warning(seen)) if seen.speaks else _sent(seen, _searched(seen, rng))

    return act


def _warning(seen: Seen) -> str:
    """Names the rival with most centres, if it leads."""
    counts = {seat: seen.owners.count(seat) for seat in seen.rivals()}
    leader = max(counts, key=lambda seat: (counts[seat], -seat))
    if counts[leader] <= seen.owners.count(seen.me):
        return SILENCE
    return f"to all: {seat_name(leader)} has most centres. Do not help it."


# -- orders -----------------------------------------------------------------------------------


def _any(seen: Seen, at: int, rng: np.random.Generator) -> Order:
    possible = seen.table().possible(at)
    return possible[int(rng.integers(len(possible)))]


def _all_hold(units: Sequence[int]) -> Orders:
    return {at: Order(at, at, at) for at in units}


def _wanted(seen: Seen, seat: int) -> list[int]:
    """Centres that a seat does not own."""
    return [at for at in seen.land.centres if seen.owners[at] != seat]


def _advance(seen: Seen, seat: int, rng: np.random.Generator) -> Orders:
    """Every unit towards the nearest centre that is not the seat's; no two to one province."""
    steps, taken, orders = seen.land.steps, set[int](), Orders()
    goals = _wanted(seen, seat)
    units = standing(seen.units, seat)
    for at in [units[k] for k in rng.permutation(len(units))]:
        if at in goals:  # taken at the end of this round by staying
            choice = at
        else:
            ways = [at, *sorted(seen.land.borders[at] - taken)]
            cost = [
                min((steps[way][goal] for goal in goals if goal not in taken), default=0)
                + 0.5 * rng.random()
                + (9 if seen.units[way] == seat and way != at else 0)
                for way in ways
            ]
            choice = ways[int(np.argmin(cost))]
        taken.add(choice)
        orders[at] = Order(at, at, choice)
    return orders


def _together(seen: Seen, seat: int, rng: np.random.Generator) -> Orders:
    """One attack that as many units as possible support, then another; who cannot help guards a neighbour."""
    orders = Orders()
    borders, units = seen.land.borders, standing(seen.units, seat)
    goals = [goal for goal in _wanted(seen, seat) if seen.units[goal] != seat]
    while True:
        idle = [at for at in units if at not in orders]
        aims = {order.target for order in orders.values()}
        reach = {goal: [at for at in idle if goal in borders[at]] for goal in goals}
        scores = {
            goal: len(able) + (2 if seen.units[goal] == NO_SEAT else 0) + 0.9 * rng.random()
            for goal, able in reach.items()
            if able and goal not in aims and (seen.units[goal] == NO_SEAT or len(able) > 1)
        }
        if not scores:
            break
        goal = max(scores, key=lambda at: scores[at])
        ahead, *helpers = [reach[goal][k] for k in rng.permutation(len(reach[goal]))]
        orders[ahead] = Order(ahead, ahead, goal)
        needed = _force_near(seen, seat, goal)
        for at in helpers[:needed] if seen.support else ():
            orders[at] = Order(at, ahead, goal)
    rest = [at for at in units if at not in orders]
    return orders | _guard(seen, seat, rest, orders, rng)


def _force_near(seen: Seen, seat: int, place: int) -> int:
    """Units of other seats in a province and on its border."""
    return sum(seen.units[at] not in (NO_SEAT, seat) for at in (place, *seen.land.borders[place]))


def _guard(
    seen: Seen, seat: int, rest: Sequence[int], orders: Orders, rng: np.random.Generator
) -> Orders:
    """Units without a part in an attack help a neighbour that stays in danger, or go on."""
    onward, found = _advance(seen, seat, rng), Orders()
    moving = {order.target for order in orders.values()}
    for at in rest:
        stay = seen.owners[at] == seat and _force_near(seen, seat, at) > 0
        near = [
            other
            for other in rest
            if other in seen.land.borders[at] and _force_near(seen, seat, other) > 0
        ]
        if stay or onward[at].target in moving:
            found[at] = Order(at, at, at)
        elif near and seen.support:
            found[at] = Order(at, near[0], near[0])
        else:
            found[at] = onward[at]
        moving.add(found[at].target)
    return found


def _searched(seen: Seen, rng: np.random.Generator) -> Orders:
    """The orders with the best mean value over guesses of what the others near do."""
    own = seen.own()
    near = [
        at
        for at, seat in enumerate(seen.units)
        if seat not in (NO_SEAT, seen.me)
        and any(seen.land.steps[unit][at] <= _NEAR for unit in own)
    ]
    scenarios = [_guessed(seen, near, rng) for _ in range(_SCENARIOS)]
    local = [NO_SEAT] * len(seen.units)
    for at in (*own, *near):
        local[at] = seen.units[at]

    def value(orders: Orders) -> float:
        return sum(_value(seen, local, {**guess, **orders}) for guess in scenarios)

    proposals = [_all_hold(own), _advance(seen, seen.me, rng)]
    proposals += [_together(seen, seen.me, rng) for _ in range(_PROPOSALS - len(proposals))]
    best = max(proposals, key=value)
    most = value(best)
    table = seen.table()
    for at in [own[k] for k in rng.permutation(len(own))]:
        for order in table.possible(at):
            tried = {**best, at: order}
            if tried != best and (found := value(tried)) > most + 1e-9:
                best, most = tried, found
    return best


def _guessed(seen: Seen, near: Sequence[int], rng: np.random.Generator) -> Orders:
    """What other players' units near may do: advance, attack together, or hold."""
    found = Orders()
    for seat in sorted({seen.units[at] for at in near}):
        kind = rng.integers(5)
        if kind < 2:
            found |= _advance(seen, seat, rng)
        elif kind < 4:
            found |= _together(seen, seat, rng)
    return {at: found[at] for at in near if at in found}


def _value(seen: Seen, units: Sequence[int], orders: Orders) -> float:
    """How good the positions after these orders are for the bot: centres, and what they lead to."""
    after = positions(units, orders, carried_out(units, orders))
    me, borders, total = seen.me, seen.land.borders, 0.0
    for at in seen.land.centres:
        owner = after[at] if after[at] != NO_SEAT else seen.owners[at]
        around = [after[other] for other in borders[at]]
        mine = around.count(me)
        theirs = len(around) - mine - around.count(NO_SEAT)
        if owner == me:
            safe = mine + (1.5 if after[at] == me else 0.0)
            total += 3.0 - 0.8 * max(0.0, theirs - safe)
        else:
            total += 0.5 * min(2, mine) - (0.1 if owner != NO_SEAT else 0.0)
    return total + 0.6 * after.count(me)
