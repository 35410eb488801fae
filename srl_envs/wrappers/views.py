"""The agent-by-agent and single-seat views of a wrapped environment."""

from __future__ import annotations

from collections.abc import Mapping

from srl_envs.parallel import GameEnv
from srl_envs.registry import Policy
from srl_envs.views.aec import GameAEC
from srl_envs.views.single import GameSingle


def as_aec(env: GameEnv) -> GameAEC:
    """Like `srl_envs.make_aec`, for an environment that is already made."""
    return GameAEC(env)


def as_single(
    env: GameEnv, *, seat: int = 0, opponents: Mapping[int, str | Policy] | str | None = None
) -> GameSingle:
    """Like `srl_envs.make_single`, for an environment that is already made.

    Args:
        env: which the view takes over.
        seat: the seat that the caller plays, from 0.
        opponents: seat -> bot name or ``text -> text`` callable, or one bot name for all other seats. Seats
            that are not named make random legal moves.

    Raises:
        ConfigError: a seat is impossible, or an opponent is neither a bot's name nor callable.
        UnknownPolicyError: the environment has no such bot.
    """
    return GameSingle(env, seat=seat, opponents=opponents)
