"""Result of a match between two agents as one number in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srl_envs.core import Mode


def seat_points(mine: float, theirs: float, mode: Mode) -> float:
    """Points of one seat against another: win 1, tie 1/2; in cooperative games the common return."""
    if mode == "cooperative":
        return (1 + mine) / 2
    return float((1 + np.sign(mine - theirs)) / 2)


def points_alone(mine: float, theirs: float) -> float:
    """Points of one agent against another on the same task, each by itself: half their difference in
    return, around 1/2."""
    return (2 + mine - theirs) / 4


def mean_points(
    seats: Sequence[str], outcomes: Sequence[float], policy: str, mode: Mode = "competitive"
) -> float:
    """Points per pair of seats of ``policy`` against everybody else, in [0, 1]."""
    seated = list(zip(seats, outcomes, strict=True))
    mine = [outcome for name, outcome in seated if name == policy]
    others = [outcome for name, outcome in seated if name != policy] or mine
    return float(np.mean([seat_points(m, o, mode) for m in mine for o in others]))
