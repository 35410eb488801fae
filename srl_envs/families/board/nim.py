"""Nim: two seats take objects from heaps; who takes the last one wins (or, in misere play, loses).

Competitive, zero-sum, outcome +1 or -1, never a draw. Half of the instances are won for the first
mover and half for the second: random heaps would nearly always be won for the first. The seat that
moves first is drawn from the seed, so a mirrored pair gives each policy both sides.

Heaps of the eval split occur in no order as a start of the train split, neither in normal nor in misere
play. Three heaps of at most 4 are refused in normal play: only 1 2 3 is lost for the first mover there, so
one of the splits would have no such start.

Ceiling and floor: an exact player wins every position that can be won, so it earns 0 against
itself and, measured over 120 games each of normal and misere play, 0.98 and 0.98 against the random
bot, which is the floor: it earns 0 against itself.

Source: C. L. Bouton, "Nim, a game with a complete mathematical theory", Annals of Mathematics 3
(1901).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from operator import getitem, xor
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.errors import ConfigError, IllegalMoveError

MOST_HEAPS = 5
LARGEST = 9
_TOKENS = re.compile(r"[a-z]+|[0-9]+|\S")
_WORDS = frozenset({
    "i", "will", "'", "ll", "answer", "count", "amount", "=", "my", "the", "a", "move", "action", "is",
    "take", "takes", "remove", "pick", "object", "objects", "stone", "stones", "item", "items", "out",
    "of", "from", "heap", "pile", "number", "no", "and", ",", ":", ";", "#",
})  # fmt: skip
"""What may stand beside the two numbers of a move without changing what is meant."""


_LINES = tuple(
    tuple(f"Heap {heap}: {'o' * left} ({left})\n" for left in range(LARGEST + 1))
    for heap in range(1, MOST_HEAPS + 1)
)
"""Of the drawing, by heap and by what is left of it."""
_TAKEN = {
    (index, taken): f" took {taken} from heap {index + 1}.\n"
    for index in range(MOST_HEAPS)
    for taken in range(1, LARGEST + 1)
}
"""Line of the log for a move."""
_WHOSE_MOVE = (
    [("You", f"Wait for {seat_name(1 - seat)}.\n") for seat in (0, 1)],
    [(seat_name(1 - seat), "Your move.\n") for seat in (0, 1)],
)
"""Who moved last and what is next, by whether the reader is on move, and by its seat."""


class Heaps(NamedTuple):
    """Immutable state."""

    heaps: tuple[int, ...]
    """Objects left in each heap."""
    mover: int
    moves: tuple[tuple[int, int], ...] = ()
    """All moves so far: index of the heap, and how many objects were taken."""


def is_won(heaps: Sequence[int], *, misere: bool) -> bool:
    """Whether the seat on move can force a win."""
    nim_sum = reduce(xor, heaps, 0)
    return (nim_sum != 0) != (misere and max(heaps, default=0) <= 1)


class Nim(Game[Heaps, tuple[int, int]]):
    """Observation: rules, heaps, last move. Action: a heap's number and how many to take.

    Fallback: one object from the first heap that is not empty.

    Args:
        heaps: number of heaps, 2 to 5; None draws 3 to 5 for every episode.
        largest: objects in the largest possible heap, 3 to 9.
        misere: who takes the last object loses.

    Raises:
        ConfigError: an option is out of range.
    """

    mode = "competitive"
    max_action_chars = 48
    max_observation_chars = 1400

    def __init__(
        self, *, heaps: int | None = None, largest: int = LARGEST, misere: bool = False
    ) -> None:
        for name, value, low, high in (
            ("heaps", heaps, 2, MOST_HEAPS),
            ("largest", largest, 3, LARGEST),
        ):
            if name == "heaps" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"nim: {name}={value!r}; give {low} to {high}.")
        if not isinstance(misere, bool):
            raise ConfigError(f"nim: misere={misere!r}; give true or false.")
        if heaps == 3 and largest < 5 and not misere:
            raise ConfigError(
                f"nim: heaps=3 with largest={largest}: only the start 1 2 3 is lost for the first "
                "mover, and the splits share no start; give largest=5 or more, or other heaps."
            )
        self.heaps, self.largest, self.misere = heaps, largest, misere
        self.max_turns = (heaps or MOST_HEAPS) * largest
        numbers = range(1, max(LARGEST, MOST_HEAPS) + 1)
        self._read = {f"{heap} {taken}": (heap - 1, taken) for heap in numbers for taken in numbers}
        rules = (
            "Nim. Two players take turns. On your turn, take one or more objects from one heap.\n"
            f"Who takes the very last object {'loses' if misere else 'wins'}.\n"
            "Payoff: 1 if you win, -1 if you lose.\n"
            "Reply with the number of a heap and how many objects you take from it, like this "
            "(3 objects from heap 2): <action>2 3</action>\n\n"
        )
        self._heads = tuple(f"{rules}You are {seat_name(seat)}.\n" for seat in (0, 1))

    def new(self, streams: Streams) -> Heaps:
        """Heaps that are won for the first mover or lost, by a fair coin; so is who moves first."""
        rng, misere = streams.draws("instance"), self.misere
        won = rng.integers(2) == 1

        def draw() -> tuple[int, ...]:
            while True:
                count = self.heaps or rng.integers(3, MOST_HEAPS + 1)
                heaps = rng.several(count, 1, self.largest + 1)
                if not won:  # few would be lost: the last heap is made the one that loses
                    others = heaps[:-1]
                    heaps[-1] = reduce(xor, others) ^ (misere and max(others) == 1)
                    if 0 < heaps[-1] <= self.largest:
                        return tuple(heaps)
                elif is_won(heaps, misere=misere):
                    return tuple(heaps)

        return Heaps(streams.held(draw, key=sorted), rng.integers(2))

    def to_move(self, state: Heaps) -> tuple[int, ...]:
        """One seat, or none once all heaps are empty."""
        return (state.mover,) if any(state.heaps) else ()

    def observe(self, state: Heaps, seat: int) -> str:
        """Rules, heaps and moves; all of it is public."""
        heaps, mover, moves = state
        drawn = "".join(map(getitem, _LINES, heaps))
        who, status = _WHOSE_MOVE[mover == seat][seat]
        if not moves:
            return f"{self._heads[seat]}{drawn}{status}"
        if not any(heaps):
            status = "The game is over.\n"
        return f"{self._heads[seat]}{drawn}{who}{_TAKEN[moves[-1]]}{status}"

    def parse(self, state: Heaps, seat: int, body: str) -> tuple[int, int]:
        """Index of the heap and the number of objects."""
        move = self._read.get(body) or self._read.get(_two_numbers(body))
        if move is None:
            raise IllegalMoveError(
                f"{body!r} is no move; write the number of a heap, then how many objects to take, "
                "as in: 2 3"
            )
        index, taken = move
        if index >= len(state.heaps):
            raise IllegalMoveError(f"there are only heaps 1 to {len(state.heaps)}")
        left = state.heaps[index]
        if taken > left:
            raise IllegalMoveError(
                f"heap {index + 1} holds {left}, so {taken} cannot be taken from it"
            )
        return move

    def apply(self, state: Heaps, actions: Mapping[int, tuple[int, int]]) -> Heaps:
        """Take the objects."""
        before, seat, moves = state
        move = index, taken = actions[seat]
        left = list(before)
        left[index] -= taken
        return Heaps(tuple(left), 1 - seat, (*moves, move))

    def returns(self, state: Heaps) -> tuple[float, ...] | None:
        """+1 to the seat that took the last object, -1 to the other; the reverse in misere play."""
        if any(state.heaps):
            return None
        winner = state.mover if self.misere else 1 - state.mover
        return (1.0, -1.0) if winner == 0 else (-1.0, 1.0)

    def legal(self, state: Heaps, seat: int) -> Sequence[str]:
        """Every heap with every number that it holds."""
        return _moves(state.heaps)

    def fallback(self, state: Heaps, seat: int) -> str:
        """One object from the first heap that is not empty."""
        return f"{next(i for i, left in enumerate(state.heaps, 1) if left)} 1"

    def sample(self, state: Heaps, seat: int, rng: np.random.Generator) -> str:
        """Any legal move."""
        moves = self.legal(state, seat)
        return moves[int(rng.integers(len(moves)))]

    def components(self, state: Heaps, seat: int) -> Mapping[str, float]:
        """``regret``: share of the seat's moves that gave away a position it could have won."""
        heaps, mover = list(state.heaps), state.mover
        made = mistakes = 0
        for index, taken in reversed(state.moves):
            mover = 1 - mover
            left_won = is_won(heaps, misere=self.misere)
            heaps[index] += taken
            if mover == seat:
                made += 1
                mistakes += left_won and is_won(heaps, misere=self.misere)
        return {"regret": mistakes / max(1, made)}

    def encode(self, state: Heaps) -> Any:
        """The fields in order."""
        return [*state]

    def decode(self, data: Any) -> Heaps:
        """The inverse of `encode`."""
        heaps, mover, moves = data
        return Heaps(tuple(heaps), mover, tuple((index, taken) for index, taken in moves))

    def render(self, state: Heaps) -> str:
        """The heaps as text."""
        return "".join(map(getitem, _LINES, state.heaps)).rstrip("\n")


def _two_numbers(body: str) -> str:
    """``2 3`` from ``take 3 from heap 2``; "" where it is not certain which number is the heap's."""
    words = _TOKENS.findall(body.lower())
    numbers = [(at, word) for at, word in enumerate(words) if word.isdigit()]
    if len(numbers) != 2 or any(w not in _WORDS for w in words if not w.isdigit()):
        return ""
    heaps = [n for at, n in numbers if _names_heap(words[:at])]
    counts = [n for at, n in numbers if not _names_heap(words[:at])]
    if len(heaps) == 1:
        return f"{heaps[0]} {counts[0]}"
    bare = all(word in ",:;" or word.isdigit() for word in words)
    return " ".join(counts) if bare else ""


def _names_heap(words: Sequence[str]) -> bool:
    """Whether a number after ``words`` is a heap's, as in ``heap number 2``."""
    last = next(
        (word for word in reversed(words) if word not in {"number", "no", "#", ":", "="}), ""
    )
    return last in {"heap", "pile"}


@lru_cache(maxsize=8192)
def _moves(heaps: tuple[int, ...]) -> tuple[str, ...]:
    """Every heap with every number that it holds, as action bodies."""
    return tuple(f"{i} {n}" for i, left in enumerate(heaps, 1) for n in range(1, left + 1))
