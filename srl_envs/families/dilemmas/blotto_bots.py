"""Scripted players of blotto; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from srl_envs.families.dilemmas.blotto import Spread, even_spread, random_spread
from srl_envs.grammar import action

_SOLDIERS = re.compile(r"each send (\d+) soldiers")
_VALUES = re.compile(r"^Field values: ([\d ]+)$", re.MULTILINE)
_ROUND = re.compile(r"^Round \d+: you sent [\d ]+; other sent ([\d ]+);", re.MULTILINE)
_GUESSES = 30
"""Spreads of each kind that the strong bot expects; few, so that its answer is hard to foresee."""
_COPIES = 12
"""How often it counts a spread that the other has sent."""


@dataclass(frozen=True, slots=True)
class View:
    """What a bot sees."""

    soldiers: int
    values: tuple[int, ...]
    theirs: tuple[Spread, ...]
    """What the other sent in past rounds."""


def read_view(text: str) -> View:
    """The game as an observation tells it."""
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
    """Best answer to a guess: some near-equilibrium and random spreads, and what the other has sent."""

    def act(text: str) -> str:
        view = read_view(text)
        fields = len(view.values)
        guesses = [near_equilibrium(rng, view.values, view.soldiers) for _ in range(_GUESSES)]
        guesses += [random_spread(rng, view.soldiers, fields) for _ in range(_GUESSES)]
        guesses += _COPIES * list(view.theirs)
        expected: dict[Spread, float] = {}
        for spread in guesses:
            expected[spread] = expected.get(spread, 0.0) + 1.0
        return _reply(best_answer(view.values, view.soldiers, expected))

    return act


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Draws from a near-equilibrium in every round; for rating only."""

    def act(text: str) -> str:
        view = read_view(text)
        return _reply(near_equilibrium(rng, view.values, view.soldiers))

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


def near_equilibrium(rng: np.random.Generator, values: Spread, soldiers: int) -> Spread:
    """One spread of a mixture that nobody gains much against.

    Without a limit on their sum, equilibrium forces are uniform from 0 to twice the field's share of all
    soldiers. Here they are drawn so, scaled to the sum, and rounded by chance.
    """
    shares_F = np.array(values) / sum(values)
    drawn_F = rng.random(len(values)) * shares_F
    exact_F = soldiers * drawn_F / drawn_F.sum()
    spread_F = np.floor(exact_F).astype(int)
    left = soldiers - int(spread_F.sum())
    rest_F = exact_F - spread_F
    if left:
        spread_F[rng.choice(len(values), left, replace=False, p=rest_F / rest_F.sum())] += 1
    return tuple(spread_F.tolist())


def _reply(spread: Spread) -> str:
    return action(" ".join(map(str, spread)))
