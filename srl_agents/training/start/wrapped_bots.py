"""Bots that cannot read what wrappers show are found before a model is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from srl_envs import make, play
from srl_envs.errors import ConfigError, PolicyError
from srl_envs.parallel import GameEnv


def require_played(env_id: str, options: Mapping[str, Any], bots: Sequence[str]) -> None:
    """Let each bot play one episode, where wrappers change what it reads.

    Args:
        env_id: of the environment.
        options: from `match_options`.
        bots: their names.

    Raises:
        ConfigError: a bot cannot read what the wrappers show it.
        SandboxError: the environment's own machinery failed.
    """
    if "wrappers" not in options:
        return
    env: Any = make(env_id, **options)
    with closing(env):
        for bot in dict.fromkeys(bots):
            fault = _fault(env, bot)
            if fault:
                kinds = ", ".join(config["kind"] for config in options["wrappers"])
                raise ConfigError(
                    f"wrappers: bot {bot!r} cannot play {env_id} through {kinds}: {fault}. Leave out the "
                    "bot or the wrapper."
                )


def _fault(env: GameEnv, bot: str) -> str:
    """Why a bot cannot play an episode against itself; empty where it can."""
    try:
        transcript = play(env, dict.fromkeys(range(len(env.possible_agents)), bot), seed=0)
    except PolicyError as error:
        return str(error)
    refused = sum(label is not None for step in transcript.steps for label in step.invalid)
    return f"the game refused {refused} of its replies" if refused else ""
