"""A reward for short replies: 1 for an empty one, less for every token, never below 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srl_agents.rewards.terms import Judge, Played, RewardTerm


@dataclass(frozen=True, kw_only=True)
class BrevityTerm(RewardTerm):
    """What a short reply earns."""

    def judge(self, max_new_tokens: int) -> Judge:
        def judged(played: Sequence[Played]) -> list[list[float]]:
            return [
                [1 - len(turn.completion_ids) / max_new_tokens for turn in seat.trajectory.turns]
                for seat in played
            ]

        return judged
