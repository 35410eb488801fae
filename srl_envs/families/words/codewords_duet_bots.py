"""Scripted players of codewords duet: they use the packaged associations and the observation's text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from srl_envs.families.words.codewords_duet import PASS, clues_of, random_guesses
from srl_envs.lexicon import associations
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]

_TARGETS = re.compile(r"^Your targets: (.*)$", re.MULTILINE)
_DEADLY = re.compile(r"^Your deadly words: (.*)$", re.MULTILINE)
_WORDS = re.compile(r"^Words: (.*)$", re.MULTILINE)
_FOUND = re.compile(r"^Found: (.*)$", re.MULTILINE)
_MISSED = re.compile(r"^Clue \d+ by (player_\d): .*?([a-z]+) \(neutral\)", re.MULTILINE)
_ME = re.compile(r"^You are (player_\d)\.$", re.MULTILINE)
_CLUES = re.compile(r"^Clues that fit: (.*)$", re.MULTILINE)
_OPEN = re.compile(r"^Open words: (.*)$", re.MULTILINE)
_CLUE = re.compile(r"^The clue of player_\d is (\w+) (\d):", re.MULTILINE)
_DEADLY_PRICE = 3.0
"""Words that a deadly guess is reckoned to cost."""


class Seen(NamedTuple):
    """Facts that a bot reads from an observation."""

    words: tuple[str, ...]
    targets: tuple[str, ...]
    """Targets of its own key that are not found yet."""
    deadly: tuple[str, ...]
    closed: frozenset[str]
    """Found, or known to be neutral in our key: the partner will not guess them."""
    clues: tuple[str, ...]
    """Words to choose from; empty where guesses are due, or where none fits."""
    open: tuple[str, ...]
    """Words to guess from; empty where a clue is due."""
    clue: str
    number: int


def read(text: str) -> Seen:
    """The lists of an observation."""

    def listed(pattern: re.Pattern[str]) -> tuple[str, ...]:
        found = pattern.search(text)
        return tuple(found.group(1).split(", ")) if found else ()

    me, clue, found = _ME.search(text), _CLUE.search(text), listed(_FOUND)
    if me is None:
        raise ValueError("the text holds no game of codewords duet")
    missed = (word for giver, word in _MISSED.findall(text) if giver == me.group(1))
    clues = listed(_CLUES)
    return Seen(
        listed(_WORDS), tuple(word for word in listed(_TARGETS) if word not in found),
        listed(_DEADLY), frozenset((*missed, *found)), () if clues == ("none",) else clues, listed(_OPEN),
        clue.group(1) if clue else "", int(clue.group(2)) if clue else 0,
    )  # fmt: skip


def random_bot(rng: np.random.Generator) -> Bot:
    """Any clue, any guesses."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.open:
            return action(random_guesses(list(seen.open), seen.number, rng))
        return action(rng.choice(seen.clues) if seen.clues else PASS)

    return act


def middle_bot(rng: np.random.Generator) -> Bot:
    """Any clue that fits no deadly word; guesses one word that the clue fits."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.open:
            return action(rng.choice(_fitting(seen.clue, seen.open) or seen.open))
        safe = [c for c in seen.clues if not set(seen.deadly).intersection(associations()[c])]
        return action(rng.choice(safe or seen.clues) if seen.clues else PASS)

    return act


def strong_bot(_rng: np.random.Generator) -> Bot:
    """The clue of most expected finds; guesses all words that it may mean, own deadly words last."""

    def act(text: str) -> str:
        seen = read(text)
        if not seen.open:
            return action(_best_clue(seen, most=9))
        fitting = _fitting(seen.clue, seen.open)
        # what is deadly in our key is so in the partner's one time in three
        order = sorted(fitting, key=lambda word: (word in seen.deadly, word not in seen.targets))
        return action(", ".join(order[: seen.number]) or PASS)

    return act


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Aims at two words a clue at most; guesses by likeness to other words, and only what seems likely."""

    def act(text: str) -> str:
        seen = read(text)
        if not seen.open:
            return action(_best_clue(seen, most=2))
        order = sorted(seen.open, key=lambda word: (-_likeness(seen.clue, word), rng.random()))
        likely = [word for word in order if _likeness(seen.clue, word) > 0]
        return action(", ".join(likely[: min(seen.number, 2)]) or PASS)

    return act


def _fitting(clue: str, words: Sequence[str]) -> list[str]:
    nouns = associations().get(clue, ())
    return [word for word in words if word in nouns]


def _best_clue(seen: Seen, most: int) -> str:
    """The clue whose guesses, taken at random from what it fits, find most; deadly ones cost."""

    def value(clue: str) -> float:
        fitting = [word for word in _fitting(clue, seen.words) if word not in seen.closed]
        aims = sum(word in seen.targets for word in fitting)
        deadly = sum(word in seen.deadly for word in fitting)
        sure, chance = 1.0, 0.0
        for guess in range(min(aims, most)):
            left = len(fitting) - guess
            chance -= sure * _DEADLY_PRICE * deadly / left
            sure *= (aims - guess) / left
            chance += sure
        return chance

    return max(seen.clues, key=value, default=PASS)


def _likeness(clue: str, word: str) -> float:
    """1 where the table joins the two, else the share of clues in common if ``clue`` is a noun."""
    if word in associations().get(clue, ()):
        return 1.0
    ours, theirs = (clues_of().get(noun, frozenset()) for noun in (clue, word))
    return len(ours & theirs) / len(ours | theirs) if ours and theirs else 0.0
