"""Scripted players of hold'em: they estimate their share of the pot by dealing the unknown cards at random.

They read the observation's text and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from srl_envs.families.cards.poker_ranks import CARDS, read_card, strength
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]

_HAND = re.compile(
    r"^Hand (\d+) of \d+\. You are (on the button|in the big blind)\. "
    r"Your cards: (\S+ \S+)\. Table: (.*)\.\n"
    r"In the pot: you (\d+), they (\d+)\. Left: you (\d+), they \d+\. Betting: (.*)\.\n"
    r"Your turn\. Possible: (.*)\.$",
    re.MULTILINE,
)
_RAISE = re.compile(r"raise N \(N (?:is (\d+)|from (\d+) to (\d+))\)")
_SAMPLES = 60
"""Deals of the unknown cards for one estimate."""


class Spot(NamedTuple):
    """A decision as a bot reads it."""

    button: bool
    hole: tuple[int, ...]
    board: tuple[int, ...]
    mine: int
    """Chips that the seat has put in."""
    theirs: int
    left: int
    raises: tuple[int, int] | None
    """Smallest and largest N."""
    rounds: tuple[tuple[str, ...], ...]
    """Moves of each betting round, such as ``they raise 6``."""

    @property
    def due(self) -> int:
        """Chips that a call puts in."""
        return self.theirs - self.mine

    @property
    def pot(self) -> int:
        """Chips of both."""
        return self.mine + self.theirs

    def shown_strength(self) -> int:
        """How often they have raised in this hand."""
        return sum(move.startswith("they raise") for moves in self.rounds for move in moves)


def read(text: str) -> Spot:
    """The decision that an observation asks for."""
    found = _HAND.search(text)
    if found is None:
        raise ValueError("the text asks for nothing in a game of hold'em")
    _, where, hole, table, mine, theirs, left, betting, possible = found.groups()
    raises = _RAISE.search(possible)
    limits = None
    if raises:
        only, low, high = raises.groups()
        limits = (int(only or low), int(only or high))
    return Spot(
        where == "on the button", _read_cards(hole), _read_cards(table), int(mine), int(theirs),
        int(left), limits, tuple(tuple(part.split(", ")) for part in betting.split("; ")),
    )  # fmt: skip


def _read_cards(text: str) -> tuple[int, ...]:
    return () if text == "none yet" else tuple(map(read_card, text.split()))


def share_of_pot(
    spot: Spot, rng: np.random.Generator, strong_of: int = 1, samples: int = _SAMPLES
) -> float:
    """Mean share of the pot at a showdown against cards at random.

    Args:
        spot: own cards and table.
        rng: deals the rest.
        strong_of: the other holds the strongest of so many random hands, by what is on the table.
        samples: deals.
    """
    known = {*spot.hole, *spot.board}
    deck = np.array([card for card in range(CARDS) if card not in known])
    missing = 5 - len(spot.board)
    won = 0.0
    for _ in range(samples):
        drawn = rng.choice(deck, missing + 2 * strong_of, replace=False).tolist()
        board = (*spot.board, *drawn[:missing])
        hands = [drawn[k : k + 2] for k in range(missing, len(drawn), 2)]
        theirs = max(hands, key=lambda hand: _promise(hand, spot.board))
        mine, other = strength((*spot.hole, *board)), strength((*theirs, *board))
        won += 1.0 if mine > other else 0.5 if mine == other else 0.0
    return won / samples


def _promise(hole: Sequence[int], board: Sequence[int]) -> tuple[int, ...]:
    """Orders hands by what they are worth now: by strength on the table, before the flop by rank."""
    if board:
        return strength((*hole, *board))
    high, low = sorted((card >> 2 for card in hole), reverse=True)
    suited = hole[0] & 3 == hole[1] & 3
    return (
        (60 if high == low else 0) + 2 * high + low + 2 * suited + (4 if high - low == 1 else 0),
    )


def _bet(spot: Spot, share: float) -> str:
    """A raise by a share of the pot after a call; all in where little would be left; else a call."""
    if spot.raises is None:
        return action("call" if spot.due else "check")
    low, high = spot.raises
    this_round = high - spot.left  # what the seat has put in in this betting round
    amount = this_round + spot.due + round(share * (spot.pot + spot.due))
    if amount > 0.6 * high:
        amount = high
    return action(f"raise {min(high, max(low, amount))}")


def random_bot(rng: np.random.Generator) -> Bot:
    """Any kind of move, and then any amount."""

    def act(text: str) -> str:
        spot = read(text)
        words = ["fold", "call"] if spot.due else ["check"]
        kind = int(rng.integers(len(words) + (spot.raises is not None)))
        if kind < len(words):
            return action(words[kind])
        low, high = spot.raises or (0, 0)
        return action(f"raise {rng.integers(low, high + 1)}")

    return act


def caller_bot(_rng: np.random.Generator) -> Bot:
    """Never folds and never raises."""
    return lambda text: action("call" if read(text).due else "check")


def middle_bot(rng: np.random.Generator) -> Bot:
    """Bets good hands, calls with fair ones, folds the others; never bluffs, never counts the pot."""

    def act(text: str) -> str:
        spot = read(text)
        share = share_of_pot(spot, rng)
        if share > 0.7:
            return _bet(spot, 0.6)
        if not spot.due:
            return action("check")
        return action("call" if share > 0.5 else "fold")

    return act


def strong_bot(rng: np.random.Generator) -> Bot:
    """Weighs its share against hands that bet as they did with the price of a call; bluffs at times."""

    def act(text: str) -> str:
        spot = read(text)
        shown = spot.shown_strength()
        share = share_of_pot(spot, rng, min(3, 1 + 2 * shown))
        if not spot.due:
            bluffs = share < 0.35 and rng.random() < 0.25
            return _bet(spot, 0.65) if share > 0.55 or bluffs else action("check")
        price = spot.due / (spot.pot + spot.due)
        opens = not shown and not spot.board and spot.button and share > 0.42
        if share > 0.62 + 0.03 * shown or opens:
            return _bet(spot, 0.65)
        return action("call" if share > price else "fold")

    return act


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Plays many hands and raises them; bluffs one time in three. For ratings only."""

    def act(text: str) -> str:
        spot = read(text)
        share = share_of_pot(spot, rng, 1 + (spot.shown_strength() > 1))
        if share > 0.55 or (not spot.due and rng.random() < 0.33):
            return _bet(spot, 1.0 if rng.random() < 0.5 else 0.5)
        if not spot.due:
            return action("check")
        return action("call" if share > spot.due / (spot.pot + spot.due) else "fold")

    return act
