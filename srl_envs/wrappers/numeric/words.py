"""Features of the word games."""

from __future__ import annotations

from string import ascii_lowercase

import numpy as np

from srl_envs.families.words.word_chain import GIVE_UP, WordChain, playable, vocabulary
from srl_envs.families.words.word_chain_bots import read
from srl_envs.lexicon import common_words
from srl_envs.wrappers.numeric.features import Features, Reading, floats, one_hot

_LONGEST = max(map(len, common_words()))


class WordChainFeatures(Features):
    """The letters that the next word begins with one-hot, its least length, and words said so far.

    The length is a share of the longest word's, words said of those that make a draw. Which words were
    said shows in the mask. Actions: every word that may ever be said, in order, then giving up.
    """

    def __init__(self, game: WordChain) -> None:
        rules = game.rules
        self._turns, self._link = rules.turns, rules.link
        known = vocabulary(rules.link, rules.followers)
        least, later = rules.least(0), rules.least(1)
        words = sorted(
            word
            for word in known.words
            if len(word) >= least and known.reach.get(word[-rules.link :], 0) >= later
        )
        self.size = len(ascii_lowercase) * rules.link + 2
        self.actions = (*words, GIVE_UP)
        self._numbers = {word: number for number, word in enumerate(self.actions)}

    def read(self, text: str) -> Reading:
        """Features of the chain in an observation."""
        seen = read(text)
        if "\nYour word must begin " not in text:
            raise ValueError("the text is not for a player on move")
        said = len(seen.words) - 1
        values = [
            value
            for letter in seen.words[-1][-self._link :]
            for value in one_hot(ascii_lowercase.index(letter), len(ascii_lowercase))
        ]
        values += [seen.rules.least(said) / _LONGEST, said / self._turns]
        mask = np.zeros(len(self.actions), dtype=np.bool_)
        mask[[self._numbers[word] for word in playable(seen.words, seen.rules)]] = True
        mask[-1] = True
        return Reading(floats(values), mask)
