"""Scripted policies as objects that can be copied in the middle of an episode."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from srl_envs.errors import UnknownPolicyError
from srl_envs.foreign_code import load_entry_point
from srl_envs.registry import EnvSpec, no_bot


class Bot:
    """What a bot's factory returned, with the generator that it draws from.

    A copy, also one that went through pickle, replies to the same texts with the same words. Of a
    factory that returns a function, a copy is made anew from the seed and takes over the generator,
    so such a function must keep nothing else from one reply to the next. Any other callable object
    is copied with its attributes.

    Args:
        factory: ``package.module:factory``, as in `EnvSpec.bots`.
        seed: of the bot's own generator.
    """

    def __init__(self, factory: str, seed: int) -> None:
        self._begin(factory, load_entry_point(factory), seed)

    def _begin(self, factory: str, made: Callable[..., Any], seed: int) -> None:
        self._factory, self._made, self._seed = factory, made, seed
        self._rng = np.random.default_rng(seed)
        self._act = made(self._rng)

    def reseeded(self, seed: int) -> Bot:
        """A bot of the same factory that begins with another seed."""
        new = Bot.__new__(Bot)
        new._begin(self._factory, self._made, seed)
        return new

    def __call__(self, text: str) -> str:
        """The reply to an observation's text."""
        return self._act(text)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Bot({self._factory!r}, seed={self._seed})"

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(
            self._act, FunctionType
        ):  # pickle cannot hold closures, copy would share them
            drawn = self._rng.bit_generator.state
            return {"_factory": self._factory, "_seed": self._seed, "drawn": drawn}
        return {name: value for name, value in self.__dict__.items() if name != "_made"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "drawn" not in state:
            self.__dict__.update(state, _made=load_entry_point(state["_factory"]))
            return
        self.__init__(state["_factory"], state["_seed"])  # type: ignore[misc]
        self._rng.bit_generator.state = state["drawn"]


def bot_of(found: EnvSpec, name: str, seed: int) -> Bot:
    """`make_bot` for a spec, which need not be registered in this process.

    Raises:
        UnknownPolicyError: the environment has no such bot; names the nearest.
    """
    if name not in found.bots:
        raise UnknownPolicyError(no_bot(found, name))
    return Bot(found.bots[name], seed)
