"""Shares of a team's reward: axioms, and games whose answer is known."""

from collections.abc import Callable
from itertools import permutations
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.credit.group_relative import group_advantages
from srl_agents.credit.teams.coalitions import (
    difference_rewards,
    sampled_shapley_shares,
    shapley_shares,
)
from srl_envs.errors import ConfigError

GAMES = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.integers(-5, 5), min_size=2**n, max_size=2**n).map(tuple)
    )
)


def table(worths: tuple[int, ...]) -> Callable[[frozenset[int]], float]:
    return lambda coalition: float(worths[sum(1 << i for i in coalition)])


def gloves(coalition: frozenset[int]) -> float:
    """Players 0 and 1 hold a left glove, player 2 a right one; a pair is worth 1."""
    return float(2 in coalition and len(coalition) > 1)


def test_the_glove_game() -> None:
    assert shapley_shares(3, gloves) == pytest.approx([1 / 6, 1 / 6, 4 / 6])
    assert difference_rewards(3, gloves).tolist() == [0.0, 0.0, 1.0]


@given(GAMES)
def test_exact_shares_are_means_over_all_orders(game: tuple[int, tuple[int, ...]]) -> None:
    players, worths = game
    value = table(worths)
    by_hand = np.zeros(players)
    for order in permutations(range(players)):
        for place, i in enumerate(order):
            before = frozenset(order[:place])
            by_hand[i] += (value(before | {i}) - value(before)) / factorial(players)
    assert shapley_shares(players, value) == pytest.approx(by_hand)


@given(GAMES, st.integers(0, 99))
def test_shares_are_efficient_exact_and_sampled(
    game: tuple[int, tuple[int, ...]], seed: int
) -> None:
    players, worths = game
    value = table(worths)
    whole = value(frozenset(range(players))) - value(frozenset())
    assert shapley_shares(players, value).sum() == pytest.approx(whole)
    sampled = sampled_shapley_shares(players, value, 1, np.random.default_rng(seed))
    assert sampled.sum() == pytest.approx(whole)


@given(GAMES)
def test_a_player_who_adds_nothing_gets_nothing_and_twins_get_the_same(
    game: tuple[int, tuple[int, ...]],
) -> None:
    players, worths = game
    inner = table(worths)

    def value(coalition: frozenset[int]) -> float:
        """Player n is a dummy; players n + 1 and n + 2 are twins that only count together."""
        twins = 3.0 * (coalition >= {players + 1, players + 2})
        return inner(frozenset(i for i in coalition if i < players)) + twins

    shares = shapley_shares(players + 3, value)
    assert shares[players] == pytest.approx(0)
    assert shares[players + 1] == pytest.approx(1.5)
    assert shares[players + 2] == pytest.approx(1.5)


def test_sampled_shares_come_near_the_exact_ones() -> None:
    weights = np.array([4, 3, 2, 1, 1, 1])

    def majority(coalition: frozenset[int]) -> float:
        return float(weights[list(coalition)].sum() > 6)

    sampled = sampled_shapley_shares(6, majority, 400, np.random.default_rng(0))
    assert sampled == pytest.approx(shapley_shares(6, majority), abs=0.05)


def test_a_difference_moves_as_the_team_does() -> None:
    def team(help_: float) -> Callable[[frozenset[int]], float]:
        return lambda coalition: help_ * (0 in coalition) + 2.0 * (coalition >= {0, 1})

    low, high = difference_rewards(2, team(0.3)), difference_rewards(2, team(0.8))
    assert low.tolist() == pytest.approx([2.3, 2.0])
    assert (high - low).tolist() == pytest.approx([0.5, 0.0])


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4), st.floats(-2, 2))
def test_a_counterfactual_per_start_state_cancels_in_the_group(
    returns: list[float], counterfactual: float
) -> None:
    """Why counterfactuals are taken per attempt, from replays, and not per start state."""
    returns_BG, valid_BG = np.array([returns]), np.ones((1, 4), bool)
    assert group_advantages(returns_BG - counterfactual, valid_BG) == pytest.approx(
        group_advantages(returns_BG, valid_BG), abs=1e-9
    )


def test_too_many_players_are_referred_to_sampling() -> None:
    with pytest.raises(ConfigError, match="sampled_shapley_shares"):
        shapley_shares(11, gloves)
    with pytest.raises(ConfigError, match="orders=0"):
        sampled_shapley_shares(2, gloves, 0, np.random.default_rng(0))
