"""Capability of each learner in each game and seat: its mean points over the last updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Place = tuple[str, int]
"""A game's name and a seat."""
LEAST, MOST = 0.1, 10.0
"""Bounds of the ratio of two capabilities, as in the reference code of arXiv:2603.02604."""
_NOTHING = 1e-8
"""A capability at or below this counts as no success."""


class Capabilities:
    """Mean points in [0, 1] by learner, game and seat. Source: arXiv:2603.02604.

    Args:
        window: most updates that a mean is taken over; updates without a match of the place do not count.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._means: dict[str, dict[str, dict[str, list[float]]]] = {}

    def observe(self, learner: str, points: Mapping[Place, Sequence[float]]) -> None:
        """Take in one update.

        Args:
            learner: whose.
            points: of its matches, by game and seat; below 0 counts as 0.
        """
        for (game, seat), values in points.items():
            if len(values):
                own = self._means.setdefault(learner, {}).setdefault(game, {})
                mean = float(np.mean(np.maximum(values, 0.0)))
                own[str(seat)] = [*own.get(str(seat), []), mean][-self._window :]

    def of(self, learner: str, place: Place) -> float:
        """Mean over the window; 0 where nothing was played."""
        game, seat = place
        means = self._means.get(learner, {}).get(game, {}).get(str(seat), [])
        return float(np.mean(means)) if means else 0.0

    def ratio(self, learner: str, other: str, place: Place) -> float | None:
        """Capability of one learner over that of another, within bounds; None where either had no success."""
        own, others = self.of(learner, place), self.of(other, place)
        if own <= _NOTHING or others <= _NOTHING:
            return None
        return min(max(own / others, LEAST), MOST)

    def state(self) -> dict[str, Any]:
        """State that later updates depend on, as JSON values."""
        return {
            learner: {
                game: {seat: [*means] for seat, means in seats.items()}
                for game, seats in own.items()
            }
            for learner, own in self._means.items()
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._means = {
            learner: {
                game: {seat: [*map(float, means)] for seat, means in seats.items()}
                for game, seats in own.items()
            }
            for learner, own in state.items()
        }
