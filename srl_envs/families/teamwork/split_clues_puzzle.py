"""Puzzles of the split clues: who lives where and has what, and the clues that say so.

A *thing* is a person or one value of an attribute. A *solution* gives, per attribute, the index of
each person's value; the solutions of a puzzle are all combinations of permutations, kept as one array
of truth values with an axis (P = people! permutations) per attribute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Solution = tuple[tuple[int, ...], ...]
"""Per attribute: the index of each person's value."""
Mask = NDArray[np.bool_]

PERSON = -1
"""In place of an attribute's index: the thing is a person."""
HOUSE_NAME = "house"
HOUSE = 0
"""Index of the attribute that is always there, and has an order."""
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "June", "Kim", "Lars")
ATTRIBUTES = {
    "pet": ("the {} owner", ("cat", "dog", "fish", "horse", "parrot", "rabbit")),
    "drink": ("the {} drinker", ("cocoa", "coffee", "juice", "milk", "tea", "water")),
    "job": ("the {}", ("baker", "doctor", "farmer", "painter", "pilot", "teacher")),
    "sport": ("the {} player", ("chess", "football", "golf", "hockey", "rugby", "tennis")),
}
"""Name -> how a person is called after a value, and the values."""


class Puzzle(NamedTuple):
    """What there is to combine."""

    people: tuple[str, ...]
    attributes: tuple[str, ...]
    """The first is ``house``."""
    values: tuple[tuple[str, ...], ...]
    """Per attribute."""


class Thing(NamedTuple):
    """A person, or who has a value."""

    attribute: int
    value: int


class Clue(NamedTuple):
    """A true sentence about two things; of ``is`` and ``is not``, only the second may be a house."""

    kind: str
    """A key of `PHRASES`."""
    first: Thing
    second: Thing


PHRASES = {
    "is": "{} is {}.",
    "is not": "{} is not {}.",
    "in": "{} lives in house {}.",
    "not in": "{} does not live in house {}.",
    "below": "{} lives in a house with a lower number than {}.",
    "beside": "{} lives next door to {}.",
}
KINDS_BY_DIFFICULTY = {
    1: ("is", "in", "is not", "not in"),
    2: ("is", "in", "is not", "not in", "below", "beside"),
    3: ("is not", "not in", "below", "beside"),
}


def things(puzzle: Puzzle) -> list[Thing]:
    """People first, then the values by attribute."""
    size = len(puzzle.people)
    return [Thing(a, v) for a in range(PERSON, len(puzzle.attributes)) for v in range(size)]


def called(puzzle: Puzzle, thing: Thing) -> str:
    """How a clue names a thing; a house by its number."""
    if thing.attribute == PERSON:
        return puzzle.people[thing.value]
    value = puzzle.values[thing.attribute][thing.value]
    if thing.attribute == HOUSE:
        return value
    return ATTRIBUTES[puzzle.attributes[thing.attribute]][0].format(value)


def sentence(puzzle: Puzzle, clue: Clue) -> str:
    """The clue in words."""
    text = PHRASES[clue.kind].format(called(puzzle, clue.first), called(puzzle, clue.second))
    return text[0].upper() + text[1:]


@lru_cache(maxsize=16)
def _patterns(puzzle: Puzzle) -> tuple[dict[str, Thing], list[tuple[str, re.Pattern[str]]]]:
    named = {called(puzzle, thing).lower(): thing for thing in things(puzzle)}
    some = "|".join(map(re.escape, sorted(named, key=len, reverse=True)))
    patterns = [
        (kind, re.compile(rf"\b{phrase[:-1].format(*2 * [f'({some})'])}\.", re.IGNORECASE))
        for kind, phrase in PHRASES.items()
    ]
    return named, patterns


def read_clues(puzzle: Puzzle, text: str) -> list[Clue]:
    """Every clue that a text states in the words of `sentence`."""
    named, patterns = _patterns(puzzle)
    return [
        Clue(kind, named[first.lower()], named[second.lower()])
        for kind, pattern in patterns
        for first, second in pattern.findall(text)
    ]


# --- solving ------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _orders(size: int) -> NDArray[np.intp]:
    """(P, size) all permutations: row p gives each person's value."""
    return np.array(list(permutations(range(size))), dtype=np.intp)


def _owners(size: int, thing: Thing) -> NDArray[np.intp]:
    """(P,) who has the thing under each permutation of its attribute."""
    orders = _orders(size)
    if thing.attribute == PERSON:
        return np.full(len(orders), thing.value)
    owners: NDArray[np.intp] = np.argmax(orders == thing.value, axis=1)
    return owners


def _spread(table: Mask, axes: Sequence[int], dimensions: int) -> Mask:
    """Put the axes of ``table`` in their places; the others get length 1."""
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    shape = [1] * dimensions
    for i in order:
        shape[axes[i]] = table.shape[i]
    return table.transpose(order).reshape(shape)


@lru_cache(maxsize=4096)
def clue_mask(size: int, attributes: int, clue: Clue) -> Mask:
    """Where a clue holds: an array that broadcasts to one axis of P per attribute; read-only."""
    first, second = _owners(size, clue.first), _owners(size, clue.second)
    if clue.kind in ("below", "beside"):
        table, axes = _house_table(size, clue, first, second)
    else:
        same: Mask = first[:, None] == second[None, :]
        table = same if clue.kind in ("is", "in") else ~same
        axes = [clue.first.attribute, clue.second.attribute]
    for position in reversed([i for i, axis in enumerate(axes) if axis == PERSON]):
        table = np.take(table, 0, axis=position)
        axes = axes[:position] + axes[position + 1 :]
    mask = _spread(table, axes, attributes)
    mask.flags.writeable = False
    return mask


def _house_table(
    size: int, clue: Clue, first: NDArray[np.intp], second: NDArray[np.intp]
) -> tuple[Mask, list[int]]:
    """A clue about house numbers: (P, P, P) over houses, first and second thing."""
    houses = _orders(size)
    ours, theirs = houses[:, first][:, :, None], houses[:, second][:, None, :]
    table: Mask = ours < theirs if clue.kind == "below" else abs(ours - theirs) == 1
    axes = [HOUSE, clue.first.attribute, clue.second.attribute]
    if clue.first.attribute == clue.second.attribute != PERSON:  # one attribute: one axis
        return np.diagonal(table, axis1=1, axis2=2), axes[:2]
    return table, axes


def possible(puzzle: Puzzle, clues: Iterable[Clue]) -> Mask:
    """Which solutions fit all clues: one axis of P per attribute."""
    size, attributes = len(puzzle.people), len(puzzle.attributes)
    mask = np.ones((len(_orders(size)),) * attributes, dtype=np.bool_)
    for clue in clues:
        mask &= clue_mask(size, attributes, clue)
    return mask


def solutions(puzzle: Puzzle, mask: Mask) -> list[Solution]:
    """The solutions that a mask leaves."""
    orders = _orders(len(puzzle.people))
    return [
        tuple(tuple(int(v) for v in orders[index]) for index in indices)
        for indices in np.argwhere(mask)
    ]


# --- drawing ------------------------------------------------------------------------------------


def draw_puzzle(rng: np.random.Generator, people: int, attributes: int) -> tuple[Puzzle, Solution]:
    """Names, values and the truth."""
    kinds = [str(kind) for kind in rng.choice(list(ATTRIBUTES), attributes - 1, replace=False)]
    names = sorted(str(name) for name in rng.choice(NAMES, people, replace=False))
    values = [tuple(str(number + 1) for number in range(people))]
    for kind in kinds:
        chosen = rng.choice(ATTRIBUTES[kind][1], people, replace=False)
        values.append(tuple(sorted(str(value) for value in chosen)))
    truth = tuple(tuple(int(v) for v in rng.permutation(people)) for _ in range(attributes))
    return Puzzle(tuple(names), (HOUSE_NAME, *kinds), tuple(values)), truth


def true_clues(puzzle: Puzzle, truth: Solution, kinds: Iterable[str]) -> list[Clue]:
    """Every clue of these kinds that holds."""
    found = []
    for first, second in combinations(things(puzzle), 2):
        here, there = _owner(truth, first), _owner(truth, second)
        a, b = (second, first) if first.attribute == HOUSE else (first, second)
        if first.attribute != second.attribute:
            with_house = b.attribute == HOUSE
            kind = ("in" if with_house else "is") if here == there else "is not"
            found.append(Clue("not in" if with_house and here != there else kind, a, b))
        if HOUSE not in (first.attribute, second.attribute) and here != there:
            low, high = truth[HOUSE][here], truth[HOUSE][there]
            found.append(Clue("below", *((first, second) if low < high else (second, first))))
            if abs(low - high) == 1:
                found.append(Clue("beside", first, second))
    wanted = set(kinds)
    return [clue for clue in found if clue.kind in wanted]


def _owner(truth: Solution, thing: Thing) -> int:
    """Who has the thing."""
    if thing.attribute == PERSON:
        return thing.value
    return truth[thing.attribute].index(thing.value)


def minimal_clues(
    rng: np.random.Generator, puzzle: Puzzle, truth: Solution, kinds: Iterable[str]
) -> list[Clue]:
    """Clues with one solution, none of which can be left out; fewer than needed gives []."""
    candidates = true_clues(puzzle, truth, kinds)
    mask = possible(puzzle, ())
    count, chosen = int(mask.sum()), []
    for index in rng.permutation(len(candidates)):
        clue = candidates[index]
        narrowed = mask & clue_mask(len(puzzle.people), len(puzzle.attributes), clue)
        left = int(narrowed.sum())
        if left < count:
            mask, count = narrowed, left
            chosen.append(clue)
        if count == 1:
            break
    if count > 1:
        return []
    for clue in list(chosen):
        without = [other for other in chosen if other != clue]
        if possible(puzzle, without).sum() == 1:
            chosen = without
    return chosen
