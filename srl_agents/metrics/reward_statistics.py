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
        three, ``seatK/invalid_share``, ``seatK/token_share`` where it wrote tokens, and
        ``seatK/thought_tokens`` where it thought. Empty where it played nothing.
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
        written = {seat: sum(map(_reply_tokens, played)) for seat, played in by_seat.items()}
        for seat, played in sorted(by_seat.items()):
            turns = [turn for t in played for turn in t.turns]
            own = {
                "reward/mean": float(np.mean([t.total_reward for t in played])),
                **_spread(played),
                "invalid_share": float(np.mean([t.invalid is not None for t in turns] or [False])),
            }
            if total := sum(written.values()):
                own["token_share"] = written[seat] / total
            if any(turn.thought_tokens for turn in turns):
                own["thought_tokens"] = float(np.mean([turn.thought_tokens for turn in turns]))
            found |= {f"seat{seat}/{name}": value for name, value in own.items()}
    return found


def _reply_tokens(played: Trajectory) -> int:
    return sum(len(turn.completion_ids) - turn.thought_tokens for turn in played.turns)


def _spread(played: Sequence[Trajectory]) -> dict[str, float]:
    rewards = np.array([t.total_reward for t in played])
    return {
        "reward/std": float(rewards.std()),
        "reward/min": float(rewards.min()),
        "reward/max": float(rewards.max()),
    }
