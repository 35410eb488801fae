"""Contribution of one player to a team: difference rewards and Shapley shares.

Both ask what a coalition is worth: ``value(players)`` is the team's reward when those play and the
others do nothing, or are replaced by a stand-in. A game that can be recomputed with other actions
answers at once; else each answer costs an episode.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import factorial

import numpy as np
from numpy.typing import NDArray

from srl_envs.errors import ConfigError

Floats = NDArray[np.float64]
Value = Callable[[frozenset[int]], float]

EXACT_LIMIT = 10
"""Most players for exact shares: 2^10 coalitions."""


def difference_rewards(players: int, value: Value) -> Floats:
    """(N,) the whole team's worth minus its worth without the player.

    D_i = v(all) - v(all but i): aligned with the team (what raises v raises D_i by as much, if the
    others stay as they are) and free of the noise of what the others did. Does not sum to v(all).

    Source: "Optimal Payoff Functions for Members of Collectives", doi:10.1142/S0219525901000188.
    """
    everyone = frozenset(range(players))
    whole = value(everyone)
    return np.array([whole - value(everyone - {i}) for i in range(players)])


def shapley_shares(players: int, value: Value) -> Floats:
    """(N,) exact Shapley shares: the mean of what a player adds over all orders of joining.

    phi_i = sum over S without i of |S|! (n - |S| - 1)! / n! * (v(S + i) - v(S)). The shares sum to
    v(all) - v(none). Each coalition is valued once: 2^n calls.

    Args:
        players: n, 1 to `EXACT_LIMIT`.
        value: worth of a coalition.

    Raises:
        ConfigError: too many players, or none.

    Source: "A Value for n-Person Games", Contributions to the Theory of Games II, 1953.
    """
    if not 1 <= players <= EXACT_LIMIT:
        raise ConfigError(
            f"{players} players: exact shares need 1 to {EXACT_LIMIT}; "
            "use sampled_shapley_shares for more."
        )
    worth = {
        frozenset(s): value(frozenset(s))
        for size in range(players + 1)
        for s in combinations(range(players), size)
    }
    shares_N = np.zeros(players)
    for coalition, before in worth.items():
        for i in set(range(players)) - coalition:
            size = len(coalition)
            weight = factorial(size) * factorial(players - size - 1) / factorial(players)
            shares_N[i] += weight * (worth[coalition | {i}] - before)
    return shares_N


def sampled_shapley_shares(
    players: int, value: Value, orders: int, rng: np.random.Generator
) -> Floats:
    """(N,) Shapley shares over random orders of joining, each taken forwards and backwards.

    Unbiased. Every order shares out v(all) - v(none) completely, so the efficiency axiom holds for
    any number of orders, not only in the mean.

    Args:
        players: n, 1 or more.
        value: worth of a coalition; asked at most 2 * orders * (n + 1) times.
        orders: pairs of orders, 1 or more.
        rng: draws the orders.

    Raises:
        ConfigError: no players or no orders.

    Source: "Polynomial calculation of the Shapley value based on sampling",
    doi:10.1016/j.cor.2008.04.004; pairs of opposite orders, arXiv:2104.12199 section 3.
    """
    if players < 1 or orders < 1:
        raise ConfigError(f"players={players}, orders={orders}: use 1 or more of both.")
    shares_N = np.zeros(players)
    for _ in range(orders):
        order = rng.permutation(players)
        for joining in (order, order[::-1]):
            coalition: frozenset[int] = frozenset()
            before = value(coalition)
            for i in joining:
                coalition |= {int(i)}
                after = value(coalition)
                shares_N[i] += after - before
                before = after
    return shares_N / (2 * orders)
