"""The documents of a research room: a small invented country, drawn and written down.

Towns lie on rivers, rivers have wardens and tolls, people were born and come from towns, ledgers count carts.
Every fact that a task needs stands in one document, beside others that only look alike: a former warden, a
town that a person visited. Names of files say nothing; titles do.
"""

from __future__ import annotations

from typing import NamedTuple

from srl_envs.draws import Draws

_TOWN_STARTS = (
    *("Ar", "Bel", "Cor", "Dun", "Esk", "Fal", "Gar", "Hol", "Ist", "Kel", "Lor", "Mar", "Nor"),
    *("Os", "Pel", "Ros", "Sel", "Tor", "Ul", "Ver", "Wen", "Yar"),
)
_TOWN_ENDS = ("by", "dale", "ford", "ham", "mere", "ness", "stead", "ton", "vale", "wick")
_RIVERS = (
    *("Alm", "Brae", "Cinder", "Dray", "Ember", "Fenn", "Gall", "Hask", "Ivel", "Jarn", "Kirr"),
    *("Lune", "Moss", "Neth", "Orrin", "Pike", "Quill", "Rell", "Sarn", "Tarn", "Usk", "Varr"),
    *("Wend", "Yarrow"),
)
_OLD_NAMES = (
    *("Adder", "Bright", "Copper", "Dusk", "Elder", "Frost", "Grey", "Heron", "Iron", "Jade"),
    *("Long", "Mill", "Night", "Otter", "Pale", "Reed", "Silver", "Thorn", "Violet", "Winter"),
)
_FIRST = (
    *("Ada", "Bo", "Cara", "Dov", "Eda", "Finn", "Gus", "Hana", "Ines", "Jon", "Kira", "Leo"),
    *("Mira", "Nils", "Olga", "Per", "Rosa", "Sven", "Tom", "Una", "Vera", "Willem"),
)
_LAST = (
    *("Abel", "Birch", "Crane", "Drake", "Finch", "Gorse", "Holt", "Jessop", "Kemp", "Lark"),
    *("Marsh", "Nash", "Oakes", "Pryor", "Quinn", "Rook", "Stone", "Tully", "Vane", "Wolfe"),
)
GOODS = ("wool", "salt", "grain", "timber", "honey", "iron")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


class Size(NamedTuple):
    """How much a country has of what."""

    towns: int
    rivers: int
    people: int
    goods: int
    years: int
    old_names: bool = False


class Town(NamedTuple):
    """A town on a river."""

    name: str
    river: int
    people: int


class River(NamedTuple):
    """A river with its toll per cart."""

    name: str
    toll: int
    warden: int
    former: int
    """Its warden before; no task is about it."""
    old_name: str


class Person(NamedTuple):
    """A person from a town."""

    name: str
    born: int
    home: int
    visited: int


class Country(NamedTuple):
    """Everything that is true; the others are named by their place in these lists."""

    towns: tuple[Town, ...]
    rivers: tuple[River, ...]
    people: tuple[Person, ...]
    goods: tuple[str, ...]
    years: tuple[int, ...]
    carts: tuple[tuple[tuple[int, ...], ...], ...]
    """By good, year and town."""
    old_names: bool

    def on(self, river: int) -> list[int]:
        """Towns on a river."""
        return [place for place, town in enumerate(self.towns) if town.river == river]


class Document(NamedTuple):
    """What `read` shows."""

    path: str
    title: str
    text: str


Subject = tuple[str, int, int]
"""What a document is about: ``town``, ``river``, ``person``, ``ledger`` (good, year) or ``names``."""


def draw_country(draws: Draws, size: Size) -> Country:
    """Names, and facts about them. Every river has a town where there are as many towns."""
    towns = [_TOWN_STARTS[k // 10] + _TOWN_ENDS[k % 10] for k in draws.sample(220, size.towns)]
    rivers = [_RIVERS[k] for k in draws.sample(len(_RIVERS), size.rivers)]
    old = [f"Old {_OLD_NAMES[k]}" for k in draws.sample(len(_OLD_NAMES), size.rivers)]
    first, last = (draws.sample(count, size.people) for count in (len(_FIRST), len(_LAST)))
    people = [f"{_FIRST[a]} {_LAST[b]}" for a, b in zip(first, last, strict=True)]
    lies_on = [k % size.rivers for k in range(size.towns)]
    order = draws.permutation(size.towns)
    wardens = draws.sample(size.people, size.rivers)
    year = 1600 + draws.integers(60)
    return Country(
        tuple(Town(name, lies_on[order[k]], draws.integers(90, 900)) for k, name in enumerate(towns)),
        tuple(
            River(
                name, draws.integers(2, 10), wardens[k],
                _other(draws, size.people, wardens[k]), old[k],
            )
            for k, name in enumerate(rivers)
        ),
        tuple(_person(draws, name, size.towns, year) for name in people),
        tuple(GOODS[k] for k in draws.sample(len(GOODS), size.goods)),
        tuple(range(year, year + size.years)),
        tuple(
            tuple(tuple(draws.several(size.towns, 2, 60)) for _ in range(size.years))
            for _ in range(size.goods)
        ),
        size.old_names,
    )  # fmt: skip


def _other(draws: Draws, count: int, one: int) -> int:
    return (one + 1 + draws.integers(count - 1)) % count


def _person(draws: Draws, name: str, towns: int, year: int) -> Person:
    home = draws.integers(towns)
    return Person(name, year - draws.integers(20, 70), home, _other(draws, towns, home))


def subjects(country: Country, kinds: tuple[str, ...]) -> list[Subject]:
    """What there are documents about."""
    found: list[Subject] = []
    if "town" in kinds:
        found += [("town", k, 0) for k in range(len(country.towns))]
    if "river" in kinds:
        found += [("river", k, 0) for k in range(len(country.rivers))]
    if "person" in kinds:
        found += [("person", k, 0) for k in range(len(country.people))]
    if "ledger" in kinds:
        found += [
            ("ledger", k, y) for k in range(len(country.goods)) for y in range(len(country.years))
        ]
    return [*found, ("names", 0, 0)] if country.old_names else found


def write_documents(
    country: Country, about: list[Subject], draws: Draws
) -> tuple[tuple[Document, ...], dict[Subject, int]]:
    """The documents in random order, and where each subject's stands."""
    order = draws.permutation(len(about))
    documents = []
    places: dict[Subject, int] = {}
    for number, place in enumerate(order):
        subject = about[place]
        title, text = _written(country, subject, draws)
        documents.append(Document(f"notes/{number + 1:02}.txt", title, text))
        places[subject] = number
    return tuple(documents), places


def _written(country: Country, subject: Subject, draws: Draws) -> tuple[str, str]:
    kind, place, year = subject
    form = draws.integers(2)
    if kind == "town":
        town = country.towns[place]
        river, day = country.rivers[town.river].name, _DAYS[draws.integers(len(_DAYS))]
        return town.name, (
            f"{town.name} lies on the river {river}. {town.people} people live there. Its "
            f"market is on {day}.",
            f"{town.people} people live in {town.name}, a town on the river {river}. Its market is on {day}.",
        )[form]
    if kind == "river":
        it = country.rivers[place]
        warden, former = country.people[it.warden].name, country.people[it.former].name
        return f"The river {it.name}", (
            f"The toll on the river {it.name} is {it.toll} coins for each cart. Its warden is {warden}. "
            f"Before, its warden was {former}.",
            f"{warden} is warden of the river {it.name}, after {former}, who left. Each cart that crosses it "
            f"pays a toll of {it.toll} coins.",
        )[form]
    if kind == "person":
        who = country.people[place]
        home, visited = country.towns[who.home].name, country.towns[who.visited].name
        return who.name, (
            f"{who.name} was born in {who.born} and comes from {home}. {who.name} has been to {visited}.",
            f"{who.name}, who comes from {home} and has been to {visited}, was born in {who.born}.",
        )[form]
    if kind == "ledger":
        counts = country.carts[place][year]
        rows = [f"{town.name}: {n}" for town, n in zip(country.towns, counts, strict=True)]
        order = draws.permutation(len(rows))
        title = f"Carts of {country.goods[place]} in {country.years[year]}"
        return title, "\n".join(rows[k] for k in order)
    rows = [f"The river {it.name} was once called {it.old_name}." for it in country.rivers]
    return "Old names of rivers", "\n".join(rows)
