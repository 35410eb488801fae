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
    """Like `srl_envs.make_single`, for an environment that is already made."""
    return GameSingle(env, seat=seat, opponents=opponents)
