"""Scripted players of undercover: they know the packaged associations and read the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from srl_envs.core import seat_name
from srl_envs.families.words.undercover import (
    FUNCTION_WORDS,
    SEATS,
    SILENCE,
    gives_away,
    random_hint,
)
from srl_envs.lexicon import associations
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]

_SEAT = re.compile(r"^You are player_(\d)\. Your word: (\w+)$", re.MULTILINE)
_HINT = re.compile(r'^Round (\d), player_(\d): "([^"\n]*)"$', re.MULTILINE)
_UNCLEAR = 0.25
"""Low, as the odd one could hide behind it."""
_NUMBER = re.compile(r"\d")
_CHOICES = re.compile(r"^Vote now: .* Choose from ([^.]+)\.$", re.MULTILINE)


class Seen(NamedTuple):
    """What a bot reads; players by their number, from 0."""

    me: int
    word: str
    hints: tuple[tuple[int, str], ...]
    """Player and hint, in the order given."""
    choices: tuple[int, ...]
    """Whom to vote for; empty where a hint is due."""

    def said(self) -> set[str]:
        """Words that no hint may use again."""
        every = {word for _, hint in self.hints for word in hint.split() if len(word) > 2}
        return every - FUNCTION_WORDS

    def misfits(self, word: str) -> dict[int, float]:
        """Player -> how many of its hints fit ``word`` less well than the table would have it."""
        counts = dict.fromkeys(range(SEATS), 0.0)
        for player, hint in self.hints:
            if player != self.me:
                counts[player] += 1.0 - fit(hint, word)
        return counts


def read(text: str) -> Seen:
    """The facts of an observation."""
    seat = _SEAT.search(text)
    if seat is None:
        raise ValueError("the text holds no game of undercover")
    choices = _CHOICES.search(text)
    return Seen(
        int(seat.group(1)),
        seat.group(2),
        tuple((int(player), hint) for _, player, hint in _HINT.findall(text)),
        tuple(int(n) for n in _NUMBER.findall(choices.group(1))) if choices else (),
    )


@lru_cache(maxsize=1)
def clues_of() -> dict[str, frozenset[str]]:
    """Noun -> its clues."""
    table: dict[str, set[str]] = {}
    for clue, nouns in associations().items():
        for noun in nouns:
            table.setdefault(noun, set()).add(clue)
    return {noun: frozenset(clues) for noun, clues in table.items()}


def fit(hint: str, word: str) -> float:
    """1 where a word of the hint is a clue to ``word``, 0 where it is one only to others.

    Silence, and words that the table does not know, are between: `_UNCLEAR`.
    """
    words = set(hint.split())
    if words & clues_of().get(word, frozenset()):
        return 1.0
    return 0.0 if words & associations().keys() else _UNCLEAR


def random_bot(rng: np.random.Generator) -> Bot:
    """Any hint, any vote."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.choices:
            return action(seat_name(rng.choice(seen.choices)))
        return action(random_hint(seen.word, seen.said(), rng))

    return act


def silent_bot(rng: np.random.Generator) -> Bot:
    """Gives no hint; votes like the middle bot."""
    vote = middle_bot(rng)
    return lambda text: vote(text) if read(text).choices else action(SILENCE)


def middle_bot(rng: np.random.Generator) -> Bot:
    """A true hint at random; votes for the player whose hints fit its own word least."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.choices:
            return action(seat_name(_worst(seen, seen.word, rng)))
        return action(_hint(seen, seen.word, rng))

    return act


def strong_bot(rng: np.random.Generator) -> Bot:
    """Asks of all that it reads which word the others may hold, and hides where it is the odd one."""

    def act(text: str) -> str:
        seen = read(text)
        theirs = _others_word(seen)
        if seen.choices:
            return action(seat_name(_worst(seen, theirs, rng)))
        return action(_hint(seen, theirs, rng))

    return act


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Hints at what its word shares with most other words; votes by its own word, silence first."""

    def act(text: str) -> str:
        seen = read(text)
        if not seen.choices:
            clues = _legal_clues(seen, seen.word)
            return action(
                max(clues, key=lambda c: (len(associations()[c]), c)) if clues else SILENCE
            )
        silent = [
            player for player, hint in seen.hints if hint == SILENCE and player in seen.choices
        ]
        worst = rng.choice(silent) if silent else _worst(seen, seen.word, rng)
        return action(seat_name(worst))

    return act


def _legal_clues(seen: Seen, word: str) -> list[str]:
    """Clues to ``word`` that were not said and do not give the own word away, sorted."""
    clues = clues_of().get(word, frozenset()) - seen.said()
    return sorted(clue for clue in clues if not gives_away(clue, seen.word))


def _hint(seen: Seen, word: str, rng: np.random.Generator) -> str:
    """A clue to ``word``, one that also fits the own word if there is any; silence if there is none."""
    clues = _legal_clues(seen, word)
    both = [clue for clue in clues if clue in clues_of().get(seen.word, ())]
    return str(rng.choice(both or clues)) if clues else SILENCE


def _worst(seen: Seen, word: str, rng: np.random.Generator) -> int:
    """One of the players whose hints fit ``word`` least."""
    misfits = seen.misfits(word)
    most = max(misfits[player] for player in seen.choices)
    return int(rng.choice([player for player in seen.choices if misfits[player] == most]))


def _others_word(seen: Seen) -> str:
    """The word that the hints of the others fit best: the own one, unless another fits two more."""
    heard = [hint for player, hint in seen.hints if player != seen.me]

    def total(word: str) -> float:
        return sum(fit(hint, word) for hint in heard)

    best = max(sorted(clues_of()), key=total)
    return best if total(best) >= total(seen.word) + 2 else seen.word
