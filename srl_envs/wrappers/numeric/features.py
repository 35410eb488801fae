"""The one hook between a text game and its numeric twin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srl_envs.errors import ConfigError, InvalidActionError
from srl_envs.foreign_code import load_entry_point
from srl_envs.parallel import GameEnv
from srl_envs.registry import list_envs, spec
from srl_envs.turns.grammar import action


class Reading(NamedTuple):
    """A text as numbers."""

    values: NDArray[np.float32]
    """(size,), each in [-1, 1]."""
    mask: NDArray[np.bool_]
    """(actions,) True where the action is legal."""


class Features(ABC):
    """How to read one game's observations, and what its numbered actions say.

    A subclass takes the `Game` (for its sizes, not for its state) in ``__init__`` and sets ``size``
    and ``actions`` there. `EnvSpec.numeric` names it.
    """

    size: int
    """Length of `Reading.values`."""
    actions: tuple[str, ...]
    """Action bodies; an action's number is its index, at every moment and for every seat."""

    @abstractmethod
    def read(self, text: str) -> Reading:
        """Read what a seat on move sees.

        Raises:
            ValueError: the text is not an observation of the game by a seat on move.
        """

    def reply(self, number: int) -> str:
        """The reply that takes action ``number``.

        Raises:
            InvalidActionError: the action does not exist.
        """
        if not 0 <= number < len(self.actions):
            raise InvalidActionError(
                f"action {number}; there are {len(self.actions)}, counted from 0."
            )
        return action(self.actions[number])

    def mask(self, legal: Iterable[str]) -> NDArray[np.bool_]:
        """(actions,) True for the bodies in ``legal``."""
        known = set(legal)
        return np.array([body in known for body in self.actions])

    def nothing(self) -> Reading:
        """What stands for a seat that is not on move: zeros, and no legal action."""
        return Reading(
            np.zeros(self.size, dtype=np.float32), np.zeros(len(self.actions), dtype=np.bool_)
        )


def features_of(env: GameEnv) -> Features:
    """The features of an environment, for its options.

    Raises:
        ConfigError: it has none; names the environments that have some.
    """
    known = env.env_spec
    if not known.numeric:
        raise ConfigError(
            f"{known.id} has no numeric twin. These have: {', '.join(list_numeric())}. To give it one, "
            f"name a subclass of srl_envs.wrappers.numeric.Features in register(numeric=...)."
        )
    features: Features = load_entry_point(known.numeric)(env.game)
    return features


def list_numeric() -> list[str]:
    """Ids of the environments that have a numeric twin (`EnvSpec.numeric`)."""
    return [env_id for env_id in list_envs() if spec(env_id).numeric]


def one_hot(index: int, size: int) -> list[float]:
    """``size`` zeros with a 1 at ``index``; none for an index outside."""
    return [float(at == index) for at in range(size)]


def filled(values: Sequence[float], size: int) -> list[float]:
    """``values``, then zeros up to ``size``: past rounds, of which there are more and more."""
    return [*values, *[0.0] * (size - len(values))]


def floats(values: Sequence[Any]) -> NDArray[np.float32]:
    """(size,) float32."""
    return np.array(values, dtype=np.float32)
