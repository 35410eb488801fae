"""Shape rewards by a potential, the one way that leaves the best policies as they are.

Source: Ng, Harada and Russell, "Policy invariance under reward transformations", ICML 1999; for
several learners (equilibria stay) Devlin and Kudenko, AAMAS 2011.
"""

from __future__ import annotations

import math
from typing import Any

from srl_envs.errors import ConfigError
from srl_envs.parallel import GameEnv, Observation
from srl_envs.reading.potentials import Potential, find_potential
from srl_envs.wrappers.base import Infos, Result, Wrapper

COMPONENT = "shaping"
"""Name of the reward component that it adds."""


class PotentialShaping(Wrapper):
    """Adds ``gamma * potential(now) - potential(at my last turn)`` at each turn of a seat.

    A turn is a moment at which the seat must reply, also when it is asked again; the end counts as
    potential 0, a truncation as the potential of what the seat sees then. So the shaping terms of an
    episode, discounted once per turn, sum to minus the potential of the seat's first turn, whatever
    it does. Each term is in ``reward_components["shaping"]`` and in the reward.

    Args:
        env: the environment inside; the potential reads what *it* shows.
        potential: reads the text and nothing else; or ``package.module:function`` of it.
        gamma: the learner's discount per turn, in (0, 1].

    Raises:
        ConfigError: ``gamma`` is out of range, no function has this name, or (from `reset` and `step`) a
            potential is not finite.
    """

    def __init__(self, env: GameEnv, *, potential: Potential | str, gamma: float = 1.0) -> None:
        if not 0 < gamma <= 1:
            raise ConfigError(f"PotentialShaping: gamma={gamma!r}; give a number in (0, 1].")
        super().__init__(env)
        self.potential: Potential = (
            find_potential(potential) if isinstance(potential, str) else potential
        )
        self.gamma = gamma
        self._last: dict[str, float | None] = dict.fromkeys(env.possible_agents)

    def settings(self) -> dict[str, Any]:
        """Potential, by name, and discount."""
        named = self.potential if hasattr(self.potential, "__qualname__") else type(self.potential)
        name = f"{named.__module__}:{named.__qualname__}"
        return {"potential": name, "gamma": self.gamma}

    @property
    def paid_names(self) -> tuple[str, ...]:
        """Those of the environment inside, and ``shaping``."""
        return (*self.env.paid_names, COMPONENT)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], Infos]:
        """Start an episode, in which first potentials are only remembered; see `GameEnv.reset`.

        Raises:
            ConfigError: a potential is not finite.
        """
        observations, infos = self.env.reset(seed=seed, options=options)
        self._last = dict.fromkeys(self.possible_agents)
        for agent, seen in observations.items():
            infos[agent]["reward_components"][COMPONENT] = self._term(agent, seen, 0)
        return observations, infos

    def step(self, actions: dict[str, str]) -> Result:
        """Take the replies; see `GameEnv.step`.

        Raises:
            ConfigError: a potential is not finite.
        """
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        for agent, seen in observations.items():
            end = 1 if terminations[agent] else 2 if truncations[agent] else 0
            term = self._term(agent, seen, end)
            rewards[agent] += term
            infos[agent]["reward_components"][COMPONENT] = term
        return observations, rewards, terminations, truncations, infos

    def own_state(self) -> Any:
        """Agent -> potential at its last turn, or None."""
        return dict(self._last)

    def set_own_state(self, data: Any, observations: dict[str, Observation]) -> None:
        """Restore the potentials."""
        self._last = dict(data)

    def set_state(self, data: Any) -> tuple[dict[str, Observation], Infos]:
        """Continue an episode; see `Wrapper.set_state`."""
        observations, infos = super().set_state(data)
        for info in infos.values():
            info["reward_components"][COMPONENT] = 0.0
        return observations, infos

    def _term(self, agent: str, seen: Observation, end: int) -> float:
        """What is due now; ``end`` is 0 while the episode runs, 1 terminated, 2 truncated."""
        if not (seen["can_act"] or end):
            return 0.0
        before, now = self._last[agent], 0.0
        if end != 1:
            now = float(self.potential(seen["text"], self.possible_agents.index(agent)))
            if not math.isfinite(now):
                raise ConfigError(f"{self.describe()}: it gave {now}; give a finite number.")
        self._last[agent] = now
        return 0.0 if before is None else self.gamma * now - before
