"""Scripted players of public goods; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from srl_envs.grammar import action

_HEAD = re.compile(
    r"^You are P(\d)\. Tokens in every round: (\d+)\. The pot is multiplied by (\d\.\d)\.$",
    re.MULTILINE,
)
_ROUND = re.compile(r"^Round \d+: given by P1 (\d+), P2 (\d+), P3 (\d+), P4 (\d+);", re.MULTILINE)
_NOW = re.compile(r"Round (\d+) of (\d+): give 0 to \d+ tokens(?:; a cut may cost 1 to (\d+))?")


@dataclass(frozen=True, slots=True)
class View:
    """What a bot sees."""

    seat: int
    tokens: int
    given: tuple[tuple[int, ...], ...]
    """Tokens of all seats, per past round."""
    left: int
    """Rounds to come, this one included."""
    largest_cut: int
    """0 where no cut is possible."""
    factor: float
    """By which the pot is multiplied."""

    def others(self, rounds_ago: int = 1) -> list[int]:
        """What the others gave."""
        gifts = self.given[-rounds_ago]
        return [tokens for seat, tokens in enumerate(gifts) if seat != self.seat]

    def mean_of_others(self, rounds_ago: int = 1) -> float:
        """Tokens."""
        return sum(self.others(rounds_ago)) / 3

    def stingiest(self) -> int:
        """The other seat that gave least in the last round; the first of several."""
        gifts = self.given[-1]
        return min((s for s in range(4) if s != self.seat), key=lambda s: gifts[s])


def read_view(text: str) -> View:
    """The game as an observation tells it."""
    head, now = _HEAD.search(text), _NOW.search(text)
    if head is None or now is None:
        raise ValueError("the text holds no round of public goods")
    return View(
        int(head.group(1)) - 1,
        int(head.group(2)),
        tuple(tuple(map(int, gifts)) for gifts in _ROUND.findall(text)),
        int(now.group(2)) - int(now.group(1)) + 1,
        int(now.group(3) or 0),
        float(head.group(3)),
    )


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Any number of tokens; now and then a cut of anyone."""

    def act(text: str) -> str:
        view = read_view(text)
        tokens = int(rng.integers(view.tokens + 1))
        if not view.largest_cut or rng.random() >= 0.25:
            return _reply(tokens)
        target = (view.seat + int(rng.integers(1, 4))) % 4
        return _reply(tokens, target, int(rng.integers(1, view.largest_cut + 1)))

    return act


def free_rider_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Keeps everything."""
    return lambda _: _reply(0)


def generous_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Gives everything."""
    return lambda text: _reply(read_view(text).tokens)


def middle_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Gives what the others gave on average, give or take one; opens with three quarters."""

    def act(text: str) -> str:
        view = read_view(text)
        wanted = view.mean_of_others() if view.given else 0.75 * view.tokens
        return _reply(_between(round(wanted) + int(rng.integers(-1, 2)), view.tokens))

    return act


def punisher_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Gives everything, and cuts who gave less than half as hard as it may."""

    def act(text: str) -> str:
        view = read_view(text)
        if view.given and view.largest_cut and min(view.others()) < view.tokens / 2:
            return _reply(view.tokens, view.stingiest(), view.largest_cut)
        return _reply(view.tokens)

    return act


def strong_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Leads by example while it is followed, keeps its tokens when it is not, or when the end is near.

    It opens with everything and goes on as long as the others give seven tenths of theirs.
    """

    def act(text: str) -> str:
        view = read_view(text)
        if not view.given:
            return _reply(view.tokens)
        followed = view.mean_of_others() >= 0.7 * view.tokens
        if view.left <= 1 or not followed:
            return _reply(0)
        return _reply(view.tokens)

    return act


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Gives a little less than the median of the others, and sometimes cuts the stingiest; for rating.

    Opens with between half and all of its tokens.
    """

    def act(text: str) -> str:
        view = read_view(text)
        if not view.given:
            return _reply(int(rng.integers(view.tokens // 2, view.tokens + 1)))
        tokens = _between(sorted(view.others())[1] - int(rng.integers(2)), view.tokens)
        envious = min(view.others()) < tokens - view.tokens / 4
        if view.largest_cut and envious and rng.random() < 0.5:
            return _reply(tokens, view.stingiest(), 1)
        return _reply(tokens)

    return act


def _between(wanted: int, tokens: int) -> int:
    return min(max(wanted, 0), tokens)


def _reply(tokens: int, target: int = -1, spent: int = 0) -> str:
    return action(f"{tokens} cut P{target + 1} {spent}" if spent else tokens)
