"""Our games as multi-agent environments of RLlib, in numbers.

RLlib asks for actions of the agents that it was given observations of, so a seat is shown only when it is
on move, and at the end. An observation is ``{"observations", "action_mask"}``, which RLlib's module with
masked actions reads.

Source: Ray 2.60 (``MultiAgentEnv``; ``ActionMaskingTorchRLModule`` of its examples).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict

from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError
from srl_envs.wrappers.numeric.views import Arrays, make_parallel

try:
    from ray.rllib.env.multi_agent_env import MultiAgentEnv
except ImportError as error:
    raise ConfigError(f"RLlib is needed: {install_command('rllib')} ({error}).") from None


class RLlibGame(MultiAgentEnv):
    """One environment; every seat is an agent, ``player_0`` and so on.

    Args:
        config: ``env_id``, a registered id with numeric features (`list_numeric`), and options as in
            `srl_envs.make`; what RLlib passes from ``env_config``.

    Raises:
        UnknownEnvironmentError: no such id.
        ConfigError: no id, no numeric features, or a wrong option.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        options = dict(config)
        if "env_id" not in options:
            raise ConfigError("env_config needs `env_id`, a registered id such as connect_four-v0.")
        self._env = make_parallel(options.pop("env_id"), **options)
        self.possible_agents = list(self._env.possible_agents)
        self.agents = list(self.possible_agents)
        first = self.possible_agents[0]
        actions = self._env.action_space(first)
        own = self._env.observation_space(first)["observation"]
        mask = Box(0.0, 1.0, (int(actions.n),), np.float32)
        seen = Dict({"observations": own, "action_mask": mask})
        self.observation_spaces = dict.fromkeys(self.possible_agents, seen)
        self.action_spaces = {
            agent: self._env.action_space(agent) for agent in self.possible_agents
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Arrays], dict[str, dict[str, Any]]]:
        """Start an episode; see `GameEnv.reset`."""
        arrays, infos = self._env.reset(seed=seed, options=options)
        self.agents = list(self._env.agents)
        shown = _on_move(arrays)
        return shown, {agent: infos[agent] for agent in shown}

    def step(self, action_dict: dict[str, int]) -> tuple[dict[str, Any], ...]:
        """Take the actions of the seats on move; see `GameEnv.step`.

        Returns:
            Observations of the seats that are on move next, of all at the end; rewards of all; ends; infos.
        """
        arrays, rewards, terminations, truncations, infos = self._env.step(action_dict)
        self.agents = list(self._env.agents)
        shown = _on_move(arrays) if self.agents else _all(arrays)
        ends = (
            {**each, "__all__": not self.agents and any(each.values())}
            for each in (terminations, truncations)
        )
        return shown, rewards, *ends, {agent: infos[agent] for agent in shown}

    def render(self) -> Any:
        """The whole position as text."""
        return self._env.render()

    def close(self) -> None:
        """Close the environment inside."""
        self._env.close()


def _all(arrays: dict[str, Arrays]) -> dict[str, Arrays]:
    return {
        agent: {
            "observations": seen["observation"],
            "action_mask": seen["action_mask"].astype(np.float32),
        }
        for agent, seen in arrays.items()
    }


def _on_move(arrays: dict[str, Arrays]) -> dict[str, Arrays]:
    return _all({agent: seen for agent, seen in arrays.items() if seen["action_mask"].any()})
