"""Blotto: two seats spread the same number of soldiers over the same fields, unseen by each other.

Competitive, simultaneous, zero-sum, paid round by round. The larger force wins a field's value, equal
forces win nothing. The seed draws the values. Fields keep them for the whole episode, so what the
other sent before is a hint of what it sends next. No single spread is safe: against any fixed one
there is an answer, and only mixtures cannot be beaten.

The outcome is the mean over rounds of (value won - value lost) / value of all fields, in [-1, 1].
Measured over 60 seeds: against a random spread (the floor) the even one earns +0.19, one in proportion
to value +0.26, `strong` +0.18; `strong` takes 0.14 from who always sends the even one, and loses 0.01 to
`held_out`. It draws from mixtures, so the best answer to all its chances earns 0.02 a round.

Eval instances are held out by the values, whatever their order and scale. Values given as an option are
shuffled in every episode, the same in both splits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.errors import ConfigError, IllegalMoveError

Spread = tuple[int, ...]
"""Soldiers per field."""
MOST_VALUE = 9
_DECORATION = re.compile(r"field\s*\d+\s*[:=]|send|soldiers?|[,;/|:]", re.IGNORECASE)
"""What may stand between the numbers of a move."""


class Campaign(NamedTuple):
    """Immutable state."""

    values: tuple[int, ...]
    """Values of the fields, 1 to `MOST_VALUE`."""
    rounds: tuple[tuple[Spread, Spread], ...] = ()
    won: int = 0
    """Value that seat 0 won minus what it lost, over the rounds."""
    logs: tuple[str, str] = ("", "")
    """The past rounds as each seat reads them."""


def values_key(values: Sequence[int]) -> tuple[int, ...]:
    """The same for values that differ in order or scale."""
    step = gcd(*values)
    return tuple(sorted(value // step for value in values))


def balance(values: Sequence[int], mine: Sequence[int], theirs: Sequence[int]) -> int:
    """Value won minus value lost by ``mine``."""
    won = 0
    for value, a, b in zip(values, mine, theirs, strict=True):
        if a > b:
            won += value
        elif a < b:
            won -= value
    return won


def one_round(state: Campaign, first: Spread, second: Spread) -> Campaign:
    """The state after both spreads are revealed."""
    values, rounds, won, (ours, theirs) = state
    score = balance(values, first, second)
    number, sent, faced = len(rounds) + 1, _text(first), _text(second)
    return Campaign(
        values,
        (*rounds, (first, second)),
        won + score,
        (
            f"{ours}Round {number}: you sent {sent}; other sent {faced}; score {score:+d}\n",
            f"{theirs}Round {number}: you sent {faced}; other sent {sent}; score {0 - score:+d}\n",
        ),
    )


def random_spread(rng: np.random.Generator, soldiers: int, fields: int) -> Spread:
    """Every way to spread ``soldiers`` over ``fields`` is as likely as any other."""
    slots = soldiers + fields - 1
    bars = np.sort(rng.choice(slots, fields - 1, replace=False)).tolist()
    edges = [-1, *bars, slots]
    return tuple(edges[i + 1] - edges[i] - 1 for i in range(fields))


def even_spread(soldiers: int, fields: int) -> Spread:
    """The same force everywhere; the first fields take what is left over."""
    share, left = divmod(soldiers, fields)
    return tuple(share + (field < left) for field in range(fields))


class Blotto(Game[Campaign, Spread]):
    """Observation: rules, values of the fields, past rounds. Action: one whole number per field.

    Args:
        soldiers: of each seat in every round, 5 to 50.
        fields: 3 to 7.
        rounds: 1 to 5.
        values: of the fields, whole numbers from 1 to `MOST_VALUE`, shuffled in every episode; drawn
            where none are given.

    Raises:
        ConfigError: a value is out of range.
    """

    resource = "fields_won"
    mode = "competitive"
    simultaneous = True
    max_action_chars = 64
    max_observation_chars = 1600

    def __init__(
        self,
        *,
        soldiers: int = 20,
        fields: int = 5,
        rounds: int = 3,
        values: Sequence[int] | None = None,
    ) -> None:
        for name, value, low, high in (
            ("soldiers", soldiers, 5, 50), ("fields", fields, 3, 7), ("rounds", rounds, 1, 5),
        ):  # fmt: skip
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"blotto: {name}={value!r}; give {low} to {high}.")
        self.values = None if values is None else _checked_values(values, fields)
        self.soldiers, self.fields, self.max_turns = soldiers, fields, rounds
        self._even = _text(even_spread(soldiers, fields))
        self._example = _text((soldiers, *(0,) * (fields - 1)))
        self._numbers = {str(number): number for number in range(soldiers + 1)}
        self._rules = (
            f"Two players each send {soldiers} soldiers to {fields} fields, both at the same moment, in "
            f"{rounds} rounds. The larger force on a field wins its value; equal forces win nothing.\n"
            "Payoff: the mean over rounds of (value you win - value you lose) / value of all fields.\n"
            f"Reply with {fields} whole numbers that sum to {soldiers}, in the order of the fields, "
            f"like this: <action>{self._example}</action>\n\n"
        )

    def new(self, streams: Streams) -> Campaign:
        """Draw the values."""
        rng = streams.draws("instance")
        if self.values is not None:
            order = rng.permutation(self.fields)
            return Campaign(tuple([self.values[place] for place in order]))
        drawn = streams.held(lambda: rng.several(self.fields, 1, MOST_VALUE + 1), values_key)
        return Campaign(tuple(drawn))

    def to_move(self, state: Campaign) -> tuple[int, ...]:
        """Both seats until the last round is played."""
        return (0, 1) if len(state.rounds) < self.max_turns else ()

    def observe(self, state: Campaign, seat: int) -> str:
        """Rules, values, past rounds and the score."""
        values, rounds, won, logs = state
        played = len(rounds)
        status = (
            f"Round {played + 1} of {self.max_turns}: send your soldiers."
            if played < self.max_turns
            else "It is over."
        )
        return (
            f"{self._rules}{_heading(values, seat)}{logs[seat]}"
            f"Your score so far: {won if seat == 0 else 0 - won:+d}. {status}\n"
        )

    def parse(self, state: Campaign, seat: int, body: str) -> Spread:
        """One whole number per field, between spaces or commas; they must sum to all soldiers."""
        words = body.split()
        if len(words) != self.fields or "," in body:
            words = _DECORATION.sub(" ", body).split()
        if len(words) != self.fields:
            raise IllegalMoveError(
                f"it has {len(words)} numbers; write {self.fields}, like {self._example}"
            )
        try:
            spread = tuple([self._numbers[word] for word in words])
        except KeyError:
            raise IllegalMoveError(
                f"each must be a whole number from 0 to {self.soldiers}, like {self._example}"
            ) from None
        if sum(spread) != self.soldiers:
            raise IllegalMoveError(
                f"they sum to {sum(spread)}; they must sum to {self.soldiers}, like {self._example}"
            )
        return spread

    def apply(self, state: Campaign, actions: Mapping[int, Spread]) -> Campaign:
        """Reveal and score both spreads."""
        return one_round(state, actions[0], actions[1])

    def returns(self, state: Campaign) -> tuple[float, ...] | None:
        """Mean share of all value that seat 0 won and did not lose, and its negative."""
        return None if self.to_move(state) else self.earned(state)

    def earned(self, state: Campaign) -> tuple[float, ...]:
        """What the rounds so far add to the outcome."""
        outcome = state.won / (self.max_turns * sum(state.values))
        return outcome, 0.0 - outcome

    def fallback(self, state: Campaign, seat: int) -> str:
        """The even spread."""
        return self._even

    def sample(self, state: Campaign, seat: int, rng: np.random.Generator) -> str:
        """Any spread, each as likely as any other."""
        return _text(random_spread(rng, self.soldiers, self.fields))

    def components(self, state: Campaign, seat: int) -> Mapping[str, float]:
        """``fields_won``: share of all fields. ``largest``: share of the soldiers on one field."""
        rounds = max(len(state.rounds), 1)
        mine = [(spreads[seat], spreads[1 - seat]) for spreads in state.rounds]
        won = sum(a > b for sent, faced in mine for a, b in zip(sent, faced, strict=True))
        return {
            "fields_won": won / (rounds * self.fields),
            "largest": sum(max(sent) for sent, _ in mine) / (rounds * self.soldiers),
        }

    def encode(self, state: Campaign) -> Any:
        """Lists of numbers."""
        rounds = [[list(first), list(second)] for first, second in state.rounds]
        return [list(state.values), rounds]

    def decode(self, data: Any) -> Campaign:
        """The inverse of `encode`."""
        values, rounds = data
        state = Campaign(tuple(values))
        for first, second in rounds:
            state = one_round(state, tuple(first), tuple(second))
        return state


def _checked_values(values: Sequence[int], fields: int) -> Spread:
    listed = isinstance(values, (list, tuple)) and all(type(value) is int for value in values)
    if not listed or len(values) != fields or not all(1 <= v <= MOST_VALUE for v in values):
        raise ConfigError(
            f"blotto: values={values!r}; give {fields} whole numbers from 1 to {MOST_VALUE}, one per "
            "field."
        )
    return tuple(values)


@lru_cache(maxsize=1024)
def _heading(values: Spread, seat: int) -> str:
    return f"You are {seat_name(seat)}.\nField values: {_text(values)}\n"


def _text(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))
