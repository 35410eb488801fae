"""Negotiation: two seats talk about who gets which items, each knowing only what they are worth to it.

Mixed payoffs, in turns. Three kinds of item, one to four of each; the whole is worth ten points to
either seat, spread differently, so there is more to share than half each: over 2,000 seeds the best
split is worth 1.55 to both together. Only offers and acceptance count; words bind nobody. The seat
that opens is drawn; the eighth and last turn can only accept or walk away.

A seat's outcome is its points over ten, in [0, 1]. A deal that is accepted in turn 5 pays 95 % of its
points, and 5 % less with every turn after it.
Without a deal each has its own secret reserve, 0.1 to 0.3: whoever walks at once earns 0.20. Measured
over 300 seeds: random bots among their like earn 0.44 (the floor), `strong` against itself 0.66 (the
fairest split, known only to who sees both sides, gives the poorer seat 0.68), against `middle` (never
less than six points) 0.68, against random 0.78; random earns 0.35 against `strong`.

Forfeiting costs a seat everything (-1) and leaves the other its reserve. The default move walks away, and
a seat that makes no move of its own forfeits: babble pays neither the one who babbles nor the one who
makes the other babble. Offers are three numbers: few ways to be refused, and nothing to quote.

Instances are held out by how many items there are of each kind, in any order: 43 of 62 such stocks are
train's, the others eval's, so no seat's start occurs in both splits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Split, Streams, require_action, seat_name, split_of_instance
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.messages import Spoken, join_body, quoted, split_body, whole_number

ITEMS = ("book", "hat", "ball")
MAX_COUNT = 4
TOTAL = 10
"""Points that all items together are worth to each seat."""
RESERVES = (1, 2, 3)
"""Possible reserves, in points."""
SHRINKS_FROM = 5
"""First turn in which a deal pays less than its points."""
SHRINKS_BY = 5
"""Per cent by which each later turn lowers a deal's payoff."""
MAX_MESSAGE_CHARS = 200
ACCEPT, WALK = "accept", "walk"
EXAMPLE = "offer 0 0 1"
"""Legal with any items, and a poor offer: a player that copies it gives nearly everything away."""
_NUMBER = r"(\d{1,4})"
_OFFER = re.compile(
    rf"(?:i )?offer:? {_NUMBER}(?: books?)?,? {_NUMBER}(?: hats?)?,?(?: and)? {_NUMBER}(?: balls?)?"
)
_ACCEPT = re.compile(r"(?:i )?accept(?: (?:the|your|this) offer)?")
_WALK = re.compile(r"(?:i )?walk(?: away)?")

Bundle = tuple[int, int, int]
"""Number of items of each kind."""


class Act(NamedTuple):
    """Move of a seat in one turn."""

    kind: str
    """``offer``, ``accept`` or ``walk``."""
    keeps: Bundle = (0, 0, 0)
    """What the offering seat keeps for itself."""
    message: str = ""


class Talks(NamedTuple):
    """Immutable state."""

    counts: Bundle
    values: tuple[Bundle, Bundle]
    """Points per item, for each seat; secret."""
    reserves: tuple[int, int]
    """Points without a deal, for each seat; secret."""
    first: int
    """The seat that opens."""
    acts: tuple[Act, ...] = ()
    logs: tuple[str, str] = ("", "")
    """The past turns as each seat reads them."""


def worth(bundle: Bundle, values: Bundle) -> int:
    """Points of a bundle."""
    (a, b, c), (x, y, z) = bundle, values
    return a * x + b * y + c * z


@lru_cache(maxsize=64)
def bundles(counts: Bundle) -> tuple[Bundle, ...]:
    """Every bundle that can be taken out of ``counts``."""
    first, second, third = (range(n + 1) for n in counts)
    return tuple(product(first, second, third))


@lru_cache(maxsize=64)
def valuations(counts: Bundle) -> tuple[Bundle, ...]:
    """Every way to value the items so that all of ``counts`` are worth `TOTAL`."""
    first, second, third = (range(TOTAL // n + 1) for n in counts)
    return tuple(v for v in product(first, second, third) if worth(counts, v) == TOTAL)


_COUNTS = tuple(
    (a, b, c)
    for a, b, c in product(range(1, MAX_COUNT + 1), repeat=3)
    if len(valuations((a, b, c))) > 1
)
"""Where the points can be spread in two ways at least; three of each, for one, never make ten."""


@lru_cache(maxsize=2)
def counts_of(split: Split) -> tuple[Bundle, ...]:
    """The items of one split; which of the three kinds there are most of does not matter."""
    return tuple(counts for counts in _COUNTS if split_of_instance(tuple(sorted(counts))) == split)


@lru_cache(maxsize=64)
def _moves(counts: Bundle) -> tuple[str, ...]:
    """Every offer as an action body."""
    return tuple(f"offer {a} {b} {c}" for a, b, c in bundles(counts))


def rest(counts: Bundle, bundle: Bundle) -> Bundle:
    """What is left of ``counts``."""
    return (counts[0] - bundle[0], counts[1] - bundle[1], counts[2] - bundle[2])


def shrunk(turn: int) -> float:
    """What a deal in ``turn`` (from 1) still pays of its points."""
    return (100 - SHRINKS_BY * max(0, turn - SHRINKS_FROM + 1)) / 100


class Negotiation(Game[Talks, Act]):
    """Observation: rules, own values, past turns. Action: ``offer 1 0 2``, ``accept`` or ``walk``.

    Args:
        turns: 2 to 8; the last one can only accept or walk.
        talk: whether seats may send messages.

    Raises:
        ConfigError: a value is out of range.
    """

    mode = "mixed"
    max_action_chars = 800

    def __init__(self, *, turns: int = 8, talk: bool = True) -> None:
        if isinstance(turns, bool) or not isinstance(turns, int) or not 2 <= turns <= 8:
            raise ConfigError(f"negotiation: turns={turns!r}; give 2 to 8.")
        if not isinstance(talk, bool):
            raise ConfigError(f"negotiation: talk={talk!r}; give true or false.")
        self.max_turns, self.talk = turns, talk
        self.max_observation_chars = 2200 + turns * (140 + (MAX_MESSAGE_CHARS + 20) * talk)
        self._rules = self._write_rules()

    def _write_rules(self) -> str:
        late = range(SHRINKS_FROM, self.max_turns + 1)
        factors = ", ".join(f"{100 * shrunk(turn):.0f}% in turn {turn}" for turn in late)
        text = (
            "Two players share books, hats and balls. Each knows only what the items are worth to "
            f"itself; all of them together are worth {TOTAL} points to either.\n"
            f"They take turns, {self.max_turns} at most: make an offer, accept the other's last offer, "
            f"or walk away. In turn {self.max_turns} one can only accept or walk.\n"
            f"Payoff: your points / {TOTAL}. A deal gives you the points of the items you get"
        )
        if factors:
            text += f", but less if it is accepted late: {factors}"
        text += (
            ". If somebody walks away, your points are your reserve.\n"
            "Reply with an offer of how many books, hats and balls YOU get (the other gets the rest), "
            f"like this: <action>{EXAMPLE}</action>, or with <action>{ACCEPT}</action> or "
            f"<action>{WALK}</action>.\n"
        )
        if self.talk:
            text += (
                f"A message of at most {MAX_MESSAGE_CHARS} characters may stand on a line above the "
                f"move, like this: <action>say: your message\n{EXAMPLE}</action>\n"
            )
        return text + "\n"

    def new(self, streams: Streams) -> Talks:
        """Draw items, values, reserves and the seat that opens."""
        rng = streams.draws("instance")
        items = counts_of(streams.split)
        counts = items[rng.integers(len(items))]
        possible = valuations(counts)
        mine, theirs = rng.sample(len(possible), 2)
        first = RESERVES[rng.integers(len(RESERVES))]
        second = RESERVES[rng.integers(len(RESERVES))]
        return Talks(
            counts,
            (possible[mine], possible[theirs]),
            (first, second),
            streams.draws("seats").integers(2),
        )

    def to_move(self, state: Talks) -> tuple[int, ...]:
        """One seat, or none after a deal, a walk or the last turn."""
        played = len(state.acts)
        if played and state.acts[-1].kind != "offer":
            return ()
        return ((state.first + played) % 2,)

    def observe(self, state: Talks, seat: int) -> str:
        """Rules, items, own values and reserve, past turns, and what can be done now."""
        counts, values = state.counts, state.values[seat]
        head = (
            f"You are {seat_name(seat)}.\nItems: {_items(counts)}. To you a book is worth {values[0]}, a "
            f"hat {values[1]}, a ball {values[2]}. Your reserve: {state.reserves[seat]}.\n"
        )
        return f"{self._rules}{head}{state.logs[seat]}{self._status(state, seat)}\n"

    def _status(self, state: Talks, seat: int) -> str:
        mover = self.to_move(state)
        if not mover:
            points = self._points(state)[seat]
            return f"It is over. You have {points:g} points."
        turn = len(state.acts) + 1
        if mover[0] != seat:
            return f"Turn {turn} of {self.max_turns}: {seat_name(mover[0])} moves."
        if turn == self.max_turns:
            choice = "accept or walk, it is the last turn"
        elif turn == 1:
            choice = "offer or walk"
        else:
            choice = "offer, accept or walk"
        return f"Turn {turn} of {self.max_turns}, your move: {choice}."

    def parse(self, state: Talks, seat: int, body: str) -> Act:
        """A move, and a message where talk is on."""
        example = ACCEPT if len(state.acts) + 1 == self.max_turns else EXAMPLE
        spoken = Spoken("", body)
        if self.talk:
            spoken = split_body(body, MAX_MESSAGE_CHARS, example=example)
        move = " ".join(spoken.move.lower().split())
        if _WALK.fullmatch(move):
            return Act(WALK, message=spoken.message)
        if _ACCEPT.fullmatch(move):
            require_action(bool(state.acts), "there is no offer yet that you could accept")
            return Act(ACCEPT, message=spoken.message)
        offer = _OFFER.fullmatch(move)
        if offer is None:
            raise IllegalMoveError(
                f"the move must be like {example}, or {WALK}; an offer has three numbers: books, hats "
                "and balls for you"
            )
        require_action(
            len(state.acts) + 1 < self.max_turns,
            f"nobody could answer an offer in the last turn: {ACCEPT} or {WALK}",
        )
        return Act("offer", _read_bundle(offer.groups(), state.counts), spoken.message)

    def apply(self, state: Talks, actions: Mapping[int, Act]) -> Talks:
        """Add the act of the seat on move."""
        ((mover, act),) = actions.items()
        first, second = state.logs
        return state._replace(
            acts=(*state.acts, act),
            logs=(first + _line(state, 0, mover, act), second + _line(state, 1, mover, act)),
        )

    def returns(self, state: Talks) -> tuple[float, ...] | None:
        """Points over the worth of everything."""
        if self.to_move(state):
            return None
        first, second = self._points(state)
        return first / TOTAL, second / TOTAL

    def _points(self, state: Talks) -> tuple[float, float]:
        """Points of both seats at the end."""
        if state.acts[-1].kind == WALK:
            return state.reserves
        factor = shrunk(len(state.acts))
        first, second = (worth(b, v) for b, v in zip(deal(state), state.values, strict=True))
        return first * factor, second * factor

    def forfeit(self, state: Talks, seat: int) -> tuple[float, ...]:
        """-1 for the seat, its reserve for the other."""
        kept = state.reserves[1 - seat] / TOTAL
        return (-1.0, kept) if seat == 0 else (kept, -1.0)

    def legal(self, state: Talks, seat: int) -> Sequence[str]:
        """Every move without its message; at most 127."""
        turn = len(state.acts) + 1
        offers = _moves(state.counts) if turn < self.max_turns else ()
        return (*offers, *((ACCEPT,) if state.acts else ()), WALK)

    def fallback(self, state: Talks, seat: int) -> str:
        """Walk away: nobody gains by it."""
        return WALK

    def sample(self, state: Talks, seat: int, rng: np.random.Generator) -> str:
        """Any offer, more often than acceptance (3 in 10) or a walk (1 in 20); sometimes a message."""
        draw = rng.random()
        message = "what do you want" if self.talk and rng.random() < 0.25 else ""
        last = len(state.acts) + 1 == self.max_turns
        if draw < 0.05 or (last and draw < 0.5):
            return join_body(message, WALK)
        if state.acts and (draw < 0.35 or last):
            return join_body(message, ACCEPT)
        offers = _moves(state.counts)
        return join_body(message, offers[int(rng.integers(len(offers)))])

    def components(self, state: Talks, seat: int) -> Mapping[str, float]:
        """How good the deal is; all shares of what everything is worth.

        ``deal``: 1 if there is one. ``joint``: both outcomes together. ``pareto_gap``: what the seat
        could have more at no cost to the other. ``nash_product``: gains over the reserves multiplied,
        over the largest such product; 0 without a deal. All are 0 until the end.
        """
        if self.to_move(state):
            return {"deal": 0.0, "joint": 0.0, "pareto_gap": 0.0, "nash_product": 0.0}
        points = [float(p) for p in state.reserves]
        split = None
        if state.acts[-1].kind == ACCEPT:
            split = deal(state)
            points = [float(worth(b, v)) for b, v in zip(split, state.values, strict=True)]
        splits = _splits(state.counts, state.values)
        best_product = _best_product(state.counts, state.values, state.reserves)
        enough = [shares[seat] for shares in splits if shares[1 - seat] >= points[1 - seat]]
        best_mine = max([points[seat], *enough])
        product_now = _product(points, state.reserves) if split else 0.0
        return {
            "deal": float(split is not None),
            "joint": sum(self._points(state)) / TOTAL,
            "pareto_gap": (best_mine - points[seat]) / TOTAL,
            "nash_product": product_now / best_product if best_product else 0.0,
        }

    def swap_hidden(self, state: Talks, seat: int, other: Talks) -> Talks:
        """The other's values, reserve and notes."""
        mine, theirs = (state, other) if seat == 0 else (other, state)
        return state._replace(
            values=(mine.values[0], theirs.values[1]),
            reserves=(mine.reserves[0], theirs.reserves[1]),
            logs=(mine.logs[0], theirs.logs[1]),
        )

    def encode(self, state: Talks) -> Any:
        """Lists and numbers."""
        return [
            list(state.counts), [list(values) for values in state.values], list(state.reserves),
            state.first, [[act.kind, list(act.keeps), act.message] for act in state.acts],
            list(state.logs),
        ]  # fmt: skip

    def decode(self, data: Any) -> Talks:
        """The inverse of `encode`."""
        counts, values, reserves, first, acts, logs = data
        return Talks(
            _bundle(counts),
            (_bundle(values[0]), _bundle(values[1])),
            (reserves[0], reserves[1]),
            first,
            tuple(Act(kind, _bundle(keeps), message) for kind, keeps, message in acts),
            (logs[0], logs[1]),
        )


def deal(state: Talks) -> tuple[Bundle, Bundle]:
    """What each seat gets by the last offer, which was accepted."""
    turn = len(state.acts) - 2  # counts from 0: of the offer
    keeps = state.acts[turn].keeps
    others = rest(state.counts, keeps)
    return (keeps, others) if (state.first + turn) % 2 == 0 else (others, keeps)


@lru_cache(maxsize=64)
def _splits(counts: Bundle, values: tuple[Bundle, Bundle]) -> frozenset[tuple[int, int]]:
    """Points of both seats under every split that there is."""
    (a, b, c), (d, e, f) = values
    return frozenset(
        (a * i + b * j + c * k, TOTAL - d * i - e * j - f * k) for i, j, k in bundles(counts)
    )


@lru_cache(maxsize=64)
def _best_product(
    counts: Bundle, values: tuple[Bundle, Bundle], reserves: tuple[int, int]
) -> float:
    return max(_product(shares, reserves) for shares in _splits(counts, values))


def _product(points: Sequence[float], reserves: Sequence[int]) -> float:
    return max(0.0, points[0] - reserves[0]) * max(0.0, points[1] - reserves[1])


def _read_bundle(words: Sequence[str], counts: Bundle) -> Bundle:
    numbers = [whole_number(word, 0, n) for word, n in zip(words, counts, strict=True)]
    if None in numbers:
        raise IllegalMoveError(f"there are {_items(counts)}; you cannot get {' '.join(words)}")
    return _bundle([n for n in numbers if n is not None])


def _bundle(numbers: Sequence[int]) -> Bundle:
    return (numbers[0], numbers[1], numbers[2])


@lru_cache(maxsize=256)
def _items(counts: Bundle) -> str:
    return ", ".join(
        f"{n} {name}{'' if n == 1 else 's'}" for n, name in zip(counts, ITEMS, strict=True)
    )


def _line(state: Talks, seat: int, mover: int, act: Act) -> str:
    """The turn that ``mover`` takes in ``state``, as ``seat`` reads it."""
    mine, other = mover == seat, seat_name(1 - seat)
    if act.kind == "offer":
        gets = act.keeps if mine else rest(state.counts, act.keeps)
        points = worth(gets, state.values[seat])
        did = f"offer: you get {_items(gets)} ({points} points), {other} gets the rest"
    else:
        did = "accepts" if act.kind == ACCEPT else "walks away"
    said = f"  {'You' if mine else other} said: {quoted(act.message)}\n" if act.message else ""
    return f"Turn {len(state.acts) + 1}, {'you' if mine else other}: {did}.\n{said}"
