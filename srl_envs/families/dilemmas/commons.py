"""Commons: four seats harvest one stock that grows back; too much at once ends it for all.

Mixed payoffs, simultaneous, paid round by round. The seed draws the stock at the start and how fast
it grows. Growth is largest at half of what the place can carry, so patience pays all, and haste pays
one. A seat may send one line with its request; all read it before the next round.

A seat's outcome is its harvest over twice its share of the best total that four could have together
(found by dynamic programming), cut off at 1: 0.5 each is the optimum of the table, and above it only
at the cost of others. Measured over 200 seeds: greedy bots among their like earn 0.18, random ones
0.22 (the floor), sustaining ones 0.45; a lone greedy one among these 0.91, which is the temptation,
among imitators 0.38 against 0.56 for `strong`.

Departures from the draft, whose numbers (requests to 12, growth 0.25, stock 100) let random bots have
two thirds of the optimum: requests to 15, a smaller stock and faster growth set patience and haste
apart. The default move takes nothing, so that babble never pays.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from operator import add
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.messages import Spoken, join_body, quoted, split_body, whole_number

SEATS = 4
CAPACITY = 120
"""The stock at which it grows no more."""
LARGEST_REQUEST = 15
COLLAPSE_BELOW = 5
"""With less than this left after a harvest, the stock dies."""
LEAST_STOCK, MOST_STOCK = 50, 90
RATES = (3, 4, 5)
"""Growth per round of a small stock, in tenths."""
MAX_MESSAGE_CHARS = 160
ROUNDS_OF_WORDS = 2
"""Messages of this many rounds are shown."""


class Request(NamedTuple):
    """What a seat does in one round."""

    amount: int
    message: str = ""


class Stock(NamedTuple):
    """Immutable state."""

    amount: int
    rate: int
    """Tenths."""
    best: int
    """The most that all seats can harvest together in the whole episode."""
    harvests: tuple[tuple[int, ...], ...] = ()
    """Per round, what each seat was given."""
    totals: tuple[int, ...] = (0,) * SEATS
    """What each seat has in all."""
    words: tuple[tuple[str, ...], ...] = ()
    """Per round, what each seat said."""
    log: str = ""
    """The past rounds as every seat reads them."""


def grown(left: int, rate: int) -> int:
    """The stock of the next round after ``left`` was left; 0 if it died.

    Args:
        left: after the harvest.
        rate: tenths.
    """
    if left < COLLAPSE_BELOW:
        return 0
    return left + rate * left * (CAPACITY - left) // (10 * CAPACITY)


def ration(requests: tuple[int, ...], stock: int) -> tuple[int, ...]:
    """What each request gets: all of it, or its share (rounded down) where the stock is too small."""
    wanted = sum(requests)
    if wanted <= stock:
        return requests
    return tuple(request * stock // wanted for request in requests)


def worth(units: int, best: int) -> float:
    """The outcome of a harvest where all seats together could have ``best``."""
    return min(1.0, units * SEATS / (2 * best))


def best_total(stock: int, rate: int, rounds: int) -> int:
    """The most that all seats together can harvest in ``rounds`` from ``stock``."""
    return _best_totals(rate, rounds)[stock]


@lru_cache(maxsize=64)
def _best_totals(rate: int, rounds: int) -> tuple[int, ...]:
    """`best_total` for every stock from 0 to the capacity."""
    if rounds == 0:
        return (0,) * (CAPACITY + 1)
    later = _best_totals(rate, rounds - 1)
    most = SEATS * LARGEST_REQUEST
    return tuple(
        max(taken + later[grown(stock - taken, rate)] for taken in range(min(stock, most) + 1))
        for stock in range(CAPACITY + 1)
    )


class Commons(Game[Stock, Request]):
    """Observation: rules, past rounds, words. Action: a whole number, with a message above it.

    Args:
        rounds: 2 to 15.
        talk: whether seats may send messages.

    Raises:
        ConfigError: a value is out of range.
    """

    seats = SEATS
    mode = "mixed"
    simultaneous = True
    max_action_chars = 600

    def __init__(self, *, rounds: int = 12, talk: bool = True) -> None:
        if isinstance(rounds, bool) or not isinstance(rounds, int) or not 2 <= rounds <= 15:
            raise ConfigError(f"commons: rounds={rounds!r}; give 2 to 15.")
        if not isinstance(talk, bool):
            raise ConfigError(f"commons: talk={talk!r}; give true or false.")
        self.max_turns, self.talk = rounds, talk
        words = ROUNDS_OF_WORDS * SEATS * (MAX_MESSAGE_CHARS + 30) if talk else 0
        self.max_observation_chars = 1800 + 150 * rounds + words
        self._rules = self._write_rules()

    def _write_rules(self) -> str:
        text = (
            f"Four players, P1 to P4, harvest one stock for {self.max_turns} rounds. In every round "
            f"each asks for 0 to {LARGEST_REQUEST} units, all at the same moment. Only what you get "
            "yourself counts for you.\n"
            "If they ask for more than there is, each gets a share in proportion to its request.\n"
            "Then what is left grows by growth x left x (1 - left / "
            f"{CAPACITY}), rounded down: fastest at {CAPACITY // 2}. With less than {COLLAPSE_BELOW} "
            "left the stock dies and the game ends.\n"
            "Reply with the units you ask for, like this: <action>4</action>\n"
        )
        if self.talk:
            text += (
                f"You may add a message of at most {MAX_MESSAGE_CHARS} characters, which all read "
                "before the next round.\nIt goes on a line of its own, the number below it, like "
                "this: <action>say: your message\n4</action>\n"
            )
        return text + "\n"

    def new(self, streams: Streams) -> Stock:
        """Draw stock and growth."""
        rng = streams.instance
        amount = int(rng.integers(LEAST_STOCK, MOST_STOCK + 1))
        rate = RATES[int(rng.integers(len(RATES)))]
        return Stock(amount, rate, best_total(amount, rate, self.max_turns))

    def to_move(self, state: Stock) -> tuple[int, ...]:
        """All seats until the last round, or until the stock is dead."""
        return (0, 1, 2, 3) if state.amount and len(state.harvests) < self.max_turns else ()

    def observe(self, state: Stock, seat: int) -> str:
        """Rules, growth, past rounds, what was said lately, and the round to come."""
        head = f"You are P{seat + 1}. Growth: {state.rate / 10}.\n"
        played = len(state.harvests)
        status = f"You have {state.totals[seat]} units in all. "
        if self.to_move(state):
            status += (
                f"Round {played + 1} of {self.max_turns}, stock {state.amount}: "
                f"ask for 0 to {LARGEST_REQUEST}."
            )
        else:
            status += "It is over."
        said = _said(state) if self.talk else ""
        return f"{self._rules}{head}{state.log}{said}{status}\n"

    def parse(self, state: Stock, seat: int, body: str) -> Request:
        """A whole number, and a message where talk is on."""
        spoken = split_body(body, MAX_MESSAGE_CHARS, example="4") if self.talk else Spoken("", body)
        amount = whole_number(spoken.move, 0, LARGEST_REQUEST)
        if amount is None:
            raise IllegalMoveError(
                f"ask for a whole number from 0 to {LARGEST_REQUEST}, alone on its line, for "
                "example 4"
            )
        return Request(amount, spoken.message)

    def apply(self, state: Stock, actions: Mapping[int, Request]) -> Stock:
        """Harvest, then growth."""
        requests = tuple(actions[seat].amount for seat in range(SEATS))
        harvest = ration(requests, state.amount)
        amount = grown(state.amount - sum(harvest), state.rate)
        line = _describe(state, requests, harvest, amount)
        return state._replace(
            amount=amount,
            harvests=(*state.harvests, harvest),
            totals=tuple(map(add, state.totals, harvest)),
            words=(*state.words, tuple(actions[seat].message for seat in range(SEATS))),
            log=state.log + line,
        )

    def returns(self, state: Stock) -> tuple[float, ...] | None:
        """Harvest over twice the share of the best total, at most 1."""
        return None if self.to_move(state) else self.earned(state)

    def earned(self, state: Stock) -> tuple[float, ...]:
        """The outcome of what is harvested so far; it never shrinks."""
        return tuple(worth(units, state.best) for units in state.totals)

    def forfeit(self, state: Stock, seat: int) -> tuple[float, ...]:
        """-1 for the seat; each other has its fourth of what is there."""
        share = state.amount // SEATS
        return tuple(
            -1.0 if other == seat else worth(state.totals[other] + share, state.best)
            for other in range(SEATS)
        )

    def fallback(self, state: Stock, seat: int) -> str:
        """Nothing, without a word: the seat's own worst request, so that nonsense never pays."""
        return "0"

    def sample(self, state: Stock, seat: int, rng: np.random.Generator) -> str:
        """Any request, with a short message one time in four."""
        message = "take less" if self.talk and rng.random() < 0.25 else ""
        return join_body(message, str(rng.integers(LARGEST_REQUEST + 1)))

    def components(self, state: Stock, seat: int) -> Mapping[str, float]:
        """``sustained``: share of the rounds. ``welfare``: joint harvest over the best total.

        ``share`` is the seat's part of the joint harvest, ``messages`` the share of rounds in which
        it spoke.
        """
        played = max(len(state.harvests), 1)
        total = sum(state.totals)
        return {
            "sustained": len(state.harvests) / self.max_turns,
            "welfare": total / state.best,
            "share": state.totals[seat] / max(total, 1),
            "messages": sum(bool(words[seat]) for words in state.words) / played,
        }

    def encode(self, state: Stock) -> Any:
        """Lists and numbers."""
        return [
            state.amount, state.rate, state.best, [list(harvest) for harvest in state.harvests],
            list(state.totals), [list(words) for words in state.words], state.log,
        ]  # fmt: skip

    def decode(self, data: Any) -> Stock:
        """The inverse of `encode`."""
        amount, rate, best, harvests, totals, words, log = data
        return Stock(
            amount, rate, best, tuple(map(tuple, harvests)), tuple(totals),
            tuple(map(tuple, words)), log,
        )  # fmt: skip


def _describe(
    state: Stock, requests: tuple[int, ...], harvest: tuple[int, ...], amount: int
) -> str:
    """A round from ``state`` to the stock ``amount``, as every seat reads it."""
    left = state.amount - sum(harvest)
    got = ", ".join(f"P{seat} {units}" for seat, units in enumerate(harvest, 1))
    asked = "" if requests == harvest else f" (asked {' '.join(map(str, requests))})"
    end = f"{left} left, {amount} after growth" if amount else f"{left} left: the stock is dead"
    number = len(state.harvests) + 1
    return f"Round {number}: stock {state.amount}; harvested by {got}{asked}; {end}.\n"


def _said(state: Stock) -> str:
    """What was said in the last rounds, one line each."""
    first = max(0, len(state.words) - ROUNDS_OF_WORDS)
    return "".join(
        f"P{seat} said in round {number}: {quoted(message)}\n"
        for number, words in enumerate(state.words[first:], first + 1)
        for seat, message in enumerate(words, 1)
        if message
    )
