"""Blotto and sealed bids: symmetric games, where an equilibrium leaves nothing to gain by another bid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.environments.solvers.rows import MakeBot, Solved, chances, move
from benchmarks.league.best_response import blotto_decisions, blotto_exploitability
from srl_envs.core import Streams, episode_entropy
from srl_envs.families.bargaining.sealed_auction import (
    LARGEST_VALUE,
    RESERVES,
    SEATS,
    Sale,
    SealedAuction,
)

SOLDIERS, FIELDS = 10, 3
BIDS = (0, *range(1, LARGEST_VALUE + 2))
SOLD = np.array([sum(reserve <= bid for reserve in RESERVES) / len(RESERVES) for bid in BIDS])
"""Chance that each bid reaches the seller's reserve."""
VALUES = range(LARGEST_VALUE + 1)


def blotto(bots: tuple[str, ...], make: MakeBot, *, draws: int = 2000) -> Solved:
    """What a best response wins from each bot in one round."""
    found = {}
    for name in bots:
        bot = make(name, 0)
        policy = {d.text: chances(bot, d.text, draws) for d in blotto_decisions(SOLDIERS, FIELDS)}
        found[name] = blotto_exploitability(policy, SOLDIERS, FIELDS)
    return Solved(
        game=f"blotto-v0 soldiers={SOLDIERS} fields={FIELDS} rounds=1 values=1,2,3",
        measure="share of all value that a best response wins more than it loses",
        solver="every spread tried; an equilibrium loses nothing, as the game is fair",
        solution=0.0,
        bots=found,
    )


def chance_to_win(bids: np.ndarray) -> np.ndarray:
    """Chance that a bid reaches the reserve and wins against three more, equal ones by lot.

    Args:
        bids: chance of each of `BIDS` for one rival.
    """
    below = np.concatenate(([0.0], np.cumsum(bids)[:-1]))
    ties = ((1, 3), (3, 2), (3, 1), (1, 0))
    won = sum(
        ways * bids**equal * below**lower / (equal + 1) for equal, (ways, lower) in enumerate(ties)
    )
    return np.asarray(SOLD * won)


def first_price_equilibrium(rounds: int = 20_000) -> tuple[np.ndarray, float]:
    """Bids of an equilibrium for private values that are equally likely, by fictitious play.

    Returns:
        Chance of each of `BIDS` by value, and what a best response gains over it, in coins per item.
    """
    mixed = np.full((len(VALUES), len(BIDS)), 1 / len(BIDS))
    gains = np.array(VALUES)[:, None] - np.array(BIDS)[None, :]
    for number in range(1, rounds + 1):
        worth = gains * chance_to_win(mixed.mean(axis=0))
        best = np.zeros_like(mixed)
        best[np.arange(len(VALUES)), worth.argmax(axis=1)] = 1.0
        mixed += (best - mixed) / (number + 1)
    worth = gains * chance_to_win(mixed.mean(axis=0))
    return mixed, float((worth.max(axis=1) - (worth * mixed).sum(axis=1)).mean())


def auction(bots: tuple[str, ...], make: MakeBot, price: str, *, sales: int = 4000) -> Solved:
    """What the best bid for each value gains over a bot's own, all four seats being that bot.

    The purse hardly binds, and only the first of two items counts, so all that others have is hidden.
    The best bids are chosen on one half of the sales and paid on the other one.
    """
    game = SealedAuction(price=price, values="private", items=2, purse=60)
    found = {}
    for name in bots:
        seats = [make(name, seed) for seed in range(SEATS)]
        made = []
        for seed in range(sales):
            state = game.new(Streams(*episode_entropy("sealed_auction", 0, "train", seed)))
            bids = [int(move(bot, game.observe(state, seat))) for seat, bot in enumerate(seats)]
            made.append((state, bids))
        found[name] = _gain(made[::2], made[1::2])
    left, solver = 0.0, "the bid of one's value is best whatever others bid (Vickrey 1961)"
    if price == "first":
        _, left = first_price_equilibrium()
        solver = "fictitious play over values and bids"
    return Solved(
        game=f"sealed_auction-v1 price={price} values=private items=2 purse=60",
        measure="coins per item that the best bids gain over its own, beside three copies",
        solver=solver,
        solution=left,
        bots=found,
    )


Made = Sequence[tuple[Sale, list[int]]]
"""Sales with what each seat bid for the first item."""


def _gain(chosen_on: Made, paid_on: Made) -> float:
    totals = np.zeros((len(VALUES), len(BIDS)))
    for state, bids in chosen_on:
        for seat in range(SEATS):
            totals[state.values[seat][0]] += _worth_of_each(state, bids, seat)
    best = totals.argmax(axis=1)
    gains = []
    for state, bids in paid_on:
        for seat in range(SEATS):
            worth = _worth_of_each(state, bids, seat)
            gains.append(worth[best[state.values[seat][0]]] - worth[BIDS.index(bids[seat])])
    return float(np.mean(gains))


def _worth_of_each(state: Sale, bids: list[int], seat: int) -> np.ndarray:
    """What each of `BIDS` would have brought a seat, in the mean over reserves and lots of equal bids."""
    value = state.values[seat][0]
    others = [bid for s, bid in enumerate(bids) if s != seat]
    highest, worth = max(others), np.zeros(len(BIDS))
    for number, bid in enumerate(BIDS):
        if bid and bid >= highest:
            prices = [bid if state.first_price else max(r, highest) for r in RESERVES if r <= bid]
            gains = [value - price for price in prices]
            worth[number] = sum(gains) / len(RESERVES) / (1 + others.count(bid))
    return worth
