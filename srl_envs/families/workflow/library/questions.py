"""What is asked about the documents of a research room, with the exact answer, by level."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from srl_envs.core import Split, split_of_instance
from srl_envs.draws import Draws
from srl_envs.families.workflow.library.corpus import (
    Country,
    Document,
    Size,
    Subject,
    draw_country,
    subjects,
    write_documents,
)

TOLLS, REPORT = "tables/tolls.txt", "report.txt"
"""Files that tasks are about."""


class Task(NamedTuple):
    """A question, or a wanted state of a file."""

    kind: str
    names: tuple[str | int, ...]
    """What is asked about; with ``kind`` it names the task."""
    text: str
    answer: str
    """The right answer, or the wanted lines of the file."""
    needs: tuple[Subject, ...]
    """What the documents that it takes are about."""
    target: str = ""
    """Path of the file to bring into a state; "" for a question."""
    given: str = ""
    """Lines of that file at the start."""
    choices: tuple[str, ...] = ()
    """Answers among which the right one is, where these are named."""


class Level(NamedTuple):
    """How much there is to read, what is asked, and how many calls there are."""

    size: Size
    about: tuple[str, ...]
    """Kinds of documents; none for those of the task."""
    kinds: tuple[str, ...]
    calls: int


class Room(NamedTuple):
    """Documents and a task."""

    documents: tuple[Document, ...]
    task: Task
    needs: tuple[int, ...]
    """Places of the documents that the task takes."""


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _first_rung(kind: str, country: Country, draws: Draws) -> Task | None:
    """One of three documents has the answer, one of three that are named."""
    place = draws.integers(3)
    if kind == "warden":
        asked = country.rivers[place].name
        answers = [country.people[river.warden].name for river in country.rivers]
        text, about = f"Who is warden of the river {asked}?", "river"
    elif kind == "home":
        asked = country.people[place].name
        answers = [country.towns[person.home].name for person in country.people]
        text, about = f"From which town does {asked} come?", "person"
    else:
        asked = country.towns[place].name
        answers = [country.rivers[town.river].name for town in country.towns]
        text, about = f"On which river does {asked} lie?", "town"
    if len(set(answers)) < len(answers):
        return None
    named = sorted(answers)
    text = f"{text} The answer is one of {_listed(named)}."
    return Task(kind, (asked,), text, answers[place], ((about, place, 0),), choices=tuple(named))


def _warden_of_town(country: Country, draws: Draws) -> Task:
    place = draws.integers(len(country.towns))
    town = country.towns[place]
    return Task(
        "warden_of_town", (town.name,),
        f"Who is warden of the river on which {town.name} lies?",
        country.people[country.rivers[town.river].warden].name,
        (("town", place, 0), ("river", town.river, 0)),
    )  # fmt: skip


def _toll_of_town(country: Country, draws: Draws) -> Task:
    place, carts = draws.integers(len(country.towns)), draws.integers(3, 30)
    town = country.towns[place]
    return Task(
        "toll_of_town", (town.name, carts),
        f"How many coins do {carts} carts pay in all that cross the river on which {town.name} lies once?",
        str(carts * country.rivers[town.river].toll),
        (("town", place, 0), ("river", town.river, 0)),
    )  # fmt: skip


def _age_gap(country: Country, draws: Draws) -> Task | None:
    one, other = draws.sample(len(country.people), 2)
    gap = country.people[other].born - country.people[one].born
    if gap <= 0:
        return None
    names = country.people[one].name, country.people[other].name
    return Task(
        "age_gap", names,
        f"How many years before {names[1]} was {names[0]} born? Take the difference of the two years.",
        str(gap), (("person", one, 0), ("person", other, 0)),
    )  # fmt: skip


def _warden_born(country: Country, draws: Draws) -> Task:
    place = draws.integers(len(country.towns))
    town = country.towns[place]
    warden = country.rivers[town.river].warden
    return Task(
        "warden_born", (town.name,),
        f"In which year was the warden of the river on which {town.name} lies born?",
        str(country.people[warden].born),
        (("town", place, 0), ("river", town.river, 0), ("person", warden, 0)),
    )  # fmt: skip


def _home_carts(country: Country, draws: Draws) -> Task:
    place, year = draws.integers(len(country.rivers)), draws.integers(len(country.years))
    river, good = country.rivers[place], draws.integers(len(country.goods))
    warden = country.people[river.warden]
    return Task(
        "home_carts", (river.name, country.goods[good], country.years[year]),
        f"How many carts of {country.goods[good]} did the town from which the warden of the river "
        f"{river.name} comes send in {country.years[year]}?",
        str(country.carts[good][year][warden.home]),
        (("river", place, 0), ("person", river.warden, 0), ("ledger", good, year)),
    )  # fmt: skip


def _two_tolls(country: Country, draws: Draws) -> Task:
    one, other = draws.sample(len(country.rivers), 2)
    carts = draws.integers(3, 30)
    names = country.rivers[one].name, country.rivers[other].name
    return Task(
        "two_tolls", (*sorted(names), carts),
        f"How many coins do {carts} carts pay in all that cross the river {names[0]} and then the river "
        f"{names[1]}?",
        str(carts * (country.rivers[one].toll + country.rivers[other].toll)),
        (("river", one, 0), ("river", other, 0)),
    )  # fmt: skip


def _wrong_toll(country: Country, draws: Draws) -> Task:
    wrong = draws.integers(len(country.rivers))
    rivers = sorted(country.rivers, key=lambda river: river.name)
    right = [f"{river.name}: {river.toll}" for river in rivers]
    toll = (rivers[wrong].toll - 2 + 1 + draws.integers(7)) % 8 + 2
    given = [*right]
    given[wrong] = f"{rivers[wrong].name}: {toll}"
    return Task(
        "wrong_toll", tuple(river.name for river in rivers),
        f"The file {TOLLS} lists the tolls of the rivers {_listed([river.name for river in rivers])}. One "
        "toll is not that of the documents. Write the file with the right one; the other lines stay.",
        "\n".join(right), tuple(("river", k, 0) for k in range(len(rivers))), TOLLS, "\n".join(given),
    )  # fmt: skip


def _river_asked(country: Country, draws: Draws) -> tuple[int, str, tuple[Subject, ...]]:
    """A river with two towns or more, how a task calls it, and what that takes."""
    several = [k for k in range(len(country.rivers)) if len(country.on(k)) > 1]
    place = several[draws.integers(len(several))]
    river = country.rivers[place]
    if country.old_names:
        return place, f"the river once called {river.old_name}", (("names", 0, 0),)
    return place, f"the river {river.name}", ()


def _river_carts(country: Country, draws: Draws) -> Task:
    river, called, needs = _river_asked(country, draws)
    good, year = draws.integers(len(country.goods)), draws.integers(len(country.years))
    on = country.on(river)
    return Task(
        "river_carts", (called, country.goods[good], country.years[year]),
        f"How many carts of {country.goods[good]} did all towns on {called} send together in "
        f"{country.years[year]}?",
        str(sum(country.carts[good][year][town] for town in on)),
        (*needs, *(("town", town, 0) for town in on), ("ledger", good, year)),
    )  # fmt: skip


def _river_gain(country: Country, draws: Draws) -> Task | None:
    river, called, needs = _river_asked(country, draws)
    good, on = draws.integers(len(country.goods)), country.on(river)
    before, after = (sum(country.carts[good][year][town] for town in on) for year in (0, 1))
    if after <= before:
        return None
    return Task(
        "river_gain", (called, country.goods[good], country.years[0]),
        f"How many more carts of {country.goods[good]} did all towns on {called} send together in "
        f"{country.years[1]} than in {country.years[0]}?",
        str(after - before),
        (*needs, *(("town", town, 0) for town in on), ("ledger", good, 0), ("ledger", good, 1)),
    )  # fmt: skip


def _river_most(country: Country, draws: Draws) -> Task | None:
    river, called, needs = _river_asked(country, draws)
    good, year = draws.integers(len(country.goods)), draws.integers(len(country.years))
    on, counts = country.on(river), country.carts[good][year]
    best = max(on, key=lambda town: counts[town])
    if sum(counts[town] == counts[best] for town in on) > 1:
        return None
    return Task(
        "river_most", (called, country.goods[good], country.years[year]),
        f"Which town on {called} sent most carts of {country.goods[good]} in {country.years[year]}?",
        country.towns[best].name,
        (*needs, *(("town", town, 0) for town in on), ("ledger", good, year)),
    )  # fmt: skip


def _river_report(country: Country, draws: Draws) -> Task:
    river, called, needs = _river_asked(country, draws)
    good, year = draws.integers(len(country.goods)), draws.integers(len(country.years))
    on = country.on(river)
    rows = sorted(f"{country.towns[town].name}: {country.carts[good][year][town]}" for town in on)
    return Task(
        "river_report", (called, country.goods[good], country.years[year]),
        f"Write the file {REPORT}: one line for each town on {called}, in alphabetical order, as TOWN: "
        f"CARTS, with the carts of {country.goods[good]} that it sent in {country.years[year]}.",
        "\n".join(rows),
        (*needs, *(("town", town, 0) for town in on), ("ledger", good, year)), REPORT,
    )  # fmt: skip


_DRAWN: Mapping[str, Callable[[Country, Draws], Task | None]] = {
    "warden_of_town": _warden_of_town,
    "toll_of_town": _toll_of_town,
    "age_gap": _age_gap,
    "warden_born": _warden_born,
    "home_carts": _home_carts,
    "two_tolls": _two_tolls,
    "wrong_toll": _wrong_toll,
    "river_carts": _river_carts,
    "river_gain": _river_gain,
    "river_most": _river_most,
    "river_report": _river_report,
}
_FIRST = {"warden": "river", "home": "person", "river": "town"}
"""What the documents of a first task are about."""
_ALL = ("town", "river", "person", "ledger")
LEVELS: Mapping[int, Level] = {
    1: Level(Size(3, 3, 3, 1, 1), (), tuple(_FIRST), 6),
    2: Level(Size(4, 2, 3, 1, 1), _ALL[:3], ("warden_of_town", "toll_of_town", "age_gap"), 8),
    3: Level(Size(5, 3, 4, 1, 2), _ALL, ("warden_born", "home_carts", "two_tolls", "wrong_toll"), 12),
    4: Level(Size(8, 3, 5, 2, 2), _ALL, ("river_carts", "river_most", "river_report"), 15),
    5: Level(
        Size(10, 4, 6, 2, 2, old_names=True), _ALL,
        ("river_carts", "river_gain", "river_most", "river_report"), 20,
    ),
}  # fmt: skip


def draw_room(draws: Draws, level: int, split: Split) -> Room:
    """A country of the split with its documents, and any task about it."""
    at = LEVELS[level]
    while True:
        country = draw_country(draws, at.size)
        if split_of_instance("country", country_key(country)) != split:
            continue
        kind = at.kinds[draws.integers(len(at.kinds))]
        task = _first_rung(kind, country, draws) if level == 1 else _DRAWN[kind](country, draws)
        if task is None:
            continue
        about = subjects(country, at.about or (_FIRST[kind],))
        documents, places = write_documents(country, about, draws)
        return Room(documents, task, tuple(places[subject] for subject in task.needs))


def country_key(country: Country) -> tuple[object, ...]:
    """All facts, without the order in which they are listed."""
    towns, rivers, people = country.towns, country.rivers, country.people
    return (
        sorted((town.name, rivers[town.river].name, town.people) for town in towns),
        sorted((r.name, r.toll, people[r.warden].name, people[r.former].name) for r in rivers),
        sorted((p.name, p.born, towns[p.home].name, towns[p.visited].name) for p in people),
        sorted(
            (good, year, sorted(zip((t.name for t in towns), counts, strict=True)))
            for good, by_year in zip(country.goods, country.carts, strict=True)
            for year, counts in zip(country.years, by_year, strict=True)
        ),
    )


def question_key(room: Room) -> tuple[object, ...]:
    """The question without the facts: the same one is never asked in both splits."""
    return (room.task.kind, room.task.names)
