"""Scripted players of Kuhn and Leduc poker; they read the observation's text and nothing else."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from srl_envs.families.cards.leduc_table import CHANCES
from srl_envs.turns.grammar import action

_HAND = re.compile(
    r"^Hand \d+ of \d+\. Your card: ([JQK])\.(?: Table card: ([JQK])\.)? .*\. Betting: (.*)\.$",
    re.MULTILINE,
)
_POSSIBLE = re.compile(r"^Your turn\. Possible: (.*)$", re.MULTILINE)
_PAST = re.compile(
    r"^Hand \d+: your card ([JQK]), theirs ([JQK]|not shown)\. Betting: (.*)\. Your chips: ",
    re.MULTILINE,
)

_CARDS = "JQK"
_LETTERS = {"check": "k", "bet": "b", "call": "c", "raise": "r", "fold": "f"}


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
    before: tuple[str, ...] = ()
    """Words of the first betting round, where this is the second."""

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
    rounds = [_said(part) for part in re.split(r"; table card [JQK]:? ?", betting)]
    legal = tuple(possible.group(1).split(" or "))
    before = rounds[0] if len(rounds) > 1 else ()
    return Spot(card, table, rounds[-1], legal, "Leduc poker." in text, before)


def _said(betting: str) -> tuple[str, ...]:
    """Words of one betting round."""
    acts = [act.split(" ") for act in betting.split(", ")]
    return tuple(act[1] for act in acts if act[0] in ("you", "they"))


@dataclass(frozen=True, slots=True)
class Past:
    """A finished hand of Kuhn poker."""

    card: str
    theirs: tuple[str, ...]
    """The other's card where it was shown, else those that it can have been."""
    line: tuple[str, ...]
    begins: bool
    """Whether the reader began."""


def read_past(text: str) -> list[Past]:
    """The finished hands of an observation of Kuhn poker."""
    hands = []
    for card, theirs, betting in _PAST.findall(text):
        acts = [act.split(" ") for act in betting.split(", ")]
        others = (theirs,) if theirs in _CARDS else tuple(_CARDS.replace(card, ""))
        hands.append(Past(card, others, tuple(word for _, word in acts), acts[0][0] == "you"))
    return hands


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
    return _player(honest, rng)


def strong_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Kuhn: the equilibrium that bluffs most, until past hands show a weak style; then its best answer.

    Leduc: an equilibrium, whose best response wins 0.001 chips a hand.
    """
    equal = _player(lambda spot: leduc(spot) if spot.leduc else equilibrium(spot, 1 / 3), rng)

    def act(text: str) -> str:
        spot = read_spot(text)
        if spot.leduc:
            return equal(text)
        past = read_past(text)
        chances = style_chances(past)
        if not past or sum(chances[:_EQUILIBRIA]) > _DOUBT:
            return equal(text)
        return action(best_word(spot, chances))

    return act


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
    """Chances of (bet or raise, call) in Leduc, in equilibrium."""
    line = "".join(_LETTERS[word] for word in spot.before)
    if spot.table:
        line += "/"
    line += "".join(_LETTERS[word] for word in spot.betting)
    number = _CARDS.index(spot.card) + (3 * _CARDS.index(spot.table) if spot.table else 0)
    push, call = CHANCES[line][number]
    return push / 1000, call / 1000


def honest(spot: Spot) -> tuple[float, float]:
    """Chances of (bet or raise, call) of one who never bluffs."""
    if spot.strength == "pair" or (spot.strength == "K" and not spot.table):
        return 1.0, 1.0
    return (0.0, 0.5) if spot.strength in "QK" else (0.0, 0.0)


_STYLES: tuple[tuple[float, Callable[[Spot], tuple[float, float]]], ...] = (
    (0.1, lambda spot: equilibrium(spot, 0.0)),
    (0.05, lambda spot: equilibrium(spot, 1 / 6)),
    (0.1, lambda spot: equilibrium(spot, 1 / 3)),
    (0.2, honest),
    (0.07, lambda _: (0.0, 0.0)),
    (0.07, lambda _: (0.0, 1.0)),
    (0.27, lambda _: (0.5, 0.5)),
    (0.07, lambda _: (1.0, 1.0)),
    (0.07, lambda _: (1.0, 0.0)),
)
"""How likely another player's style is before a hand is seen, and its chances of (bet, call).

Three equilibria; then one who never bluffs, who gives way, who calls, who plays at random, who bets and
calls, and who bets and gives way.
"""
_EQUILIBRIA = 3
_DOUBT = 0.5
"""Chance of an equilibrium above which the strong bot plays its own."""


def style_chances(past: Sequence[Past]) -> list[float]:
    """Chance of each style of `_STYLES`, given the finished hands."""
    weights = [prior for prior, _ in _STYLES]
    for hand in past:
        for number in range(len(_STYLES)):
            weights[number] *= sum(
                _line_chance(number, card, hand.line, not hand.begins) for card in hand.theirs
            ) / len(hand.theirs)
    total = sum(weights)
    return [weight / total for weight in weights]


def best_word(spot: Spot, chances: Sequence[float]) -> str:
    """The word of most chips against styles of these chances."""
    line, begins = spot.betting, len(spot.betting) % 2 == 0
    beliefs = {
        (number, card): chance * _line_chance(number, card, line, not begins)
        for number, chance in enumerate(chances)
        for card in _CARDS.replace(spot.card, "")
    }
    return max(spot.possible, key=lambda word: _worth((*line, word), begins, spot.card, beliefs))


Beliefs = dict[tuple[int, str], float]
"""(Number of the other's style, its card) -> weight."""


def _worth(line: tuple[str, ...], begins: bool, card: str, beliefs: Beliefs) -> float:
    """Chips of a hand after ``line`` with best play against ``beliefs``, weighted by them."""
    if line[-1] in ("fold", "call") or line == ("check", "check"):
        return sum(
            weight * _won(line, begins, _CARDS.index(card) > _CARDS.index(theirs))
            for (_, theirs), weight in beliefs.items()
        )
    words = _words_after(line)
    if (len(line) % 2 == 0) == begins:
        return max(_worth((*line, word), begins, card, beliefs) for word in words)
    return sum(
        _worth(
            (*line, word), begins, card,
            {(n, c): w * _word_chance(n, c, line, word) for (n, c), w in beliefs.items()},
        )
        for word in words
    )  # fmt: skip


def _won(line: tuple[str, ...], begins: bool, higher: bool) -> int:
    """Chips won at the end of a hand."""
    if line[-1] == "fold":
        folded = (len(line) % 2 == 1) == begins
        return -1 if folded else 1
    stake = 2 if line[-1] == "call" else 1
    return stake if higher else -stake


def _words_after(line: tuple[str, ...]) -> tuple[str, str]:
    return ("fold", "call") if line and line[-1] == "bet" else ("check", "bet")


@lru_cache(maxsize=4096)
def _line_chance(style: int, card: str, line: tuple[str, ...], begins: bool) -> float:
    """Probability that a style with ``card`` makes its moves of ``line``."""
    return math.prod(
        _word_chance(style, card, line[:at], word)
        for at, word in enumerate(line)
        if (at % 2 == 0) == begins
    )


@lru_cache(maxsize=4096)
def _word_chance(style: int, card: str, line: tuple[str, ...], word: str) -> float:
    push, call = _STYLES[style][1](Spot(card, "", line, _words_after(line), leduc=False))
    return {"bet": push, "check": 1 - push, "call": call, "fold": 1 - call}[word]


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
