"""Random numbers of an episode's start, from a hash: a stream that costs nearly nothing to begin.

Most games draw a coin and a few small numbers and are over after some ten moves, so seeding one of
numpy's generators would take longer than the moves. `Draws` hashes the name of a stream and the number
of a block, and makes the digest into numbers. All of it is arithmetic of whole numbers written out
here, so the numbers are the same on every machine and with every version of numpy.

Source: RFC 7693 (BLAKE2); arXiv:1805.10941 (bounded numbers); R. W. Floyd and J. Bentley, "A sample
of brilliance", Communications of the ACM 30(9), 1987 (samples).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct

import numpy as np
from numpy.typing import NDArray

_LARGEST = 0xFFFFFFFF
_BITS = 32
_POOL_WORDS = 4
_words_of = Struct("<16I").unpack
"""Words of a digest of 64 bytes."""


class Draws:
    """A stream of small numbers.

    Args:
        *key: whole numbers that name the stream; the streams of two different keys are independent.
    """

    __slots__ = ("_blocks", "_key", "_unread")

    def __init__(self, *key: int) -> None:
        self._key = b" %d" * len(key) % key
        self._blocks = 0
        self._unread: list[int] = []
        """Words of 32 bits that were hashed and not used, the next one last."""

    def integers(self, low: int, high: int | None = None) -> int:
        """A number from ``low`` to ``high`` - 1; with one argument, from 0 to ``low`` - 1.

        Args:
            low: the smallest.
            high: above the largest; at most 2**32 numbers may lie between.
        """
        if high is None:
            low, high = 0, low
        count = high - low
        if count == 1:
            return low  # takes no word
        # Lemire's method: the upper half of a product. Where 2**32 is not a multiple of count, the first
        # of the lower halves would make some numbers more likely.
        while True:
            product = (self._unread.pop() if self._unread else self._word()) * count
            rest = product & _LARGEST
            if rest >= count or rest >= (_LARGEST + 1 - count) % count:
                return low + (product >> _BITS)

    def several(self, size: int, low: int, high: int) -> list[int]:
        """``size`` numbers from ``low`` to ``high`` - 1."""
        count, unread = high - low, self._unread
        if count == 1:
            return [low] * size
        biased = (_LARGEST + 1 - count) % count
        numbers: list[int] = []
        while len(numbers) < size:  # as `integers` does, without a call for each
            product = (unread.pop() if unread else self._word()) * count
            if product & _LARGEST >= biased:
                numbers.append(low + (product >> _BITS))
        return numbers

    def random(self) -> float:
        """A number in [0, 1)."""
        high, low = self._word(), self._word()
        return ((high << _BITS | low) >> 11) * 2.0**-53

    def permutation(self, count: int) -> list[int]:
        """The numbers from 0 to ``count`` - 1 in random order."""
        numbers, below = list(range(count)), self.integers
        for last in range(count - 1, 0, -1):
            other = below(last + 1)
            numbers[last], numbers[other] = numbers[other], numbers[last]
        return numbers

    def sample(self, count: int, size: int) -> list[int]:
        """``size`` different numbers from 0 to ``count`` - 1, in random order."""
        drawn: list[int] = []
        for last in range(count - size, count):
            number = self.integers(last + 1)
            drawn.append(last if number in drawn else number)
        for last in range(size - 1, 0, -1):
            other = self.integers(last + 1)
            drawn[last], drawn[other] = drawn[other], drawn[last]
        return drawn

    def generator(self) -> np.random.Generator:
        """numpy's generator of a stream that begins here, for other distributions."""
        words = [self._word() for _ in range(_POOL_WORDS)]
        return np.random.Generator(np.random.PCG64(words))

    def _word(self) -> int:
        if not self._unread:
            block = blake2b(b"%d%b" % (self._blocks, self._key))
            self._unread += _words_of(block.digest())
            self._blocks += 1
        return self._unread.pop()


def seed_words(entropy: Sequence[int], stream: int) -> NDArray[np.uint32]:
    """The words that ``SeedSequence(entropy, spawn_key=(stream,))`` mixes.

    A sequence of these words gives the same numbers and is made in a third of the time.

    Args:
        entropy: whole numbers >= 0, however large.
        stream: from 0 to 2**32 - 1.
    """
    if len(entropy) >= _POOL_WORDS and max(entropy) <= _LARGEST:
        return np.array([*entropy, stream], dtype=np.uint32)
    words: list[int] = []
    for number in entropy:
        left = number
        while left > _LARGEST:
            words.append(left & _LARGEST)
            left >>= _BITS
        words.append(left)
    words.extend([0] * (_POOL_WORDS - len(words)))
    words.append(stream)
    return np.array(words, dtype=np.uint32)
