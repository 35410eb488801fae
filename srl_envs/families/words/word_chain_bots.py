"""Scripted players of word chain; they know the word list and read the observation's text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from srl_envs.families.words.word_chain import GIVE_UP, Rules, playable, random_word
from srl_envs.lexicon import common_words
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]

SMALL_VOCABULARY = 10
"""Level of the most common words, about 3,800."""
_LINK = re.compile(r"begin with the last (\d )?letter")
_LETTERS = re.compile(r"\((\d+) at first(?:, growing by 1 after every (\d+) words)?\)")
_FOLLOWERS = re.compile(r"if fewer than (\d+) common")
_TURNS = re.compile(r"draw after (\d+) words")
_WORDS = re.compile(r"^Words so far: (.*)$", re.MULTILINE)
_CLOSER_LOOKS = 4


class Seen(NamedTuple):
    """What a bot reads."""

    rules: Rules
    words: tuple[str, ...]

    def after(self, word: str) -> Seen:
        """The same once ``word`` is said."""
        return Seen(self.rules, (*self.words, word))

    def choices(self) -> list[str]:
        """One word for each way of ending: which of them is said matters little."""
        link = self.rules.link
        return list({word[-link:]: word for word in playable(self.words, self.rules)}.values())

    def stuck(self) -> bool:
        """Whether no word may be said."""
        return next(playable(self.words, self.rules), None) is None

    def replies(self) -> int:
        """How many words may be said."""
        return sum(1 for _ in playable(self.words, self.rules))


def read(text: str) -> Seen:
    """The rules and the words of an observation."""
    patterns = (_LINK, _LETTERS, _TURNS, _FOLLOWERS, _WORDS)
    link, letters, turns, followers, words = (pattern.search(text) for pattern in patterns)
    if not (link and letters and turns and followers and words):
        raise ValueError("the text holds no word chain")
    first, growth = letters.groups()
    rules = Rules(
        link=int(link.group(1) or 1),
        letters=int(first),
        growth=int(growth or 0),
        turns=int(turns.group(1)),
        followers=int(followers.group(1)),
    )
    return Seen(rules, tuple(words.group(1).split(", ")))


def random_bot(rng: np.random.Generator) -> Bot:
    """Any word that may be said."""

    def act(text: str) -> str:
        seen = read(text)
        return action(random_word(seen.words, seen.rules, rng))

    return act


def small_vocabulary_bot(rng: np.random.Generator) -> Bot:
    """Any word that may be said among the most common ones; gives up early."""

    def act(text: str) -> str:
        seen = read(text)
        known = [
            word
            for word in playable(seen.words, seen.rules)
            if common_words()[word] <= SMALL_VOCABULARY
        ]
        return action(known[int(rng.integers(len(known)))] if known else GIVE_UP)

    return act


def middle_bot(rng: np.random.Generator) -> Bot:
    """Three words in four at random, the others to leave few replies."""

    def act(text: str) -> str:
        seen = read(text)
        if rng.random() < 0.75:
            return action(random_word(seen.words, seen.rules, rng))
        return action(min(seen.choices(), key=lambda word: seen.after(word).replies()))

    return act


def strong_bot(_rng: np.random.Generator) -> Bot:
    """Leaves few replies, and looks two words further where it leaves the fewest."""

    def act(text: str) -> str:
        seen = read(text)
        counted = sorted((seen.after(word).replies(), word) for word in seen.choices())
        close = counted[:_CLOSER_LOOKS] if counted[0][0] else counted[:1]
        return action(max(close, key=lambda pair: (_worth(seen.after(pair[1])), -pair[0]))[1])

    return act


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Ends the game where it can, avoids words that let the other end it, else plays at random."""

    def act(text: str) -> str:
        seen = read(text)
        words = [str(word) for word in rng.permutation(seen.choices())][:32]
        return action(max(words, key=lambda word: _worth(seen.after(word), deep=False)))

    return act


def _worth(seen: Seen, *, deep: bool = True) -> float:
    """How good a position is for the one who has just spoken: 1 won, 0 lost, between them unclear.

    A reply after which we have no word loses; one after which we can end the game wins (``deep``).
    """
    replies = seen.choices()
    if not replies:
        return 1.0
    good = 0
    for reply in replies:
        later = seen.after(reply)
        if later.stuck():
            return 0.0
        good += deep and any(later.after(word).stuck() for word in later.choices())
    return 0.5 + 0.4 * good / len(replies)
