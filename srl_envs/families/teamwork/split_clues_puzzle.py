"""Puzzles of the split clues: a grid of people, houses and values, and the clues that describe it.

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

from srl_envs.core import Split
from srl_envs.draws import Draws

Solution = tuple[tuple[int, ...], ...]
"""Per attribute: the index of each person's value."""
Mask = NDArray[np.bool_]

PERSON = -1
"""In place of an attribute's index: the thing is a person."""
HOUSE_NAME = "house"
HOUSE = 0
"""Index of the attribute that is always there, and has an order."""
NAMES: dict[Split, tuple[str, ...]] = {
    "train": (
        "Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "June", "Kim", "Lars",
    ),
    "eval": ("Max", "Nora", "Omar", "Pia", "Rosa", "Sam"),
}  # fmt: skip
CALLED = {
    "pet": "the {} owner", "drink": "the {} drinker", "job": "the {}", "sport": "the {} player",
}  # fmt: skip
"""Attribute -> how a person is called after a value."""
VALUES: dict[Split, dict[str, tuple[str, ...]]] = {
    "train": {
        "pet": ("cat", "dog", "fish", "horse", "parrot", "rabbit"),
        "drink": ("cocoa", "coffee", "juice", "milk", "tea", "water"),
        "job": ("baker", "doctor", "farmer", "painter", "pilot", "teacher"),
        "sport": ("chess", "football", "golf", "hockey", "rugby", "tennis"),
    },
    "eval": {
        "pet": ("goat", "hamster", "snake", "turtle"),
        "drink": ("cider", "lemonade", "mocha", "soda"),
        "job": ("actor", "judge", "sailor", "tailor"),
        "sport": ("badminton", "cricket", "polo", "squash"),
    },
}
"""No word of one split occurs in the other, so no clue of eval can be read in train."""


class Puzzle(NamedTuple):
    """People, attributes and values of a puzzle."""

    people: tuple[str, ...]
    attributes: tuple[str, ...]
    """The first is ``house``."""
    values: tuple[tuple[str, ...], ...]
    """Values of each attribute."""


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


def things(size: int, attributes: int) -> tuple[Thing, ...]:
    """People first, then the values by attribute."""
    return tuple(Thing(a, v) for a in range(PERSON, attributes) for v in range(size))


def called(puzzle: Puzzle, thing: Thing) -> str:
    """How a clue names a thing; a house by its number."""
    if thing.attribute == PERSON:
        return puzzle.people[thing.value]
    value = puzzle.values[thing.attribute][thing.value]
    if thing.attribute == HOUSE:
        return value
    return CALLED[puzzle.attributes[thing.attribute]].format(value)


def sentence(puzzle: Puzzle, clue: Clue) -> str:
    """The clue in words."""
    text = PHRASES[clue.kind].format(called(puzzle, clue.first), called(puzzle, clue.second))
    return text[0].upper() + text[1:]


@lru_cache(maxsize=16)
def _patterns(puzzle: Puzzle) -> tuple[dict[str, Thing], list[tuple[str, re.Pattern[str]]]]:
    everything = things(len(puzzle.people), len(puzzle.attributes))
    named = {called(puzzle, thing).lower(): thing for thing in everything}
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


@lru_cache(maxsize=4096)
def clue_bits(size: int, attributes: int, clue: Clue) -> int:
    """`clue_mask` as one number, a bit per solution: drawing a puzzle counts them a hundred times."""
    shape = (len(_orders(size)),) * attributes
    bits = np.packbits(np.broadcast_to(clue_mask(size, attributes, clue), shape))
    padding: int = -(shape[0] ** attributes) % 8
    return int.from_bytes(bits.tobytes(), "big") >> padding


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
    """The solutions that remain under a mask."""
    orders = _orders(len(puzzle.people))
    return [
        tuple(tuple(int(v) for v in orders[index]) for index in indices)
        for indices in np.argwhere(mask)
    ]


# --- drawing ------------------------------------------------------------------------------------


def draw_puzzle(rng: Draws, people: int, attributes: int, split: Split) -> tuple[Puzzle, Solution]:
    """Names, values and the truth."""
    kinds = _some(rng, tuple(CALLED), attributes - 1)
    names = sorted(_some(rng, NAMES[split], people))
    values = [tuple(str(number + 1) for number in range(people))]
    values.extend(tuple(sorted(_some(rng, VALUES[split][kind], people))) for kind in kinds)
    truth = tuple(tuple(rng.permutation(people)) for _ in range(attributes))
    return Puzzle(tuple(names), (HOUSE_NAME, *kinds), tuple(values)), truth


def _some(rng: Draws, words: Sequence[str], size: int) -> list[str]:
    return [words[index] for index in rng.sample(len(words), size)]


class Pair(NamedTuple):
    """Two things and their possible relation in a clue; None for no clue, or one to leave out."""

    first: int
    """Index into `things`, like ``second``."""
    second: int
    same: Clue | None
    """True where one person has both; all others are true where it is two people."""
    different: Clue | None
    below: Clue | None
    above: Clue | None
    beside: Clue | None


@lru_cache(maxsize=64)
def _pairs(everything: tuple[Thing, ...], kinds: tuple[str, ...]) -> tuple[Pair, ...]:
    """Every two of the things, in the order of `itertools.combinations`."""

    def wanted(kind: str, first: Thing, second: Thing) -> Clue | None:
        return Clue(kind, first, second) if kind in kinds else None

    pairs = []
    for (i, first), (j, second) in combinations(enumerate(everything), 2):
        same = different = below = above = beside = None
        if first.attribute != second.attribute:
            a, b = (second, first) if first.attribute == HOUSE else (first, second)
            with_house = b.attribute == HOUSE
            same = wanted("in" if with_house else "is", a, b)
            different = wanted("not in" if with_house else "is not", a, b)
        if HOUSE not in (first.attribute, second.attribute):
            below, above = wanted("below", first, second), wanted("below", second, first)
            beside = wanted("beside", first, second)
        pairs.append(Pair(i, j, same, different, below, above, beside))
    return tuple(pairs)


@lru_cache(maxsize=4096)
def true_clues(truth: Solution, kinds: tuple[str, ...]) -> tuple[Clue, ...]:
    """Every clue of these kinds that holds."""
    size = len(truth[HOUSE])
    everything = things(size, len(truth))
    owners = [_owner(truth, thing) for thing in everything]
    houses = truth[HOUSE]
    found: list[Clue | None] = []
    for first, second, same, different, below, above, beside in _pairs(everything, kinds):
        here, there = owners[first], owners[second]
        if here == there:
            found.append(same)
            continue
        gap = houses[here] - houses[there]
        found.extend((different, below if gap < 0 else above))
        if abs(gap) == 1:
            found.append(beside)
    return tuple(clue for clue in found if clue is not None)


@lru_cache(maxsize=4096)
def _narrowing(truth: Solution, kinds: tuple[str, ...]) -> tuple[tuple[Clue, int], ...]:
    """The true clues with their `clue_bits`."""
    size, attributes = len(truth[HOUSE]), len(truth)
    return tuple((clue, clue_bits(size, attributes, clue)) for clue in true_clues(truth, kinds))


def _owner(truth: Solution, thing: Thing) -> int:
    """Person that has the thing."""
    if thing.attribute == PERSON:
        return thing.value
    return truth[thing.attribute].index(thing.value)


def minimal_clues(rng: Draws, truth: Solution, kinds: tuple[str, ...]) -> list[Clue]:
    """Clues with one solution, none of which can be left out; fewer than needed gives []."""
    candidates = list(_narrowing(truth, kinds))
    count = len(candidates)
    every = fitting = (1 << len(_orders(len(truth[HOUSE]))) ** len(truth)) - 1
    chosen: list[tuple[Clue, int]] = []
    for place in range(count):  # a shuffle that stops where the clues suffice
        other = rng.integers(place, count)
        candidate = candidates[other]
        candidates[other] = candidates[place]
        narrowed = fitting & candidate[1]
        if narrowed != fitting:
            fitting = narrowed
            chosen.append(candidate)
            if _is_single(fitting):
                break
    else:
        return []
    for candidate in list(chosen):
        fitting = every
        for kept in chosen:
            if kept is not candidate:
                fitting &= kept[1]
        if _is_single(fitting):
            chosen.remove(candidate)
    return [clue for clue, _ in chosen]


def _is_single(bits: int) -> bool:
    return not bits & (bits - 1)


def structure(truth: Solution, clues: Iterable[Clue]) -> tuple[tuple[str, int, int], ...]:
    """Key of a puzzle, independent of its words: of each clue the kind and the two houses it is about.

    Puzzles that differ in names, values or the order of clues have the same; some others may.
    """
    houses = truth[HOUSE]

    def about(thing: Thing) -> int:
        return thing.value if thing.attribute == HOUSE else houses[_owner(truth, thing)]

    found = []
    for kind, first, second in clues:
        here, there = about(first), about(second)
        ordered = kind == "below" or here <= there
        found.append((kind, here, there) if ordered else (kind, there, here))
    return tuple(sorted(found))
