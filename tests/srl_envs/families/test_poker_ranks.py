"""The order of poker hands: every hand of five and of seven cards is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations, combinations_with_replacement
from math import comb, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.families.cards.poker_ranks import (
    CARDS,
    FLUSH,
    FULL_HOUSE,
    HIGH_CARD,
    PAIR,
    QUADS,
    STRAIGHT,
    STRAIGHT_FLUSH,
    TRIPS,
    TWO_PAIR,
    canonical,
    in_words,
    read_card,
    straight_high,
    strength,
    written,
)

FIVE = {
    STRAIGHT_FLUSH: 40, QUADS: 624, FULL_HOUSE: 3_744, FLUSH: 5_108, STRAIGHT: 10_200, TRIPS: 54_912,
    TWO_PAIR: 123_552, PAIR: 1_098_240, HIGH_CARD: 1_302_540,
}  # fmt: skip
"""Hands of five cards by category; any book on probability."""
SEVEN = {
    STRAIGHT_FLUSH: 41_584, QUADS: 224_848, FULL_HOUSE: 3_473_184, FLUSH: 4_047_644, STRAIGHT: 6_180_020,
    TRIPS: 6_461_620, TWO_PAIR: 31_433_400, PAIR: 58_627_800, HIGH_CARD: 23_294_460,
}  # fmt: skip
CLASSES = {
    STRAIGHT_FLUSH: 10, QUADS: 156, FULL_HOUSE: 156, FLUSH: 1_277, STRAIGHT: 10, TRIPS: 858, TWO_PAIR: 858,
    PAIR: 2_860, HIGH_CARD: 1_277,
}  # fmt: skip
"""Different strengths of five cards."""


def hand(text: str) -> list[int]:
    return [read_card(card) for card in text.split()]


def rank_sets(size: int) -> Iterator[Counter[int]]:
    """How many cards of each rank a hand may have."""
    for ranks in combinations_with_replacement(range(13), size):
        counts = Counter(ranks)
        if max(counts.values()) <= 4:
            yield counts


def unsuited(counts: Counter[int]) -> list[int] | None:
    """A hand with these ranks in which no suit has five cards."""
    cards = []
    for place, (rank, count) in enumerate(sorted(counts.items(), key=lambda item: -item[1])):
        cards += [4 * rank + (place + k) % 4 for k in range(count)]
    return cards if max(Counter(card & 3 for card in cards).values()) < 5 else None


@cache
def with_flush(counts: tuple[int, ...]) -> int:
    """Hands with so many cards of each rank in which a suit has five cards or more."""
    ways: dict[tuple[int, ...], int] = {(0,) * 4: 1}
    for count in counts:
        grown: Counter[tuple[int, ...]] = Counter()
        for suits in combinations(range(4), count):
            for held, number in ways.items():
                grown[tuple(held[s] + (s in suits) for s in range(4))] += number
        ways = dict(grown)
    return sum(number for held, number in ways.items() if max(held) >= 5)


def counted(size: int) -> tuple[Counter[int], Counter[int], int]:
    """Hands and different strengths by category, over every hand of this size, and all hands.

    Without five cards of a suit a hand is as strong as its ranks; with five, as its cards of this suit.
    """
    hands: Counter[int] = Counter()
    seen: set[tuple[int, ...]] = set()
    for counts in rank_sets(size):
        cards = unsuited(counts)
        assert cards is not None
        found = strength(cards)
        seen.add(found)
        hands[found[0]] += prod(comb(4, count) for count in counts.values()) - with_flush(
            tuple(sorted(counts.values()))
        )
    for suited in range(5, size + 1):
        others = comb(39, size - suited)
        for ranks in combinations(range(13), suited):
            rest = [4 * rank + 1 for rank in (0, 12)][: size - suited]
            found = strength([*(4 * rank for rank in ranks), *rest])
            seen.add(found)
            hands[found[0]] += 4 * others
    return hands, Counter(found[0] for found in seen), comb(CARDS, size)


def test_every_hand_of_five_cards_is_counted() -> None:
    hands, classes, every = counted(5)
    assert dict(hands) == FIVE
    assert dict(classes) == CLASSES
    assert sum(hands.values()) == every == 2_598_960


@pytest.mark.slow
def test_every_hand_of_seven_cards_is_counted() -> None:
    hands, _, every = counted(7)
    assert dict(hands) == SEVEN
    assert sum(hands.values()) == every == 133_784_560


@pytest.mark.nightly
def test_every_hand_of_five_cards_one_by_one() -> None:
    assert Counter(strength(cards)[0] for cards in combinations(range(CARDS), 5)) == FIVE


@given(st.lists(st.integers(0, 51), min_size=7, max_size=7, unique=True))
def test_seven_cards_are_worth_their_best_five(cards: list[int]) -> None:
    assert strength(cards) == max(map(strength, combinations(cards, 5)))


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("2c 3d 4h 5s 6c", "Ac 2d 3h 4s 5c"), ("Ac 2d 3h 4s 5c", "Ac Ad Ah Ks Qc"),
        ("2c 2d 3h 3s Ac", "2c 2d 3h 3s Kc"), ("2c 2d 2h 3s 3c", "Ac Kc Qc Jc 9c"),
        ("Ac Kc Qc Jc Tc", "9c 8c 7c 6c 5c"), ("3c 3d 3h 2s 2c", "2d 2h 2s Ac Ad"),
        ("Kc Kd 4h 3s 2c", "Qc Qd Ah Ks Jc"), ("7c 5c 4c 3c 2c", "Ac Kd Qh Js Tc"),
    ],
)  # fmt: skip
def test_hands_by_hand(better: str, worse: str) -> None:
    assert strength(hand(better)) > strength(hand(worse))


def test_suits_do_not_decide() -> None:
    assert strength(hand("Ac Kd 9h 5s 3c")) == strength(hand("Ad Kc 9s 5h 3d"))
    assert strength(hand("Ac Kc 9c 5c 3c")) == strength(hand("Ad Kd 9d 5d 3d"))


def test_cards_are_written_as_they_are_read() -> None:
    assert [read_card(written(card)) for card in range(CARDS)] == list(range(CARDS))
    assert in_words(hand("2c 2d 2h 3s 3c")) == "full house"
    assert straight_high(0b1_0000_0000_1111) == 3


@given(st.permutations(range(CARDS)), st.permutations(range(4)))
def test_deals_that_differ_in_names_of_suits_are_one(deck: list[int], suits: list[int]) -> None:
    deal = [deck[:2], deck[2:4], deck[4:9]]
    renamed = [[card & ~3 | suits[card & 3] for card in reversed(group)] for group in deal]
    assert canonical(renamed) == canonical(deal)
