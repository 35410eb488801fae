"""Scripted searchers and writers: they read tasks and documents by their sentences.

A reply for either part, so each fits every seat and the lone version. The systematic reader looks for the
document of the next fact that it lacks, opens it, and works the answer out once nothing is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from srl_envs.families.workflow.library.research_room import UNKNOWN
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]
_TOWN = re.compile(
    r"^\| (?:(?P<a>\w+) lies on the river (?P<b>\w+)\.|\d+ people live in (?P<c>\w+), a town on the river "
    r"(?P<d>\w+)\.)",
    re.MULTILINE,
)
_RIVER = re.compile(
    r"^\| (?:The toll on the river (\w+) is (\d+) coins for each cart\. Its warden is ([\w ]+)\. Before, its "
    r"warden was ([\w ]+)\.|([\w ]+) is warden of the river (\w+), after ([\w ]+), who left\. .* of (\d+) "
    r"coins\.)$",
    re.MULTILINE,
)
_PERSON = re.compile(
    r"^\| (?:([\w ]+) was born in (\d+) and comes from (\w+)\.|([\w ]+), who comes from (\w+) and .* born in "
    r"(\d+)\.)",
    re.MULTILINE,
)
_OLD = re.compile(r"^\| The river (\w+) was once called ([\w ]+)\.$", re.MULTILINE)
_LEDGER = re.compile(r"^\| Carts of (\w+) in (\d+)\n((?:\| \w+: \d+\n)+)", re.MULTILINE)
_ROW = re.compile(r"^\| (\w+): (\d+)$", re.MULTILINE)
_HIT = re.compile(r"^\| (\S+): (.+)$", re.MULTILINE)
_SEARCHED = re.compile(r"^Call \d+, search: (.*)\n((?:\| .*\n)*)", re.MULTILINE)
_READ = re.compile(r"^Call \d+, read: (\S+)\n((?:\| .*\n)*)", re.MULTILINE)
_TASK = re.compile(r"^The task: (.*)$", re.MULTILINE)
_SENT = re.compile(r'^Call \d+, player_0 sends: "(.*)"$', re.MULTILINE)
_PATHS = re.compile(r"There are (\d+) documents")
_CHOICES = re.compile(r" The answer is one of (.*)\.$")
_CALLS = re.compile(r"<action>(\w+):")
_RESULT = "Result: "
"""Begins the message that holds what the writer hands in."""


K = TypeVar("K")
V = TypeVar("V")


class MissingError(Exception):
    """A document has to be read, or a search to be made, before more can be worked out."""

    def __init__(self, title: str, query: str = "") -> None:
        super().__init__(title or query)
        self.title, self.query = title, query or title


@dataclass
class Seen:
    """What one text shows."""

    task: str
    names: set[str]
    """Kinds of call that the seat may make."""
    count: int
    """Documents in the room."""
    read: dict[str, str] = field(default_factory=dict)
    """Path -> lines as they were shown."""
    searched: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Query -> path and title of each hit."""
    message: str = ""
    """What the searcher sent last."""
    towns: dict[str, str] = field(default_factory=dict)
    """Town -> river."""
    rivers: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    """River -> toll, warden, warden before."""
    people: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Person -> year of birth, town."""
    old: dict[str, str] = field(default_factory=dict)
    """Former name -> river."""
    ledgers: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    """Good and year -> town -> carts."""

    # --- facts, or what has to be read for them ---

    def town(self, name: str) -> str:
        """The river of a town."""
        return _fact(self.towns, name, name)

    def river(self, name: str) -> tuple[int, str, str]:
        """Toll, warden and warden before."""
        return _fact(self.rivers, name, f"The river {name}")

    def person(self, name: str) -> tuple[int, str]:
        """Year of birth and town."""
        return _fact(self.people, name, name)

    def ledger(self, good: str, year: int) -> dict[str, int]:
        """Carts by town."""
        return _fact(self.ledgers, (good, year), f"Carts of {good} in {year}")

    def called(self, name: str) -> str:
        """A river by its name or its former name."""
        if not name.startswith("once called "):
            return name
        return _fact(self.old, name.removeprefix("once called "), "Old names of rivers")

    def towns_on(self, river: str) -> list[str]:
        """Towns on a river, once a search for it was made and every town that it lists was read."""
        if river not in self.searched:
            raise MissingError("", river)
        for path, title in self.searched[river]:
            if " " not in title and path not in self.read:
                raise MissingError(title)
        return sorted(town for town, on in self.towns.items() if on == river)


def _fact(facts: Mapping[K, V], key: K, title: str) -> V:
    if key not in facts:
        raise MissingError(title)
    return facts[key]


# --- tasks and what they come to ---


def _warden_of_town(seen: Seen, town: str) -> str:
    return seen.river(seen.town(town))[1]


def _toll_of_town(seen: Seen, carts: str, town: str) -> str:
    return str(int(carts) * seen.river(seen.town(town))[0])


def _age_gap(seen: Seen, other: str, one: str) -> str:
    return str(seen.person(other)[0] - seen.person(one)[0])


def _warden_born(seen: Seen, town: str) -> str:
    return str(seen.person(_warden_of_town(seen, town))[0])


def _home_carts(seen: Seen, good: str, river: str, year: str) -> str:
    home = seen.person(seen.river(river)[1])[1]
    return str(seen.ledger(good, int(year))[home])


def _two_tolls(seen: Seen, carts: str, one: str, other: str) -> str:
    return str(int(carts) * (seen.river(one)[0] + seen.river(other)[0]))


def _wrong_toll(seen: Seen, path: str) -> str:
    if path not in seen.read:
        raise MissingError(path)
    rivers = [name for name, _ in _ROW.findall(seen.read[path])]
    return "\n".join(f"{river}: {seen.river(river)[0]}" for river in rivers)


def _river_carts(seen: Seen, good: str, called: str, year: str) -> str:
    towns = seen.towns_on(seen.called(called))
    return str(sum(seen.ledger(good, int(year))[town] for town in towns))


def _river_gain(seen: Seen, good: str, called: str, after: str, before: str) -> str:
    return str(
        int(_river_carts(seen, good, called, after)) - int(_river_carts(seen, good, called, before))
    )


def _river_most(seen: Seen, called: str, good: str, year: str) -> str:
    towns = seen.towns_on(seen.called(called))
    counts = seen.ledger(good, int(year))
    return max(towns, key=lambda town: counts[town])


def _river_report(seen: Seen, called: str, good: str, year: str) -> str:
    towns = seen.towns_on(seen.called(called))
    return "\n".join(f"{town}: {seen.ledger(good, int(year))[town]}" for town in towns)


_NAMED = r"((?:once called )?[\w ]+?)"
_TASKS: tuple[tuple[re.Pattern[str], Callable[..., str]], ...] = tuple(
    (re.compile(pattern), work)
    for pattern, work in (
        (r"Who is warden of the river on which (\w+) lies", _warden_of_town),
        (r"Who is warden of the river (\w+)\?", lambda seen, river: seen.river(river)[1]),
        (r"From which town does ([\w ]+) come", lambda seen, who: seen.person(who)[1]),
        (r"On which river does (\w+) lie", lambda seen, town: seen.town(town)),
        (r"coins do (\d+) carts pay in all that cross the river on which (\w+)", _toll_of_town),
        (r"years before ([\w ]+) was ([\w ]+) born", _age_gap),
        (r"warden of the river on which (\w+) lies born", _warden_born),
        (r"carts of (\w+) did the town from .* river (\w+) comes send in (\d+)", _home_carts),
        (
            r"coins do (\d+) carts pay in all that cross the river (\w+) and then the river (\w+)",
            _two_tolls,
        ),
        (r"The file (\S+) lists the tolls of the rivers", _wrong_toll),
        (
            rf"more carts of (\w+) did all towns on the river {_NAMED} send together in (\d+) than in (\d+)",
            _river_gain,
        ),
        (
            rf"carts of (\w+) did all towns on the river {_NAMED} send together in (\d+)",
            _river_carts,
        ),
        (rf"Which town on the river {_NAMED} sent most carts of (\w+) in (\d+)", _river_most),
        (
            rf"one line for each town on the river {_NAMED}, in .* the carts of (\w+) that .* in (\d+)",
            _river_report,
        ),
    )
)


def worked_out(seen: Seen) -> str:
    """The answer, or the lines of the file.

    Raises:
        MissingError: more has to be read.
    """
    for pattern, work in _TASKS:
        found = pattern.search(seen.task)
        if found:
            return work(seen, *found.groups())
    return UNKNOWN


def read_text(text: str) -> Seen:
    """What a seat's text shows."""
    task = _TASK.search(text)
    seen = Seen(task[1] if task else "", set(_CALLS.findall(text)), 0)
    count = _PATHS.search(text)
    seen.count = int(count[1]) if count else 0
    for query, hits in _SEARCHED.findall(text):
        seen.searched[query] = _HIT.findall(hits)
    seen.read = dict(_READ.findall(text))
    messages = _SENT.findall(text)
    seen.message = messages[-1] if messages else ""
    known = "".join(seen.read.values())
    for a, b, c, d in _TOWN.findall(known):
        seen.towns[a or c] = b or d
    for river, toll, now, before, now_, river_, before_, toll_ in _RIVER.findall(known):
        seen.rivers[river or river_] = (int(toll or toll_), now or now_, before or before_)
    for name, born, home, name_, home_, born_ in _PERSON.findall(known):
        seen.people[name or name_] = (int(born or born_), home or home_)
    seen.old = {old: river for river, old in _OLD.findall(known)}
    for good, year, rows in _LEDGER.findall(known):
        seen.ledgers[good, int(year)] = {town: int(n) for town, n in _ROW.findall(rows)}
    return seen


# --- calls ---


def _hand_in(seen: Seen, text: str, result: str) -> str:
    """The call that comes next once the result is known."""
    if "send" in seen.names:
        return f"send: {_RESULT}{result.replace(chr(10), ' | ')}"
    if "done" not in seen.names:
        return f"answer: {result}"
    written = re.search(r"^Call \d+, write: ", text, re.MULTILINE)
    target = re.search(r"<action>write: (\S+)", text)
    return "done:" if written or not target else f"write: {target[1]}\n{result}"


def _next_call(seen: Seen, missing: MissingError) -> str:
    """Open what is missing, or look for it; "" where neither helps."""
    if "/" in missing.title:
        return f"read: {missing.title}"
    hits = {title: path for found in seen.searched.values() for path, title in found}
    if missing.title in hits:
        return f"read: {hits[missing.title]}"
    if "search" not in seen.names:
        paths = [f"notes/{number + 1:02}.txt" for number in range(seen.count)]
        unread = [path for path in paths if path not in seen.read]
        return f"read: {unread[0]}" if unread else ""
    return "" if missing.query in seen.searched else f"search: {missing.query}"


def _reader(choose: Callable[[Seen, MissingError], str], doubt: Callable[[Seen, str], str]) -> Bot:
    """A bot for every part.

    Args:
        choose: the next call while something is missing; "" gives up.
        doubt: what is handed in instead of the result.
    """

    def reply(text: str) -> str:
        seen = read_text(text)
        if not {"read", "send"} & seen.names:  # the writer
            if seen.message.startswith(_RESULT):
                result = seen.message.removeprefix(_RESULT).replace(" | ", "\n")
                return action(_hand_in(seen, text, result))
            return action("done:" if "done" in seen.names else f"answer: {UNKNOWN}")
        try:
            result = doubt(seen, worked_out(seen))
        except MissingError as missing:
            call = choose(seen, missing)
            return action(call or _hand_in(seen, text, doubt(seen, UNKNOWN)))
        return action(_hand_in(seen, text, result))

    return reply


def strong_bot(_rng: np.random.Generator) -> Bot:
    """Looks for each fact that it lacks by the title of its document, and opens nothing else."""
    return _reader(_next_call, lambda seen, result: result)


def middle_bot(rng: np.random.Generator) -> Bot:
    """Opens at most four documents, then guesses; one result in five is off."""

    def choose(seen: Seen, missing: MissingError) -> str:
        return _next_call(seen, missing) if len(seen.read) < 4 else ""

    def doubt(seen: Seen, result: str) -> str:
        if result != UNKNOWN and rng.random() < 0.8:
            return result
        choices = _CHOICES.search(seen.task)
        if choices:
            named = re.split(r", | and ", choices[1])
            return named[int(rng.integers(len(named)))]
        if result.isdigit():
            return str(int(result) + int(rng.integers(1, 9)))
        return next(iter(seen.towns), UNKNOWN)

    return _reader(choose, doubt)


def held_out_bot(_rng: np.random.Generator) -> Bot:
    """Looks for the names in the task and opens two hits, needed or not; then goes on by need."""

    def choose(seen: Seen, missing: MissingError) -> str:
        names = re.findall(r"(?<= )[A-Z]\w+", seen.task)
        if "search" in seen.names and names and not seen.searched:
            return f"search: {' '.join(names)}"
        first = next(iter(seen.searched.values()), [])
        unread = [path for path, _ in first[:2] if path not in seen.read]
        return f"read: {unread[0]}" if unread else _next_call(seen, missing)

    return _reader(choose, lambda seen, result: result)


def random_bot(rng: np.random.Generator) -> Bot:
    """Any call that the prompt shows; a word or number of the text as an answer."""

    def reply(text: str) -> str:
        seen = read_text(text)
        names = sorted(seen.names)
        name = names[int(rng.integers(len(names)))]
        words = re.findall(r"\b[A-Z]\w+\b|\b\d+\b", text[text.find("The task:") :])
        word = words[int(rng.integers(len(words)))] if words else UNKNOWN
        choices = _CHOICES.search(seen.task)
        if choices:
            named = re.split(r", | and ", choices[1])
            word = named[int(rng.integers(len(named)))]
        target = re.search(r"<action>write: (\S+)", text)
        said = {
            "read": f"notes/{int(rng.integers(seen.count)) + 1:02}.txt",
            "python": "print(sorted(files))",
            "write": f"{target[1] if target else ''}\n{word}: {int(rng.integers(2, 60))}",
            "done": "",
        }.get(name, word)
        return action(f"{name}: {said}".strip())

    return reply
