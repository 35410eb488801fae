"""Treaties: players talk, then all send orders in secret for units that only do well with another's support.

Mixed payoffs, 3 to 7 seats. A small game in the manner of Diplomacy, on a map of our own that the seed draws
(`treaties_map`): every player starts with the same number of units in equal positions. In each round all
write one message at the same moment, to all or in private to one, and then send orders for all their units,
which are carried out at once (`treaties_orders`). Nothing is left to chance. One unit cannot move another
from its place, so a player gains by help of neighbours, who may as well break their word.

After the orders a player owns the supply centres in which its units stand, and keeps them until another's
unit stands there. Units follow centres: too many are removed, new ones stand in free homes. All this is
automatic, so that a round is one message and one reply of orders.

The outcome is the mean number of centres over all rounds beside an equal share of all, -0.5 for none, 0 for
an equal share, 1 for three of them or more. Shares of squares at the end, which the field uses for
Diplomacy, divide a constant: a table that agrees could gain nothing. Here it gains by not standing in each
other's way. Copies of one policy can agree on anything, so the boards seat a policy among other ones
(`focal_return`).

A map belongs to one split, under all names of its provinces.

Levels: `players=3, provinces=3, units=1, talks=0, support=False` first, where a unit has about three
orders; then supports, two units, talk, and 7 players.

Measured over 12 maps in all seats, with 95 % intervals: the strong bot earns 0.66 (0.06) among holders, 0.57
(0.07) among random bots, 0.16 (0.08) among held-out ones and 0.11 (0.06) among middle ones; among strong bots
the strong one earns -0.04 (0.03), the held-out one 0.00 (0.05), the middle one -0.08 (0.04) and a random one
-0.23 (0.03). A team of any bots earns 0 at most, and one of random bots -0.09, so teams are close together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, require_action, seat_name
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.tables.treaties_map import Land, Sector, draw_sector, key, land_of
from srl_envs.families.tables.treaties_orders import (
    NO_ORDERS,
    NO_SEAT,
    Order,
    Outcome,
    Table,
    carried_out,
    positions,
    standing,
)
from srl_envs.messages import clean_message, quoted

PLAYERS, PROVINCES, UNITS, ROUNDS, TALKS, MESSAGE_CHARS = 7, 4, 2, 6, 1, 120
"""Default options."""
ALL = -1
"""Receiver of a message that all read."""
SILENCE = "..."
"""The message of a seat that has none."""
SHOWN_ROUNDS = 2
"""Messages of this round and the one before are shown."""
MOST_LISTED = 200
_ADDRESSED = re.compile(r"to (all|player_([0-9])) ?: ?(.+)", re.IGNORECASE | re.DOTALL)
_CHATTER = (
    "peace", "you", "we", "I", "support", "me", "not", "hub", "trust", "attack", "together", "leave",
)  # fmt: skip


class Message(NamedTuple):
    """Words of one seat."""

    round: int
    talk: int
    seat: int
    to: int
    """A seat, or `ALL`."""
    words: str


class World(NamedTuple):
    """Immutable state."""

    sector: Sector
    first: int
    """Sector of seat 0; the others follow in order."""
    units: tuple[int, ...]
    """Per province, the seat of its unit; `NO_SEAT` without one."""
    owners: tuple[int, ...]
    """Per supply centre, its seat; `NO_SEAT` without one."""
    said: tuple[Message, ...] = ()
    talked: int = 0
    """Talks of this round that are over."""
    counts: tuple[tuple[int, ...], ...] = ()
    """Per round, the centres of every seat after it."""
    helped: tuple[int, ...] = ()
    """Per seat, supports that it gave to other seats' units."""
    last: str = ""
    """What became of the orders of the last round, as lines."""

    @property
    def land(self) -> Land:
        """The map."""
        return land_of(self.sector)


Move = Message | tuple[Order, ...]


def owned(state: World, seat: int) -> list[int]:
    """Provinces whose supply centre a seat owns; of `NO_SEAT` those without an owner."""
    return [at for at, owner in zip(state.land.centres, state.owners, strict=True) if owner == seat]


def homes_of(state: World, seat: int) -> tuple[int, ...]:
    """Provinces where a seat's units start."""
    return state.land.homes[(seat + state.first) % state.sector.players]


def fair_share(state: World) -> float:
    """Centres of each player if all were shared out evenly."""
    return len(state.owners) / state.sector.players


def worth(state: World, rounds: int, seat: int) -> float:
    """What the centres of a seat after each round played so far add to its outcome."""
    above = sum(counts[seat] / fair_share(state) - 1.0 for counts in state.counts)
    return above / (2 * rounds)


def payoffs(state: World, rounds: int) -> tuple[float, ...]:
    """Outcome per seat; rounds that are not played count as if nothing changed any more."""
    left = (rounds - len(state.counts)) / (2 * rounds)
    return tuple(
        min(
            1.0,
            worth(state, rounds, seat)
            + left * (state.owners.count(seat) / fair_share(state) - 1.0),
        )
        for seat in range(state.sector.players)
    )


class Treaties(Game[World, Move]):
    """Observation: rules, map, what happened. Action: ``to player_3: words``, or orders for all units.

    Args:
        players: 3 to 7.
        provinces: per player, 3 to 5, beside the hub.
        units: that a player starts with, 1 or 2.
        rounds: 2 to 10.
        talks: messages of each player in a round, 0 to 2.
        support: whether units may support others.
        message_chars: longest message, 20 to 160.

    Raises:
        ConfigError: an option is out of range.
    """

    seats = PLAYERS
    mode = "mixed"
    simultaneous = True
    max_action_chars = 1600
    max_observation_chars = 16_384

    def __init__(
        self,
        *,
        players: int = PLAYERS,
        provinces: int = PROVINCES,
        units: int = UNITS,
        rounds: int = ROUNDS,
        talks: int = TALKS,
        support: bool = True,
        message_chars: int = MESSAGE_CHARS,
    ) -> None:
        for name, value, low, high in (
            ("players", players, 3, 7),
            ("provinces", provinces, 3, 5),
            ("units", units, 1, 2),
            ("rounds", rounds, 2, 10),
            ("talks", talks, 0, 2),
            ("message_chars", message_chars, 20, 160),
        ):
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(
                    f"treaties: {name}={value!r}; give a number from {low} to {high}."
                )
        if not isinstance(support, bool):
            raise ConfigError(f"treaties: support={support!r}; give true or false.")
        self.seats, self.provinces, self.units = players, provinces, units
        self.rounds, self.talks, self.support = rounds, talks, support
        self.message_chars = message_chars
        self.max_turns = rounds * (talks + 1)
        self._all = tuple(range(players))
        centres = players * (units + 1) + 1
        share = f"{centres}/{players}"
        self._rules = _rules(players, rounds, talks, support, share)

    def new(self, streams: Streams) -> World:
        """Draw the map and who sits where."""
        draws = streams.draws("instance")
        sector = streams.held(
            lambda: draw_sector(draws, self.seats, self.provinces, self.units), key
        )
        first = streams.draws("seats").integers(self.seats)
        land = land_of(sector)
        units = [NO_SEAT] * len(land.names)
        for seat in range(self.seats):
            for home in land.homes[(seat + first) % self.seats]:
                units[home] = seat
        owners = tuple(units[at] for at in land.centres)
        return World(sector, first, tuple(units), owners, helped=(0,) * self.seats)

    def to_move(self, state: World) -> tuple[int, ...]:
        """All seats, also those without units, until the end, or until one player has all the units."""
        armed = {*state.units} - {NO_SEAT}
        return self._all if len(state.counts) < self.rounds and len(armed) > 1 else ()

    def _talking(self, state: World) -> bool:
        return state.talked < self.talks

    def observe(self, state: World, seat: int) -> str:
        """Rules, map, centres by round, the last orders, messages, positions, and what is due."""
        said = "".join(
            f"Round {m.round + 1}, {seat_name(m.seat)} to {_whom(m, seat)}: {quoted(m.words)}\n"
            for m in state.said
            if m.round > len(state.counts) - SHOWN_ROUNDS
            and (m.to == ALL or seat in (m.seat, m.to))
        )
        return (
            f"{self._rules}\n{self._map(state)}{_history(state)}{state.last}{said}"
            f"{self._positions(state, seat)}{self._status(state, seat)}\n"
        )

    def _map(self, state: World) -> str:
        land = state.land
        kinds = dict.fromkeys(land.centres, " (centre)")
        for seat in range(self.seats):
            kinds |= dict.fromkeys(homes_of(state, seat), f" (centre, home of {seat_name(seat)})")
        lines = (
            f"{name}{kinds.get(at, '')}: {_listed(land, land.borders[at])}\n"
            for at, name in enumerate(land.names)
        )
        return "Map, with the borders of each province:\n" + "".join(lines)

    def _positions(self, state: World, viewer: int = NO_SEAT) -> str:
        lines = []
        for seat in range(self.seats):
            units, centres = standing(state.units, seat), owned(state, seat)
            name = f"{seat_name(seat)} (you)" if seat == viewer else seat_name(seat)
            lines.append(
                f"{name} has units in {_listed(state.land, units)}; "
                f"centres {_listed(state.land, centres)}\n"
            )
        return f"{''.join(lines)}Free centres: {_listed(state.land, owned(state, NO_SEAT))}\n"

    def _status(self, state: World, seat: int) -> str:
        if not self.to_move(state):
            return "THE END."
        part, me = "talk" if self._talking(state) else "orders", seat_name(seat)
        line = f"ROUND {len(state.counts) + 1} of {self.rounds}, {part}. You are {me}.\n"
        if self._talking(state):
            return (
                f"{line}Reply with a message of at most {self.message_chars} characters to all or to "
                f"one player, like this: <action>to all: {_EXAMPLE}</action>, or with {SILENCE} to "
                "say nothing."
            )
        units = standing(state.units, seat)
        if not units:
            return f"{line}You have no units. Reply with <action>{NO_ORDERS}</action>."
        return (
            f"{line}Reply with orders for your units in {_listed(state.land, units)}, like this: "
            f"<action>{self._example(state, seat)}</action>"
        )

    def _example(self, state: World, seat: int) -> str:
        """Legal orders that show the forms: a move, a support for it where one is possible, and holds."""
        table = Table(state.land, state.units, self.support)
        ahead, *others = standing(state.units, seat)
        near = state.land.borders[ahead]
        target = min(near.difference(others) or near)
        orders = [Order(ahead, ahead, target)]
        for at in others:
            helps = self.support and target in state.land.borders[at] and len(orders) == 1
            orders.append(Order(at, ahead, target) if helps else Order(at, at, at))
        return "; ".join(map(table.written, orders))

    def parse(self, state: World, seat: int, body: str) -> Move:
        """A message and whom it is for, or orders."""
        if not self._talking(state):
            return Table(state.land, state.units, self.support).read(body, seat)
        now = len(state.counts), state.talked, seat
        if body.strip() in (SILENCE, "\u2026"):
            return Message(*now, ALL, "")
        found = _ADDRESSED.fullmatch(body.strip())
        if found is None:
            raise IllegalMoveError(
                f"begin with the receiver, like to all: {_EXAMPLE}, or write {SILENCE} to say nothing"
            )
        to = int(found[2]) if found[2] else ALL
        others = [other for other in self._all if other != seat]
        require_action(to in (ALL, *others), f"write to all, or to one of {_names(others)}")
        words = clean_message(found[3], self.message_chars)
        require_action(bool(words), f"the message is empty; to say nothing write {SILENCE}")
        return Message(*now, to, words)

    def apply(self, state: World, actions: Mapping[int, Move]) -> World:
        """Note the messages, or carry out the orders."""
        if self._talking(state):
            said = tuple(
                m for _, m in sorted(actions.items()) if isinstance(m, Message) and m.words
            )
            return state._replace(said=(*state.said, *said), talked=state.talked + 1)
        orders = {
            order.at: order
            for _, sent in sorted(actions.items())
            for order in sent
            if isinstance(order, Order)
        }
        outcome = carried_out(state.units, orders)
        land, units = state.land, positions(state.units, orders, outcome)
        owners = tuple(
            units[at] if units[at] != NO_SEAT else owner
            for at, owner in zip(land.centres, state.owners, strict=True)
        )
        moved = state._replace(units=tuple(units), owners=owners)
        lines, changed = [_report(state, orders, outcome)], list(units)
        for seat in range(self.seats):
            gone, new = supplied(moved, seat)
            for at in gone:
                changed[at] = NO_SEAT
            for at in new:
                changed[at] = seat
            if gone or new:
                what, where = ("loses units in", gone) if gone else ("gets units in", new)
                lines.append(f"{seat_name(seat)} {what} {_listed(land, where)}\n")
        helped = list(state.helped)
        for at in outcome.given:
            helped[state.units[at]] += state.units[orders[at].source] != state.units[at]
        return moved._replace(
            units=tuple(changed),
            talked=0,
            counts=(*state.counts, tuple(owners.count(seat) for seat in range(self.seats))),
            helped=tuple(helped),
            last="".join(lines),
        )

    def returns(self, state: World) -> tuple[float, ...] | None:
        """See `payoffs`."""
        return None if self.to_move(state) else payoffs(state, self.rounds)

    def earned(self, state: World) -> tuple[float, ...]:
        """What the rounds so far pay."""
        return tuple(min(1.0, worth(state, self.rounds, seat)) for seat in range(self.seats))

    def forfeit(self, state: World, seat: int) -> tuple[float, ...]:
        """-1 for the seat; the others as if nothing changed any more."""
        paid = payoffs(state, self.rounds)
        return tuple(-1.0 if other == seat else paid[other] for other in range(self.seats))

    def legal(self, state: World, seat: int) -> Sequence[str] | None:
        """All combinations of orders, where they are few; messages are too many to list."""
        if self._talking(state):
            return None
        table = Table(state.land, state.units, self.support)
        each = [table.possible(at) for at in standing(state.units, seat)]
        if prod(map(len, each)) > MOST_LISTED:
            return None
        return ["; ".join(map(table.written, orders)) or NO_ORDERS for orders in product(*each)]

    def fallback(self, state: World, seat: int) -> str:
        """Silence; all units hold."""
        if self._talking(state):
            return SILENCE
        holds = (f"{state.land.names[at]} hold" for at in standing(state.units, seat))
        return "; ".join(holds) or NO_ORDERS

    def sample(self, state: World, seat: int, rng: np.random.Generator) -> str:
        """A few words that mean nothing, to any other; any orders."""
        if self._talking(state):
            others = [other for other in self._all if other != seat]
            return random_message(rng, others)
        table = Table(state.land, state.units, self.support)
        orders = []
        for at in standing(state.units, seat):
            possible = table.possible(at)
            orders.append(table.written(possible[int(rng.integers(len(possible)))]))
        return "; ".join(orders) or NO_ORDERS

    def components(self, state: World, seat: int) -> Mapping[str, float]:
        """``centres``, ``units``, ``messages`` and ``private``, ``supports`` that it gave to others."""
        said = [message for message in state.said if message.seat == seat]
        return {
            "centres": float(state.owners.count(seat)),
            "units": float(state.units.count(seat)),
            "messages": float(len(said)),
            "private": float(sum(message.to != ALL for message in said)),
            "supports": float(state.helped[seat]),
        }

    def swap_hidden(self, state: World, seat: int, other: World) -> World:
        """Private messages between others never happened."""
        said = tuple(m for m in state.said if m.to == ALL or seat in (m.seat, m.to))
        return state._replace(said=said)

    def render(self, state: World) -> str:
        """Map, last orders, all messages, positions."""
        said = "".join(
            f"Round {m.round + 1}, {seat_name(m.seat)} to {_whom(m, NO_SEAT)}: {quoted(m.words)}\n"
            for m in state.said
            if m.round == len(state.counts) or m.round == len(state.counts) - 1
        )
        round_now = "THE END."
        if self.to_move(state):
            part = "talk" if self._talking(state) else "orders"
            round_now = f"ROUND {len(state.counts) + 1} of {self.rounds}, {part}."
        return f"{self._map(state)}{_history(state)}{state.last}{said}{self._positions(state)}{round_now}\n"

    def encode(self, state: World) -> Any:
        """The fields in order, as lists."""
        return [_plain(value) for value in state]

    def decode(self, data: Any) -> World:
        """The inverse of `encode`."""
        sector, first, units, owners, said, *rest = map(_frozen, data)
        return World(Sector(*sector), first, units, owners, tuple(Message(*m) for m in said), *rest)


_EXAMPLE = "I stay out of the hub if you do."


def _rules(players: int, rounds: int, talks: int, support: bool, share: str) -> str:
    """The part of the observation that never changes.

    Args:
        players: number of seats.
        rounds: of the game.
        talks: messages of each player in a round.
        support: whether units may support others.
        share: centres of a player if all were shared out evenly.
    """
    talk = (
        "",
        "all players write one message",
        "all players write two messages, one after the other",
    )[talks]
    if talk:
        talk += (
            ", at the same time, to all or in private to one player; no promise is binding. Then "
        )
    forms = (
        "Orders, one for each unit, with ; between them. A unit without an order holds.\n"
        '"A1 hold": the unit in A1 stays.\n'
        '"A1 move B1": it goes to B1, a province on its border.\n'
    )
    strength = "Every unit has strength 1"
    driven_out = ""
    if support:
        forms += (
            '"A1 support B1": it stays, and helps the unit in B1, of any player, if that does not move.\n'
            '"A1 support B1 move C1": it stays, and helps that move. The place where A1 helps, B1 or C1, '
            "has to be on its border.\n"
        )
        strength += ", plus 1 for each support"
        driven_out = (
            " A unit that stays where a stronger one moves in is driven out and removed, but never by "
            "units of its own player or with their support. A support is cut if a unit of another player "
            "moves against the supporting unit, from anywhere but the place where the support helps, or "
            "drives it out."
        )
    return (
        f"TREATIES. {players} players, {rounds} rounds. In each round {talk}all players send orders "
        f"for their units in secret, and all orders are carried out at the same time.\n{forms}"
        f"{strength}. A move is made if it is stronger than every other move to that province, and "
        "than the unit that stays there or moves against it. Else its unit stays, and has strength 1 "
        "there: so with equal strength no unit moves. Units that follow each other in a ring move "
        f"together.{driven_out}\n"
        "After the orders, a player owns every centre in which it has a unit, and keeps it until "
        "another player has a unit there. Then a player with more units than centres loses the units "
        "furthest from its homes; one with fewer gets units in those of its homes that it owns and "
        "that are empty.\n"
        f"Payoff: (M / ({share}) - 1) / 2, at most 1, where M is how many centres you own at the end "
        f"of a round, on average over all rounds. {share} is an equal share of all centres.\n"
    )


def supplied(state: World, seat: int) -> tuple[list[int], list[int]]:
    """Units that a seat loses, and homes where it gets one, so that units follow centres."""
    steps, players = state.land.steps, state.sector.players
    homes, units = homes_of(state, seat), standing(state.units, seat)
    missing = state.owners.count(seat) - len(units)
    if missing < 0:
        start = (seat + state.first) % players * state.sector.places
        there = players * state.sector.places

        def remote(at: int) -> tuple[int, int]:
            own = there if at == state.land.hub else (at - start) % there
            return min(steps[home][at] for home in homes), own

        return sorted(sorted(units, key=remote)[missing:]), []
    free = [at for at in homes if state.units[at] == NO_SEAT and at in owned(state, seat)]
    return [], free[:missing]


def _report(state: World, orders: Mapping[int, Order], outcome: Outcome) -> str:
    """Orders of a round and what became of them, a line per seat."""
    table = Table(state.land, state.units, True)
    lines = [f"Orders of round {len(state.counts) + 1}:\n"]
    for seat in range(state.sector.players):
        written = []
        for at in standing(state.units, seat):
            order = orders.get(at, Order(at, at, at))
            written.append(table.written(order) + _fate(order, orders, outcome))
        if written:
            lines.append(f"{seat_name(seat)}: {'; '.join(written)}\n")
    return "".join(lines)


def _fate(order: Order, orders: Mapping[int, Order], outcome: Outcome) -> str:
    """What is put behind an order that was not carried out, or whose unit is gone."""
    marks = []
    if order.moves and order.at not in outcome.made:
        marks.append("failed")
    if order.supports and order.at not in outcome.given:
        helped = orders.get(order.source)
        goal = helped.target if helped is not None and helped.moves else order.source
        marks.append("cut" if goal == order.target else "in vain")
    if order.at in outcome.driven_out:
        marks.append("driven out")
    return f" ({', '.join(marks)})" if marks else ""


def _history(state: World) -> str:
    """Centres after each round."""
    if not state.counts:
        return ""
    rows = "; ".join(" ".join(map(str, counts)) for counts in state.counts)
    last = seat_name(state.sector.players - 1)
    return f"Centres after each round, {seat_name(0)} to {last}: {rows}\n"


def _whom(message: Message, seat: int) -> str:
    return "all" if message.to == ALL else "you" if message.to == seat else seat_name(message.to)


def random_message(rng: np.random.Generator, others: Sequence[int]) -> str:
    """A few words that mean nothing, to all or to one of the others."""
    words = " ".join(str(word) for word in rng.choice(_CHATTER, int(rng.integers(1, 8))))
    to = int(rng.integers(len(others) + 1))
    return f"to {'all' if to == len(others) else seat_name(others[to])}: {words}"


def _listed(land: Land, places: Any) -> str:
    return ", ".join(land.names[at] for at in sorted(places)) or "none"


def _names(seats: Sequence[int]) -> str:
    return ", ".join(map(seat_name, seats))


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
