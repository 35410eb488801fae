"""Weights follow the game: common payoffs raise beta, opposed ones gamma."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.credit.teams.adaptive import AdaptiveWeights, PayoffShares, payoff_shares

PAIRS = st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=2, max_size=12)


def shares(own: np.ndarray, other: np.ndarray, group: np.ndarray | None = None) -> PayoffShares:
    group = np.zeros(len(own), np.int64) if group is None else group
    return payoff_shares(own, (own + other) / 2, other, group)


def test_the_ends_of_the_scale() -> None:
    own = np.array([1.0, -1.0, 0.5])
    assert shares(own, -own) == PayoffShares(shared=0.0, opposed=1.0)  # zero-sum
    assert shares(own, own) == PayoffShares(shared=1.0, opposed=0.0)  # common payoff
    nothing = np.full(3, 0.3)
    assert shares(nothing, -nothing) == PayoffShares(shared=None, opposed=None)


def test_a_mixed_game_by_hand() -> None:
    """The other's outcome never moves: half of the variation is shared, half opposed."""
    got = shares(np.array([1.0, 0.0]), np.array([0.2, 0.2]))
    assert (got.shared, got.opposed) == pytest.approx((0.5, 0.5))


def test_start_states_say_nothing_about_the_game() -> None:
    """Good and bad starts for both, in a game that is zero-sum from each."""
    own = np.array([5.0, 4.0, -5.0, -4.0])
    other = np.array([4.0, 5.0, -4.0, -5.0])
    group = np.array([0, 0, 1, 1])
    assert shares(own, other, group) == PayoffShares(shared=0.0, opposed=1.0)
    mixed = shares(own, other)
    assert mixed.shared is not None
    assert mixed.shared > 0.9


@given(PAIRS)
def test_two_seats_share_what_they_do_not_oppose(pairs: list[tuple[float, float]]) -> None:
    own, other = (np.array(column) for column in zip(*pairs, strict=True))
    got = shares(own, other)
    if got.shared is not None and got.opposed is not None:
        assert 0 <= got.shared <= 1
        assert got.shared + got.opposed == pytest.approx(1)


def test_without_rivals_nothing_is_opposed() -> None:
    own = np.array([1.0, 0.0])
    got = payoff_shares(own, own, np.full(2, np.nan), np.zeros(2, np.int64))
    assert got == PayoffShares(shared=1.0, opposed=None)


def test_weights_walk_to_their_targets_by_hand() -> None:
    weights = AdaptiveWeights(cooperation=0.8, competition=0.4, rate=0.25)
    assert (weights.beta, weights.gamma) == (0.4, 0.2)
    weights.observe(PayoffShares(shared=0.0, opposed=1.0))
    assert (weights.beta, weights.gamma) == pytest.approx((0.3, 0.25))
    weights.observe(PayoffShares(shared=None, opposed=None))
    assert (weights.beta, weights.gamma) == pytest.approx((0.3, 0.25))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=30))
def test_weights_stay_in_bounds(observed: list[tuple[float, float]]) -> None:
    weights = AdaptiveWeights(cooperation=0.5, competition=2.0, rate=0.9)
    for shared, opposed in observed:
        weights.observe(PayoffShares(shared, opposed))
        assert 0 <= weights.beta <= 0.5
        assert 0 <= weights.gamma <= 2.0


def test_the_state_survives_json() -> None:
    weights = AdaptiveWeights(0.5, 0.5, 0.3)
    weights.observe(PayoffShares(1 / 3, 2 / 7))
    other = AdaptiveWeights(0.5, 0.5, 0.3)
    other.load_state(json.loads(json.dumps(weights.state())))
    assert other.state() == weights.state()
