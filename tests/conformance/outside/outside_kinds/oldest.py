"""A sampler: always the oldest opponent, apart from a floor."""

import numpy as np

from srl_agents.league.sampling import OpponentView


def oldest(view: OpponentView, *, floor: float = 0.1) -> np.ndarray:
    """(N,) probabilities."""
    chances = np.full(len(view.opponents), floor / len(view.opponents))
    chances[0] += 1 - floor
    return chances
