"""Scripted bidders; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srl_envs.families.bargaining.sealed_auction import (
    LARGEST_ERROR,
    LARGEST_VALUE,
    RESERVES,
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
_CAUTION = 4
"""Points that rivals are taken to bid below their estimate of a shared value."""
_BIDS: tuple[int, ...] = (0, *range(RESERVES[0], LARGEST_VALUE + 1))
"""No bid, and all that can be worth more than they cost."""


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
        return action(int(rng.integers(min(read_view(text).money, LARGEST_VALUE) + 1)))

    return act


def truthful_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Bids its value or estimate, whatever the rules."""

    def act(text: str) -> str:
        view = read_view(text)
        return _bid(view, view.value)

    return act


def middle_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Truthful for the second price, four fifths for the first, give or take one; trusts estimates."""

    def act(text: str) -> str:
        view = read_view(text)
        wanted = 0.8 * view.value if view.first_price else view.value
        return _bid(view, wanted + int(rng.integers(-1, 2)))

    return act


def strong_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """The bid that gains most from this item and, with the coins that are left, from the later ones.

    Rivals are taken to bid as in `_guessed`. A shared value is judged by all that it may be, so winning
    against rivals who also have an estimate counts as bad news.
    """

    def act(text: str) -> str:
        view = read_view(text)
        return action(best_bid(view, view.values[len(view.rivals) + 1 :]))

    return act


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Careful: two thirds to nine tenths of its value, three less where values are shared; for rating."""

    def act(text: str) -> str:
        view = read_view(text)
        value = view.value - 3 if view.shared else view.value
        share = rng.uniform(2 / 3, 0.9) if view.first_price else 0.95
        return _bid(view, share * value)

    return act


class Prospect(NamedTuple):
    """What each of `_BIDS` brings for one item, in the mean over reserves and rivals."""

    wins: tuple[float, ...]
    """Chances to win."""
    gains: tuple[float, ...]
    """Points won minus coins paid, counted as 0 without a win."""
    prices: tuple[int, ...]
    """What a win costs, rounded; the bid where it never wins."""


def best_bid(view: View, later: Sequence[int]) -> int:
    """The bid that gains most now and later, by backward induction over the coins that are left.

    Args:
        view: the present item, the rules and the purse.
        later: values or estimates of the items to come.
    """
    left = np.zeros(view.money + 1)  # what so many coins gain from the items to come
    for value in reversed(later):
        left = np.max(_outlook(prospect(view.first_price, view.shared, value), left), axis=0)
    now = prospect(view.first_price, view.shared, view.value)
    return _BIDS[int(np.argmax(_outlook(now, left)[:, -1]))]


def _outlook(prospect: Prospect, left: NDArray[np.float64]) -> NDArray[np.float64]:
    """(bids, coins) gains from an item and the later ones; -1 where the purse cannot pay the bid."""
    gains = np.full((len(_BIDS), len(left)), -1.0)
    for row, bid in enumerate(_BIDS[: max(1, len(left) - RESERVES[0] + 1)]):
        won, gain, price = (field[row] for field in prospect)
        gains[row, bid:] = (
            gain + won * left[bid - price : len(left) - price] + (1 - won) * left[bid:]
        )
    return gains


@lru_cache(maxsize=256)
def prospect(first_price: bool, shared: bool, value: int) -> Prospect:
    """What each bid brings for an item of this value or estimate.

    Args:
        first_price: whether the winner pays its own bid.
        shared: whether ``value`` is an estimate.
        value: ours.
    """
    low, high = max(0, value - LARGEST_ERROR), min(LARGEST_VALUE, value + LARGEST_ERROR)
    truths = range(low, high + 1) if shared else (value,)
    chance, paid = _against(first_price)
    wins, gains, prices = (np.zeros(len(_BIDS)) for _ in range(3))
    for truth in truths:
        rivals = np.array(_guessed(first_price, truth if shared else None)) / len(truths)
        wins += chance @ rivals
        prices += paid @ rivals
        gains += (truth * chance - paid) @ rivals
    costs = [round(p / w) if w > 0 else b for b, p, w in zip(_BIDS, prices, wins, strict=True)]
    return Prospect(tuple(wins.tolist()), tuple(gains.tolist()), tuple(costs))


@lru_cache(maxsize=256)
def _guessed(first_price: bool, truth: int | None) -> tuple[float, ...]:
    """Chance that 0 to `LARGEST_VALUE` is the highest of three rival bids.

    A rival bids its value for the second price; for the first price 3 more than seven tenths of it, about
    the mean of what gains most against reserve and rivals.

    Args:
        first_price: whether the winner pays its own bid.
        truth: what the item is worth to all; None where values are private.
    """
    values = np.arange(LARGEST_VALUE + 1.0)
    if truth is not None:
        values = truth + np.arange(-LARGEST_ERROR, LARGEST_ERROR + 1.0) - _CAUTION
    bids = np.rint(0.7 * values + 3) if first_price else values
    bids = np.clip(np.where(bids < RESERVES[0], 0, bids), 0, LARGEST_VALUE)
    below = [float(np.mean(bids <= bid)) ** (SEATS - 1) for bid in range(LARGEST_VALUE + 1)]
    return tuple(np.diff(below, prepend=0.0).tolist())


@lru_cache(maxsize=2)
def _against(first_price: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Per bid and highest rival bid: chance to win, and the price times that; a tie wins half."""
    won, paid = (np.zeros((len(_BIDS), LARGEST_VALUE + 1)) for _ in range(2))
    for (row, bid), rival in product(enumerate(_BIDS), range(LARGEST_VALUE + 1)):
        share = (0.5 if bid == rival else float(bid > rival)) / len(RESERVES)
        for reserve in RESERVES[: max(0, bid - RESERVES[0] + 1)]:
            won[row, rival] += share
            paid[row, rival] += share * (bid if first_price else max(reserve, rival))
    return won, paid


def _bid(view: View, wanted: float) -> str:
    """As much as is wanted and can be paid; nothing where that is negative."""
    return action(max(0, min(round(wanted), view.money)))
