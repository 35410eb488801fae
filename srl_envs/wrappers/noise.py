"""Garble what the seats see, but not the rules they play by."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Literal

import numpy as np

from srl_envs.core import episode_entropy
from srl_envs.errors import ConfigError, nearest
from srl_envs.parallel import GameEnv, Observation
from srl_envs.wrappers.base import Infos, Result, Wrapper, require_whole
from srl_envs.wrappers.observed_text import split_text

LEVELS = ("character", "line")
Level = Literal["character", "line"]
_DOTS = "..."


class ObservationNoise(Wrapper):
    """Replaces characters, or whole lines, of the position; rules and error notices stay.

    A garbled character becomes another character of the same text, a garbled line becomes dots; the
    text never gets longer. The noise follows from the noise seed, the episode, the seat and the text:
    the same position reads the same when a seat is asked again, so asking again averages nothing
    out, and states need nothing more. The infos (``legal_actions`` for one) are not garbled.

    Args:
        env: the environment inside.
        rate: chance that a character, or a line, is garbled, 0 to 1.
        level: "character" or "line".
        seed: of the noise.

    Raises:
        ConfigError: a value is out of range or a name unknown.
    """

    def __init__(
        self, env: GameEnv, *, rate: float, level: Level = "character", seed: int = 0
    ) -> None:
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
            raise ConfigError(f"ObservationNoise: rate={rate!r}; give a number from 0 to 1.")
        if level not in LEVELS:
            raise ConfigError(
                f"ObservationNoise: level={level!r} is none of {LEVELS}.{nearest(str(level), LEVELS)}"
            )
        require_whole("ObservationNoise", "seed", seed, 0)
        super().__init__(env)
        self.rate, self.level, self.noise_seed = rate, level, seed

    def settings(self) -> dict[str, Any]:
        """Rate, level and seed."""
        return {"rate": self.rate, "level": self.level, "seed": self.noise_seed}

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], Infos]:
        """Start an episode; see `GameEnv.reset`."""
        observations, infos = self.env.reset(seed=seed, options=options)
        return self._garbled(observations), infos

    def step(self, actions: dict[str, str]) -> Result:
        """Take the replies; see `GameEnv.step`."""
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        return self._garbled(observations), rewards, terminations, truncations, infos

    def set_state(self, data: Any) -> tuple[dict[str, Observation], Infos]:
        """Continue an episode; see `Wrapper.set_state`."""
        observations, infos = super().set_state(data)
        return self._garbled(observations), infos

    def _garbled(self, observations: dict[str, Observation]) -> dict[str, Observation]:
        return {
            agent: {**seen, "text": self._read(seat, seen["text"])}
            for seat, (agent, seen) in enumerate(observations.items())
        }

    def _read(self, seat: int, text: str) -> str:
        parts = split_text(text)
        rng = self._stream(seat, parts.position)
        garble = garble_characters if self.level == "character" else garble_lines
        return f"{parts.rules}{garble(parts.position, self.rate, rng)}{parts.notice}"

    def _stream(self, seat: int, position: str) -> np.random.Generator:
        spec = self.env_spec
        episode = episode_entropy(spec.name, spec.version, self.split, self.seed)
        digest = hashlib.sha256(position.encode("utf-8", "surrogatepass")).digest()
        words = int.from_bytes(digest[:16], "little")
        return np.random.default_rng([self.noise_seed, *episode, seat, words])


def garble_characters(text: str, rate: float, rng: np.random.Generator) -> str:
    """Each character but line breaks becomes, with chance ``rate``, a random one of the same text."""
    letters = list(text)
    known = [letter for letter in letters if letter != "\n"]
    if not known:
        return text
    hit = rng.random(len(letters)) < rate
    drawn = rng.integers(len(known), size=len(letters))
    return "".join(
        known[drawn[at]] if hit[at] and letter != "\n" else letter
        for at, letter in enumerate(letters)
    )


def garble_lines(text: str, rate: float, rng: np.random.Generator) -> str:
    """Each line becomes dots with chance ``rate``."""

    def garble(line: re.Match[str]) -> str:
        return _DOTS[: len(line.group())] if rng.random() < rate else line.group()

    return re.sub(r"[^\n]+", garble, text)
