"""Nearest number: both seats name a number at once; the one nearer to a secret wins."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import srl_envs
from srl_envs.core import Game, Streams
from srl_envs.errors import IllegalMoveError

NUMBERS = "123456789"


class State(NamedTuple):
    """A secret, and what both seats said."""

    secret: int
    guesses: tuple[int, ...] = ()


class NearestNumber(Game[State, int]):
    """Observation: the rules. Action: one digit."""

    simultaneous = True
    max_turns = 1
    max_action_chars = 8

    def new(self, streams: Streams) -> State:
        return State(int(streams.instance.integers(1, 10)))

    def to_move(self, state: State) -> tuple[int, ...]:
        return () if state.guesses else (0, 1)

    def observe(self, state: State, seat: int) -> str:
        return (
            "Guess a secret number from 1 to 9; the nearer guess wins.\n"
            "Payoff: 1 to the winner, -1 to the loser, 0 to both if they are equally near.\n"
            "Reply with one number, like this: <action>5</action>\n"
        )

    def parse(self, state: State, seat: int, body: str) -> int:
        if len(body) != 1 or body not in NUMBERS:
            raise IllegalMoveError(f"{body!r} is not a number from 1 to 9")
        return int(body)

    def apply(self, state: State, actions: Mapping[int, int]) -> State:
        return state._replace(guesses=(actions[0], actions[1]))

    def returns(self, state: State) -> tuple[float, ...] | None:
        if not state.guesses:
            return None
        mine, theirs = (abs(guess - state.secret) for guess in state.guesses)
        return (0.0, 0.0) if mine == theirs else (1.0, -1.0) if mine < theirs else (-1.0, 1.0)

    def fallback(self, state: State, seat: int) -> str:
        return "5"

    def sample(self, state: State, seat: int, rng: np.random.Generator) -> str:
        return str(rng.integers(1, 10))

    def encode(self, state: State) -> Any:
        return [state.secret, list(state.guesses)]

    def decode(self, data: Any) -> State:
        return State(data[0], tuple(data[1]))


class RandomBot:
    """Any number."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, observation: str) -> str:
        return f"<action>{self.rng.integers(1, 10)}</action>"


srl_envs.register(
    id="outside_kinds/nearest_number-v0",
    entry_point="outside_kinds.nearest_number:NearestNumber",
    mode="competitive",
    summary="Both seats guess a number; the nearer one wins",
    bots={"random": "outside_kinds.nearest_number:RandomBot"},
)
