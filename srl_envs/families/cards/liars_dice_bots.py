"""Scripted players of liar's dice; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np

from srl_envs.families.cards.liars_dice import CALL, FACES, NO_BID, Bid, higher_bids, random_body
from srl_envs.turns.grammar import action

_ME = re.compile(r"^You are (player_\d)\.$", re.MULTILINE)
_ROUND = re.compile(
    r"^Round \d+\. Dice left: (.*)\.\nYour dice: (.*)\.\nBids of this round: (.*)\.$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Cup:
    """What a bot reads from an observation."""

    own: tuple[int, ...]
    """Faces of its own dice."""
    dice: dict[str, int]
    """Dice left, by name."""
    bids: tuple[tuple[str, Bid], ...]
    """Bids of this round: name of the seat, and bid."""
    wild: bool

    @property
    def total(self) -> int:
        """Dice on the table."""
        return sum(self.dice.values())

    @property
    def last(self) -> Bid:
        """The bid to beat."""
        return self.bids[-1][1] if self.bids else NO_BID

    def own_count(self, face: int) -> int:
        """Own dice that count for ``face``."""
        return sum(die == face or (self.wild and die == FACES) for die in self.own)

    def chance(self, face: int) -> float:
        """Probability that a die without any bid on it counts for ``face``."""
        return 2 / FACES if self.wild and face != FACES else 1 / FACES

    def raises(self) -> list[Bid]:
        """Bids above the last one that are not absurd: at most one more than its count."""
        bids = (
            (int(body[0]), int(body[-1])) for body in higher_bids(self.last, min(self.total, 9))
        )
        return [bid for bid in bids if bid[0] <= self.last[0] + 1]


def read_cup(text: str) -> Cup:
    """The position of an observation."""
    me, found = _ME.search(text), _ROUND.search(text)
    if me is None or found is None:
        raise ValueError("the text holds no round of liar's dice")
    left, own, said = found.groups()
    bids = [re.split(r"\W+", bid) for bid in said.split(", ")] if said != "none yet" else []
    return Cup(
        tuple(int(die) for die in own.split() if die.isdigit()),
        {name: int(n) for name, n in (part.split(": ") for part in left.split(", "))},
        tuple((name, (int(count), int(face))) for name, count, face in bids),
        "A 6 is wild" in text,
    )


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Calls one time in three, else bids a little higher."""

    def act(text: str) -> str:
        cup = read_cup(text)
        return action(random_body(cup.last, cup.total, rng))

    return act


def middle_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Goes by the expected count: calls what is above it, else makes the bid furthest below it."""

    def act(text: str) -> str:
        cup = read_cup(text)

        def margin(bid: Bid) -> float:
            hidden = cup.total - len(cup.own)
            return cup.own_count(bid[1]) + hidden * cup.chance(bid[1]) - bid[0]

        return _best(cup, margin, rng, call=lambda bid: margin(bid) < -0.5)

    return act


def strong_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Calls or bids, whichever is likelier to be right; takes it that bidders hold what they bid."""
    return _weigher(rng, trust=0.5)


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """As strong, but believes no bid, and bids a face at random one time in five. For rating only."""
    careful = _weigher(rng, trust=0.0)

    def act(text: str) -> str:
        cup = read_cup(text)
        bids = [bid for bid in cup.raises() if bid[0] <= max(1, cup.last[0])]
        if bids and cup.last[0] <= cup.total / 3 and rng.random() < 0.2:
            return _reply(bids[int(rng.integers(len(bids)))])
        return careful(text)

    return act


def _weigher(rng: np.random.Generator, trust: float) -> Callable[[str], str]:
    def act(text: str) -> str:
        cup = read_cup(text)
        likely = max((bid_chance(cup, bid, trust) for bid in cup.raises()), default=0.0)
        return _best(
            cup,
            lambda bid: bid_chance(cup, bid, trust),
            rng,
            call=lambda bid: 1 - bid_chance(cup, bid, trust) > likely,
        )

    return act


def bid_chance(cup: Cup, bid: Bid, trust: float) -> float:
    """Chance that a bid is true.

    Args:
        cup: the position.
        bid: the bid.
        trust: chance that another seat's latest bid on the face was made with such a die in hand;
            counts for one die of each such seat.
    """
    count, face = bid
    chance = cup.chance(face)
    latest = {name: said[1] for name, said in cup.bids[-len(cup.dice) + 1 :]}
    backers = sum(said == face for said in latest.values()) if trust else 0
    need = count - cup.own_count(face)
    hidden = cup.total - len(cup.own) - backers
    better = chance + trust * (1 - chance)
    return sum(
        comb(backers, n) * better**n * (1 - better) ** (backers - n)
        * at_least(need - n, hidden, chance)
        for n in range(backers + 1)
    )  # fmt: skip


@lru_cache(maxsize=8192)
def at_least(need: int, dice: int, chance: float) -> float:
    """Chance that at least ``need`` of ``dice`` dice count, each with ``chance``."""
    if need <= 0:
        return 1.0
    return float(
        sum(comb(dice, n) * chance**n * (1 - chance) ** (dice - n) for n in range(need, dice + 1))
    )


def _best(
    cup: Cup, worth: Callable[[Bid], float], rng: np.random.Generator, call: Callable[[Bid], bool]
) -> str:
    """Call where ``call`` is set or nothing else is left, else the raise of the greatest worth."""
    bids = cup.raises()
    if cup.bids and (not bids or call(cup.last)):
        return action(CALL)
    values = [worth(bid) for bid in bids]
    best = [bid for bid, value in zip(bids, values, strict=True) if value >= max(values) - 1e-12]
    return _reply(best[int(rng.integers(len(best)))])


def _reply(bid: Bid) -> str:
    return action(f"{bid[0]} {bid[1]}")
