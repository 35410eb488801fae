"""Advantages of several sources on one scale: per agent, per turn number, or any other key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.shapes import same_shape

_EPSILON = 1e-6
"""Added to deviations, so that equal advantages divide by no zero."""


def normalised(
    advantages_E: NDArray[np.float64],
    key_E: NDArray[np.int64],
    valid_E: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Centre and scale the advantages of each key by that key's own mean and deviation.

    One common scale would let the agent with the widest rewards drown the others; per turn number,
    late turns, of which there are fewer and surer ones, would set the scale of the first.

    Args:
        advantages_E: (E,) advantages.
        key_E: (E,) the agent, the turn number, or any other number that marks what belongs together.
        valid_E: (E,) False for what must not count.

    Returns:
        (E,) (A - mean) / (population deviation + 1e-6) within a key; 0 where invalid, and for keys
        with fewer than 2 valid entries.

    Raises:
        ShapeError: the arrays differ in shape.

    Source: per agent, arXiv:2602.08847; per agent and turn, arXiv:2510.15414.
    """
    same_shape(1, advantages_E=advantages_E, key_E=key_E, valid_E=valid_E)
    normal_E = np.zeros(advantages_E.shape, dtype=np.float64)
    for key in np.unique(key_E[valid_E]):
        here_E = valid_E & (key_E == key)
        if here_E.sum() >= 2:
            own = advantages_E[here_E]
            normal_E[here_E] = (own - own.mean()) / (own.std() + _EPSILON)
    return normal_E
