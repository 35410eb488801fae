"""Statistics of a policy's rewards, over all its seats and seat by seat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from srl_agents.records import Episode, Trajectory


def reward_statistics(episodes: Iterable[Episode], policy: str) -> dict[str, float]:
    """How the total rewards of a policy's learning seats spread; see `names.MEANINGS`.

    Where the policy held different seats, each seat gets its own mean and spread, too: a game may
    favour who moves first.

    Args:
        episodes: of one update; those that our own machinery lost are left out.
        policy: a version id.

    Returns:
        ``reward/std``, ``reward/min``, ``reward/max``; per seat K ``seatK/reward/mean``, the same
        three, and ``seatK/invalid_share``. Empty where it played nothing.
    """
    by_seat: dict[int, list[Trajectory]] = defaultdict(list)
    for episode in episodes:
        if episode.valid:
            for seat in episode.spec.learner_seats:
                if episode.spec.seats[seat] == policy:
                    by_seat[seat].append(episode.trajectories[seat])
    if not by_seat:
        return {}
    found = _spread([t for played in by_seat.values() for t in played])
    if len(by_seat) > 1:
        for seat, played in sorted(by_seat.items()):
            turns = [turn.invalid is not None for t in played for turn in t.turns]
            own = {
                "reward/mean": float(np.mean([t.total_reward for t in played])),
                **_spread(played),
                "invalid_share": float(np.mean(turns)) if turns else 0.0,
            }
            found |= {f"seat{seat}/{name}": value for name, value in own.items()}
    return found


def _spread(played: Sequence[Trajectory]) -> dict[str, float]:
    rewards = np.array([t.total_reward for t in played])
    return {
        "reward/std": float(rewards.std()),
        "reward/min": float(rewards.min()),
        "reward/max": float(rewards.max()),
    }
