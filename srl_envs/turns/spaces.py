"""Gymnasium spaces for text that the public compliance suites can sample and check.

A bare `gymnasium.spaces.Text` never samples a legal move, so the suites would play zero legal steps;
and its membership test scans every character. These two do neither. A bare one also holds the characters
that it was made with and no other, so gymnasium could neither flatten a text of a game nor pass it through
shared memory. These hold all of Unicode, numbered by code point.
"""

from __future__ import annotations

import copy
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from gymnasium.spaces import Text
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from numpy.typing import NDArray

from srl_envs.turns.grammar import MAX_REPLY_CHARS, action
from srl_envs.turns.seating import Seated

_ALPHABET = "abcdefghijklmnopqrstuvwxyz 0123456789"
_LEGAL_SHARE = 0.9
_CODE_POINTS = f"utf-32-{sys.byteorder[0]}e"


class _Unicode(Sequence[str]):
    """Every character at the place of its code point, without a table of a million."""

    def __len__(self) -> int:
        return sys.maxunicode + 1

    def __getitem__(self, place: Any) -> Any:
        return chr(range(len(self))[place])

    def __contains__(self, x: object) -> bool:
        return isinstance(x, str) and len(x) == 1


_UNICODE = _Unicode()


class AnyText(Text):
    """All strings of at most ``max_length`` characters; membership looks at type and length only."""

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length, min_length=0, charset=_ALPHABET)

    @property
    def character_set(self) -> frozenset[str]:
        """All of Unicode, with the length and the membership of such a set."""
        return cast("frozenset[str]", _UNICODE)

    @property
    def character_list(self) -> tuple[str, ...]:
        """All of Unicode, each character at the place of its code point."""
        return cast("tuple[str, ...]", _UNICODE)

    def character_index(self, char: str) -> np.int32:
        """The character's code point."""
        return np.int32(ord(char))

    def contains(self, x: Any) -> bool:
        """True for a string that is not too long, whatever its characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Letters, digits and spaces, unless a mask or probabilities of characters are given."""
        if mask is not None or probability is not None:
            return super().sample(mask, probability)
        return self._letters(int(self.np_random.integers(self.max_length + 1)))

    def _letters(self, length: int) -> str:
        drawn = self.np_random.integers(len(_ALPHABET), size=length)
        return "".join(_ALPHABET[i] for i in drawn)

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
        return self._letters(12)

    def __deepcopy__(self, memo: dict[int, Any]) -> LegalText:
        # The suites deep-copy spaces; the copy must keep drawing from the live environment, unless
        # that is being copied with it.
        twin = LegalText(copy.deepcopy(self._draw, memo))
        memo[id(self)] = twin
        twin._np_random = copy.deepcopy(self._np_random, memo)
        return twin


class LegalMoves:
    """Draws a legal action body for one seat of a live environment; what `LegalText` samples from."""

    def __init__(self, env: Seated, seat: int) -> None:
        self._env, self._seat = env, seat

    def __call__(self, rng: np.random.Generator) -> str | None:
        """The body, or None where the seat is not on move."""
        env = self._env
        if env.possible_agents[self._seat] not in env.on_move:
            return None
        return env.sample_legal(self._seat, rng)

    def __deepcopy__(self, memo: dict[int, Any]) -> LegalMoves:
        # follows a copied environment; a space copied by itself stays with the one it came from
        return LegalMoves(memo.get(id(self._env), self._env), self._seat)


class _SharedTexts(Sequence[str]):
    """The newest text of each environment, read from shared memory when it is looked at.

    gymnasium reads a batch once and expects it to change with the memory, which strings cannot.
    """

    def __init__(self, rows: NDArray[np.int32]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(self)[place]
        row = self._rows[place]
        return row[1 : 1 + row[0]].tobytes().decode(_CODE_POINTS, "surrogatepass")

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


def _rows(space: AnyText, memory: Any) -> NDArray[np.int32]:
    """One row for each environment: the length of its text, then code points."""
    return np.frombuffer(memory.get_obj(), dtype=np.int32).reshape(-1, 1 + space.max_length)


@create_shared_memory.register
def _create(space: AnyText, n: int = 1, ctx: Any = multiprocessing) -> Any:
    return ctx.Array(np.dtype(np.int32).char, n * (1 + space.max_length))


@read_from_shared_memory.register
def _read(space: AnyText, shared_memory: Any, n: int = 1) -> Any:
    return _SharedTexts(_rows(space, shared_memory)[:n])


@write_to_shared_memory.register
def _write(space: AnyText, index: int, value: str, shared_memory: Any) -> None:
    codes = np.frombuffer(value.encode(_CODE_POINTS, "surrogatepass"), dtype=np.int32)
    row = _rows(space, shared_memory)[index]
    row[1 : 1 + len(codes)] = codes
    row[0] = len(codes)
