"""The text by which a row of veRL names its episode, and the episode that it names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from srl_envs.adapters.asked_episode import AskedEpisode
from srl_envs.adapters.deal_seeds import deal_seeds
from srl_envs.api.making import make
from srl_envs.core import Split
from srl_envs.errors import ConfigError
from srl_envs.parallel import GameEnv
from srl_envs.turns.seating import require_seat

POLICY = "policy"
"""The opponent that is the policy in training itself; only the agent loop can ask it."""


@dataclass(frozen=True, slots=True)
class NamedEpisode:
    """Content of a row's ``ground_truth``: all inputs that determine the episode."""

    env_id: str
    seed: int
    split: Split
    seat: int
    """Seat whose replies are generated and learned."""
    opponents: dict[int, str]
    """Bot's name, or `POLICY`, of seats that do not make random legal moves."""
    options: dict[str, Any]
    """Options as in `srl_envs.make`."""

    @classmethod
    def of_row(cls, ground_truth: str) -> NamedEpisode:
        """Read what `text` wrote.

        Raises:
            ConfigError: `rows` did not write it.
        """
        try:
            data = json.loads(ground_truth)
            opponents = {int(seat): name for seat, name in data.pop("opponents").items()}
            named = cls(opponents=opponents, **data)
            deal_seeds([named.seed])
            if not isinstance(named.env_id, str) or not isinstance(named.options, dict):
                raise TypeError
            return named
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ConfigError(
                f"ground_truth {str(ground_truth)[:80]!r} names no episode: write rows with "
                "srl_envs.adapters.verl.rows."
            ) from None

    def text(self) -> str:
        """The episode's name as JSON text."""
        named = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(named)

    def make(self) -> GameEnv:
        """Its environment; raises what `srl_envs.make` raises."""
        return make(self.env_id, **self.options)

    def start(self, env: GameEnv, *, self_play: bool) -> AskedEpisode:
        """Start the episode.

        Args:
            env: from `make`.
            self_play: whether the seats of `POLICY` are asked too; else they make random legal moves.

        Raises:
            ConfigError: a seat or an opponent is impossible.
            UnknownPolicyError: the environment has no such bot.
        """
        require_seat(env, f"seat={self.seat!r}", self.seat)
        if self.seat in self.opponents:
            raise ConfigError(
                f"opponents[{self.seat}]: seat {self.seat} is the one that learns; name another one."
            )
        copies = [seat for seat, name in self.opponents.items() if name == POLICY]
        for seat in copies:
            require_seat(env, f"opponents[{seat!r}]", seat)
        bots = {seat: name for seat, name in self.opponents.items() if name != POLICY}
        asked = [self.seat, *copies] if self_play else [self.seat]
        return AskedEpisode(env, asked=asked, opponents=bots, seed=self.seed, split=self.split)
