"""What a recipe's environment is with the recipe's options and wrappers around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from srl_envs import make, play
from srl_envs.errors import ConfigError, PolicyError
from srl_envs.parallel import GameEnv

Wrappers = tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What follows from an environment's id, options and wrappers."""

    seats: int
    wrappers: Wrappers
    """With all their arguments, so that a default which changes later changes no run."""
    paid: tuple[str, ...]
    """Components that its rewards are the sum of."""
    statistics: tuple[str, ...]
    """Components that it tells at the end."""


def surroundings(
    env_id: str, options: Mapping[str, Any], wrappers: Sequence[Mapping[str, Any]]
) -> Surroundings:
    """Make the environment once and look at it.

    Raises:
        ConfigError: an option or a wrapper is unknown or does not fit.
    """
    if "wrappers" in options:
        raise ConfigError("env_options.wrappers: name wrappers in the section `wrappers`.")
    env: Any = make(env_id, wrappers=wrappers, **options)
    with closing(env):
        return Surroundings(
            seats=len(env.possible_agents),
            wrappers=tuple(env.options.get("wrappers", ())),
            paid=env.paid_names,
            statistics=env.statistic_names,
        )


def match_options(options: Mapping[str, Any], wrappers: Wrappers) -> dict[str, Any]:
    """What `srl_envs.make` gets for every match of a run."""
    return {**options, **({"wrappers": [dict(w) for w in wrappers]} if wrappers else {})}


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
