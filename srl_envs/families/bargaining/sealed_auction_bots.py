"""Scripted bidders; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from srl_envs.families.bargaining.sealed_auction import (
    LARGEST_ERROR,
    LARGEST_VALUE,
    LEAST_BID,
    SEATS,
)
from srl_envs.turns.grammar import action

_HEAD = re.compile(
    r"^You are player_(\d)\. Your (values|estimates) of the items, in order: ([-\d ]+)$",
    re.MULTILINE,
)
_ITEM = re.compile(
    r"^Item \d+: bids player_0 (\d+), player_1 (\d+), player_2 (\d+), player_3 (\d+);", re.MULTILINE
)
_TRUTH = re.compile(r"^Item \d+: .*; it was worth (\d+)\.$", re.MULTILINE)
_NOW = re.compile(
    r"^You have -?\d+ points and (\d+) coins\.\nItem (\d+) of \d+, [a-z ]+ -?\d+ to you: bid ",
    re.MULTILINE,
)
_FIRST = "The winner pays its own bid."
_RIVALS = tuple(15 * (n / 8) ** (1 / 3) for n in range(1, 9))
"""Highest of three bids that are three quarters of private values: eight equally likely cases."""
_GAPS = (0.0, 1.0, 2.0, 3.0, 4.0)
"""By how much the highest rival bid may fall short of a shared value."""


@dataclass(frozen=True, slots=True)
class View:
    """Facts that a bot reads from an observation."""

    seat: int
    first_price: bool
    shared: bool
    value: int
    """Value of the present item to the bot; an estimate where values are shared."""
    money: int
    rivals: tuple[int, ...]
    """The highest bid of the others, per past item."""
    gaps: tuple[int, ...]
    """By how much that fell short of the item's shared value; empty where values are private."""
    values: tuple[int, ...]
    """Values of all items to the bot, past and future ones."""


def read_view(text: str) -> View:
    """The sale as read from an observation."""
    head, now = _HEAD.search(text), _NOW.search(text)
    if head is None or now is None:
        raise ValueError("the text holds no item of a sealed auction")
    seat = int(head.group(1))
    values = tuple(map(int, head.group(3).split()))
    bids = [list(map(int, found)) for found in _ITEM.findall(text)]
    rivals = tuple(max(bid for s, bid in enumerate(made) if s != seat) for made in bids)
    return View(
        seat,
        _FIRST in text,
        head.group(2) == "estimates",
        values[int(now.group(2)) - 1],
        int(now.group(1)),
        rivals,
        tuple(
            int(truth) - rival for truth, rival in zip(_TRUTH.findall(text), rivals, strict=False)
        ),
        values,
    )


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Any bid up to the largest value."""

    def act(text: str) -> str:
        bid = int(rng.integers(min(read_view(text).money, LARGEST_VALUE) + 1))
        return action(bid if bid >= LEAST_BID else 0)

    return act


def truthful_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Bids its value or estimate, whatever the rules."""

    def act(text: str) -> str:
        view = read_view(text)
        return _bid(view, view.value, view.value)

    return act


def middle_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Truthful for the second price, four fifths for the first, give or take one; trusts estimates."""

    def act(text: str) -> str:
        view = read_view(text)
        wanted = 0.8 * view.value if view.first_price else view.value
        return _bid(view, wanted + int(rng.integers(-1, 2)), view.value)

    return act


def strong_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """The best bid against the highest rival bid, as seen so far and guessed before.

    Shared values are corrected for the fact that it only wins where its estimate is high.
    """

    def act(text: str) -> str:
        view = read_view(text)
        if not view.first_price:
            # the estimate at which it ties with the next one sets the price that it must fear
            worth = worth_if_won(view.value, SEATS - 2) if view.shared else float(view.value)
            return _bid(view, worth, worth)
        if view.shared:
            worth = worth_if_won(view.value, SEATS - 1)
            # a rival's bid is as far below what the item is worth as it was before
            rivals = [worth - gap for gap in (*_GAPS, *view.gaps)]
        else:
            worth = float(view.value)
            rivals = [*_RIVALS, *map(float, view.rivals)]
        return _bid(view, best_bid(worth, rivals), worth)

    return act


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Careful: two thirds to nine tenths of its value, three less where values are shared; for rating."""

    def act(text: str) -> str:
        view = read_view(text)
        value = view.value - 3 if view.shared else view.value
        share = rng.uniform(2 / 3, 0.9) if view.first_price else 0.95
        return _bid(view, share * value, value)

    return act


@lru_cache(maxsize=128)
def worth_if_won(estimate: int, below: int) -> float:
    """Mean of a shared value, given our estimate and that so many others have a lower one.

    Args:
        estimate: ours.
        below: how many of the others have a lower estimate, or an equal one and no luck.
    """
    weights, total = 0.0, 0.0
    low, high = max(0, estimate - LARGEST_ERROR), min(LARGEST_VALUE, estimate + LARGEST_ERROR)
    for truth in range(low, high + 1):
        chance = ((estimate - truth + LARGEST_ERROR + 0.5) / (2 * LARGEST_ERROR + 1)) ** below
        weights += chance
        total += truth * chance
    return total / weights


def best_bid(worth: float, rivals: Sequence[float]) -> int:
    """The bid that gains most if the highest rival bid is one of ``rivals``; a tie wins half."""
    gains = []
    for bid in range(LEAST_BID, LARGEST_VALUE + 1):
        wins = sum((bid > rival) + 0.5 * (bid == rival) for rival in rivals)
        gains.append((worth - bid) * wins)
    return LEAST_BID + int(np.argmax(gains)) if max(gains) > 0 else 0


def _bid(view: View, wanted: float, worth: float) -> str:
    """As much as is wanted, the least bid where the item is worth more than that; else none."""
    bid = min(round(wanted), view.money)
    if bid < LEAST_BID:
        bid = LEAST_BID if worth > LEAST_BID and view.money >= LEAST_BID else 0
    return action(bid)
