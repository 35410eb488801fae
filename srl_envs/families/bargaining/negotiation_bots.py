"""Scripted negotiators; they read the observation's text and nothing else.

All but the random one work with a demand: the fewest points they settle for in this turn. They accept
an offer that meets it, and else make an offer that does. What is left over of the demand after it
shrinks by the turns gone is none of their business.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from srl_envs.families.bargaining.negotiation import (
    ACCEPT,
    RESERVES,
    WALK,
    Bundle,
    bundles,
    rest,
    shrunk,
    valuations,
    worth,
)
from srl_envs.messages import join_body
from srl_envs.turns.grammar import action

_HEAD = re.compile(
    r"^Items: (\d) books?, (\d) hats?, (\d) balls?\. To you a book is worth (\d+), a hat (\d+), a ball "
    r"(\d+)\. Your reserve: (\d)\.$",
    re.MULTILINE,
)
_OFFER = re.compile(
    r"^Turn \d, (you|player_\d): offer: you get (\d) books?, (\d) hats?, (\d) balls?", re.MULTILINE
)
_NOW = re.compile(r"^Turn (\d) of (\d), your move:", re.MULTILINE)
_KEENNESS = 0.7
"""How strongly an offer is believed to show what its maker likes; per point."""

_DEMANDS = (6, 7, 8, 9)
"""Points in its last turn, the one before it, and so on."""
_MARGIN = 0.5
"""Points above the largest reserve that an ultimatum leaves."""


@dataclass(frozen=True, slots=True)
class View:
    """Facts that a bot reads from an observation."""

    counts: Bundle
    values: Bundle
    reserve: int
    mine: tuple[Bundle, ...]
    """What we asked for ourselves, in our past offers."""
    theirs: tuple[Bundle, ...]
    """What the other left us, in its past offers."""
    turn: int
    turns: int
    talk: bool

    def last(self) -> int:
        """Points of the other's last offer; -1 before there is one."""
        return worth(self.theirs[-1], self.values) if self.theirs else -1

    def mine_left(self) -> int:
        """Own turns to come, this one included."""
        return (self.turns - self.turn) // 2 + 1


def read_view(text: str) -> View:
    """The talks as read from an observation."""
    head, now = _HEAD.search(text), _NOW.search(text)
    if head is None or now is None:
        raise ValueError("the text holds no turn of a negotiation")
    numbers = list(map(int, head.groups()))
    mine: list[Bundle] = []
    theirs: list[Bundle] = []
    for who, a, b, c in _OFFER.findall(text):
        (mine if who == "you" else theirs).append((int(a), int(b), int(c)))
    return View(
        (numbers[0], numbers[1], numbers[2]), (numbers[3], numbers[4], numbers[5]), numbers[6],
        tuple(mine), tuple(theirs), int(now.group(1)), int(now.group(2)),
        "say:" in text.partition("\n\n")[0],
    )  # fmt: skip


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Accepts three times in ten, walks once in twenty, else any offer."""

    def act(text: str) -> str:
        view = read_view(text)
        draw = rng.random()
        if draw < 0.05 or (view.turn == view.turns and draw < 0.5):
            return action(WALK)
        if view.theirs and (draw < 0.35 or view.turn == view.turns):
            return action(ACCEPT)
        every = bundles(view.counts)
        return _offer(every[int(rng.integers(len(every)))])

    return act


def middle_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Demands six points, to the end; leaves the other anything that is not needed for them."""

    def act(text: str) -> str:
        view = read_view(text)
        return _settle(view, 6) or _offer(_smallest(view, 6, rng))

    return act


def conceder_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Demands eight points, then a point and a half less in each of its turns."""

    def act(text: str) -> str:
        view = read_view(text)
        demand = max(view.reserve + 1, round(8 - 1.5 * len(view.mine)))
        return _settle(view, demand) or _offer(_smallest(view, demand, rng))

    return act


def tit_for_tat_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Demands nine points, and concedes as many as the other has conceded in our points."""

    def act(text: str) -> str:
        view = read_view(text)
        offers = [worth(bundle, view.values) for bundle in view.theirs]
        conceded = max(0, max(offers, default=0) - offers[0]) if offers else 0
        demand = max(5, 9 - conceded - (len(view.mine) > 0))
        return _settle(view, demand) or _offer(_smallest(view, demand, rng))

    return act


def strong_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Guesses the other's values from its offers, and asks for what costs the other least.

    Its last offer leaves the other no more than it should take rather than walk away.
    """

    def act(text: str) -> str:
        view = read_view(text)
        demand = _DEMANDS[min(view.mine_left(), len(_DEMANDS)) - 1]
        settled = _settle(view, demand)
        if settled:
            return settled
        liked = _their_values(view)
        if view.turn == view.turns - 1:
            return _offer(_ultimatum(view, liked))
        return _offer(_kindest(view, demand, liked, rng), _words(view))

    return act


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Boulware: demands nine points until two of its turns are left, then six, then four; for rating."""

    def act(text: str) -> str:
        view = read_view(text)
        demand = {1: 4, 2: 6}.get(view.mine_left(), 9)
        return _settle(view, demand) or _offer(_smallest(view, demand, rng))

    return act


def _settle(view: View, demand: int) -> str:
    """Accept or walk where the demand is met or the last turn has come; else the empty text."""
    if view.turn == view.turns:
        good = view.last() * shrunk(view.turn) > view.reserve
        return action(ACCEPT if good else WALK)
    return action(ACCEPT) if view.last() >= demand else ""


def _smallest(view: View, demand: int, rng: np.random.Generator) -> Bundle:
    """Of the bundles that meet the demand one of least worth, and of these of fewest items."""
    enough = [b for b in bundles(view.counts) if worth(b, view.values) >= demand]
    least = min((worth(b, view.values), sum(b)) for b in enough)
    best = [b for b in enough if (worth(b, view.values), sum(b)) == least]
    return best[int(rng.integers(len(best)))]


def _their_values(view: View) -> tuple[float, ...]:
    """What the items are worth to the other, as its offers make us expect."""
    possible = np.array(valuations(view.counts), dtype=float)
    every = np.array(bundles(view.counts), dtype=float)
    log_V = np.zeros(len(possible))
    points_VB = possible @ every.T
    norm_V = np.log(np.exp(_KEENNESS * points_VB).sum(axis=1))
    for bundle in view.theirs:
        kept = np.array(rest(view.counts, bundle), dtype=float)
        log_V += _KEENNESS * (possible @ kept) - norm_V
    weights_V = np.exp(log_V - log_V.max())
    mean = weights_V @ possible / weights_V.sum()
    return tuple(mean.tolist())


def _kindest(view: View, demand: int, liked: tuple[float, ...], rng: np.random.Generator) -> Bundle:
    """Of the bundles that meet the demand the one that leaves the other most, by our guess."""
    enough = [b for b in bundles(view.counts) if worth(b, view.values) >= demand]
    left = [
        round(sum(n * v for n, v in zip(rest(view.counts, b), liked, strict=True)), 6)
        for b in enough
    ]
    best = [b for b, points in zip(enough, left, strict=True) if points == max(left)]
    return best[int(rng.integers(len(best)))]


def _ultimatum(view: View, liked: tuple[float, ...]) -> Bundle:
    """The best bundle that leaves the other a little more than its reserve can be, by our guess."""

    def left(bundle: Bundle) -> float:
        others = rest(view.counts, bundle)
        return sum(n * v for n, v in zip(others, liked, strict=True)) * shrunk(view.turns)

    return max(
        bundles(view.counts),
        key=lambda b: (left(b) > max(RESERVES) + _MARGIN, worth(b, view.values), left(b)),
    )


def _words(view: View) -> str:
    """A message, sent once, that names the item it would miss most."""
    if not view.talk or len(view.mine) != 1:
        return ""
    names = ("books", "hats", "balls")
    return f"I care most for the {names[int(np.argmax(view.values))]}. What do you care for?"


def _offer(keeps: Bundle, message: str = "") -> str:
    return action(join_body(message, "offer " + " ".join(map(str, keeps))))
