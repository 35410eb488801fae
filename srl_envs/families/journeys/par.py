"""Par of an expedition: what a planner with the whole map brings home in calm weather, without passes.

Every set of sites has a cheapest round trip from the camp. A trip that takes F food with room for C is
possible if F <= C. With a cache laid before, it is possible up to F = 4/3 C: the food that is missing, F - C,
is left where a full bag first has room for it, which costs a walk of twice as much food. Sites are divided
among trips so that their value is largest within the stock of food and the number of turns.

Source of the cache: D. Gale, "The jeep once more or jeeper by the dozen", American Mathematical Monthly
77(5), 1970 (one depot, round trip). Trips by dynamic programming over sets: M. Held and R. M. Karp, Journal
of the Society for Industrial and Applied Mathematics 10(1), 1962.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from srl_envs.families.journeys.land import FAR, Land, cheapest, way

_ORDERS = 2
"""Turns at the camp for each trip: arriving is free, loading takes one, and a cache one more."""


class Trip(NamedTuple):
    """What visiting a set of sites takes."""

    food: float
    turns: int


@lru_cache(maxsize=512)
def par(land: Land, room: int, stock: int, turns: int) -> int:
    """The largest value of sites that the planner brings home.

    Args:
        land: all of it is known.
        room: food that an explorer can carry.
        stock: food in all.
        turns: of all explorers.
    """
    trips = _trips(land, room)
    count = len(land.sites)
    value = [
        sum(land.sites[k][1] for k in range(count) if chosen >> k & 1)
        for chosen in range(1 << count)
    ]
    best = [Trip(0, 0)]
    largest = 0
    for chosen in range(1, 1 << count):
        least = Trip(FAR, FAR)
        part = chosen
        while part:  # every trip with the first of the sites; the rest is planned already
            if part & chosen & -chosen:
                one, rest = trips[part], best[chosen ^ part]
                least = min(least, Trip(one.food + rest.food, one.turns + rest.turns))
            part = (part - 1) & chosen
        best.append(least)
        if least.food <= stock and least.turns <= turns:
            largest = max(largest, value[chosen])
    return largest


def _trips(land: Land, room: int) -> list[Trip]:
    """The cheapest round trip to every set of sites."""
    side = round(len(land.cells) ** 0.5)
    camp = len(land.cells) // 2
    places = [camp, *(cell for cell, _ in land.sites)]
    legs = []
    for start in places:
        food, before = cheapest(land.cells, side, start)
        legs.append([Trip(food[to], len(way(before, to))) for to in places])
    count = len(land.sites)
    ends: list[dict[int, Trip]] = [{} for _ in range(1 << count)]
    for k in range(count):
        ends[1 << k][k] = legs[0][k + 1]
    trips = [Trip(0, 0)]
    for chosen in range(1, 1 << count):
        for last, so_far in ends[chosen].items():
            for k in range(count):
                if chosen >> k & 1:
                    continue
                leg = legs[last + 1][k + 1]
                longer = Trip(so_far.food + leg.food, so_far.turns + leg.turns)
                after = ends[chosen | 1 << k]
                after[k] = min(after.get(k, longer), longer)
        back = [
            Trip(so_far.food + legs[last + 1][0].food, so_far.turns + legs[last + 1][0].turns)
            for last, so_far in ends[chosen].items()
        ]
        trips.append(_with_cache(min(back), room))
    return trips


def _with_cache(trip: Trip, room: int) -> Trip:
    """The same trip with its orders, and with a cache where it takes more food than there is room for."""
    missing = trip.food - room
    if missing <= 0:
        return Trip(trip.food, trip.turns + _ORDERS)
    if missing > room / 3:
        return Trip(FAR, FAR)
    return Trip(trip.food + 2 * missing, trip.turns + 2 * int(missing) + 2 * _ORDERS)
