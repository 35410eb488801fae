"""The one hook between a text game and its numeric twin, and the table of those that exist."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srl_envs.errors import ConfigError, InvalidActionError, nearest
from srl_envs.grammar import action
from srl_envs.parallel import GameEnv
from srl_envs.registry import load_entry_point

_BOARD = "srl_envs.wrappers.numeric.board"
_CARDS = "srl_envs.wrappers.numeric.cards"
_TABLE = {
    "connect_four": f"{_BOARD}:ConnectFourFeatures",
    "nim": f"{_BOARD}:NimFeatures",
    "kuhn_poker": f"{_CARDS}:PokerFeatures",
    "liars_dice": f"{_CARDS}:LiarsDiceFeatures",
    "hanabi_mini": f"{_CARDS}:HanabiFeatures",
    "iterated_dilemma": "srl_envs.wrappers.numeric.dilemmas:DilemmaFeatures",
}


class Reading(NamedTuple):
    """A text as numbers."""

    values: NDArray[np.float32]
    """(size,), each in [-1, 1]."""
    mask: NDArray[np.bool_]
    """(actions,) True where the action is legal."""


class Features(ABC):
    """How to read one game's observations, and what its numbered actions say.

    A subclass takes the `Game` (for its sizes, not for its state) in ``__init__`` and sets ``size``
    and ``actions`` there.
    """

    size: int
    """Length of `Reading.values`."""
    actions: tuple[str, ...]
    """Action bodies; an action's number is its index, at every moment and for every seat."""

    @abstractmethod
    def read(self, text: str) -> Reading:
        """Read what a seat on move sees.

        Raises:
            ValueError: the text is no observation of the game by a seat on move.
        """

    def reply(self, number: int) -> str:
        """The reply that takes action ``number``.

        Raises:
            InvalidActionError: there is no such action.
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
        ConfigError: none are known; says which environments have some.
    """
    name = env.env_spec.name
    if name not in _TABLE:
        raise ConfigError(
            f"{env.env_spec.id} has no numeric twin.{nearest(name, _TABLE)} "
            f"These have: {', '.join(sorted(_TABLE))}. Others: register_features."
        )
    features: Features = load_entry_point(_TABLE[name])(env.game)
    return features


def list_numeric() -> list[str]:
    """Names (without version) of the environments that have a numeric twin."""
    return sorted(_TABLE)


def register_features(name: str, entry_point: str) -> None:
    """Give an environment a numeric twin.

    Args:
        name: the environment's id without its version.
        entry_point: ``package.module:Class`` of a `Features` subclass.

    Raises:
        ConfigError: the name is taken by another class.
    """
    if _TABLE.setdefault(name, entry_point) != entry_point:
        raise ConfigError(f"{name} has features already: {_TABLE[name]}.")


def one_hot(index: int, size: int) -> list[float]:
    """``size`` zeros with a 1 at ``index``; none for an index outside."""
    return [float(at == index) for at in range(size)]


def floats(values: Sequence[Any]) -> NDArray[np.float32]:
    """(size,) float32."""
    return np.array(values, dtype=np.float32)
