"""Scripted players of Nim; they read the observation's text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from srl_envs.families.board.nim import is_won
from srl_envs.turns.grammar import action

_HEAP = re.compile(r"^Heap \d: o* \((\d)\)$", re.MULTILINE)
_MISERE = "the very last object loses"

Move = tuple[int, int]
"""Index of a heap, objects taken."""


def read_heaps(text: str) -> tuple[list[int], bool]:
    """The heaps of an observation, and whether the last object loses."""
    heaps = [int(n) for n in _HEAP.findall(text)]
    if not heaps:
        raise ValueError("the text holds no heaps of Nim")
    return heaps, _MISERE in text


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Any legal move."""

    def act(text: str) -> str:
        return _reply(_any(_moves(read_heaps(text)[0]), rng))

    return act


def greedy_bot(rng: np.random.Generator) -> Callable[[str], str]:  # noqa: ARG001 - as all factories
    """Takes the whole of the largest heap."""

    def act(text: str) -> str:
        heaps, _ = read_heaps(text)
        largest = heaps.index(max(heaps))
        return _reply((largest, heaps[largest]))

    return act


def middle_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Exact with at most two heaps left, else plays at random."""
    return _exact_below(2, rng)


def strong_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Exact: wins whatever can be won, and loses slowly what cannot."""
    return _exact_below(9, rng)


def held_out_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Exact with at most three heaps left; before, clears heaps from the smallest. For rating only."""

    def act(text: str) -> str:
        heaps, misere = read_heaps(text)
        left = [(n, i) for i, n in enumerate(heaps) if n]
        if len(left) <= 3:
            return _reply(exact_move(heaps, misere=misere, rng=rng))
        count, index = min(left)
        return _reply((index, count))

    return act


def exact_move(heaps: list[int], *, misere: bool, rng: np.random.Generator) -> Move:
    """A move that wins; where none does, one object from a largest heap."""
    winning = [move for move in _moves(heaps) if not is_won(_after(heaps, move), misere=misere)]
    if winning:
        return _any(winning, rng)
    return heaps.index(max(heaps)), 1


def _exact_below(most: int, rng: np.random.Generator) -> Callable[[str], str]:
    def act(text: str) -> str:
        heaps, misere = read_heaps(text)
        if sum(n > 0 for n in heaps) <= most:
            return _reply(exact_move(heaps, misere=misere, rng=rng))
        return _reply(_any(_moves(heaps), rng))

    return act


def _moves(heaps: list[int]) -> list[Move]:
    return [(i, n) for i, left in enumerate(heaps) for n in range(1, left + 1)]


def _after(heaps: list[int], move: Move) -> list[int]:
    index, taken = move
    return [n - taken if i == index else n for i, n in enumerate(heaps)]


def _any(moves: list[Move], rng: np.random.Generator) -> Move:
    return moves[int(rng.integers(len(moves)))]


def _reply(move: Move) -> str:
    return action(f"{move[0] + 1} {move[1]}")
