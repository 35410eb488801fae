"""What scripted players of treaties read, and the plans from which they choose.

Only lines that the game itself writes are read, and these begin as no message does: nothing that is said,
true or not, moves a plan.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from srl_envs.families.tables.treaties_map import Land, steps_from
from srl_envs.families.tables.treaties_orders import NO_SEAT, Order, Table, standing

Orders = dict[int, Order]

_MAP = re.compile(r"^Map, with the borders of each province:\n((?:(?:[A-G]\d|hub)\b.*\n)+)", re.M)
_PLACE = re.compile(r"^(\w+)( \(centre(?:, home of player_(\d))?\))?: (.*)$", re.MULTILINE)
_HOLDINGS = re.compile(r"^player_(\d)(?: \(you\))? has units in (.*); centres (.*)$", re.MULTILINE)
_DUE = re.compile(r"^ROUND (\d+) of (\d+), (talk|orders)\. You are player_(\d)\.", re.MULTILINE)
_REPORT = re.compile(r"^player_(\d): (.+)$", re.MULTILINE)
_SUPPORTED = re.compile(r'^"A1 support B1"', re.MULTILINE)
STILL, ERRATIC, ALONE, HELPING, UNKNOWN = "still", "erratic", "alone", "helping", "unknown"


class Seen(NamedTuple):
    """What a bot reads."""

    land: Land
    units: tuple[int, ...]
    owners: tuple[int, ...]
    """Per province; `NO_SEAT` for provinces without a centre or an owner."""
    players: int
    me: int
    round: int
    """From 1 on."""
    rounds: int
    past: tuple[str, ...]
    """Per seat how it played in the last round; see `past_of`."""
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
        int(due[1]), int(due[2]), past_of(text, len(land.homes)), due[3] == "talk",
        _SUPPORTED.search(text) is not None,
    )  # fmt: skip


def past_of(text: str, players: int) -> tuple[str, ...]:
    """Per seat, how it played by the report of a round; `UNKNOWN` without one.

    Supports of what was not ordered are `ERRATIC`, others `HELPING`; moves without any are `ALONE`.
    """
    found = [UNKNOWN] * players
    for seat, orders in _REPORT.findall(text):
        if "(in vain" in orders:
            kind = ERRATIC
        elif " support " in orders:
            kind = HELPING
        else:
            kind = ALONE if " move " in orders else STILL
        found[int(seat)] = kind
    return tuple(found)


def any_order(seen: Seen, at: int, rng: np.random.Generator) -> Order:
    """A random one for the unit in a province."""
    possible = seen.table().possible(at)
    return possible[int(rng.integers(len(possible)))]


def all_hold(units: Sequence[int]) -> Orders:
    """No unit moves."""
    return {at: Order(at, at, at) for at in units}


def _wanted(seen: Seen, seat: int) -> list[int]:
    """Centres that a seat does not own."""
    return [at for at in seen.land.centres if seen.owners[at] != seat]


def advance(seen: Seen, seat: int, rng: np.random.Generator) -> Orders:
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


def together(seen: Seen, seat: int, rng: np.random.Generator) -> Orders:
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
    onward, found = advance(seen, seat, rng), Orders()
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
