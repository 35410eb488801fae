"""Scripted players of treaties: they read map, positions and orders, and never what is said.

Messages of others cannot move them, true or not (`treaties_plans`). They do speak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from srl_envs.core import seat_name
from srl_envs.families.tables.treaties import SILENCE, random_message
from srl_envs.families.tables.treaties_orders import NO_ORDERS, Order
from srl_envs.families.tables.treaties_plans import (
    Seen,
    advance,
    all_hold,
    any_order,
    read,
    together,
)
from srl_envs.families.tables.treaties_search import searched
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]


def _sent(seen: Seen, orders: Mapping[int, Order]) -> str:
    table = seen.table()
    return action("; ".join(table.written(orders[at]) for at in seen.own()) or NO_ORDERS)


def random_bot(rng: np.random.Generator) -> Bot:
    """Words that mean nothing; any orders."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.speaks:
            return action(random_message(rng, seen.rivals()))
        return _sent(seen, {at: any_order(seen, at, rng) for at in seen.own()})

    return act


def holder_bot(_rng: np.random.Generator) -> Bot:
    """Silence, and no unit moves."""

    def act(text: str) -> str:
        seen = read(text)
        return action(SILENCE) if seen.speaks else _sent(seen, all_hold(seen.own()))

    return act


def middle_bot(rng: np.random.Generator) -> Bot:
    """Silence; every unit goes the shortest way to a centre that is not its own, and none supports."""

    def act(text: str) -> str:
        seen = read(text)
        return action(SILENCE) if seen.speaks else _sent(seen, advance(seen, seen.me, rng))

    return act


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Moves where most of its units can help, and has them help; guards the rest. For ratings only."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.speaks:
            first = "to all: I keep what I own, and take what is left open."
            return action(first if seen.round == 1 else SILENCE)
        return _sent(seen, together(seen, seen.me, rng))

    return act


def strong_bot(rng: np.random.Generator) -> Bot:
    """Guesses what the others may do, and searches orders that do best on average."""

    def act(text: str) -> str:
        seen = read(text)
        return action(_warning(seen)) if seen.speaks else _sent(seen, searched(seen, rng))

    return act


def _warning(seen: Seen) -> str:
    """Names the rival with most centres, if it leads."""
    counts = {seat: seen.owners.count(seat) for seat in seen.rivals()}
    leader = max(counts, key=lambda seat: (counts[seat], -seat))
    if counts[leader] <= seen.owners.count(seen.me):
        return SILENCE
    return f"to all: {seat_name(leader)} has most centres. Do not help it."
