"""Scripted players of the commons; they read the observation's text and nothing else.

All but ``random`` know the plan that is best for the table: `fair_share`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from srl_envs.families.dilemmas.commons import COLLAPSE_BELOW, SEATS, grown
from srl_envs.messages import join_body
from srl_envs.turns.grammar import action

_HEAD = re.compile(
    r"^You are player_(\d)\. CAPACITY (\d+), RATE 0\.(\d), LIMIT (\d+), PAR \d+\.$", re.MULTILINE
)
_ROUND = re.compile(
    r"^Round \d+: stock (\d+); player_0 (\d+), player_1 (\d+), player_2 (\d+), player_3 (\d+)[ ;]",
    re.MULTILINE,
)
_NOW = re.compile(r"^Round (\d+) of (\d+): ask for 0 to \d+ of (\d+) units\.", re.MULTILINE)
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
    left: int
    """Rounds left, this one included."""
    past: tuple[tuple[int, ...], ...]
    """Per round: the stock before it, then the harvest of every seat."""
    talk: bool

    def fair_share(self, rounds_ago: int = 0) -> int:
        """What the plan gave a seat in a past round, or gives it now."""
        stock = self.past[-rounds_ago][0] if rounds_ago else self.stock
        return fair_share(stock, self.capacity, self.rate, self.limit, self.left + rounds_ago)

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

    def was_erratic(self, rounds_ago: int) -> bool:
        """Whether two of the others took something else than the plan gave them, give or take one."""
        return sum(abs(excess) > 1 for excess in self.excesses(rounds_ago)) >= 2


def fair_share(stock: int, capacity: int, rate: int, limit: int, left: int) -> int:
    """Units for each seat by the plan that is best for all: leave half of the capacity, sell out late.

    Args:
        stock: before the harvest.
        capacity: where growth ends.
        rate: tenths.
        limit: of a request.
        left: rounds to come, this one included.
    """
    if left == 1 or _lasts(stock, capacity, rate, limit, left):
        return limit
    return min(limit, max(0, (stock - capacity // 2) // SEATS))


def _lasts(stock: int, capacity: int, rate: int, limit: int, left: int) -> bool:
    """Whether the stock outlives the game though all take the limit from now on."""
    for _ in range(left - 1):
        remains = stock - SEATS * limit
        if remains < COLLAPSE_BELOW:
            return False
        stock = grown(remains, capacity, rate)
    return True


def read_view(text: str) -> View:
    """The game as read from an observation."""
    head, now = _HEAD.search(text), _NOW.search(text)
    if head is None or now is None:
        raise ValueError("the text holds no round of the commons")
    seat, capacity, rate, limit = map(int, head.groups())
    number, rounds, stock = map(int, now.groups())
    past = tuple(tuple(map(int, found)) for found in _ROUND.findall(text))
    return View(
        seat, capacity, rate, limit, stock, rounds - number + 1, past, "<action>say:" in text
    )


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Any request."""
    return lambda text: _reply(int(rng.integers(read_view(text).limit + 1)))


def middle_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Leaves half of the capacity; takes the limit in the last round, and for two after a robbery.

    It names its share now and then.
    """

    def act(text: str) -> str:
        view = read_view(text)
        if view.left == 1 or _robbed_lately(view):
            return _reply(view.limit)
        share = min(view.limit, max(0, (view.stock - view.capacity // 2) // SEATS))
        plan = f"Let us each take {share} this round and leave {view.capacity // 2} in the ground."
        return _reply(share, plan if view.talk and view.left % 4 == 0 else "")

    return act


def _robbed_lately(view: View) -> bool:
    return any(view.was_robbed(n) for n in range(1, min(_MEMORY, len(view.past)) + 1))


def strong_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Keeps the plan of `fair_share` as long as all do; after one unit too many it takes the limit for good.

    Two of the others off the plan, above or below, make saving with them pointless, too.
    """

    def act(text: str) -> str:
        view = read_view(text)
        rounds = range(1, len(view.past) + 1)
        broken = any(max(view.excesses(n)) > 0 or view.was_erratic(n) for n in rounds)
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
