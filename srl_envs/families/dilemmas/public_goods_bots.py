"""Scripted players of public goods; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from srl_envs.core import seat_name
from srl_envs.turns.grammar import action

_HEAD = re.compile(
    r"^You are player_(\d)\. TOKENS (\d+), (?:CUT (\d), )?PAR [\d.]+, FACTOR by round: ([\d. ]+)\.$",
    re.MULTILINE,
)
_ROUND = re.compile(
    r"^Round \d+: gave player_0 (\d+), player_1 (\d+), player_2 (\d+), player_3 (\d+);",
    re.MULTILINE,
)
_NOW = re.compile(
    r"^Round \d+ of \d+, FACTOR [\d.]+: (?:a cut may cost 1 to (\d+) points; )?give 0 to",
    re.MULTILINE,
)
_RICH = 4.0
"""From this factor on a token given brings its giver more than one."""
_ENOUGH = 0.6
"""Share of the tokens below which ``strong`` gives nothing in return."""


@dataclass(frozen=True, slots=True)
class View:
    """What a bot sees."""

    seat: int
    tokens: int
    effect: int
    """Points that a cut takes for each point paid; 0 in a game without cuts."""
    factors: tuple[float, ...]
    """Factors by which the pot is multiplied, per round."""
    given: tuple[tuple[int, ...], ...]
    """Tokens of all seats, per past round."""
    largest_cut: int
    """Largest possible cut; 0 without cuts."""

    @property
    def left(self) -> int:
        """Rounds left, this one included."""
        return len(self.factors) - len(self.given)

    @property
    def rich(self) -> bool:
        """Whether a token given now brings its giver more than one."""
        return self.factors[len(self.given)] >= _RICH

    def others(self, gifts: tuple[int, ...]) -> list[int]:
        """Of one number per seat, those of the others."""
        return [tokens for seat, tokens in enumerate(gifts) if seat != self.seat]

    def last_poor(self) -> tuple[int, ...]:
        """The gifts of the last round in which giving cost the giver; of the last one without such."""
        poor = [
            gifts for gifts, factor in zip(self.given, self.factors, strict=False) if factor < _RICH
        ]
        return (poor or self.given)[-1]

    def totals(self) -> tuple[int, ...]:
        """Tokens that each seat gave in all."""
        return tuple(map(sum, zip(*self.given, strict=True))) or (0, 0, 0, 0)

    def stingiest(self, gifts: tuple[int, ...]) -> int:
        """The other seat with the least of ``gifts``; the first of several."""
        return min((s for s in range(4) if s != self.seat), key=lambda s: gifts[s])


def read_view(text: str) -> View:
    """The game as read from an observation."""
    head, now = _HEAD.search(text), _NOW.search(text)
    if head is None or now is None:
        raise ValueError("the text holds no round of public goods")
    seat, tokens, effect, factors = head.groups()
    return View(
        int(seat),
        int(tokens),
        int(effect or 0),
        tuple(map(float, factors.split())),
        tuple(tuple(map(int, gifts)) for gifts in _ROUND.findall(text)),
        int(now.group(1) or 0),
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
    """Gives all where that brings itself more, else nothing, whatever the others do."""

    def act(text: str) -> str:
        view = read_view(text)
        return _reply(view.tokens if view.rich else 0)

    return act


def middle_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Gives all at first, then no more than the stingiest of the others did in the last round."""

    def act(text: str) -> str:
        view = read_view(text)
        return _reply(min(view.others(view.given[-1])) if view.given else view.tokens)

    return act


def punisher_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Gives everything, and cuts who gave least in all so far, by as much as it is behind."""

    def act(text: str) -> str:
        view = read_view(text)
        totals = view.totals()
        target = view.stingiest(totals)
        behind = totals[view.seat] - totals[target]
        if not view.largest_cut or behind <= 0:
            return _reply(view.tokens)
        return _reply(view.tokens, target, min(view.largest_cut, -(-behind // view.effect)))

    return act


def strong_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Gives all where that brings itself more. Elsewhere it gives what the stingiest other gave.

    It looks at the last round in which giving cost the giver, and gives nothing to those who gave less
    than six tenths there.
    """

    def act(text: str) -> str:
        view = read_view(text)
        if view.rich:
            return _reply(view.tokens)
        if not view.given:
            return _reply(0)
        least = min(view.others(view.last_poor()))
        return _reply(least if least >= _ENOUGH * view.tokens else 0)

    return act


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Gives what the others gave on average, and sometimes cuts the stingiest; for rating.

    Opens with everything.
    """

    def act(text: str) -> str:
        view = read_view(text)
        if not view.given:
            return _reply(view.tokens)
        last = view.given[-1]
        tokens = sum(view.others(last)) // 3
        target = view.stingiest(last)
        if view.largest_cut and last[target] < tokens and rng.random() < 0.5:
            return _reply(tokens, target, view.largest_cut)
        return _reply(tokens)

    return act


def _reply(tokens: int, target: int = -1, spent: int = 0) -> str:
    return action(f"{tokens} cut {seat_name(target)} {spent}" if spent else tokens)
