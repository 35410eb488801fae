"""Sealed auction: four seats bid in secret for one item after the other, each from its own purse.

Mixed payoffs, simultaneous, paid item by item. The seed draws the rules, which are announced: the
winner pays its own bid or the second highest one; values are private, or shared by all and known only
by an estimate each (then the highest bidder is the one who was most mistaken). Equal bids are settled
by lot. The seller has a secret reserve for each item, 12 to 18 coins, and keeps what no bid reaches.

A seat's outcome is its gain (values won minus prices paid) over its purse, at most 1; it cannot fall
below -1, for nobody can spend more than the purse. Who never bids earns 0. Measured over 300 seeds:
random bots among their like earn -0.15 (the floor), truthful ones -0.01 (-0.08 where values are shared
and the first price is paid: the winner's curse), `strong` ones 0.04; `strong` earns 0.05 among random
bots and 0.04 among `middle` ones, which earn 0.03 among `strong` ones, random -0.20.

The reserve takes from collusion what it would bring. With a known least bid, four seats that all bid it
where they value an item more earned twice what `strong` ones did. Now a low bid mostly buys nothing:
measured over 600 seeds of each price and kind of value, the best rings of one line found (a share of the
value) earn 0.007 more than `strong` bots, and those that bid a constant from a threshold on 0.002.
Reserves of 12 to 18 are close to the best choice: a linear program over all distributions of reserves up
to 20 found none that leaves truthful bidders more at the second price and rings as little.

Gains are divided by the purse instead of what a seat could have alone, which no competitor comes near; the
purse is 30, so that it binds; ties go by lot, so that no seat is better than another. The default move bids
nothing, and a seat that forfeits has -1 and leaves the others their gains.

Instances are held out by the values that a seat reads, in any order: no seat's start occurs in both splits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError, nearest
from srl_envs.messages import whole_number

SEATS = 4
RESERVES = range(12, 19)
"""Reserves of the seller, in coins, each as likely as another, drawn anew for each item."""
LARGEST_VALUE = 20
LARGEST_ERROR = 6
"""By which an estimate of a shared value may be off, either way."""
_BID = re.compile(r"(?:(?:i |my )?bid(?: is)?:? )?(\d+)(?: coins?)?")
_RESERVE = (
    f"The seller has a secret reserve for each item, {RESERVES[0]} to {RESERVES[-1]} coins: a bid below it "
    "gets nothing, and the price is no less.\n"
)
PRICES = ("first", "second")
VALUES = ("private", "shared")


class Sale(NamedTuple):
    """Immutable state."""

    first_price: bool
    shared: bool
    values: tuple[tuple[int, ...], ...]
    """Per seat, what each item is worth to it; estimates where values are shared."""
    truths: tuple[int, ...]
    """What each item is worth to all; empty where values are private."""
    lots: tuple[tuple[int, ...], ...]
    """Per item, the seats in the order that settles equal bids."""
    reserves: tuple[int, ...]
    """Per item, the least bid that buys it, in coins."""
    money: tuple[int, ...]
    """Coins left in each purse."""
    gains: tuple[int, ...] = (0,) * SEATS
    bids: tuple[tuple[int, ...], ...] = ()
    """Per item sold or passed, of all seats."""
    log: str = ""
    """The past items as every seat reads them."""


def settle(
    bids: Sequence[int], lot: Sequence[int], first_price: bool, reserve: int
) -> tuple[int, int]:
    """Who gets an item, and for how much.

    Args:
        bids: of all seats; 0 stands for no bid.
        lot: the seats in the order that settles equal bids.
        first_price: whether the winner pays its own bid, or the second highest one.
        reserve: the seller keeps the item below this bid, and no price is lower.

    Returns:
        ``(winner, price)``; (-1, 0) where no bid reaches the reserve.
    """
    winner = max(lot, key=lambda seat: bids[seat])  # the first of the highest
    if bids[winner] < reserve:
        return -1, 0
    return winner, bids[winner] if first_price else max(reserve, sorted(bids)[-2])


class SealedAuction(Game[Sale, int]):
    """Observation: rules, own values, past items. Action: a bid, a whole number.

    Args:
        price: "first", "second", or "any": drawn.
        values: "private", "shared", or "any": drawn.
        items: 2 to 10.
        purse: 20 to 60.

    Raises:
        ConfigError: a value is out of range or a name unknown.
    """

    resource = "won"
    seats = SEATS
    mode = "mixed"
    simultaneous = True
    max_action_chars = 16

    def __init__(
        self, *, price: str = "any", values: str = "any", items: int = 6, purse: int = 30
    ) -> None:
        for name, number, low, high in (("items", items, 2, 10), ("purse", purse, 20, 60)):
            if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
                raise ConfigError(f"sealed_auction: {name}={number!r}; give {low} to {high}.")
        for name, chosen, known in (("price", price, PRICES), ("values", values, VALUES)):
            if chosen not in (*known, "any"):
                hint = nearest(str(chosen), (*known, "any"))
                raise ConfigError(
                    f"sealed_auction: {name}={chosen!r}; give one of {(*known, 'any')}.{hint}"
                )
        self.max_turns, self.purse = items, purse
        self._prices = PRICES if price == "any" else (price,)
        self._kinds = VALUES if values == "any" else (values,)
        self.max_observation_chars = 1800 + 110 * items
        self._rules = (
            f"Four players with {purse} coins each bid for {items} items, one after the other. All bid "
            "at the same time and in secret; the highest bid gets the item, and a lot settles equal "
            "bids. A bid is 1 coin at least, or 0 for none.\n"
            f"Payoff: your points / {purse}, at most 1. Your points are the values of the items you get "
            "minus the prices you pay; coins that you keep are worth nothing.\n"
            "Reply with your bid, like this: <action>19</action>\n\n"
        )

    def new(self, streams: Streams) -> Sale:
        """Draw the rules, the values, the lots and the reserves."""
        rng = streams.draws("instance")
        first_price = self._prices[rng.integers(len(self._prices))] == "first"
        shared = self._kinds[rng.integers(len(self._kinds))] == "shared"
        items = self.max_turns
        truths = tuple(rng.several(items, 0, LARGEST_VALUE + 1)) if shared else ()

        def draw() -> tuple[int, ...]:
            """Draw what one seat reads about the items."""
            if not shared:
                return tuple(rng.several(items, 0, LARGEST_VALUE + 1))
            errors = rng.several(items, -LARGEST_ERROR, LARGEST_ERROR + 1)
            return tuple(truth + error for truth, error in zip(truths, errors, strict=True))

        values = tuple(streams.held(draw, sorted) for _ in range(SEATS))
        lots = tuple(tuple(streams.chance.permutation(SEATS).tolist()) for _ in range(items))
        reserves = tuple(_draw_reserve(streams.chance) for _ in range(items))
        return Sale(first_price, shared, values, truths, lots, reserves, (self.purse,) * SEATS)

    def to_move(self, state: Sale) -> tuple[int, ...]:
        """All seats until the last item is gone."""
        return (0, 1, 2, 3) if len(state.bids) < self.max_turns else ()

    def observe(self, state: Sale, seat: int) -> str:
        """Rules, this sale's price and values, past items, and the next one."""
        pays = "its own bid"
        if not state.first_price:
            pays = f"the second highest bid, {RESERVES[0]} at least"
        if state.shared:
            worth = (
                f"An item is worth the same to all, 0 to {LARGEST_VALUE} points. You only know an "
                f"estimate, which is off by at most {LARGEST_ERROR}; the others have their own"
            )
        else:
            worth = f"An item has another worth to each player, 0 to {LARGEST_VALUE} points"
        own = " ".join(map(str, state.values[seat]))
        return (
            f"{self._rules}The winner pays {pays}. {worth}.\n{_RESERVE}You are {seat_name(seat)}. Your "
            f"{'estimates' if state.shared else 'values'} of the items, in order: {own}\n"
            f"{state.log}{self._status(state, seat)}\n"
        )

    def _status(self, state: Sale, seat: int) -> str:
        text = f"You have {state.gains[seat]} points and {state.money[seat]} coins.\n"
        item = len(state.bids)
        if item == self.max_turns:
            return f"{text}It is over."
        what = "estimated at" if state.shared else "worth"
        return (
            f"{text}Item {item + 1} of {self.max_turns}, {what} {state.values[seat][item]} to you: "
            f"bid {_range(state.money[seat])}."
        )

    def parse(self, state: Sale, seat: int, body: str) -> int:
        """A bid that the purse can pay."""
        number = body
        if not body.isdigit() and (said := _BID.fullmatch(" ".join(body.lower().split()))):
            number = said.group(1)
        bid = whole_number(number, 0, state.money[seat])
        if bid is None:
            raise IllegalMoveError(
                f"a bid is one whole number: {_range(state.money[seat])}, as you have "
                f"{state.money[seat]} coins"
            )
        return bid

    def apply(self, state: Sale, actions: Mapping[int, int]) -> Sale:
        """Sell the item."""
        bids = (actions[0], actions[1], actions[2], actions[3])
        item = len(state.bids)
        winner, price = settle(bids, state.lots[item], state.first_price, state.reserves[item])
        money, gains = state.money, state.gains
        if winner >= 0:
            value = state.truths[item] if state.shared else state.values[winner][item]
            money = _plus(money, winner, -price)
            gains = _plus(gains, winner, value - price)
        return state._replace(
            money=money,
            gains=gains,
            bids=(*state.bids, bids),
            log=state.log + _describe(state, bids, winner, price),
        )

    def returns(self, state: Sale) -> tuple[float, ...] | None:
        """Gain over the purse, at most 1."""
        return None if self.to_move(state) else self.earned(state)

    def earned(self, state: Sale) -> tuple[float, ...]:
        """The outcome of the items so far."""
        return tuple(min(1.0, gain / self.purse) for gain in state.gains)

    def forfeit(self, state: Sale, seat: int) -> tuple[float, ...]:
        """-1 for the seat; the others keep their gains."""
        return tuple(-1.0 if s == seat else paid for s, paid in enumerate(self.earned(state)))

    def legal(self, state: Sale, seat: int) -> Sequence[str]:
        """Every bid that the purse can pay."""
        return bids_of(state.money[seat])

    def fallback(self, state: Sale, seat: int) -> str:
        """No bid."""
        return "0"

    def sample(self, state: Sale, seat: int, rng: np.random.Generator) -> str:
        """Any number up to the largest value."""
        return str(rng.integers(min(state.money[seat], LARGEST_VALUE) + 1))

    def components(self, state: Sale, seat: int) -> Mapping[str, float]:
        """``won``: share of the items. ``overbid``: share of own bids above the own value or estimate.

        ``spent`` is the part of the purse that is gone; ``distance`` the mean of
        ``|bid - value|``, in points (0 for a truthful bidder, the best there is where the second
        price is paid for private values).
        """
        items = max(len(state.bids), 1)
        pairs = [
            (bids[seat], value) for bids, value in zip(state.bids, state.values[seat], strict=False)
        ]
        sold = [
            settle(bids, lot, state.first_price, reserve)[0]
            for bids, lot, reserve in zip(state.bids, state.lots, state.reserves, strict=False)
        ]
        return {
            "won": sold.count(seat) / items,
            "overbid": sum(bid > value for bid, value in pairs) / items,
            "spent": 1 - state.money[seat] / self.purse,
            "distance": sum(abs(bid - value) for bid, value in pairs) / items,
        }

    def swap_hidden(self, state: Sale, seat: int, other: Sale) -> Sale:
        """The others' values, what items are truly worth, the reserves, and whom ties prefer."""
        values = (*other.values[:seat], state.values[seat], *other.values[seat + 1 :])
        return state._replace(
            values=values, truths=other.truths, lots=other.lots, reserves=other.reserves
        )

    def reshuffled(self, state: Sale, draws: Draws) -> Sale:
        """The reserves, and the orders that settle equal bids, of what is not yet sold."""
        sold = len(state.bids)
        lots = [tuple(draws.permutation(SEATS)) for _ in state.lots[sold:]]
        reserves = [_draw_reserve(draws) for _ in lots]
        return state._replace(
            lots=(*state.lots[:sold], *lots), reserves=(*state.reserves[:sold], *reserves)
        )

    def encode(self, state: Sale) -> Any:
        """Lists and numbers."""
        return [
            state.first_price, state.shared, [list(v) for v in state.values], list(state.truths),
            [list(lot) for lot in state.lots], list(state.reserves), list(state.money),
            list(state.gains), [list(bids) for bids in state.bids], state.log,
        ]  # fmt: skip

    def decode(self, data: Any) -> Sale:
        """The inverse of `encode`."""
        first_price, shared, values, truths, lots, reserves, money, gains, bids, log = data
        return Sale(
            first_price, shared, tuple(map(tuple, values)), tuple(truths), tuple(map(tuple, lots)),
            tuple(reserves), tuple(money), tuple(gains), tuple(map(tuple, bids)), log,
        )  # fmt: skip


@lru_cache(maxsize=128)
def bids_of(money: int) -> tuple[str, ...]:
    """Every bid that so many coins can pay."""
    return tuple(map(str, range(money + 1)))


@lru_cache(maxsize=128)
def _range(money: int) -> str:
    """The bids that so many coins can pay, in words."""
    if money <= 1:
        return "0 or 1" if money else "0"
    return f"0, or 1 to {money}"


def _draw_reserve(rng: np.random.Generator | Draws) -> int:
    """One of `RESERVES`."""
    return int(rng.integers(RESERVES[0], RESERVES[-1] + 1))


def _plus(numbers: tuple[int, ...], seat: int, more: int) -> tuple[int, ...]:
    """``numbers`` with ``more`` added for one seat."""
    return (*numbers[:seat], numbers[seat] + more, *numbers[seat + 1 :])


def _describe(state: Sale, bids: Sequence[int], winner: int, price: int) -> str:
    """One item as every seat reads it."""
    item = len(state.bids)
    made = ", ".join(f"{seat_name(seat)} {bid}" for seat, bid in enumerate(bids))
    sold = f"{seat_name(winner)} gets it for {price}" if winner >= 0 else "nobody gets it"
    truth = f"; it was worth {state.truths[item]}" if state.shared else ""
    return f"Item {item + 1}: bids {made}; {sold}{truth}.\n"
