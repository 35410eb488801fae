"""Seeds that choose an episode's rows of a collection, so that a trainer can play each row once.

A seed below 2**64, as every protocol has, leaves rows to chance. Above these 64 bits may stand a mark and
the places of rows in their split, 32 bits each. What else the episode draws comes from the whole number.
"""

from __future__ import annotations

from collections.abc import Sequence

_CHANCE_BITS, _PLACE_BITS = 64, 32
_MARK = int.from_bytes(b"rows", "big")
"""Above the places, so that other large seeds name none."""


def naming_rows(seed: int, places: Sequence[int]) -> int:
    """A seed that names rows.

    Args:
        seed: below 2**64; equal rows with another one are another episode.
        places: of the rows in their split, from 0; each below 2**32.
    """
    head = _MARK
    for place in places:
        head = head << _PLACE_BITS | place
    return head << _CHANCE_BITS | seed


def rows_named(seed: int) -> tuple[int, ...]:
    """Places of the rows that a seed names; empty where it leaves them to chance."""
    head = seed >> _CHANCE_BITS
    count, rest = divmod(head.bit_length() - _MARK.bit_length(), _PLACE_BITS)
    if count < 1 or rest or head >> count * _PLACE_BITS != _MARK:
        return ()
    places = [head >> k * _PLACE_BITS & (1 << _PLACE_BITS) - 1 for k in range(count)]
    return tuple(reversed(places))
