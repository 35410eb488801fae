"""Group-relative credit: an episode's gain over comparable ones, and advantages on one scale.

Source: arXiv:2402.03300 section 4.1; without division by the deviation, arXiv:2503.20783;
one baseline per role, arXiv:2506.24119 section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from srl_agents.credit.batches import same_shape

_EPSILON = 1e-6
"""Added to deviations, so that a group of equal returns divides by no zero."""


def group_advantages(
    returns_BG: NDArray[np.float64],
    valid_BG: NDArray[np.bool_],
    *,
    scale: bool = False,
    leave_one_out: bool = False,
) -> NDArray[np.float64]:
    """Centre each episode's return on its group's mean.

    Args:
        returns_BG: (B, G) episode returns, reward units; B start states, G attempts each.
        valid_BG: (B, G) False where the rollout failed; such episodes move no baseline.
        scale: also divide by the group's standard deviation (population, + 1e-6).
        leave_one_out: the baseline is the mean of the *other* valid attempts, which makes it
            independent of the episode: n / (n - 1) times the distance to the mean of all n.
            Source: arXiv:2402.14740 equation 8.

    Returns:
        (B, G) advantages; 0 where invalid, and in groups with fewer than 2 valid attempts.

    Raises:
        ShapeError: the two arrays differ in shape.
    """
    same_shape(2, returns_BG=returns_BG, valid_BG=valid_BG)
    returns_BG = np.where(valid_BG, returns_BG, 0.0)  # a failed rollout may hold nan
    count_B1 = valid_BG.sum(axis=1, keepdims=True)
    mean_B1 = returns_BG.sum(axis=1, keepdims=True) / np.maximum(count_B1, 1)
    centred_BG = np.where(valid_BG & (count_B1 >= 2), returns_BG - mean_B1, 0.0)
    advantages_BG: NDArray[np.float64] = centred_BG
    if leave_one_out:
        advantages_BG = centred_BG * (count_B1 / np.maximum(count_B1 - 1, 1))
    if not scale:
        return advantages_BG
    variance_B1 = (centred_BG**2).sum(axis=1, keepdims=True) / np.maximum(count_B1, 1)
    scaled_BG: NDArray[np.float64] = advantages_BG / (np.sqrt(variance_B1) + _EPSILON)
    return scaled_BG


def role_advantages(
    returns_E: NDArray[np.float64],
    group_E: NDArray[np.int64],
    role_E: NDArray[np.int64],
    valid_E: NDArray[np.bool_],
    *,
    scale: bool = False,
    leave_one_out: bool = False,
) -> NDArray[np.float64]:
    """Centre each episode's return on the mean of its (group, role).

    Moving first is worth something in most games; a common baseline would credit the seat
    instead of the play.

    Args:
        returns_E: (E,) returns, one per seat and episode.
        group_E: (E,) which attempts belong together.
        role_E: (E,) seat, or any other number that marks which returns are comparable.
        valid_E: (E,) False where the rollout failed.
        scale: also divide by the standard deviation of the (group, role).
        leave_one_out: as in `group_advantages`.

    Returns:
        (E,) advantages; 0 where invalid, and where fewer than 2 valid returns are comparable.

    Raises:
        ShapeError: the arrays differ in shape.
    """
    same_shape(1, returns_E=returns_E, group_E=group_E, role_E=role_E, valid_E=valid_E)
    _, cell_E = np.unique(np.stack([group_E, role_E]), axis=1, return_inverse=True)
    advantages_E = np.zeros(returns_E.shape, dtype=np.float64)
    for cell in range(int(cell_E.max(initial=-1)) + 1):
        here_E = cell_E == cell
        advantages_E[here_E] = group_advantages(
            returns_E[here_E][None],
            valid_E[here_E][None],
            scale=scale,
            leave_one_out=leave_one_out,
        )[0]
    return advantages_E


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
