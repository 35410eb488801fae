"""How callers name seats and policies, checked where they come in.

A seat is a number wherever policies are seated (`play`, `make_single`); it is a PettingZoo agent name,
``player_0``, wherever PettingZoo's interface asks for agents (`step`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

from srl_envs.errors import ConfigError, InvalidActionError
from srl_envs.registry import EnvSpec, Policy
from srl_envs.turns.bots import bot_of

if TYPE_CHECKING:
    import numpy as np

    from srl_envs.core import Split


class Seated(Protocol):
    """Description of seats and of the running episode by `srl_envs.parallel.GameEnv`."""

    env_spec: EnvSpec
    possible_agents: list[str]

    @property
    def split(self) -> Split:
        """Of the running episode."""

    @property
    def seed(self) -> int:
        """Of the running episode."""

    @property
    def on_move(self) -> Sequence[str]:
        """Names of the agents that reply now."""

    def sample_legal(self, seat: int, rng: np.random.Generator) -> str | None:
        """A legal action's body for a seat on move."""


def require_seat(env: Seated, place: str, seat: object) -> None:
    """Refuse a value that is not a seat number of ``env``; ``place`` starts the message and quotes ``seat``.

    Raises:
        ConfigError: names what to write instead.
    """
    names = env.possible_agents
    if isinstance(seat, str) and seat in names:
        raise ConfigError(f"{place}: that is an agent's name; write seat {names.index(seat)}.")
    if isinstance(seat, bool) or not isinstance(seat, Integral) or seat not in range(len(names)):
        raise ConfigError(f"{place}: {env.env_spec.id} has seats 0 to {len(names) - 1}.")


def require_policy(spec: EnvSpec, place: str, policy: object) -> None:
    """Refuse what is neither callable nor the name of a bot.

    Raises:
        ConfigError: it is something else.
        UnknownPolicyError: no bot has this name.
    """
    if isinstance(policy, str):
        bot_of(spec, policy, 0)
    elif not callable(policy):
        raise ConfigError(
            f"{place}={policy!r}: give the name of a bot, or a callable that takes the observation's "
            f"text and returns the reply."
        )


def require_opponents(env: Seated, opponents: Mapping[int, Policy | str]) -> None:
    """Refuse opponents that cannot be seated; seats may be left out.

    Raises:
        ConfigError: a seat does not exist, or a policy is neither a bot's name nor callable.
        UnknownPolicyError: no bot has this name.
    """
    if not isinstance(opponents, Mapping):
        raise ConfigError(
            f"opponents={opponents!r}: give a bot's name for all other seats, or {{seat: policy}}."
        )
    for seat, policy in opponents.items():
        require_seat(env, f"opponents[{seat!r}]", seat)
        require_policy(env.env_spec, f"opponents[{seat}]", policy)


def require_seated(env: Seated, policies: Mapping[int, Policy | str]) -> None:
    """Refuse policies that do not fill the seats of ``env``, as `srl_envs.play` takes them.

    Raises:
        ConfigError: a seat has no policy or does not exist; names what to write.
        UnknownPolicyError: no bot has this name.
    """
    if not hasattr(env, "env_spec"):
        raise ConfigError(
            f"play: {env!r} is not a parallel environment of srl_envs; give one from srl_envs.make, or an id."
        )
    seats = len(env.possible_agents)
    if not isinstance(policies, Mapping):
        raise ConfigError(
            f"play: policies={policies!r}; give {{seat: policy}} for seats 0 to {seats - 1}, a policy "
            f"being the name of a bot or a callable."
        )
    for seat, policy in policies.items():
        require_seat(env, f"play: policies[{seat!r}]", seat)
        require_policy(env.env_spec, f"play: policies[{seat}]", policy)
    missing = [seat for seat in range(seats) if seat not in policies]
    if missing:
        raise ConfigError(f"{env.env_spec.id} has seats 0 to {seats - 1}; no policy for {missing}.")


def seat_policies(env: Seated, policies: Mapping[int, Policy | str]) -> dict[int, Policy]:
    """Seat -> policy for the running episode, from which the seeds of named bots follow."""
    from srl_envs.core import Streams, episode_entropy  # noqa: PLC0415 - imports numpy

    spec = env.env_spec
    streams = Streams(*episode_entropy(spec.name, spec.version, env.split, env.seed))
    seeds = streams.bots.integers(2**31, size=len(env.possible_agents)).tolist()
    return {
        seat: bot_of(spec, policy, seeds[seat]) if isinstance(policy, str) else policy
        for seat, policy in policies.items()
    }


def missing_action(agent: str, seat: int, actions: Any) -> InvalidActionError:
    """What to raise where ``actions`` holds nothing for an agent on move."""
    if not isinstance(actions, Mapping):
        given = f"step() got {type(actions).__name__}; give {{agent: reply}}, like"
    elif seat in actions:
        given = "step() got seat numbers; it takes agents' names, like"
    elif actions:
        given = f"step() got actions for only {', '.join(map(str, actions))}; add"
    else:
        given = "step() got no action; give"
    return InvalidActionError(
        f"{agent} is on move, but {given} {{{agent!r}: '<action>...</action>'}}."
    )


def require_text(agent: str, reply: object) -> None:
    """Refuse a reply that is not text.

    Raises:
        InvalidActionError: ``reply`` is not a string.
    """
    if not isinstance(reply, str):
        raise InvalidActionError(f"the action of {agent} is {type(reply).__name__}; give text.")
