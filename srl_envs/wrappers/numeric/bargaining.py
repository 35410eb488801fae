"""Features of the bargaining games."""

from __future__ import annotations

from itertools import product

from srl_envs.families.bargaining.negotiation import (
    ACCEPT,
    ITEMS,
    MAX_COUNT,
    RESERVES,
    TOTAL,
    WALK,
    Bundle,
    Negotiation,
    bundles,
)
from srl_envs.families.bargaining.negotiation_bots import read_view as read_talks
from srl_envs.families.bargaining.sealed_auction import (
    LARGEST_ERROR,
    LARGEST_VALUE,
    SealedAuction,
    bids_of,
)
from srl_envs.families.bargaining.sealed_auction_bots import read_view as read_sale
from srl_envs.wrappers.numeric.features import Features, Reading, filled, floats, one_hot

_HIGHEST_ESTIMATE = LARGEST_VALUE + LARGEST_ERROR


class NegotiationFeatures(Features):
    """Items, own values and reserve, the turn one-hot, then both sides' past offers in order.

    Items are shares of 4, values of 10, the reserve of 3; an offer is what we would get of each item,
    and what the other left us. Actions: every bundle that may be asked for, acceptance and the walk,
    without a message; the other's messages are not read.
    """

    def __init__(self, game: Negotiation) -> None:
        self._turns = game.max_turns
        self._offers = (game.max_turns + 1) // 2
        self.size = 2 * len(ITEMS) + 1 + self._turns + 2 * self._offers * len(ITEMS)
        counts = product(range(MAX_COUNT + 1), repeat=len(ITEMS))
        self.actions = (*(f"offer {a} {b} {c}" for a, b, c in counts), ACCEPT, WALK)

    def read(self, text: str) -> Reading:
        """Features of the talks in an observation."""
        view = read_talks(text)
        values = [count / MAX_COUNT for count in view.counts]
        values += [value / TOTAL for value in view.values]
        values.append(view.reserve / max(RESERVES))
        values += one_hot(view.turn - 1, self._turns)
        for offers in (view.mine, view.theirs):
            values += filled(self._shares(offers), self._offers * len(ITEMS))
        legal = [WALK, *([ACCEPT] if view.theirs else [])]
        if view.turn < view.turns:
            legal += [f"offer {a} {b} {c}" for a, b, c in bundles(view.counts)]
        return Reading(floats(values), self.mask(legal))

    def _shares(self, offers: tuple[Bundle, ...]) -> list[float]:
        return [count / MAX_COUNT for offer in offers for count in offer]


class AuctionFeatures(Features):
    """The rules drawn, the item one-hot, coins left, own values, then past rival bids and their gaps.

    Coins, bids and gaps (`View.gaps`) are shares of the purse, values of 26. Actions: every bid.
    """

    def __init__(self, game: SealedAuction) -> None:
        self._items, self._purse = game.max_turns, game.purse
        self.size = 2 + 1 + 4 * self._items
        self.actions = bids_of(game.purse)

    def read(self, text: str) -> Reading:
        """Features of the sale in an observation."""
        view = read_sale(text)
        values = [float(view.first_price), float(view.shared), view.money / self._purse]
        values += one_hot(len(view.rivals), self._items)
        values += [value / _HIGHEST_ESTIMATE for value in view.values]
        for past in (view.rivals, view.gaps):
            values += filled([coins / self._purse for coins in past], self._items)
        return Reading(floats(values), self.mask(bids_of(view.money)))
