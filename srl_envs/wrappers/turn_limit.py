"""Cut episodes off after a number of steps."""

from __future__ import annotations

from typing import Any

from srl_envs.parallel import GameEnv
from srl_envs.wrappers.base import Wrapper, require_whole


class TurnLimit(Wrapper):
    """Truncates an episode after ``steps`` steps; the seats keep what was paid by then.

    A step is one call of `step`, so it counts retries as well.

    Args:
        env: the environment inside.
        steps: 1 or more.

    Raises:
        ConfigError: ``steps`` is not such a number.
    """

    def __init__(self, env: GameEnv, *, steps: int) -> None:
        require_whole("TurnLimit", "steps", steps, 1)
        super().__init__(env)
        self.steps = steps
        self.max_cycles = env.max_cycles

    def settings(self) -> dict[str, Any]:
        """The wrapper's settings: its limit."""
        return {"steps": self.steps}

    @property
    def max_cycles(self) -> int | None:
        """The limit; a lower one may be set."""
        return self.env.max_cycles

    @max_cycles.setter
    def max_cycles(self, value: int | None) -> None:
        self.env.max_cycles = self.steps if value is None else min(self.steps, value)
