"""Scripted players of codewords duet: they know the packaged associations and read the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from srl_envs.families.words.codewords_duet import (
    PASS,
    random_clue,
    random_guesses,
    too_close,
)
from srl_envs.grammar import action
from srl_envs.lexicon import associations

Bot = Callable[[str], str]

_WORDS = re.compile(r"^Words: (.*)$", re.MULTILINE)
_TARGETS = re.compile(r"^Your targets still to find: (.*)$", re.MULTILINE)
_DEADLY = re.compile(r"^Your deadly words: (.*)$", re.MULTILINE)
_FOUND = re.compile(r"^Found: (.*)$", re.MULTILINE)
_OPEN = re.compile(r"^Open to guess: (.*)$", re.MULTILINE)
_CLUE = re.compile(r"^Your partner's clue is (\w+) (\d)\.", re.MULTILINE)
_SMALL_DOUBT, _LARGE_DOUBT = 0.05, 1.0


class Seen(NamedTuple):
    """What a bot reads."""

    words: tuple[str, ...]
    targets: tuple[str, ...]
    """Still to be found by the partner; empty where guesses are due."""
    deadly: tuple[str, ...]
    found: tuple[str, ...]
    open: tuple[str, ...]
    """Words to guess from; empty where a clue is due."""
    clue: str
    number: int


def read(text: str) -> Seen:
    """The lists of an observation."""

    def listed(pattern: re.Pattern[str]) -> tuple[str, ...]:
        found = pattern.search(text)
        return tuple(found.group(1).split(", ")) if found else ()

    clue = _CLUE.search(text)
    return Seen(
        listed(_WORDS), listed(_TARGETS), listed(_DEADLY), listed(_FOUND), listed(_OPEN),
        clue.group(1) if clue else "", int(clue.group(2)) if clue else 0,
    )  # fmt: skip


def random_bot(rng: np.random.Generator) -> Bot:
    """Any clue, any guesses."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.open:
            return action(random_guesses(list(seen.open), seen.number, rng))
        return action(random_clue(seen.words, rng))

    return act


def middle_bot(rng: np.random.Generator) -> Bot:
    """One word at a time: a clue that fits a target and no deadly word; the likeliest guess."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.open:
            return action(_guesses(seen, 1, rng))
        fitting = [
            clue
            for clue, nouns in _legal_clues(seen.words).items()
            if nouns & set(seen.targets) and not nouns & set(seen.deadly)
        ]
        return action(f"{rng.choice(fitting)} 1" if fitting else PASS)

    return act


def strong_bot(rng: np.random.Generator) -> Bot:
    """The clue that fits most targets and little else; guesses as many words as the clue says."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.open:
            return action(_guesses(seen, seen.number, rng))
        return action(_best_clue(seen, _SMALL_DOUBT, most=9))

    return act


def held_out_bot(rng: np.random.Generator) -> Bot:
    """At most two words a clue, none of them in doubt; guesses by likeness to other words as well."""

    def act(text: str) -> str:
        seen = read(text)
        if not seen.open:
            return action(_best_clue(seen, _LARGE_DOUBT, most=2))
        order = sorted(seen.open, key=lambda word: (-_likeness(seen.clue, word), rng.random()))
        likely = [word for word in order if _likeness(seen.clue, word) > 0][: seen.number]
        return action(", ".join(likely or order[:1]))

    return act


def _legal_clues(words: tuple[str, ...]) -> dict[str, set[str]]:
    """Clue -> those of ``words`` that it brings to mind."""
    board = set(words)
    fitting = {clue: board.intersection(nouns) for clue, nouns in associations().items()}
    return {
        clue: nouns
        for clue, nouns in fitting.items()
        if nouns and not any(too_close(clue, word) for word in words)
    }


def _best_clue(seen: Seen, doubt: float, most: int) -> str:
    """The clue whose first nouns on the board are targets; ``doubt`` counts against the others."""
    best, worth = PASS, -np.inf
    for clue in _legal_clues(seen.words):
        there = [noun for noun in associations()[clue] if noun in seen.words]
        fitting = [noun for noun in there if noun not in seen.found]
        wrong = [at for at, noun in enumerate(fitting) if noun not in seen.targets]
        number = min(wrong[0] if wrong else len(fitting), most)
        deadly = sum(noun in seen.deadly for noun in fitting)
        value = number - doubt * len(wrong) - 4 * doubt * deadly
        if number and value > worth:
            best, worth = f"{clue} {number}", value
    return best


def _guesses(seen: Seen, count: int, rng: np.random.Generator) -> str:
    """The first open words under the clue in the table; one at random where it knows none."""
    fitting = [word for word in associations().get(seen.clue, ()) if word in seen.open]
    if fitting:
        return ", ".join(fitting[:count])
    return str(rng.choice(seen.open))


@lru_cache(maxsize=1)
def _clues_of() -> dict[str, set[str]]:
    """Noun -> its clues."""
    table: dict[str, set[str]] = {}
    for clue, nouns in associations().items():
        for noun in nouns:
            table.setdefault(noun, set()).add(clue)
    return table


def _likeness(clue: str, word: str) -> float:
    """1 where the table joins the two, else the share of clues in common if ``clue`` is a noun."""
    if word in associations().get(clue, ()):
        return 1.0
    ours, theirs = _clues_of().get(clue, set()), _clues_of().get(word, set())
    return len(ours & theirs) / len(ours | theirs) if ours and theirs else 0.0
