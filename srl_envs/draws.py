"""Random numbers of an episode's start: what numpy's ``Generator`` draws, without its cost per call.

Drawing an instance takes tens of small numbers, and a call into numpy costs as much as ten of them.
`Draws` reads raw bits in blocks and makes them into numbers as numpy does, so both give the same. numpy
promises that the bits of `PCG64` never change, but not what a ``Generator`` makes of them.

Source: arXiv:1805.10941 (bounded numbers); R. W. Floyd and J. Bentley, "A sample of brilliance",
Communications of the ACM 30(9), 1987 (samples).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_HALF = 0xFFFFFFFF
_WORD, _HALF_WORD = np.dtype("<u8"), np.dtype("<u4")
_POOL_WORDS = 4
_BLOCK = 16
"""Words of 64 bits read at a time."""


class Draws:
    """A stream of small numbers, equal to those of ``Generator(bits)``.

    Bits are read ahead: nothing else may draw from ``bits``.
    """

    __slots__ = ("_bits", "_halves")

    def __init__(self, bits: np.random.PCG64) -> None:
        self._bits = bits
        word = bits.random_raw()  # many draw a single coin
        self._halves: list[int] = [word >> 32, word & _HALF]
        """What was read and not used, the next one last. Of each word the lower half comes first."""

    def integers(self, low: int, high: int | None = None) -> int:
        """A number from ``low`` to ``high`` - 1; with one argument, from 0 to ``low`` - 1.

        Args:
            low: the smallest.
            high: above the largest; at most 2**32 numbers may lie between.
        """
        return self._below(low) if high is None else low + self._below(high - low)

    def several(self, size: int, low: int, high: int) -> list[int]:
        """``size`` numbers from ``low`` to ``high`` - 1."""
        below, count = self._below, high - low
        return [low + below(count) for _ in range(size)]

    def random(self) -> float:
        """A number in [0, 1)."""
        halves = self._halves
        odd = len(halves) % 2  # half of a word is left over: numpy keeps it and reads a whole one
        if len(halves) == odd:
            self._read()
        low = halves.pop(-1 - odd)
        high = halves.pop(-1 - odd)
        return ((high << 32 | low) >> 11) * 2.0**-53

    def permutation(self, count: int) -> list[int]:
        """The numbers from 0 to ``count`` - 1 in random order."""
        numbers, halves = list(range(count)), self._halves
        for last in range(count - 1, 0, -1):
            mask = (1 << last.bit_length()) - 1
            other = count
            while other > last:
                if not halves:
                    self._read()
                other = halves.pop() & mask
            numbers[last], numbers[other] = numbers[other], numbers[last]
        return numbers

    def sample(self, count: int, size: int) -> list[int]:
        """Different numbers from 0 to ``count`` - 1: ``Generator.choice`` without replacement.

        Args:
            count: at most 10,000; numpy takes another way above.
            size: how many, at most ``count``.
        """
        drawn: list[int] = []
        for last in range(count - size, count):
            number = self._below(last + 1)
            drawn.append(last if number in drawn else number)
        for last in range(size - 1, 0, -1):
            other = self._below(last + 1)
            drawn[last], drawn[other] = drawn[other], drawn[last]
        return drawn

    def generator(self) -> np.random.Generator:
        """What goes on where these draws stopped, for other distributions; use it alone from then on."""
        unread, odd = divmod(len(self._halves), 2)
        self._bits.advance(2**128 - unread)
        state = self._bits.state
        state["has_uint32"], state["uinteger"] = odd, self._halves[-1] if odd else 0
        self._bits.state = state
        return np.random.Generator(self._bits)

    def _below(self, count: int) -> int:
        """Lemire's method: a product whose upper half is the number."""
        if count == 1:
            return 0  # takes no bits
        halves = self._halves
        while True:
            if not halves:
                self._read()
            product = halves.pop() * count
            rest = product & _HALF
            # where 2**32 is no multiple of count, some rests would make some numbers more likely
            if rest >= count or rest >= (_HALF + 1 - count) % count:
                return product >> 32

    def _read(self) -> None:
        """Put a block of words behind what is left."""
        words = self._bits.random_raw(_BLOCK).astype(_WORD, copy=False)
        self._halves[:0] = words.view(_HALF_WORD)[::-1].tolist()


def seed_words(entropy: Sequence[int], stream: int) -> NDArray[np.uint32]:
    """The words that ``SeedSequence(entropy, spawn_key=(stream,))`` mixes.

    A sequence of these words gives the same numbers and is made in a third of the time.

    Args:
        entropy: whole numbers >= 0, however large.
        stream: from 0 to 2**32 - 1.
    """
    if len(entropy) >= _POOL_WORDS and max(entropy) <= _HALF:
        return np.array([*entropy, stream], dtype=np.uint32)
    words: list[int] = []
    for number in entropy:
        left = number
        while left > _HALF:
            words.append(left & _HALF)
            left >>= 32
        words.append(left)
    words.extend([0] * (_POOL_WORDS - len(words)))
    words.append(stream)
    return np.array(words, dtype=np.uint32)
