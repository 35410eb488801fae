"""Cards of one deck as numbers, and the order of poker hands.

A card is ``4 * rank + suit``: ranks from 0 for a deuce to 12 for an ace, suits from 0 to 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

RANKS, SUITS = "23456789TJQKA", "cdhs"
CARDS = 52
HIGH_CARD, PAIR, TWO_PAIR, TRIPS, STRAIGHT, FLUSH, FULL_HOUSE, QUADS, STRAIGHT_FLUSH = range(9)
NAMES = (
    "high card", "pair", "two pair", "three of a kind", "straight", "flush", "full house",
    "four of a kind", "straight flush",
)  # fmt: skip
_ACE = 1 << 12

Strength = tuple[int, ...]
"""Category, then ranks by weight: compares as hands do."""


def written(card: int) -> str:
    """``Ah`` for the ace of hearts."""
    return RANKS[card >> 2] + SUITS[card & 3]


def read_card(text: str) -> int:
    """The inverse of `written`."""
    return 4 * RANKS.index(text[0]) + SUITS.index(text[1])


def strength(cards: Sequence[int]) -> Strength:
    """The best five of five to seven cards."""
    counts, suited, every = [0] * 13, [0] * 4, 0
    for card in cards:
        rank = card >> 2
        counts[rank] += 1
        suited[card & 3] |= 1 << rank
        every |= 1 << rank
    flush = max(suited, key=int.bit_count)
    if flush.bit_count() >= 5:
        high = straight_high(flush)
        # five of one suit leave no room for four of a kind or a full house among seven cards
        return (STRAIGHT_FLUSH, high) if high >= 0 else (FLUSH, *ranks_of(flush)[:5])
    by_count: list[list[int]] = [[], [], [], [], []]
    for rank in ranks_of(every):
        by_count[counts[rank]].append(rank)
    _, _, pairs, trips, quads = by_count
    if quads:
        return QUADS, quads[0], next(rank for rank in ranks_of(every) if rank != quads[0])
    if trips and (pairs or len(trips) > 1):
        return FULL_HOUSE, trips[0], max([*trips[1:], *pairs])
    high = straight_high(every)
    if high >= 0:
        return STRAIGHT, high
    made = trips or pairs[:2]
    rest = [rank for rank in ranks_of(every) if rank not in made]
    if trips:
        return TRIPS, trips[0], *rest[:2]
    if len(made) == 2:
        return TWO_PAIR, *made, rest[0]
    return (PAIR, made[0], *rest[:3]) if made else (HIGH_CARD, *rest[:5])


@lru_cache(maxsize=1 << 13)
def ranks_of(mask: int) -> tuple[int, ...]:
    """The ranks of a set, the highest first."""
    return tuple(rank for rank in range(12, -1, -1) if mask >> rank & 1)


@lru_cache(maxsize=1 << 13)
def straight_high(mask: int) -> int:
    """The highest rank of five in a row, where an ace may stand below a deuce; -1 for none."""
    below = mask << 1 | bool(mask & _ACE)  # bit 0 is the ace as the lowest card
    run = below & below >> 1 & below >> 2 & below >> 3 & below >> 4
    return run.bit_length() + 2 if run else -1


def in_words(cards: Sequence[int]) -> str:
    """The name of the best five cards."""
    return NAMES[strength(cards)[0]]


def canonical(groups: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The same for deals that differ in names of suits, or in the order within a group.

    Suits are renamed by what they hold in each group, the heaviest first.
    """
    holdings = [
        tuple(sum(1 << (card >> 2) for card in group if card & 3 == suit) for group in groups)
        for suit in range(4)
    ]
    order = sorted(range(4), key=lambda suit: holdings[suit], reverse=True)
    name = {suit: place for place, suit in enumerate(order)}
    return tuple(tuple(sorted(card & ~3 | name[card & 3] for card in group)) for group in groups)
