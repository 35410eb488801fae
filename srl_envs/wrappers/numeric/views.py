"""Numeric twins of the three views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray
from pettingzoo import AECEnv, ParallelEnv

from srl_envs.api.making import make
from srl_envs.parallel import GameEnv, Observation
from srl_envs.registry import Policy
from srl_envs.views.aec import GameAEC
from srl_envs.views.single import GameSingle
from srl_envs.wrappers.numeric.features import Features, Reading, features_of

Arrays = dict[str, NDArray[Any]]
"""``observation`` (size,) float32 and ``action_mask`` (actions,) int8."""


def _values_space(features: Features) -> Box:
    return Box(-1.0, 1.0, (features.size,), np.float32)


def _spaces(features: Features) -> tuple[Dict, Discrete[Any]]:
    mask = Box(0, 1, (len(features.actions),), np.int8)
    space = Dict({"observation": _values_space(features), "action_mask": mask})
    return space, Discrete(len(features.actions))


def _read(features: Features, seen: Observation) -> Reading:
    return features.read(seen["text"]) if seen["can_act"] else features.nothing()


def _arrays(reading: Reading) -> Arrays:
    return {"observation": reading.values, "action_mask": reading.mask.astype(np.int8)}


class NumericParallel(ParallelEnv[str, Arrays, int]):
    """Arrays and numbers around a `GameEnv`; otherwise its episodes, rewards and infos.

    An observation is ``{"observation", "action_mask"}``; a seat that is not on move gets zeros, and
    its action is ignored. The mask is in the infos as well, where PettingZoo's tools look for it.

    Args:
        env: from `srl_envs.make`, also wrapped.
        features: None takes those of the environment.
    """

    def __init__(self, env: GameEnv, features: Features | None = None) -> None:
        self.env = env
        self.features = features or features_of(env)
        self.metadata = dict(env.metadata)
        self.render_mode = env.render_mode
        self.possible_agents = list(env.possible_agents)
        self.agents: list[str] = []
        space, actions = _spaces(self.features)
        self._observation_spaces = dict.fromkeys(self.possible_agents, space)
        self._action_spaces = {agent: Discrete(int(actions.n)) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> Dict:
        """The same object at every call."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete[Any]:
        """The same object at every call."""
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Arrays], dict[str, dict[str, Any]]]:
        """Start an episode; see `GameEnv.reset`."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self.agents = list(self.env.agents)
        return self._numeric(observations, infos), infos

    def step(
        self, actions: dict[str, int]
    ) -> tuple[
        dict[str, Arrays],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Take the number of an action from every seat on move; see `GameEnv.step`."""
        replies = {
            agent: self.features.reply(int(actions[agent]))
            for agent in self._on_move
            if agent in actions
        }
        observations, rewards, terminations, truncations, infos = self.env.step(replies)
        self.agents = list(self.env.agents)
        arrays = self._numeric(observations, infos)
        return arrays, rewards, terminations, truncations, infos

    def render(self) -> Any:
        """The whole position as text; see `GameEnv.render`."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment inside."""
        self.env.close()

    def _numeric(
        self, observations: dict[str, Observation], infos: dict[str, dict[str, Any]]
    ) -> dict[str, Arrays]:
        self._on_move = [agent for agent, seen in observations.items() if seen["can_act"]]
        arrays = {
            agent: _arrays(_read(self.features, seen)) for agent, seen in observations.items()
        }
        for agent, info in infos.items():
            info["action_mask"] = arrays[agent]["action_mask"].copy()
        return arrays


class NumericAEC(AECEnv[str, Arrays, int]):
    """Arrays and numbers around a `GameAEC`."""

    def __init__(self, env: GameAEC, features: Features | None = None) -> None:
        super().__init__()
        self.env = env
        self.features = features or features_of(env.env)
        space, actions = _spaces(self.features)
        self._observation_spaces = dict.fromkeys(env.possible_agents, space)
        self._action_spaces = {agent: Discrete(int(actions.n)) for agent in env.possible_agents}

    def __getattr__(self, name: str) -> Any:
        # agents, rewards, flags and infos are those inside, _cumulative_rewards among them
        if name == "env" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.env, name)

    def observation_space(self, agent: str) -> Dict:
        """The same object at every call."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete[Any]:
        """The same object at every call."""
        return self._action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode; see `GameEnv.reset`."""
        self.env.reset(seed=seed, options=options)

    def observe(self, agent: str) -> Arrays:
        """What ``agent`` sees now, as arrays."""
        return _arrays(_read(self.features, self.env.observe(agent)))

    def step(self, action: int | None) -> None:
        """Give the action of ``agent_selection`` (None for an agent that is done)."""
        self.env.step(None if action is None else self.features.reply(int(action)))

    def render(self) -> Any:
        """The whole position as text; see `GameEnv.render`."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment inside."""
        self.env.close()


class NumericSingle(gym.Env[NDArray[np.float32], int]):
    """One seat for a learner of arrays: a `Box` observation, a `Discrete` action, `action_masks`.

    Args:
        env: from `srl_envs.make_single`, or `srl_envs.wrappers.as_single`.
        features: None takes those of the environment.
    """

    def __init__(self, env: GameSingle, features: Features | None = None) -> None:
        self.env = env
        self.features = features or features_of(env.env)
        self.metadata = dict(env.metadata)
        self.render_mode = env.render_mode
        self.observation_space = _values_space(self.features)  # type: ignore[assignment] # Box is wider
        self.action_space = Discrete(len(self.features.actions))  # type: ignore[assignment] # the action may be a plain int
        self._mask = self.features.nothing().mask

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode and play up to our move; see `GameSingle.reset`."""
        super().reset(seed=seed)
        return self._numeric(*self.env.reset(seed=seed, options=options))

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take an action by its number; see `GameSingle.step`."""
        seen, reward, terminated, truncated, info = self.env.step(self.features.reply(int(action)))
        values, info = self._numeric(seen, info)
        return values, reward, terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """(actions,) True where legal now; all True where nothing we do counts any more."""
        return self._mask.copy() if self._mask.any() else np.ones_like(self._mask)

    def render(self) -> Any:
        """The whole position as text; see `GameEnv.render`."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment inside."""
        self.env.close()

    def _numeric(
        self, seen: Observation, info: dict[str, Any]
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        reading = _read(self.features, seen)
        self._mask = reading.mask
        return reading.values, {**info, "action_mask": reading.mask.astype(np.int8)}


def make_parallel(env_id: str, **options: Any) -> NumericParallel:
    """The numeric twin of `srl_envs.make`."""
    return NumericParallel(make(env_id, **options))


def make_aec(env_id: str, **options: Any) -> NumericAEC:
    """The numeric twin of `srl_envs.make_aec`."""
    return NumericAEC(GameAEC(make(env_id, **options)))


def make_single(
    env_id: str,
    *,
    seat: int = 0,
    opponents: Mapping[int, str | Policy] | str | None = None,
    **options: Any,
) -> NumericSingle:
    """The numeric twin of `srl_envs.make_single`: bots and callables there read text as ever."""
    return NumericSingle(GameSingle(make(env_id, **options), seat=seat, opponents=opponents))
