"""Commons: four seats harvest one stock that grows back; too much at once ends it for all.

Mixed payoffs, simultaneous, paid round by round. The seed draws how much the place can carry, how
fast the stock grows, how much there is at the start, and how much a seat may ask for at once. Growth
is largest at half of the capacity, so patience pays all, and haste pays one. A seat may send one line
with its request; all read it before the next round.

The last round is hidden from all seats. From `SURE_ROUNDS` on the game ends after each round with a chance
of 1 in `ENDS_IN`, and the option `rounds` is a bound that is rarely reached. So there is no end to sell out
before: in every place that can be drawn, the fair share of the rounds that are expected is worth more than
the limit at once and a fourth of what is left, which is what a seat has of it among seats that save no
longer. So no policy beside three of `strong` expects more than 0.01 above what `strong` does in its seat,
at any of these places (a test computes the best of all replies).

There is more at the start than the place can carry: in the first round all four may take the limit and leave
more than half of the capacity. From then on the share that lasts is a sixth to three eighths of the limit, as
the numbers of the episode have it: no fixed request and no fixed part of the limit is right.

A seat's outcome is its harvest over a par, cut off at 1. Par is half of what all four could take
together in the number of rounds that is expected, if the stock grew by its most in every round. So no table
can expect more than 0.5 each, and above it a seat is only at the cost of others or by the luck of a long
game. Measured over 400 seeds: random bots among their like earn 0.27 (the floor), `strong` among its like
0.42, among random ones 0.40 and among `middle` 0.47; a random one among `strong` 0.19, among `middle` 0.21.

All scripted players but `random` know the plan that serves the table, and repay who takes more. Eval
instances are held out by capacity, growth and limit. The default move takes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from operator import add
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.dilemmas.one_number import one_number
from srl_envs.messages import Spoken, join_body, quoted, split_body

SEATS = 4
LEAST_CAPACITY, MOST_CAPACITY = 80, 240
"""The stock from which on it grows no more."""
FULLEST = 1.5
"""No start is more than this many capacities."""
MOST_LIMIT = MOST_CAPACITY // 5
"""Most units that a seat may ask for, over all episodes."""
SURE_ROUNDS = 4
"""After this round and each later one the game may end."""
ENDS_IN = 10
"""One in so many of these rounds is the last."""
MOST_ROUNDS = 30
COLLAPSE_BELOW = 5
"""With less than this left after a harvest, the stock dies."""
RATES = (6, 7, 8, 9)
"""Growth per round of a small stock, in tenths; at less, patience would not pay."""
MAX_MESSAGE_CHARS = 160
ROUNDS_OF_WORDS = 2
"""Messages of this many rounds are shown."""


class Request(NamedTuple):
    """Move of a seat in one round."""

    amount: int
    message: str = ""


class Place(NamedTuple):
    """Parameters of an episode."""

    start: int
    """Stock before the first round."""
    capacity: int
    rate: int
    """Growth rate in tenths."""
    limit: int
    """Most units of a request."""


class Stock(NamedTuple):
    """Immutable state."""

    amount: int
    place: Place
    length: int
    """Rounds of this episode, if the stock lasts; hidden from all seats."""
    harvests: tuple[tuple[int, ...], ...] = ()
    """Units that each seat got, per round."""
    totals: tuple[int, ...] = (0,) * SEATS
    """Units that each seat has in all."""
    words: tuple[tuple[str, ...], ...] = ()
    """Message of each seat, per round."""
    log: str = ""
    """The past rounds as every seat reads them."""


def draw_place(rng: Draws) -> Place:
    """Numbers in which all four may take the limit once and leave half of the capacity."""
    capacity = rng.integers(LEAST_CAPACITY, MOST_CAPACITY + 1)
    limit = rng.integers(-(-3 * capacity // 20), capacity // 5 + 1)
    start = SEATS * limit - (-11 * capacity // 20) + rng.integers(capacity // 10 + 1)
    return Place(start, capacity, RATES[rng.integers(len(RATES))], limit)


def draw_length(rng: Draws, most: int, played: int = 0) -> int:
    """Rounds of an episode of which ``played`` are over and another follows.

    Args:
        rng: decides after which round it ends.
        most: rounds.
        played: rounds.
    """
    length = max(SURE_ROUNDS, played + 1)
    while length < most and rng.integers(ENDS_IN):
        length += 1
    return length


def expected_rounds(most: int) -> float:
    """Mean of `draw_length` before the first round."""
    expected, chance = float(SURE_ROUNDS), 1.0
    for _ in range(SURE_ROUNDS, most):
        chance *= 1 - 1 / ENDS_IN
        expected += chance
    return expected


def grown(left: int, capacity: int, rate: int) -> int:
    """The stock of the next round after ``left`` was left; 0 if it died.

    Args:
        left: after the harvest.
        capacity: where growth ends; more than that stays as it is.
        rate: tenths.
    """
    if left < COLLAPSE_BELOW:
        return 0
    return left + max(0, rate * left * (capacity - left) // (10 * capacity))


def ration(requests: tuple[int, ...], stock: int) -> tuple[int, ...]:
    """What each request gets: all of it, or its share (rounded down) where the stock is too small."""
    wanted = sum(requests)
    if wanted <= stock:
        return requests
    return tuple(request * stock // wanted for request in requests)


def most_together(place: Place, rounds: float) -> float:
    """An upper bound of what all seats can harvest: the start, and the largest growth in every round."""
    return place.start + (rounds - 1) * place.capacity * place.rate / 40


def par(place: Place, rounds: float) -> int:
    """Units that are worth an outcome of 1: half of `most_together` in the rounds that are expected."""
    return ceil(most_together(place, rounds) / 2)


class Commons(Game[Stock, Request]):
    """Observation: rules, past rounds, words. Action: a whole number, with a message above it.

    Args:
        rounds: the most that there can be, 5 to 30.
        talk: whether seats may send messages.

    Raises:
        ConfigError: a value is out of range.
    """

    resource = "share"
    seats = SEATS
    mode = "mixed"
    simultaneous = True
    max_action_chars = 600

    def __init__(self, *, rounds: int = MOST_ROUNDS, talk: bool = True) -> None:
        whole = isinstance(rounds, int) and not isinstance(rounds, bool)
        if not whole or not SURE_ROUNDS < rounds <= MOST_ROUNDS:
            raise ConfigError(
                f"commons: rounds={rounds!r}; give {SURE_ROUNDS + 1} to {MOST_ROUNDS}, the most rounds."
            )
        if not isinstance(talk, bool):
            raise ConfigError(f"commons: talk={talk!r}; give true or false.")
        self.max_turns, self.talk = rounds, talk
        self._expected = expected_rounds(rounds)
        words = ROUNDS_OF_WORDS * SEATS * (MAX_MESSAGE_CHARS + 40) if talk else 0
        self.max_observation_chars = 1800 + 120 * rounds + words
        self._rules = self._write_rules()

    def _write_rules(self) -> str:
        text = (
            f"Four players harvest one stock, for {SURE_ROUNDS} rounds at least. From round {SURE_ROUNDS} on "
            f"each round is the last with a chance of 1 in {ENDS_IN}; round {self.max_turns} is the last for "
            "sure. In each round all ask at the same moment for 0 to LIMIT units. If they ask for more "
            "than the stock, each gets a share in proportion to its request.\n"
            "What is left then grows by RATE x left x (1 - left / CAPACITY), rounded down: most at half "
            "of the capacity, and not at all from CAPACITY on. "
            f"With less than {COLLAPSE_BELOW} left the stock dies and the game ends.\n"
            "Payoff: the units you get / PAR, at most 1. What the others get does not count for you.\n"
            "Reply with the units you ask for, like this: <action>0</action>\n"
        )
        if self.talk:
            text += (
                f"You may add a message of at most {MAX_MESSAGE_CHARS} characters, which all read in the "
                "next round, on a line above the number: <action>say: your message\n0</action>\n"
            )
        return text + "\n"

    def new(self, streams: Streams) -> Stock:
        """Draw the parameters and the secret length."""
        rng = streams.draws("instance")
        place = streams.held(lambda: draw_place(rng), lambda drawn: drawn[1:])
        return Stock(place.start, place, draw_length(streams.draws("chance"), self.max_turns))

    def to_move(self, state: Stock) -> tuple[int, ...]:
        """All seats until the last round, or until the stock is dead."""
        return (0, 1, 2, 3) if state.amount and len(state.harvests) < state.length else ()

    def observe(self, state: Stock, seat: int) -> str:
        """Rules, the place, past rounds, what was said lately, and the round to come."""
        place = state.place
        head = (
            f"You are {seat_name(seat)}. CAPACITY {place.capacity}, RATE {place.rate / 10}, "
            f"LIMIT {place.limit}, PAR {par(place, self._expected)}.\n"
        )
        status = f"You have {state.totals[seat]} units.\n"
        if self.to_move(state):
            status += (
                f"Round {len(state.harvests) + 1} of at most {self.max_turns}: "
                f"ask for 0 to {place.limit} of {state.amount} units."
            )
        else:
            status += "It is over."
        said = _said(state) if self.talk else ""
        return f"{self._rules}{head}{state.log}{said}{status}\n"

    def parse(self, state: Stock, seat: int, body: str) -> Request:
        """A whole number, and a message where talk is on."""
        spoken = split_body(body, MAX_MESSAGE_CHARS, example="0") if self.talk else Spoken("", body)
        limit = state.place.limit
        amount = one_number(spoken.move, 0, limit)
        if amount is None:
            raise IllegalMoveError(
                f"ask for one whole number from 0 to {limit}, alone on its line, for example 0"
            )
        return Request(amount, spoken.message)

    def apply(self, state: Stock, actions: Mapping[int, Request]) -> Stock:
        """Harvest the requests, then grow the stock."""
        requests = tuple(actions[seat].amount for seat in range(SEATS))
        harvest = ration(requests, state.amount)
        place = state.place
        amount = grown(state.amount - sum(harvest), place.capacity, place.rate)
        line = _describe(state, requests, harvest, amount)
        return state._replace(
            amount=amount,
            harvests=(*state.harvests, harvest),
            totals=tuple(map(add, state.totals, harvest)),
            words=(*state.words, tuple(actions[seat].message for seat in range(SEATS))),
            log=state.log + line,
        )

    def returns(self, state: Stock) -> tuple[float, ...] | None:
        """Harvest over par, at most 1."""
        return None if self.to_move(state) else self.earned(state)

    def earned(self, state: Stock) -> tuple[float, ...]:
        """The outcome of what is harvested so far; it never shrinks."""
        whole = par(state.place, self._expected)
        return tuple(min(1.0, units / whole) for units in state.totals)

    def forfeit(self, state: Stock, seat: int) -> tuple[float, ...]:
        """-1 for the seat; each other has its fourth of what is there."""
        share, whole = state.amount // SEATS, par(state.place, self._expected)
        return tuple(
            -1.0 if other == seat else min(1.0, (state.totals[other] + share) / whole)
            for other in range(SEATS)
        )

    def fallback(self, state: Stock, seat: int) -> str:
        """Nothing, without a word: the seat's own worst request, so that nonsense never pays."""
        return "0"

    def sample(self, state: Stock, seat: int, rng: np.random.Generator) -> str:
        """Any request, with a short message one time in four."""
        message = "take less" if self.talk and rng.random() < 0.25 else ""
        return join_body(message, str(rng.integers(state.place.limit + 1)))

    def components(self, state: Stock, seat: int) -> Mapping[str, float]:
        """``sustained``: share of the episode's rounds. ``welfare``: joint harvest over the most in these.

        ``share`` is the seat's part of the joint harvest, ``messages`` the share of rounds in which
        it spoke.
        """
        played = max(len(state.harvests), 1)
        total = sum(state.totals)
        return {
            "sustained": len(state.harvests) / state.length,
            "welfare": total / most_together(state.place, state.length),
            "share": state.totals[seat] / max(total, 1),
            "messages": sum(bool(words[seat]) for words in state.words) / played,
        }

    def swap_hidden(self, state: Stock, seat: int, other: Stock) -> Stock:
        """The other episode's length, as far as the rounds that were played allow it."""
        if not self.to_move(state):
            return state
        return state._replace(length=max(other.length, len(state.harvests) + 1))

    def reshuffled(self, state: Stock, draws: Draws) -> Stock:
        """How many rounds follow."""
        if not self.to_move(state):
            return state
        return state._replace(length=draw_length(draws, self.max_turns, len(state.harvests)))

    def encode(self, state: Stock) -> Any:
        """Lists and numbers."""
        return [
            state.amount, list(state.place), state.length, [list(harvest) for harvest in state.harvests],
            list(state.totals), [list(words) for words in state.words], state.log,
        ]  # fmt: skip

    def decode(self, data: Any) -> Stock:
        """The inverse of `encode`."""
        amount, place, length, harvests, totals, words, log = data
        return Stock(
            amount, Place(*place), length, tuple(map(tuple, harvests)), tuple(totals),
            tuple(map(tuple, words)), log,
        )  # fmt: skip


def _describe(
    state: Stock, requests: tuple[int, ...], harvest: tuple[int, ...], amount: int
) -> str:
    """A round from ``state`` to the stock ``amount``, as every seat reads it."""
    left = state.amount - sum(harvest)
    got = ", ".join(f"{seat_name(seat)} {units}" for seat, units in enumerate(harvest))
    asked = "" if requests == harvest else f" (asked {' '.join(map(str, requests))})"
    end = f"{left} left, {amount} after growth" if amount else f"{left} left: the stock is dead"
    number = len(state.harvests) + 1
    return f"Round {number}: stock {state.amount}; {got}{asked}; {end}.\n"


def _said(state: Stock) -> str:
    """What was said in the last rounds, one line each."""
    first = max(0, len(state.words) - ROUNDS_OF_WORDS)
    return "".join(
        f"{seat_name(seat)} said in round {number}: {quoted(message)}\n"
        for number, words in enumerate(state.words[first:], first + 1)
        for seat, message in enumerate(words)
        if message
    )
