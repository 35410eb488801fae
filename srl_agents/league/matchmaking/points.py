"""Result of a match between two agents as one number in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srl_envs.core import Mode


def seat_points(own: float, other: float, mode: Mode) -> float:
    """Points of one seat against another: win 1, tie 1/2; in cooperative games the common return."""
    if mode == "cooperative":
        return (1 + own) / 2
    return float((1 + np.sign(own - other)) / 2)


def points_alone(own: float, other: float) -> float:
    """Points of one agent against another on the same task, each by itself: half their difference in
    return, around 1/2."""
    return (2 + own - other) / 4


def mean_points(
    seats: Sequence[str], outcomes: Sequence[float], policy: str, mode: Mode = "competitive"
) -> float:
    """Points per pair of seats of ``policy`` against all other seats, in [0, 1]."""
    seated = list(zip(seats, outcomes, strict=True))
    own = [outcome for name, outcome in seated if name == policy]
    others = [outcome for name, outcome in seated if name != policy] or own
    return float(np.mean([seat_points(m, o, mode) for m in own for o in others]))
