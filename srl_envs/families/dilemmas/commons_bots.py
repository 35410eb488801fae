"""Scripted players of the commons; they read the observation's text and nothing else.

All but ``random`` know the plan that serves the table: `fair_share`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from srl_envs.families.dilemmas.commons import SEATS
from srl_envs.messages import join_body
from srl_envs.turns.grammar import action

_HEAD = re.compile(
    r"^You are player_(\d)\. CAPACITY (\d+), RATE 0\.(\d), LIMIT (\d+), PAR \d+\.$", re.MULTILINE
)
_ROUND = re.compile(
    r"^Round \d+: stock (\d+); player_0 (\d+), player_1 (\d+), player_2 (\d+), player_3 (\d+)[ ;]",
    re.MULTILINE,
)
_NOW = re.compile(r"^Round (\d+) of at most (\d+): ask for 0 to \d+ of (\d+) units\.", re.MULTILINE)
_MEMORY = 2
"""Rounds that ``middle`` remembers."""


@dataclass(frozen=True, slots=True)
class View:
    """What a bot sees."""

    seat: int
    capacity: int
    rate: int
    """Growth rate in tenths."""
    limit: int
    stock: int
    is_last: bool
    """Whether no round can follow."""
    past: tuple[tuple[int, ...], ...]
    """Per round: the stock before it, then the harvest of every seat."""
    talk: bool

    def fair_share(self, rounds_ago: int = 0) -> int:
        """What the plan gave a seat in a past round, or gives it now."""
        if self.is_last and not rounds_ago:
            return self.limit
        stock = self.past[-rounds_ago][0] if rounds_ago else self.stock
        return fair_share(stock, self.capacity, self.limit)

    def excesses(self, rounds_ago: int) -> list[int]:
        """What each of the others took above the plan; below zero where it took less."""
        share = self.fair_share(rounds_ago)
        harvest = self.past[-rounds_ago][1:]
        return [units - share for seat, units in enumerate(harvest) if seat != self.seat]

    def slack(self, rounds_ago: int) -> int:
        """Units off the plan that are forgiven."""
        return max(1, self.fair_share(rounds_ago) // 4)

    def was_robbed(self, rounds_ago: int) -> bool:
        """Whether one of the others clearly took more than the plan gave it."""
        return max(self.excesses(rounds_ago)) > self.slack(rounds_ago)

    def opened_otherwise(self) -> bool:
        """Whether two of the others left some of what the first round has for all."""
        return bool(self.past) and sum(excess < 0 for excess in self.excesses(len(self.past))) >= 2


def fair_share(stock: int, capacity: int, limit: int) -> int:
    """Units for each seat by the plan that serves all: leave half of the capacity, where most grows back.

    Args:
        stock: before the harvest.
        capacity: where growth ends.
        limit: of a request.
    """
    return min(limit, max(0, (stock - capacity // 2) // SEATS))


def read_view(text: str) -> View:
    """The game as read from an observation."""
    head, now = _HEAD.search(text), _NOW.search(text)
    if head is None or now is None:
        raise ValueError("the text holds no round of the commons")
    seat, capacity, rate, limit = map(int, head.groups())
    number, rounds, stock = map(int, now.groups())
    past = tuple(tuple(map(int, found)) for found in _ROUND.findall(text))
    talk = "<action>say:" in text
    return View(seat, capacity, rate, limit, stock, number == rounds, past, talk)


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Any request."""
    return lambda text: _reply(int(rng.integers(read_view(text).limit + 1)))


def middle_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Leaves a twentieth more than half of the capacity, to be safe.

    It takes the limit for two rounds after a robbery and where no round follows, and names its share now
    and then.
    """

    def act(text: str) -> str:
        view = read_view(text)
        if view.is_last or _robbed_lately(view):
            return _reply(view.limit)
        leave = 11 * view.capacity // 20
        share = min(view.limit, max(0, (view.stock - leave) // SEATS))
        plan = f"Let us each take {share} this round and leave {leave} in the ground."
        return _reply(share, plan if view.talk and len(view.past) % 4 == 0 else "")

    return act


def _robbed_lately(view: View) -> bool:
    return any(view.was_robbed(n) for n in range(1, min(_MEMORY, len(view.past)) + 1))


def strong_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Keeps the plan of `fair_share` as long as all do; after one unit too many it takes the limit for good.

    Two who do not take what is free in the first round make saving with them pointless, too.
    """

    def act(text: str) -> str:
        view = read_view(text)
        robbed = any(max(view.excesses(n)) > 0 for n in range(1, len(view.past) + 1))
        broken = robbed or view.opened_otherwise()
        return _reply(view.limit if broken else view.fair_share())

    return act


def held_out_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """The plan's share and as much more as the greediest took above it last round; for rating only."""

    def act(text: str) -> str:
        view = read_view(text)
        excess = max(0, *view.excesses(1)) if view.past else 0
        return _reply(min(view.limit, view.fair_share() + excess))

    return act


def _reply(amount: int, message: str = "") -> str:
    return action(join_body(message, str(amount)))
