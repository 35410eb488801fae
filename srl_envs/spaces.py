"""Gymnasium spaces for text that the public compliance suites can sample and check.

A bare `gymnasium.spaces.Text` never samples a legal move, so the suites would play zero legal steps;
and its membership test scans every character. These two do neither.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Text

from srl_envs.grammar import MAX_REPLY_CHARS, action

if TYPE_CHECKING:
    from srl_envs.parallel import GameEnv

_ALPHABET = "abcdefghijklmnopqrstuvwxyz 0123456789"
_LEGAL_SHARE = 0.9


class AnyText(Text):
    """All strings of at most ``max_length`` characters; membership looks at type and length only."""

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length, min_length=0, charset=_ALPHABET)

    def contains(self, x: Any) -> bool:
        """True for a string that is not too long, whatever its characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.max_length})"


class LegalText(AnyText):
    """Replies to an environment; `sample` writes a legal move of the live position nine times in ten.

    Args:
        draw: returns a random legal action body for the space's seat in the present state, or None
            when the seat is not on move. It draws from the generator it is given, and nothing else.
    """

    def __init__(self, draw: Callable[[np.random.Generator], str | None]) -> None:
        super().__init__(MAX_REPLY_CHARS)
        self._draw = draw

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A reply: legal with probability 0.9 where the seat is on move, else random letters."""
        if self.np_random.random() < _LEGAL_SHARE:
            body = self._draw(self.np_random)
            if body is not None:
                return action(body)
        letters = self.np_random.integers(len(_ALPHABET), size=12)
        return "".join(_ALPHABET[i] for i in letters)

    def __deepcopy__(self, memo: dict[int, Any]) -> LegalText:
        # The suites deep-copy spaces; the copy must keep drawing from the live environment, unless
        # that is being copied with it.
        twin = LegalText(copy.deepcopy(self._draw, memo))
        memo[id(self)] = twin
        twin._np_random = copy.deepcopy(self._np_random, memo)
        return twin


class LegalMoves:
    """Draws a legal action body for one seat of a live environment; what `LegalText` samples from."""

    def __init__(self, env: GameEnv, seat: int) -> None:
        self._env, self._seat = env, seat

    def __call__(self, rng: np.random.Generator) -> str | None:
        """The body, or None where the seat is not on move."""
        env = self._env
        if env.possible_agents[self._seat] not in env.on_move:
            return None
        return env.sample_legal(self._seat, rng)

    def __deepcopy__(self, memo: dict[int, Any]) -> LegalMoves:
        # follows a copied environment; a copied space alone stays with the one it came from
        return LegalMoves(memo.get(id(self._env), self._env), self._seat)
