"""Scripted players of the commons; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from srl_envs.families.dilemmas.commons import CAPACITY, LARGEST_REQUEST, SEATS, grown
from srl_envs.grammar import action
from srl_envs.messages import join_body

_HEAD = re.compile(r"^You are P(\d)\. Growth: 0\.(\d)\.$", re.MULTILINE)
_ROUND = re.compile(
    r"^Round \d+: stock (\d+); harvested by P1 (\d+), P2 (\d+), P3 (\d+), P4 (\d+)[ ;]",
    re.MULTILINE,
)
_NOW = re.compile(r"^You have \d+ units in all\. Round (\d+) of (\d+), stock (\d+):", re.MULTILINE)
_BEST_STOCK = CAPACITY // 2
"""Left in the ground, it grows fastest."""
_DANGER = 44
"""A smaller stock grows so slowly that its days are counted."""
_LAST_ROUNDS = 2
"""Rounds before the end in which patience no longer pays one seat."""


@dataclass(frozen=True, slots=True)
class View:
    """What a bot sees."""

    seat: int
    rate: int
    """Tenths."""
    stock: int
    left: int
    """Rounds to come, this one included."""
    past: tuple[tuple[int, ...], ...]
    """Per round: the stock before it, then the harvest of every seat."""
    talk: bool

    def fair_share(self) -> int:
        """A fourth of what may be taken so that the stock can be harvested for ever."""
        return fair_share(self.stock, self.rate)

    def others_last(self) -> int:
        """Units that the others took in the last round; before it, their fair shares."""
        if not self.past:
            return (SEATS - 1) * self.fair_share()
        harvest = self.past[-1][1:]
        return sum(harvest) - harvest[self.seat]


def fair_share(stock: int, rate: int) -> int:
    """A fourth of what leaves the stock at its best size, or half of its growth where it is smaller."""
    spare = stock - _BEST_STOCK
    if spare < SEATS:
        spare = max(spare, (grown(stock, rate) - stock) // 2)
    return min(LARGEST_REQUEST, max(0, spare // SEATS))


def read_view(text: str) -> View:
    """The game as an observation tells it."""
    head, now = _HEAD.search(text), _NOW.search(text)
    if head is None or now is None:
        raise ValueError("the text holds no round of the commons")
    return View(
        int(head.group(1)) - 1,
        int(head.group(2)),
        int(now.group(3)),
        int(now.group(2)) - int(now.group(1)) + 1,
        tuple(tuple(map(int, found)) for found in _ROUND.findall(text)),
        "say:" in text.partition("\n\n")[0],
    )


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Any request."""
    return lambda _: _reply(int(rng.integers(LARGEST_REQUEST + 1)))


def greedy_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """As much as it may, always."""
    return lambda _: _reply(LARGEST_REQUEST)


def middle_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Its fair share, whatever the others do, and everything in the last round; names the share."""

    def act(text: str) -> str:
        view = read_view(text)
        share = view.fair_share()
        if view.left == 1:
            return _reply(LARGEST_REQUEST)
        plan = f"Let us each take {share} this round and leave half of {CAPACITY} in the ground."
        return _reply(share, plan if view.talk and view.left % 4 == 0 else "")

    return act


def strong_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Its fair share and one more while the stock is safe; all it may where the others will kill it.

    What the others do not save cannot be saved by one, and at the end there is nothing to save for.
    """

    def act(text: str) -> str:
        view = read_view(text)
        share = view.fair_share()
        doomed = view.stock - share - view.others_last() < _DANGER
        if doomed or view.left <= _LAST_ROUNDS:
            return _reply(LARGEST_REQUEST)
        safe = view.stock - SEATS * share > _BEST_STOCK
        return _reply(min(LARGEST_REQUEST, share + safe))

    return act


def imitator_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """What the others took on average in the last round; opens with any request up to a half."""

    def act(text: str) -> str:
        view = read_view(text)
        if not view.past:
            return _reply(int(rng.integers(LARGEST_REQUEST // 2 + 1)))
        return _reply(min(LARGEST_REQUEST, view.others_last() // (SEATS - 1)))

    return act


def held_out_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Its fair share, moved half of the way to what the others took last; for rating only."""

    def act(text: str) -> str:
        view = read_view(text)
        if view.left == 1:
            return _reply(LARGEST_REQUEST)
        wanted = view.fair_share()
        if view.past:
            wanted = round((wanted + view.others_last() / (SEATS - 1)) / 2)
        return _reply(min(LARGEST_REQUEST, wanted))

    return act


def _reply(amount: int, message: str = "") -> str:
    return action(join_body(message, str(amount)))
