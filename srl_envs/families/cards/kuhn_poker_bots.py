"""Scripted players of Kuhn and Leduc poker; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from srl_envs.grammar import action

_HAND = re.compile(
    r"^Hand \d+ of \d+\. Your card: ([JQK])\.(?: Table card: ([JQK])\.)? .*\. Betting: (.*)\.$",
    re.MULTILINE,
)
_POSSIBLE = re.compile(r"^Your turn\. Possible: (.*)$", re.MULTILINE)

# Chances of (bet or raise, call) by hand strength in Leduc. The rows are situations within one
# betting round: opening it, after a check, after a bet, after a raise. They are the means over the
# longer histories of an equilibrium found by counterfactual regret minimisation.
_Odds = tuple[tuple[float, float], ...]
_LEDUC: dict[tuple[int, str], _Odds] = {
    (1, "J"): ((0.08, 0.0), (0.30, 0.0), (0.03, 0.08), (0.0, 1.0)),
    (1, "Q"): ((0.73, 0.0), (0.85, 0.0), (0.31, 0.69), (0.0, 1.0)),
    (1, "K"): ((0.75, 0.0), (1.0, 0.0), (0.61, 0.39), (0.0, 1.0)),
    (2, "J"): ((0.28, 0.0), (0.22, 0.0), (0.12, 0.0), (0.0, 0.0)),
    (2, "Q"): ((0.15, 0.0), (0.15, 0.0), (0.0, 0.25), (0.0, 0.12)),
    (2, "K"): ((0.16, 0.0), (0.36, 0.0), (0.02, 0.61), (0.0, 0.32)),
    (2, "pair"): ((0.75, 0.0), (1.0, 0.0), (0.93, 0.07), (0.0, 1.0)),
}


@dataclass(frozen=True, slots=True)
class Spot:
    """A decision as a bot sees it."""

    card: str
    table: str
    """"" before the second round, and in Kuhn."""
    betting: tuple[str, ...]
    """Words of this betting round, both seats' in turn."""
    possible: tuple[str, ...]
    leduc: bool

    @property
    def strength(self) -> str:
        """The card, or "pair"."""
        return "pair" if self.card == self.table else self.card

    @property
    def situation(self) -> int:
        """0: opens the round, 1: after a check, 2: after a bet, 3: after a raise."""
        raised = sum(word in ("bet", "raise") for word in self.betting)
        return 1 + raised if self.betting else 0


def read_spot(text: str) -> Spot:
    """The decision of an observation."""
    hand, possible = _HAND.search(text), _POSSIBLE.search(text)
    if hand is None or possible is None:
        raise ValueError("the text holds no decision of Kuhn or Leduc poker")
    card, table, betting = hand.groups(default="")
    last_round = re.split(r"; table card [JQK]:? ?", betting)[-1]
    acts = [act.split(" ") for act in last_round.split(", ")]
    words = tuple(act[1] for act in acts if act[0] in ("you", "they"))
    legal = tuple(possible.group(1).split(" or "))
    return Spot(card, table, words, legal, "Leduc poker." in text)


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Any possible word."""

    def act(text: str) -> str:
        return action(rng.choice(read_spot(text).possible))

    return act


def caller_bot(rng: np.random.Generator) -> Callable[[str], str]:  # noqa: ARG001 - as all factories
    """Checks and calls, whatever it holds."""

    def act(text: str) -> str:
        return action("call" if "call" in read_spot(text).possible else "check")

    return act


def middle_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Never bluffs: bets a king or a pair, calls every other time with a queen, else gives way."""

    def odds(spot: Spot) -> tuple[float, float]:
        if spot.strength == "pair" or (spot.strength == "K" and not spot.table):
            return 1.0, 1.0
        return (0.0, 0.5) if spot.strength in "QK" else (0.0, 0.0)

    return _player(odds, rng)


def strong_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Kuhn: the equilibrium that bluffs most. Leduc: close to an equilibrium."""

    def odds(spot: Spot) -> tuple[float, float]:
        return equilibrium(spot, 1 / 3) if not spot.leduc else leduc(spot)

    return _player(odds, rng)


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Kuhn: the equilibrium whose opener never bets. Leduc: patient, raises with the best only.

    For rating only.
    """

    def odds(spot: Spot) -> tuple[float, float]:
        return equilibrium(spot, 0.0) if not spot.leduc else _patient(spot)

    return _player(odds, rng)


def equilibrium(spot: Spot, bluff: float) -> tuple[float, float]:
    """Chances of (bet, call) in Kuhn; ``bluff`` is how often an opener bets a jack, 0 to 1/3."""
    if spot.situation == 0:
        return {"J": bluff, "Q": 0.0, "K": 3 * bluff}[spot.card], 0.0
    if spot.situation == 1:
        return {"J": 1 / 3, "Q": 0.0, "K": 1.0}[spot.card], 0.0
    opened = len(spot.betting) == 2  # check, bet: the one who decides has checked before
    return 0.0, {"J": 0.0, "Q": bluff + 1 / 3 if opened else 1 / 3, "K": 1.0}[spot.card]


def leduc(spot: Spot) -> tuple[float, float]:
    """Chances of (bet or raise, call) in Leduc."""
    return _LEDUC[2 if spot.table else 1, spot.strength][spot.situation]


def _patient(spot: Spot) -> tuple[float, float]:
    if spot.strength == "pair":
        return 1.0, 1.0
    if spot.table:
        return (0.2, 0.0) if spot.situation < 2 else (0.0, 0.5 if spot.card == "K" else 0.0)
    return (0.5, 1.0) if spot.card == "K" else (0.0, 1.0 if spot.card == "Q" else 0.0)


def _player(
    odds: Callable[[Spot], tuple[float, float]], rng: np.random.Generator
) -> Callable[[str], str]:
    """Plays ``odds``: chances of (bet or raise, call); what is left checks or folds."""

    def act(text: str) -> str:
        spot = read_spot(text)
        push, call = odds(spot)
        draw = rng.random()
        free = "check" in spot.possible
        if draw < push:
            word = "bet" if free else "raise" if "raise" in spot.possible else "call"
        elif free:
            word = "check"
        else:
            word = "call" if draw < push + call else "fold"
        return action(word)

    return act
