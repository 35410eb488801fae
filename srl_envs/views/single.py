"""One seat as a Gymnasium environment; bots or callables play the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from srl_envs.errors import ConfigError
from srl_envs.parallel import GameEnv, Observation
from srl_envs.registry import Policy
from srl_envs.turns.bots import bot_of
from srl_envs.turns.grammar import action
from srl_envs.turns.seating import require_opponents, require_seat


class GameSingle(gym.Env[Observation, str]):
    """Observation and action of one seat; the others reply inside `step`.

    A copy in the middle of an episode goes on as the original does, named bots included. Callables
    are copied as `copy` and `pickle` copy them: a function is shared, and must be importable to be
    pickled.

    Args:
        env: the parallel environment.
        seat: the caller's seat.
        opponents: seat -> bot name or ``text -> text`` callable, or one bot name for all other seats;
            unnamed seats make random legal moves. Bots named here are made anew for every episode
            from its seed.

    Raises:
        ConfigError: a seat is impossible, or an opponent is neither a bot's name nor callable.
        UnknownPolicyError: the environment has no such bot.
    """

    def __init__(
        self,
        env: GameEnv,
        *,
        seat: int = 0,
        opponents: Mapping[int, str | Policy] | str | None = None,
    ) -> None:
        if not isinstance(env, GameEnv):
            raise ConfigError(
                f"the single-seat view is made around an environment of srl_envs.core.Game; this is "
                f"{type(env).__name__}."
            )
        seats = len(env.possible_agents)
        require_seat(env, f"seat={seat!r}", seat)
        others = [s for s in range(seats) if s != seat]
        if isinstance(opponents, str):
            opponents = dict.fromkeys(others, opponents)
        chosen = _checked(env, seat, opponents or {})
        self.env = env
        self.seat = seat
        self.metadata = dict(env.metadata)
        self.render_mode = env.render_mode
        self._agent = env.possible_agents[seat]
        self.observation_space = env.observation_space(self._agent)
        self.action_space = env.action_space(self._agent)
        self._opponents: dict[int, str | Policy] = {
            s: chosen[s] if s in chosen else _RandomLegal(self, s) for s in others
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode (the parallel view's episode of the same seed) and play up to our move."""
        super().reset(seed=seed)
        episode = int(self.np_random.integers(2**31)) if seed is None else seed
        self.env.start(seed=episode, options=options)
        self._policies = {
            s: bot_of(self.env.env_spec, p, seed=int(self.np_random.integers(2**31)))
            if isinstance(p, str)
            else p
            for s, p in self._opponents.items()
        }
        self._unpaid, self._told = self._opponents_move(), False
        return self.env.observation(self._agent), self.env.info(self._agent)

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Give our reply; returns when it is our move again or the episode is over.

        Where an opponent forfeited before our first move, the reply goes nowhere and the first call
        reports the end.
        """
        reward, self._unpaid = self._unpaid, 0.0
        if self.env.agents or self._told:
            reward += self._step({self._agent: action})
            reward += self._opponents_move()
        self._told = True
        env, agent, over = self.env, self._agent, not self.env.agents
        terminated, truncated = over and not env.truncated, env.truncated
        return env.observation(agent), reward, terminated, truncated, env.info(agent)

    def forfeit(self) -> float:
        """What leaving now would pay, beside what this seat was paid already; the game goes on."""
        return float(self.env.leaving(self.seat)[self.seat])

    def render(self) -> Any:
        """The whole position; see `GameEnv.render`."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment underneath."""
        self.env.close()

    def _opponents_move(self) -> float:
        reward = 0.0
        while self.env.agents and self._agent not in self.env.on_move:
            reward += self._step({})
        return reward

    def _step(self, actions: dict[str, str]) -> float:
        env = self.env
        for agent in env.on_move:
            if agent != self._agent:
                policy = self._policies[env.possible_agents.index(agent)]
                actions[agent] = policy(env.observation(agent)["text"])
        env.advance(actions)
        return env.rewards()[self._agent] if env.pays else 0.0


class _RandomLegal:
    """Plays any legal move, in every environment; not every one has a ``random`` bot."""

    def __init__(self, view: GameSingle, seat: int) -> None:
        self._view, self._seat = view, seat

    def __call__(self, _text: str) -> str:
        return action(self._view.env.sample_legal(self._seat, self._view.np_random))


def _checked(
    env: GameEnv, seat: int, opponents: Mapping[int, str | Policy]
) -> Mapping[int, str | Policy]:
    """The opponents; a wrong one fails here, not in the middle of an episode."""
    require_opponents(env, opponents)
    if seat in opponents:
        raise ConfigError(
            f"opponents[{seat}]: seat {seat} is the caller's; name a seat other than {seat}."
        )
    return opponents
