"""Word chain: two seats say words in turn, each beginning with the end of the word before.

Competitive, zero-sum, outcome +1 and -1; 0 to both after ``turns`` words. The seat with no word left,
or that gives up, loses. The first word and the first mover are drawn from the seed.

With a plain two-letter link four words in ten (all that end in -ing, most plurals) would win at once,
because nothing begins like that, and rare beginnings (gy-, ny-) decide a game in its second word. So
a word is refused here where fewer than ``followers`` words of the next length begin with its end; a
win is an opponent whose words are all said or refused. As the least length grows, random play ends
after about 29 words. The strong bot earns 0.98 against the random one over 100 seeds (the ceiling is 1);
the random bot stands at 0 against itself, and at -1 is who only gives up (the floor).
The vocabulary is `srl_envs.lexicon.common_words`, 38,505 words: a list half as long refuses too many
ordinary ones.

What may follow depends on the last letters alone, so instances are held out by the last letters of the
first word: no chain of the eval split begins as one of train does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import (
    SPLITS,
    Game,
    Split,
    Streams,
    require_action,
    seat_name,
    split_of_instance,
)
from srl_envs.errors import ConfigError
from srl_envs.lexicon import common_words

GIVE_UP = "give up"
START_LEVEL = 20
"""First words are at least this common."""
START_FOLLOWERS = 20
"""Words that must be able to follow the first one."""
_RUNNING, _DRAW = -1, 2
_DRAWS_BEFORE_LISTING = 8
_SHOWN_CHARS = 24
_SAID = re.compile(r"(?:(?:my )?word(?: is)?:? )?(\S*)")


class Vocabulary(NamedTuple):
    """The word list, arranged for one length of link."""

    words: frozenset[str]
    by_start: Mapping[str, tuple[str, ...]]
    """Link -> words that begin with it, the longest first."""
    reach: Mapping[str, int]
    """Link -> least length that ``followers`` of these words have; absent where there are fewer."""


class Rules(NamedTuple):
    """The numbers of one game."""

    link: int
    letters: int
    growth: int
    turns: int
    followers: int

    def least(self, said: int) -> int:
        """Fewest letters of the next word after ``said`` words."""
        return self.letters + (said // self.growth if self.growth else 0)


class Chain(NamedTuple):
    """Immutable state."""

    words: tuple[str, ...]
    """The first word, then those said."""
    mover: int
    result: int = _RUNNING
    """-1 while running, the winner's seat, or 2 for a draw."""


@lru_cache(maxsize=8)
def vocabulary(link: int, followers: int) -> Vocabulary:
    """The packaged words, arranged by their first ``link`` letters."""
    words = sorted(common_words(), key=lambda word: (-len(word), word))
    by_start: dict[str, list[str]] = {}
    for word in words:
        by_start.setdefault(word[:link], []).append(word)
    return Vocabulary(
        frozenset(words),
        {start: tuple(group) for start, group in by_start.items()},
        {
            start: len(group[followers - 1])
            for start, group in by_start.items()
            if len(group) >= followers
        },
    )


def playable(words: tuple[str, ...], rules: Rules) -> Iterator[str]:
    """Words that may be said after ``words``, the longest first."""
    known, said = vocabulary(rules.link, rules.followers), len(words) - 1
    least, later = rules.least(said), rules.least(said + 1)
    for word in known.by_start.get(words[-1][-rules.link :], ()):
        if len(word) < least:
            return
        if known.reach.get(word[-rules.link :], 0) >= later and word not in words:
            yield word


@lru_cache(maxsize=16)
def first_words(rules: Rules, split: Split) -> tuple[str, ...]:
    """Common words that many words can follow, sorted: those of which the ending is in ``split``.

    What can follow depends only on the last letters, so words that end alike are one task.
    """
    fitting = (word for word, level in common_words().items() if level <= START_LEVEL)
    counts = dict.fromkeys(vocabulary(rules.link, rules.followers).by_start, -1)
    chosen = []
    for word in sorted(fitting):
        start = word[-rules.link :]
        if counts.get(start, 0) < 0:
            held = split_of_instance(start) == split
            counts[start] = sum(1 for _ in playable((word,), rules)) if held else 0
        if counts.get(start, 0) > START_FOLLOWERS:  # one of them may be the word itself
            chosen.append(word)
    return tuple(chosen)


class WordChain(Game[Chain, str]):
    """Observation: rules, the words so far, and what the next one needs. Action: a word.

    Args:
        link: letters that two neighbours share, 1 to 3; 1 is easy.
        letters: least letters of the first words, 4 to 8.
        growth: words after which the least length grows by 1, 0 (never) to 20.
        turns: words after which the game is a draw, 10 to 100.
        followers: a word is refused where fewer words than these could follow, 1 to 50.

    Raises:
        ConfigError: a number is out of range, or together they leave no word to begin with.
    """

    mode = "competitive"
    max_action_chars = 40
    max_observation_chars = 4096

    def __init__(
        self,
        *,
        link: int = 2,
        letters: int = 4,
        growth: int = 5,
        turns: int = 60,
        followers: int = 5,
    ) -> None:
        for name, value, low, high in (
            ("link", link, 1, 3), ("letters", letters, 4, 8), ("growth", growth, 0, 20),
            ("turns", turns, 10, 100), ("followers", followers, 1, 50),
        ):  # fmt: skip
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"word_chain: {name}={value!r}; give {low} to {high}.")
        self.rules = Rules(link, letters, growth, turns, followers)
        self.max_turns = turns
        if not all(first_words(self.rules, split) for split in SPLITS):
            raise ConfigError(
                f"word_chain: no word can begin a game of {self.rules}; lower letters, link or "
                "followers."
            )
        ending = "the last letter" if link == 1 else f"the last {link} letters"
        example = {1: "lemon, night", 2: "lemon, once", 3: "begin, ginger"}[link]
        grows = f", growing by 1 after every {growth} words" if growth else ""
        self._rules_text = (
            "Word chain: two players say English words in turn. Who has no word left, or gives up, "
            "loses.\n"
            f"A word must begin with {ending} of the word before, as in: {example}.\n"
            f"It must be a common word, not said before, with enough letters ({letters} at first"
            f"{grows}).\n"
            f"A word is refused if fewer than {followers} common words of enough letters could "
            "follow it. Most words that end in -ing are.\n"
            f"Payoff: 1 if you win, -1 if you lose, 0 for a draw after {turns} words.\n"
            "Reply with one word, like this: <action>lemon</action>. To give up, write "
            f"<action>{GIVE_UP}</action>.\n\n"
        )
        self._heads = tuple(
            f"{self._rules_text}You are {seat_name(seat)}.\nWords so far: " for seat in (0, 1)
        )

    @property
    def _known(self) -> Vocabulary:
        """Looked up, not kept, so that copies of the game do not carry the word list."""
        return vocabulary(self.rules.link, self.rules.followers)

    def new(self, streams: Streams) -> Chain:
        """A first word from the list, and a fair coin for the first mover."""
        first = first_words(self.rules, streams.split)
        word = first[int(streams.instance.integers(len(first)))]
        return Chain((word,), int(streams.seats.integers(2)))

    def to_move(self, state: Chain) -> tuple[int, ...]:
        """One seat, or none at the end."""
        return (state.mover,) if state.result == _RUNNING else ()

    def observe(self, state: Chain, seat: int) -> str:
        """Rules, the words so far, and what the next one needs."""
        words = state.words
        if state.result != _RUNNING:
            status = "The game is over."
        elif state.mover == seat:
            status = (
                f'Your word must begin with "{words[-1][-self.rules.link :]}" and have at least '
                f"{self.rules.least(len(words) - 1)} letters."
            )
        else:
            status = "Wait for the other player."
        return f"{self._heads[seat]}{', '.join(words)}\n{status}\n"

    def parse(self, state: Chain, seat: int, body: str) -> str:
        """The word in lower case, or ``give up``."""
        word = body.lower()
        if not word.isalpha():
            word = " ".join(word.split())
            if word in (GIVE_UP, f"i {GIVE_UP}"):
                return GIVE_UP
            said_so = _SAID.fullmatch(word)
            word = said_so.group(1) if said_so else word
        shown = repr(body[:_SHOWN_CHARS])
        require_action(word.isascii() and word.isalpha(), f"{shown} is not one word of letters a-z")
        start = state.words[-1][-self.rules.link :]
        require_action(word.startswith(start), f"{shown} does not begin with {start!r}")
        said = len(state.words) - 1
        least = self.rules.least(said)
        require_action(
            len(word) >= least, f"{shown} has {len(word)} letters; at least {least} are needed"
        )
        require_action(word not in state.words, f"{shown} was said before")
        require_action(word in self._known.words, f"{shown} is not in the list of common words")
        end, later = word[-self.rules.link :], self.rules.least(said + 1)
        require_action(
            self._known.reach.get(end, 0) >= later,
            f"{shown} is refused: fewer than {self.rules.followers} common words of {later} or more "
            f"letters begin with {end!r}",
        )
        return word

    def apply(self, state: Chain, actions: Mapping[int, str]) -> Chain:
        """Add the word; the game ends where none can follow."""
        word = actions[state.mover]
        if word == GIVE_UP:
            return state._replace(result=1 - state.mover)
        words = (*state.words, word)
        result = _RUNNING
        if next(playable(words, self.rules), None) is None:
            result = state.mover
        elif len(words) > self.rules.turns:
            result = _DRAW
        return Chain(words, 1 - state.mover, result)

    def returns(self, state: Chain) -> tuple[float, ...] | None:
        """+1 to the winner, -1 to the loser, 0 to both for a draw."""
        if state.result == _RUNNING:
            return None
        if state.result == _DRAW:
            return (0.0, 0.0)
        return (1.0, -1.0) if state.result == 0 else (-1.0, 1.0)

    def fallback(self, state: Chain, seat: int) -> str:
        """Giving up."""
        return GIVE_UP

    def sample(self, state: Chain, seat: int, rng: np.random.Generator) -> str:
        """A random word that may be said."""
        return random_word(state.words, self.rules, rng)

    def components(self, state: Chain, seat: int) -> Mapping[str, float]:
        """``words``: how many were said after the first; ``gave_up``: 1 for the seat that did."""
        gave_up = state.result == 1 - seat and state.mover == seat
        stuck = next(playable(state.words, self.rules), None) is None
        return {"words": len(state.words) - 1.0, "gave_up": float(gave_up and not stuck)}

    def encode(self, state: Chain) -> Any:
        """Lists and numbers."""
        return [list(state.words), state.mover, state.result]

    def decode(self, data: Any) -> Chain:
        """The inverse of `encode`."""
        words, mover, result = data
        return Chain(tuple(words), mover, result)

    def render(self, state: Chain) -> str:
        """The words so far, and who is on move."""
        return f"{', '.join(state.words)}\n{seat_name(state.mover)} is on move"


def random_word(words: tuple[str, ...], rules: Rules, rng: np.random.Generator) -> str:
    """A random word that may be said, or ``give up`` where there is none."""
    known, said = vocabulary(rules.link, rules.followers), len(words) - 1
    group = known.by_start.get(words[-1][-rules.link :], ())
    least, later = rules.least(said), rules.least(said + 1)
    for _ in range(_DRAWS_BEFORE_LISTING if group else 0):
        word = group[int(rng.integers(len(group)))]
        fits = len(word) >= least and known.reach.get(word[-rules.link :], 0) >= later
        if fits and word not in words:
            return word
    every = list(playable(words, rules))
    return every[int(rng.integers(len(every)))] if every else GIVE_UP
