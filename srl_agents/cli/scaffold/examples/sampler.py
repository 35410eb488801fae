"""Chances of earlier opponents: most for the first one that is there, so that nothing old is unlearned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.sampling import OpponentView


def oldest(view: OpponentView, *, floor: float = 0.1) -> NDArray[np.float64]:
    """(N,) probabilities of the N opponents, in the order in which they joined.

    Args:
        view: opponents, and what is known of matches with them.
        floor: share that all opponents have in equal parts, 0 to 1.
    """
    chances_N = np.full(len(view.opponents), floor / len(view.opponents))
    chances_N[0] += 1 - floor
    return chances_N
