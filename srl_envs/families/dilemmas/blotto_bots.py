"""Scripted players of blotto; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from srl_envs.families.dilemmas.blotto import Spread, even_spread, random_spread, values_key
from srl_envs.turns.grammar import action

_SOLDIERS = re.compile(r"each send (\d+) soldiers")
_VALUES = re.compile(r"^Field values: ([\d ]+)$", re.MULTILINE)
_ROUND = re.compile(r"^Round \d+: you sent [\d ]+; other sent ([\d ]+);", re.MULTILINE)
_ROUNDS_OF_PLAY = 400
"""Rounds of fictitious play behind the near-equilibrium."""
_GUESSES = 60
"""Random spreads that the strong bot reckons with before it has seen one."""
_TILT, _LEARNT = 1.0, 1.0
"""How much the logarithm of a spread's weight grows where it would win all value: against random spreads, and
against each spread that was sent. More would win more from the careless, and lose more to who foresees it."""


@dataclass(frozen=True, slots=True)
class View:
    """What a bot sees."""

    soldiers: int
    values: tuple[int, ...]
    theirs: tuple[Spread, ...]
    """Spreads of the other in past rounds."""


def read_view(text: str) -> View:
    """The game as read from an observation."""
    soldiers, values = _SOLDIERS.search(text), _VALUES.search(text)
    if soldiers is None or values is None:
        raise ValueError("the text holds no game of blotto")
    return View(
        int(soldiers.group(1)),
        _numbers(values.group(1)),
        tuple(_numbers(found) for found in _ROUND.findall(text)),
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Any spread."""

    def act(text: str) -> str:
        view = read_view(text)
        return _reply(random_spread(rng, view.soldiers, len(view.values)))

    return act


def even_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """The same force everywhere, every time."""

    def act(text: str) -> str:
        view = read_view(text)
        return _reply(even_spread(view.soldiers, len(view.values)))

    return act


def middle_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """In proportion to value: each soldier goes to a field with a chance as large as its value."""

    def act(text: str) -> str:
        view = read_view(text)
        shares = np.array(view.values) / sum(view.values)
        return _reply(tuple(rng.multinomial(view.soldiers, shares).tolist()))

    return act


def strong_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Draws from a near-equilibrium, more often what does well against random spreads and what was sent.

    It leaves out nothing that the equilibrium has, so no answer is safe, and a decoy moves it little.
    """

    def act(text: str) -> str:
        return _reply(_drawn(rng, *strong_chances(read_view(text), rng)))

    return act


def strong_chances(view: View, rng: np.random.Generator) -> tuple[list[Spread], np.ndarray]:
    """Spreads that the strong bot may send, and their weights."""
    mixture, fields = _near_equilibrium(view), len(view.values)
    strangers = [random_spread(rng, view.soldiers, fields) for _ in range(_GUESSES)]
    gains = _TILT * _mean_gains(view.values, mixture, strangers)
    if view.theirs:
        gains += _LEARNT * len(view.theirs) * _mean_gains(view.values, mixture, view.theirs)
    return list(mixture), np.array(list(mixture.values()), dtype=float) * np.exp(gains)


def _mean_gains(
    values: Spread, mixture: Mapping[Spread, int], sent: Sequence[Spread]
) -> np.ndarray:
    """Share of all value that each spread of a mixture wins, less what it loses: mean over ``sent``."""
    ours_SF, theirs_KF = np.array(list(mixture)), np.array(sent)
    signs_SKF = np.sign(ours_SF[:, None] - theirs_KF[None])
    mean_S: np.ndarray = (signs_SKF @ np.array(values)).mean(axis=1)
    return mean_S / sum(values)


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Draws from a near-equilibrium in every round; for rating only."""

    def act(text: str) -> str:
        mixture = _near_equilibrium(read_view(text))
        return _reply(_drawn(rng, list(mixture), np.array(list(mixture.values()), dtype=float)))

    return act


def best_answer(values: Spread, soldiers: int, expected: Mapping[Spread, float]) -> Spread:
    """The spread that does best against a mixture of spreads with weights, found exactly.

    Fields add up, so it is a knapsack: the best use of the first fields for every number of soldiers.
    """
    fields = len(values)
    sent_S = np.arange(soldiers + 1)
    spreads_KF = np.array(list(expected))
    weights_K = np.array(list(expected.values()))
    best_S = np.zeros(soldiers + 1)
    choices: list[list[int]] = []
    for field in range(fields):
        signs_SK = np.sign(sent_S[:, None] - spreads_KF[None, :, field])
        gain_S = values[field] * (signs_SK @ weights_K)
        # table[total, here]: the first fields share total - here
        table = np.full((soldiers + 1, soldiers + 1), -np.inf)
        for here in range(soldiers + 1):
            table[here:, here] = best_S[: soldiers + 1 - here] + gain_S[here]
        if field == 0:
            table = np.where(np.eye(soldiers + 1, dtype=bool), table, -np.inf)
        choices.append(table.argmax(axis=1).tolist())
        best_S = table.max(axis=1)
    spread: list[int] = []
    left = soldiers
    for choice in reversed(choices):
        spread.append(choice[left])
        left -= choice[left]
    return tuple(reversed(spread))


def _near_equilibrium(view: View) -> dict[Spread, int]:
    """Spreads with weights for the view's order of fields."""
    order = sorted(range(len(view.values)), key=lambda field: view.values[field])
    mixture: dict[Spread, int] = {}
    for spread, weight in fictitious_play(values_key(view.values), view.soldiers).items():
        placed = [0] * len(order)
        for rank, field in enumerate(order):
            placed[field] = spread[rank]
        mixture[tuple(placed)] = weight
    return mixture


@lru_cache(maxsize=512)
def fictitious_play(values: Spread, soldiers: int) -> Mapping[Spread, int]:
    """How often each spread was the best answer to all before it.

    The frequencies of fictitious play tend to an equilibrium of a zero-sum game.
    Source: Robinson, "An Iterative Method of Solving a Game", Annals of Mathematics 54(2), 1951.
    """
    counts: dict[Spread, int] = {even_spread(soldiers, len(values)): 1}
    for _ in range(_ROUNDS_OF_PLAY):
        answer = best_answer(values, soldiers, {key: float(n) for key, n in counts.items()})
        counts[answer] = counts.get(answer, 0) + 1
    return counts


def _drawn(rng: np.random.Generator, spreads: Sequence[Spread], weights: np.ndarray) -> Spread:
    return spreads[int(rng.choice(len(spreads), p=weights / weights.sum()))]


def _reply(spread: Spread) -> str:
    return action(" ".join(map(str, spread)))
