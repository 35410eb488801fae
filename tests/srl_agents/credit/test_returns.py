"""Reward-to-go, GAE over turns and tokens, and shaping, against recursions written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.credit.returns import gae, gae_over_tokens, rewards_to_go
from srl_agents.credit.shaping import shaping_rewards
from srl_envs.errors import ShapeError

NUMBER = st.floats(-2, 2)
EPISODES = st.lists(
    st.lists(st.tuples(NUMBER, NUMBER), min_size=0, max_size=5), min_size=1, max_size=4
)
DISCOUNT = st.sampled_from([1.0, 0.9, 0.5])


def padded(
    episodes: list[list[tuple[float, float]]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rewards, values and validity; what is not valid holds nonsense."""
    width = max(1, *map(len, episodes))
    rewards, values = np.full((len(episodes), width), 77.0), np.full((len(episodes), width), 88.0)
    valid = np.zeros(rewards.shape, bool)
    for e, steps in enumerate(episodes):
        for t, (reward, value) in enumerate(steps):
            rewards[e, t], values[e, t], valid[e, t] = reward, value, True
    return rewards, values, valid


@given(EPISODES, DISCOUNT, st.sampled_from([0.0, 0.7, 1.0]))
def test_gae_is_the_sum_of_discounted_errors(
    episodes: list[list[tuple[float, float]]], discount: float, trace: float
) -> None:
    rewards, values, valid = padded(episodes)
    got = gae(rewards, values, valid, discount=discount, trace=trace)
    for e, steps in enumerate(episodes):
        errors = [
            reward + discount * (steps[t + 1][1] if t + 1 < len(steps) else 0.0) - value
            for t, (reward, value) in enumerate(steps)
        ]
        for t in range(got.shape[1]):
            by_hand = sum((discount * trace) ** i * error for i, error in enumerate(errors[t:]))
            assert got[e, t] == pytest.approx(by_hand if t < len(steps) else 0.0, abs=1e-9)


@given(EPISODES, DISCOUNT)
def test_trace_one_is_reward_to_go_minus_value(
    episodes: list[list[tuple[float, float]]], discount: float
) -> None:
    rewards, values, valid = padded(episodes)
    to_go = rewards_to_go(rewards, valid, discount=discount)
    full = gae(rewards, values, valid, discount=discount, trace=1.0)
    assert full[valid] == pytest.approx((to_go - values)[valid], abs=1e-9)
    for e, steps in enumerate(episodes):
        by_hand = sum(discount**t * reward for t, (reward, _) in enumerate(steps))
        assert to_go[e, 0] == pytest.approx(by_hand, abs=1e-9)


def test_gae_worked_example() -> None:
    rewards, values = np.array([[1.0, 2.0]]), np.array([[0.5, 1.5]])
    got = gae(rewards, values, np.ones((1, 2), bool), discount=0.9, trace=0.8)
    second = 2.0 - 1.5
    assert got[0].tolist() == pytest.approx([1.0 + 0.9 * 1.5 - 0.5 + 0.9 * 0.8 * second, second])


def test_tokens_of_one_turn_share_no_time_and_turns_do() -> None:
    """Two turns of two and one tokens; a reward of 1 for the second turn."""
    got = gae_over_tokens(
        np.array([[0.0, 1.0]]), np.zeros((1, 4)), np.array([[0, 0, 1, -1]]),
        discount=0.5, trace=1.0,
    )  # fmt: skip
    assert got.tolist() == [[0.5, 0.5, 1.0, 0.0]]


def test_tokens_worked_example_with_values() -> None:
    values = np.array([[0.1, 0.2, 0.4]])
    got = gae_over_tokens(
        np.array([[1.0, 2.0]]), values, np.array([[0, 0, 1]]),
        discount=0.9, trace=0.5,
    )  # fmt: skip
    third = 2.0 - 0.4
    second = 1.0 + 0.9 * 0.4 - 0.2 + 0.9 * 0.5 * third
    first = 0.2 - 0.1 + 0.5 * second
    assert got[0].tolist() == pytest.approx([first, second, third])


@given(EPISODES, DISCOUNT)
def test_one_token_per_turn_is_gae_over_turns(
    episodes: list[list[tuple[float, float]]], discount: float
) -> None:
    rewards, values, valid = padded(episodes)
    turn = np.where(valid, np.arange(rewards.shape[1]), -1)
    by_token = gae_over_tokens(rewards, values, turn, discount=discount, trace=0.8)
    assert by_token == pytest.approx(gae(rewards, values, valid, discount=discount, trace=0.8))


@given(EPISODES, DISCOUNT)
def test_shaping_pays_the_same_whatever_was_played(
    episodes: list[list[tuple[float, float]]], discount: float
) -> None:
    """Only the first state's potential remains, and an episode of any length ends at 0."""
    _, potentials, valid = padded(episodes)
    added = shaping_rewards(potentials, valid, discount=discount)
    assert not added[~valid].any()
    to_go = rewards_to_go(added, valid, discount=discount)
    assert to_go[valid] == pytest.approx(-potentials[valid], abs=1e-9)


def test_shapes_are_checked() -> None:
    with pytest.raises(ShapeError, match="values_ET"):
        gae(np.zeros((1, 2)), np.zeros((1, 3)), np.ones((1, 2), bool))
    with pytest.raises(ShapeError, match="turn_ET"):
        gae_over_tokens(np.zeros((1, 1)), np.zeros((1, 3)), np.zeros((1, 2), np.int64))
    with pytest.raises(ShapeError, match="potentials_ET"):
        shaping_rewards(np.zeros((1, 2)), np.ones((2, 2), bool))
