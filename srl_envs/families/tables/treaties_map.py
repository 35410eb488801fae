"""Maps of treaties: as many equal sectors as players, set around one province, the hub.

A sector is drawn, and every player gets one, so no seat is better placed than another: turning the map by
one sector gives the same map. Provinces lie on an inner and an outer ring; the strip between them is cut
into triangles, some borders are then taken away. Two maps that are the same but for names have one `key`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from srl_envs.draws import Draws

LETTERS = "ABCDEFG"
HUB = "hub"
_OPEN_SHARE = 3
"""One of so many borders is taken away where it may be."""
_ROUNDS_OF_COLOURS = 4
Link = tuple[int, int, int]
"""A border of every sector: from this place of it to that one of the sector so many further on."""


class Sector(NamedTuple):
    """What is drawn; places of a sector are numbered from the inner ring outwards."""

    players: int
    places: int
    links: tuple[Link, ...]
    gates: tuple[int, ...]
    """Places that border on the hub."""
    homes: tuple[int, ...]
    centre: int
    """The place with a supply centre that no player owns at the start."""


class Land(NamedTuple):
    """A whole map; provinces are numbers, sector by sector, and the hub is the last."""

    names: tuple[str, ...]
    borders: tuple[frozenset[int], ...]
    homes: tuple[tuple[int, ...], ...]
    """Per sector."""
    centres: tuple[int, ...]
    """All with a supply centre, homes among them."""
    steps: tuple[tuple[int, ...], ...]
    """Moves from each province to each other one."""

    @property
    def hub(self) -> int:
        """The province in the middle."""
        return len(self.names) - 1


def inner_places(places: int) -> int:
    """How many places of a sector lie on the inner ring."""
    return places // 2


def draw_sector(draws: Draws, players: int, places: int, homes: int) -> Sector:
    """A sector whose homes do not border on another player's.

    Args:
        draws: a stream that goes on from call to call.
        players: sectors of the map.
        places: provinces of a sector, 2 or more.
        homes: of them where a unit starts, at most ``places`` - 1.
    """
    while True:
        inner = inner_places(places)
        gates = tuple(sorted(draws.sample(inner, draws.integers(1, inner + 1))))
        links = _triangles(draws.permutation(places), inner)
        start, *roles = draws.sample(places, homes + 1)
        sector = Sector(players, places, links, gates, tuple(sorted(roles)), start)
        sector = _opened(sector, draws)
        if not any(shift and {a, b} <= {*sector.homes} for a, b, shift in sector.links):
            return sector


def _triangles(order: Sequence[int], inner: int) -> tuple[Link, ...]:
    """Borders along both rings, and across: every step goes on along one of the rings."""
    outer = len(order) - inner
    at, out = 0, 0
    links = {*_ring(0, inner), *_ring(inner, outer)}
    for step in order:
        at, out = (at + 1, out) if step < inner else (at, out + 1)
        links.add((at % inner, inner + out % outer, out // outer - at // inner))
    return tuple(sorted(links))


def _ring(first: int, size: int) -> Iterator[Link]:
    for place in range(size):
        yield first + place, first + (place + 1) % size, (place + 1) // size


def _opened(sector: Sector, draws: Draws) -> Sector:
    """Without some of its borders; every province keeps two, and all can be reached."""
    for place in draws.permutation(len(sector.links)):
        if draws.integers(_OPEN_SHARE):
            continue
        fewer = sector._replace(links=(*sector.links[:place], *sector.links[place + 1 :]))
        if place < len(sector.links) and _is_open(fewer):
            sector = fewer
    return sector


def _is_open(sector: Sector) -> bool:
    borders = _borders(sector)
    return min(map(len, borders)) > 1 and -1 not in steps_from(borders, 0)


def _borders(sector: Sector) -> tuple[frozenset[int], ...]:
    players, places = sector.players, sector.places
    hub = players * places
    found: list[set[int]] = [set() for _ in range(hub + 1)]
    for k in range(players):
        pairs = [
            (k * places + a, (k + shift) % players * places + b) for a, b, shift in sector.links
        ]
        for a, b in [*pairs, *((k * places + gate, hub) for gate in sector.gates)]:
            found[a].add(b)
            found[b].add(a)
    return tuple(map(frozenset, found))


def steps_from(borders: Sequence[frozenset[int]], start: int) -> tuple[int, ...]:
    """Moves from one province to each; -1 where there is no way."""
    steps, reached = [-1] * len(borders), [start]
    steps[start] = 0
    for here in reached:  # grows while it is read
        for there in sorted(borders[here]):
            if steps[there] < 0:
                steps[there] = steps[here] + 1
                reached.append(there)
    return tuple(steps)


@lru_cache(maxsize=256)
def land_of(sector: Sector) -> Land:
    """The map that the sectors make."""
    places = sector.places
    names = [
        f"{letter}{place + 1}" for letter in LETTERS[: sector.players] for place in range(places)
    ]
    borders = _borders(sector)
    homes = tuple(tuple(k * places + home for home in sector.homes) for k in range(sector.players))
    free = [k * places + sector.centre for k in range(sector.players)]
    return Land(
        (*names, HUB),
        borders,
        homes,
        tuple(sorted([*(home for mine in homes for home in mine), *free, len(names)])),
        tuple(steps_from(borders, start) for start in range(len(borders))),
    )


def key(sector: Sector) -> str:
    """The same for maps that differ only in names: what each kind of place borders on, and these on.

    Colour refinement: maps with two keys are different; different maps may have one key.
    """
    borders, places, hub = _borders(sector), sector.places, sector.players * sector.places
    kinds = ["centre" if p == sector.centre else str(p in sector.homes) for p in range(places)]
    colours = [*kinds, "hub"]
    for _ in range(_ROUNDS_OF_COLOURS):
        around = [*(borders[p] for p in range(places)), borders[hub]]
        colours = [
            _digest(own, sorted(colours[places if q == hub else q % places] for q in near))
            for own, near in zip(colours, around, strict=True)
        ]
    return _digest(str(sector.players), sorted(colours))


def _digest(own: str, others: Sequence[str]) -> str:
    return blake2b(" ".join((own, *others)).encode(), digest_size=8).hexdigest()
