"""Rewards that depend on how long replies and their thoughts are, in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srl_agents.rewards.terms import Judge, Played, RewardTerm
from srl_envs.errors import ConfigError


def overlong_punishment(tokens: int, *, limit: int, buffer: int) -> float:
    """Soft overlong punishment of one reply, in [-1, 0].

    0 up to ``limit - buffer`` tokens, then ``(limit - buffer - tokens) / buffer``, which is -1 at the
    limit, and -1 beyond it.

    Args:
        tokens: of the reply.
        limit: L_max, the most tokens that a reply may have.
        buffer: L_cache, tokens before the limit in which the punishment grows; 1 to ``limit``.

    Source: DAPO, arXiv:2503.14476 equation 13.
    """
    return -min(max(tokens - (limit - buffer), 0) / buffer, 1.0)


@dataclass(frozen=True, kw_only=True)
class OverlongTerm(RewardTerm):
    """`overlong_punishment`, the mean over a seat's replies: from 0 to -weight an episode."""

    buffer: int
    """Tokens before ``rollout.max_new_tokens`` in which the punishment grows from 0 to 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_price(self.weight)
        if self.buffer < 1:
            raise ConfigError(f"buffer={self.buffer}: use 1 or more tokens.")

    def judge(self, max_new_tokens: int) -> Judge:
        """See `RewardTerm`; refuses a buffer that is longer than a reply may be."""
        if self.buffer > max_new_tokens:
            raise ConfigError(
                f"buffer={self.buffer}: replies end at rollout.max_new_tokens={max_new_tokens}; "
                f"use at most {max_new_tokens}."
            )

        def punished(played: Sequence[Played]) -> list[list[float]]:
            return [
                [
                    overlong_punishment(tokens, limit=max_new_tokens, buffer=self.buffer)
                    / len(lengths)
                    for tokens in lengths
                ]
                for lengths in map(_lengths, played)
            ]

        return punished


@dataclass(frozen=True, kw_only=True)
class TokenCostTerm(RewardTerm):
    """Every token of every reply costs ``weight``: reward units per token, summed over the episode."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_price(self.weight)

    def judge(self, max_new_tokens: int) -> Judge:
        """See `RewardTerm`."""
        return lambda played: [[-float(tokens) for tokens in _lengths(seat)] for seat in played]


@dataclass(frozen=True, kw_only=True)
class ThoughtCostTerm(RewardTerm):
    """Every token of thoughts costs ``weight``: reward units per token, summed over the episode."""

    judges_thoughts = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_price(self.weight)

    def judge(self, max_new_tokens: int) -> Judge:
        """See `RewardTerm`."""
        return lambda played: [
            [-float(turn.thought_tokens) for turn in seat.trajectory.turns] for seat in played
        ]


@dataclass(frozen=True, kw_only=True)
class CutThoughtsTerm(RewardTerm):
    """Thoughts that used up their budget cost ``weight``, the mean over a seat's replies."""

    judges_thoughts = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_price(self.weight)

    def judge(self, max_new_tokens: int) -> Judge:
        """See `RewardTerm`."""

        def punished(played: Sequence[Played]) -> list[list[float]]:
            cut = [[turn.forced_tokens > 0 for turn in seat.trajectory.turns] for seat in played]
            return [[-float(value) / len(own) for value in own] for own in cut]

        return punished


def _lengths(played: Played) -> list[int]:
    """Tokens of replies, without their thoughts."""
    return [len(turn.completion_ids) - turn.thought_tokens for turn in played.trajectory.turns]


def _require_price(weight: float) -> None:
    if weight <= 0:
        raise ConfigError(f"weight={weight}: length is charged, never paid. Use more than 0.")
