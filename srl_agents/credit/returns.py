"""Value of each moment from the rewards of an episode: reward-to-go and GAE.

Axes: ``E`` episodes (or rows), ``T`` turns or tokens, valid ones on the left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.batches import same_shape

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def rewards_to_go(rewards_ET: Floats, valid_ET: Flags, *, discount: float = 1.0) -> Floats:
    """G_t = r_t + discount * G_{t+1}: what was paid from each turn on.

    Args:
        rewards_ET: (E, T) rewards per turn.
        valid_ET: (E, T) True for turns that were played.
        discount: of the next turn's worth.

    Returns:
        (E, T); 0 where not valid.

    Raises:
        ShapeError: the arrays differ in shape.
    """
    zero_ET = np.zeros(rewards_ET.shape)
    return gae(rewards_ET, zero_ET, valid_ET, discount=discount, trace=1.0)


def gae(
    rewards_ET: Floats,
    values_ET: Floats,
    valid_ET: Flags,
    *,
    discount: Floats | float = 1.0,
    trace: Floats | float = 0.95,
) -> Floats:
    """Generalized advantage estimation over turns or tokens.

    A_t = delta_t + discount * trace * A_{t+1}, delta_t = r_t + discount * V_{t+1} - V_t, with V = A = 0
    after the last valid step: an episode's end is final, truncated ones included.

    Args:
        rewards_ET: (E, T) rewards.
        values_ET: (E, T) V before each step; from a critic or from running means.
        valid_ET: (E, T) True for steps that were taken.
        discount: of the next step's value; one number, or (E, T) for the way from t to t + 1.
        trace: lambda: 0 trusts the values, 1 the rewards; one number or (E, T).

    Returns:
        (E, T) advantages; 0 where not valid.

    Raises:
        ShapeError: the arrays differ in shape.

    Source: arXiv:1506.02438 equations 11 and 16.
    """
    same_shape(2, rewards_ET=rewards_ET, values_ET=values_ET, valid_ET=valid_ET)
    discount_ET = np.broadcast_to(np.asarray(discount, dtype=np.float64), rewards_ET.shape)
    trace_ET = np.broadcast_to(np.asarray(trace, dtype=np.float64), rewards_ET.shape)
    episodes, steps = rewards_ET.shape
    advantages_ET = np.zeros(rewards_ET.shape)
    value_E, advantage_E = np.zeros(episodes), np.zeros(episodes)
    for t in reversed(range(steps)):
        here_E, discount_E = valid_ET[:, t], discount_ET[:, t]
        delta_E = rewards_ET[:, t] + discount_E * value_E - values_ET[:, t]
        advantage_E = np.where(here_E, delta_E + discount_E * trace_ET[:, t] * advantage_E, 0.0)
        value_E = np.where(here_E, values_ET[:, t], 0.0)
        advantages_ET[:, t] = advantage_E
    return advantages_ET


def gae_over_tokens(
    turn_rewards_EK: Floats,
    values_ET: Floats,
    turn_ET: NDArray[np.int64],
    *,
    discount: float = 1.0,
    trace: float = 0.95,
) -> Floats:
    """GAE over the tokens of all turns of an episode, one after the other.

    A turn's reward is paid with its last token. Time passes between turns, not inside one:
    ``discount`` counts only where a turn ends. The value behind a turn is that of the next turn's
    first token, so what the environment wrote in between needs no value.

    Args:
        turn_rewards_EK: (E, K) reward of each turn.
        values_ET: (E, T) V before each token.
        turn_ET: (E, T) which turn a token belongs to, not falling; -1 on the right where there is none.
        discount: from turn to turn.
        trace: lambda.

    Returns:
        (E, T) advantages; 0 where a row has no token.

    Raises:
        ShapeError: tokens differ in shape.

    Source: arXiv:1506.02438 equation 16, with time as in a semi-Markov process.
    """
    same_shape(2, values_ET=values_ET, turn_ET=turn_ET)
    valid_ET = turn_ET >= 0
    after_ET = np.full(turn_ET.shape, -1, dtype=np.int64)
    after_ET[:, :-1] = turn_ET[:, 1:]
    last_ET = valid_ET & (after_ET != turn_ET)
    paid_ET = np.take_along_axis(turn_rewards_EK, np.maximum(turn_ET, 0), axis=1)
    return gae(
        np.where(last_ET, paid_ET, 0.0),
        values_ET,
        valid_ET,
        discount=np.where(last_ET, discount, 1.0),
        trace=trace,
    )
