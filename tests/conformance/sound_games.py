"""Two sound games, and the bots for them and for their broken kin."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Mode, Streams
from srl_envs.errors import IllegalMoveError
from srl_envs.turns.grammar import action

ROUNDS = 4


class Coins(NamedTuple):
    stakes: tuple[int, ...]
    matcher: int
    """The seat that wins where both show the same side."""
    shown: tuple[tuple[str, str], ...] = ()


class Pennies(Game[Coins, str]):
    """Matching pennies with a random stake in each round; both seats show a coin at once."""

    simultaneous = True
    max_turns = ROUNDS
    max_action_chars = 12
    max_observation_chars = 600

    def new(self, streams: Streams) -> Coins:
        stakes = tuple(int(stake) for stake in streams.instance.integers(1, 10_000, size=ROUNDS))
        return Coins(stakes, int(streams.seats.integers(2)))

    def to_move(self, state: Coins) -> tuple[int, ...]:
        return (0, 1) if len(state.shown) < ROUNDS else ()

    def observe(self, state: Coins, seat: int) -> str:
        goal = "the same side" if seat == state.matcher else "different sides"
        past = "; ".join(f"{pair[seat]}/{pair[1 - seat]}" for pair in state.shown)
        return f"Show heads or tails. You win on {goal}. Stakes {state.stakes}. Past: {past}"

    def parse(self, state: Coins, seat: int, body: str) -> str:
        if body not in ("heads", "tails"):
            raise IllegalMoveError("show heads or tails")
        return body

    def apply(self, state: Coins, actions: Mapping[int, str]) -> Coins:
        return state._replace(shown=(*state.shown, (actions[0], actions[1])))

    def returns(self, state: Coins) -> tuple[float, ...] | None:
        if len(state.shown) < ROUNDS:
            return None
        total = sum(
            stake if (first == second) == (state.matcher == 0) else -stake
            for stake, (first, second) in zip(state.stakes, state.shown, strict=True)
        )
        value = total / sum(state.stakes)
        return value, -value

    def legal(self, state: Coins, seat: int) -> Sequence[str]:
        return ["heads", "tails"]

    def fallback(self, state: Coins, seat: int) -> str:
        return "heads"

    def sample(self, state: Coins, seat: int, rng: np.random.Generator) -> str:
        return ("heads", "tails")[int(rng.integers(2))]

    def encode(self, state: Coins) -> Any:
        return [list(state.stakes), state.matcher, [list(pair) for pair in state.shown]]

    def decode(self, data: Any) -> Coins:
        stakes, matcher, shown = data
        return Coins(tuple(stakes), matcher, tuple((a, b) for a, b in shown))


def coin_bot(rng: np.random.Generator) -> Callable[[str], str]:
    return lambda _: action(("heads", "tails")[int(rng.integers(2))])


def rude_bot(rng: np.random.Generator) -> Callable[[str], str]:
    return lambda _: "heads, I suppose"


def moody_bot(rng: np.random.Generator) -> Callable[[str], str]:
    return lambda _: action(("heads", "tails")[random.getrandbits(8) % 2])


def heads_bot(rng: np.random.Generator) -> Callable[[str], str]:
    return lambda _: action("heads")


def counting_bot(rng: np.random.Generator) -> Callable[[str], str]:
    replies = itertools.count()
    return lambda _: action(("heads", "tails")[next(replies) % 3 == 0])


class Hands(NamedTuple):
    cards: tuple[int, ...]
    named: tuple[tuple[int, ...], ...] = ()


class Recall(Game[Hands, int]):
    """Two rounds: each seat is shown a card of its own, and all name a number at once.

    Cooperative: all are paid the share of numbers that were right. Mixed: who is right is paid.
    """

    seats = 3
    mode: Mode = "cooperative"
    simultaneous = True
    max_turns = 2
    max_action_chars = 1
    max_observation_chars = 200

    def new(self, streams: Streams) -> Hands:
        cards = streams.instance.integers(1, 10, size=self.seats)
        return Hands(tuple(int(card) for card in cards))

    def to_move(self, state: Hands) -> tuple[int, ...]:
        return tuple(range(self.seats)) if len(state.named) < self.max_turns else ()

    def observe(self, state: Hands, seat: int) -> str:
        past = "; ".join(str(row) for row in state.named)
        return f"You are {seat}. Your card: {state.cards[seat]}. Name a number. Past: {past}"

    def parse(self, state: Hands, seat: int, body: str) -> int:
        if body not in [*"123456789"]:
            raise IllegalMoveError("name a number from 1 to 9")
        return int(body)

    def apply(self, state: Hands, actions: Mapping[int, int]) -> Hands:
        row = tuple(actions[seat] for seat in range(self.seats))
        return state._replace(named=(*state.named, row))

    def returns(self, state: Hands) -> tuple[float, ...] | None:
        if len(state.named) < self.max_turns:
            return None
        right = [sum(n == c for n, c in zip(row, state.cards, strict=True)) for row in state.named]
        if self.mode == "cooperative":
            return (sum(right) / self.seats / self.max_turns,) * self.seats
        return tuple(
            sum(row[seat] == state.cards[seat] for row in state.named) / self.max_turns
            for seat in range(self.seats)
        )

    def legal(self, state: Hands, seat: int) -> Sequence[str]:
        return [*"123456789"]

    def fallback(self, state: Hands, seat: int) -> str:
        return "1"

    def sample(self, state: Hands, seat: int, rng: np.random.Generator) -> str:
        return str(rng.integers(1, 10))

    def swap_hidden(self, state: Hands, seat: int, other: Hands) -> Hands:
        return state._replace(
            cards=(*other.cards[:seat], state.cards[seat], *other.cards[seat + 1 :])
        )

    def encode(self, state: Hands) -> Any:
        return [list(state.cards), [list(row) for row in state.named]]

    def decode(self, data: Any) -> Hands:
        return Hands(tuple(data[0]), tuple(map(tuple, data[1])))


class RecallOfFive(Recall):
    seats = 5
    mode = "mixed"


class RecallOfTwo(RecallOfFive):
    seats = 2


def number_bot(rng: np.random.Generator) -> Callable[[str], str]:
    return lambda _: action(int(rng.integers(1, 10)))


def card_bot(rng: np.random.Generator) -> Callable[[str], str]:
    return lambda text: action(text.partition("Your card: ")[2][0])
