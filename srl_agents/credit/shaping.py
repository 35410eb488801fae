"""Potential-based shaping: extra rewards that leave the best policy unchanged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.batches import same_shape


def shaping_rewards(
    potentials_ET: NDArray[np.float64], valid_ET: NDArray[np.bool_], *, discount: float = 1.0
) -> NDArray[np.float64]:
    """F_t = discount * Phi(s_{t+1}) - Phi(s_t), with Phi = 0 after the last turn.

    The discounted sum from any turn on is -Phi of that turn's state: whatever the play, so the order
    of policies stays. The 0 at the end is what makes this true for episodes of different length; a
    last step that kept its potential would pay for ending in one state rather than another.

    Args:
        potentials_ET: (E, T) Phi of the state at each turn; ``E`` episodes, ``T`` turns.
        valid_ET: (E, T) True for turns that were played, from the left.
        discount: the same that later weighs the rewards.

    Returns:
        (E, T) rewards to add; 0 where not valid.

    Raises:
        ShapeError: the arrays differ in shape.

    Source: "Policy invariance under reward transformations", ICML 1999, theorem 1.
    """
    same_shape(2, potentials_ET=potentials_ET, valid_ET=valid_ET)
    now_ET = np.where(valid_ET, potentials_ET, 0.0)
    following_ET = np.zeros_like(now_ET)
    following_ET[:, :-1] = now_ET[:, 1:]
    return np.where(valid_ET, discount * following_ET - now_ET, 0.0)
