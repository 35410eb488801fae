"""What the checkers of `reasoning-gym` make of answers to its puzzles, parts of answers included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srl_agents.rewards.terms import Judge, Played, RewardTerm
from srl_envs.families.reasoning.puzzle_kinds import library
from srl_envs.families.reasoning.puzzles import score_of_body


@dataclass(frozen=True, kw_only=True)
class PuzzleTerm(RewardTerm):
    """The library's score of each answer, from 0 to 1, the mean over the seat's replies to puzzles.

    `puzzles-v0` pays answers that earn 1. This adds what an answer earns that is right in parts.
    """

    @property
    def references(self) -> tuple[str, ...]:
        """See `RewardTerm`."""
        return ("puzzle",)

    def judge(self, max_new_tokens: int) -> Judge:
        """See `RewardTerm`; refuses where the library is not installed."""
        library()
        return _scored


def _scored(played: Sequence[Played]) -> list[list[float]]:
    values = []
    for seat in played:
        turns = seat.trajectory.turns
        asked = max(sum(bool(turn.references) for turn in turns), 1)
        values.append(
            [
                score_of_body(turn.references["puzzle"], turn.answer or "") / asked
                if turn.references
                else 0.0
                for turn in turns
            ]
        )
    return values
