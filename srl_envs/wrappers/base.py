"""Base of all wrappers: the interface of the environment inside, and a name of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Dict

from srl_envs.errors import ConfigError
from srl_envs.parallel import GameEnv, Observation
from srl_envs.reading.wrapper_kinds import kind_of
from srl_envs.turns.spaces import LegalText

Infos = dict[str, dict[str, Any]]
Result = tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], Infos]
"""What ``step`` returns."""


class Wrapper(GameEnv):
    """A `GameEnv` whose episode another one plays; by itself it changes nothing.

    Subclasses override `settings`, and of `reset`, `step` and `set_state` what they change; the other
    views read what these return. What they keep about an episode goes into `own_state` as JSON values
    and comes back through `set_own_state`. Every other attribute is that of ``env``, the environment
    inside.
    """

    pays = True

    def __init__(self, env: GameEnv) -> None:
        # GameEnv's own __init__ is left out: its attributes are read from the environment inside
        self.env = env

    def __getattr__(self, name: str) -> Any:
        if name == "env" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.env, name)

    def settings(self) -> dict[str, Any]:
        """Every argument beside ``env`` that makes this wrapper again, as JSON values."""
        return {}

    @property
    def config(self) -> dict[str, Any]:
        """What `srl_envs.make` needs in ``wrappers`` to make this one again."""
        return {"kind": kind_of(type(self)), **self.settings()}

    def describe(self) -> str:
        """The wrapper with its settings, as states and messages name it."""
        given = ", ".join(f"{name}={value}" for name, value in self.settings().items())
        return f"{type(self).__name__}({given})"

    def own_state(self) -> Any:
        """What the wrapper keeps about the running episode, as JSON values."""
        return None

    def set_own_state(self, data: Any, observations: dict[str, Observation]) -> None:
        """Take back what `own_state` gave; ``observations`` are those of the environment inside."""

    @property
    def title(self) -> str:
        """The environment's id and all wrappers, from the inside out."""
        return f"{_title(self.env)} in {self.describe()}"

    @property
    def options(self) -> dict[str, Any]:
        """Those of the environment, and under ``wrappers`` each `config`, from the inside out."""
        inner = self.env.options
        return {**inner, "wrappers": [*inner.get("wrappers", []), self.config]}

    @property
    def unwrapped(self) -> GameEnv:
        """The environment without any wrapper."""
        return self.env.unwrapped  # type: ignore[no-any-return]

    @property
    def paid_names(self) -> tuple[str, ...]:
        """Those of the environment inside; a wrapper that pays adds its own."""
        return self.env.paid_names

    @property
    def statistic_names(self) -> tuple[str, ...]:
        """Those of the environment inside."""
        return self.env.statistic_names

    @property
    def max_cycles(self) -> int | None:
        """Steps after which an episode is truncated; None for no such limit."""
        return self.env.max_cycles

    @max_cycles.setter
    def max_cycles(self, value: int | None) -> None:
        self.env.max_cycles = value

    def observation_space(self, agent: str) -> Dict:
        """The same object at every call."""
        return self.env.observation_space(agent)

    def action_space(self, agent: str) -> LegalText:
        """The same object at every call."""
        return self.env.action_space(agent)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], Infos]:
        """Start an episode; see `GameEnv.reset`."""
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: dict[str, str]) -> Result:
        """Take one reply of every seat on move; see `GameEnv.step`."""
        return self.env.step(actions)

    def start(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode as `GameEnv.reset` does, and keep what it returns."""
        observations, infos = self.reset(seed=seed, options=options)
        self._returned = observations, dict.fromkeys(self.possible_agents, 0.0), infos

    def advance(self, actions: Mapping[str, str]) -> None:
        """Take replies with `step`, and keep what it returns."""
        observations, rewards, _, _, infos = self.step(dict(actions))
        self._returned = observations, rewards, infos

    @property
    def on_move(self) -> tuple[str, ...]:  # type: ignore[override] # that of the environment inside
        """Agents whose replies the next step needs."""
        return self.env.on_move

    def text(self, agent: str) -> str:
        """What one agent was shown by the last `start` or `advance`."""
        return str(self._returned[0][agent]["text"])

    def observation(self, agent: str) -> Observation:
        """What one agent was shown by the last `start` or `advance`."""
        return dict(self._returned[0][agent])

    def rewards(self) -> dict[str, float]:
        """What the last `advance` paid every agent."""
        return dict(self._returned[1])

    def info(self, agent: str) -> dict[str, Any]:
        """One agent's info from the last `start` or `advance`."""
        return self._returned[2][agent]

    def references(self, agent: str) -> dict[str, Any]:
        """Those of the environment inside."""
        return self.env.references(agent)

    def sample_legal(self, seat: int, rng: np.random.Generator) -> str:
        """A random legal action body for a seat on move."""
        return self.env.sample_legal(seat, rng)

    def render(self) -> str | None:
        """The whole position; see `GameEnv.render`."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment inside."""
        self.env.close()

    def get_state(self) -> dict[str, Any]:
        """The whole episode as JSON values, for a wrapper of the same settings."""
        title = self.title
        return {**self.env.get_state(), "env": title, title: self.own_state()}

    def reshuffle(self, number: int) -> None:
        """See `GameEnv.reshuffle`."""
        self.env.reshuffle(number)

    def set_state(self, data: Mapping[str, Any]) -> tuple[dict[str, Observation], Infos]:
        """Continue an episode that `get_state` of the same wrappers described.

        Raises:
            ConfigError: it was taken with other wrappers, or from another environment.
        """
        if data["env"] != self.title:
            raise ConfigError(f"a state of {data['env']} cannot continue in {self.title}.")
        observations, infos = self.env.set_state({**data, "env": _title(self.env)})
        self.set_own_state(data[self.title], observations)
        return observations, infos


def _title(env: GameEnv) -> str:
    return env.title if isinstance(env, Wrapper) else env.env_spec.id


def require_whole(place: str, name: str, value: object, least: int) -> None:
    """Refuse a setting that is not a whole number of ``least`` or more.

    Raises:
        ConfigError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{place}: {name}={value!r}; give a whole number >= {least}.")
