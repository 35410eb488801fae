"""The agent-by-agent view of a `GameEnv`."""

from __future__ import annotations

from typing import Any

from pettingzoo import AECEnv

from srl_envs.errors import EpisodeOverError
from srl_envs.parallel import GameEnv, Observation
from srl_envs.seating import require_text


class GameAEC(AECEnv[str, Observation, str]):
    """PettingZoo's AEC interface over a parallel environment.

    Where several seats move at the same moment they are selected one after the other, and their
    replies are held back until all are in; nobody sees another's reply early.

    Where all seats move in every step (`Game.simultaneous`), every cycle selects all of them, as
    PettingZoo's `aec_to_parallel` needs it. While a refused seat tries again, the others have
    ``can_act`` 0 and whatever they reply (None, too) is ignored. In other games only seats on move
    are selected; ``metadata["is_parallelizable"]`` is False, and `turn_based_aec_to_parallel` fits.
    """

    def __init__(self, env: GameEnv) -> None:
        super().__init__()
        self.env = env
        self.metadata = dict(env.metadata)
        self.possible_agents = list(env.possible_agents)
        self.agents: list[str] = []
        self.render_mode = env.render_mode

    def observation_space(self, agent: str) -> Any:
        """The same object at every call."""
        return self.env.observation_space(agent)

    def action_space(self, agent: str) -> Any:
        """The same object at every call."""
        return self.env.action_space(agent)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode; see `GameEnv.reset`."""
        self._observations, self.infos = self.env.reset(seed=seed, options=options)
        self.agents = list(self.env.agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._held: dict[str, str] = {}
        self._queue = self._cycle()
        self.agent_selection = self._queue[0]

    def observe(self, agent: str) -> Observation:
        """What ``agent`` sees now (a fresh dict)."""
        return dict(self._observations[agent])

    def step(self, action: str | None) -> None:
        """Give the reply of ``agent_selection`` (None for an agent that is done).

        Raises:
            EpisodeOverError: called before `reset` or after the end.
            InvalidActionError: the agent is on move, and the reply is no text.
        """
        if not self.agents:
            raise EpisodeOverError("the episode is over (or not started): call reset().")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        on_move = self._observations[agent]["can_act"]
        if on_move:
            require_text(agent, action)
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        if on_move:
            self._held[agent] = action  # type: ignore[assignment] # just checked
        self._queue.pop(0)
        if not self._queue:
            self._advance()
        self.agent_selection = self._queue[0]

    def render(self) -> Any:
        """The whole position; see `GameEnv.render`."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment underneath."""
        self.env.close()

    def _advance(self) -> None:
        held, self._held = self._held, {}
        step = self.env.step(held)
        self._observations, self.rewards, self.terminations, self.truncations, self.infos = step
        self._accumulate_rewards()
        self._queue = self._cycle()

    def _cycle(self) -> list[str]:
        """Who is selected next, in order: all agents at the end, so that each learns of it."""
        if self.env.game.simultaneous or not self.env.agents:
            return list(self.agents)
        return [agent for agent in self.agents if self._observations[agent]["can_act"]]
