"""The agent-by-agent view of a `GameEnv`."""

from __future__ import annotations

from typing import Any

from pettingzoo import AECEnv

from srl_envs.errors import EpisodeOverError
from srl_envs.parallel import GameEnv, Observation
from srl_envs.turns.seating import require_text


class GameAEC(AECEnv[str, Observation, str]):
    """PettingZoo's AEC interface over a parallel environment.

    Where several seats move at the same moment they are selected one after the other, and their
    replies are held back until all are in; no seat sees another's reply early.

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
        self.agent_selection = ""
        self._queue: tuple[str, ...] = ()
        """Agents that are selected next."""
        self._over = False
        self._all_selected = env.game.simultaneous
        self.render_mode = env.render_mode

    def observation_space(self, agent: str) -> Any:
        """The same object at every call."""
        return self.env.observation_space(agent)

    def action_space(self, agent: str) -> Any:
        """The same object at every call."""
        return self.env.action_space(agent)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode; see `GameEnv.reset`."""
        self.env.start(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._held: dict[str, str] = {}
        self._infos: dict[str, dict[str, Any]] = {}
        self._paid = self._over = False
        self._select()

    @property
    def infos(self) -> dict[str, dict[str, Any]]:
        """What each agent receives beside its observation; see `GameEnv`."""
        for agent in self.agents:
            self._info(agent)
        return self._infos

    def observe(self, agent: str) -> Observation:
        """What ``agent`` sees now (a fresh dict)."""
        return self.env.observation(agent)

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated, truncated and info of ``agent_selection``."""
        agent = self.agent_selection
        seen = self.observe(agent) if observe else None
        terminated, truncated = self.terminations[agent], self.truncations[agent]
        return seen, self._cumulative_rewards[agent], terminated, truncated, self._info(agent)

    def step(self, action: str | None) -> None:
        """Give the reply of ``agent_selection`` (None for an agent that is done).

        Raises:
            EpisodeOverError: called before `reset` or after the end.
            InvalidActionError: the agent is on move, and the reply is not a text.
        """
        if not self.agents:
            raise EpisodeOverError("the episode is over (or not started): call reset().")
        if self._over:
            self._was_dead_step(action)
            return
        agent = self.agent_selection
        if agent in self._on_move:
            if type(action) is not str:
                require_text(agent, action)
            self._held[agent] = action  # type: ignore[assignment] # just checked
        self._cumulative_rewards[agent] = 0.0
        if self._paid:
            self.rewards, self._paid = dict.fromkeys(self.agents, 0.0), False
        if self._queue:
            self.agent_selection, self._queue = self._queue[0], self._queue[1:]
        else:
            self._advance()

    def render(self) -> Any:
        """The whole position; see `GameEnv.render`."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment underneath."""
        self.env.close()

    def _advance(self) -> None:
        """Step the environment once all selected agents have replied."""
        env = self.env
        env.advance(self._held)
        self._held = {}
        if self._infos:
            self._infos = {}
        if env.pays:
            self.rewards, self._paid = env.rewards(), True
            self._accumulate_rewards()
        if not env.agents:
            self._over = True
            self.terminations = dict.fromkeys(self.agents, not env.truncated)
            self.truncations = dict.fromkeys(self.agents, env.truncated)
        self._select()

    def _select(self) -> None:
        """Select the agents that reply next; at the end all agents, so that each receives its last result."""
        self._on_move = selected = self.env.on_move
        if self._all_selected or self._over:
            selected = tuple(self.agents)
        self.agent_selection, self._queue = selected[0], selected[1:]

    def _info(self, agent: str) -> dict[str, Any]:
        info = self._infos.get(agent)
        if info is None:
            info = self._infos[agent] = self.env.info(agent)
        return info
