"""Features of the dilemmas."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

import numpy as np

from srl_envs.core import seat_name
from srl_envs.errors import ConfigError
from srl_envs.families.dilemmas.blotto import MOST_VALUE, Blotto
from srl_envs.families.dilemmas.blotto_bots import read_view as read_campaign
from srl_envs.families.dilemmas.commons import (
    FULLEST,
    MOST_CAPACITY,
    MOST_LIMIT,
    RATES,
    SEATS,
    Commons,
)
from srl_envs.families.dilemmas.commons_bots import read_view as read_stock
from srl_envs.families.dilemmas.iterated_dilemma import LARGEST_POINTS, MAX_ROUNDS, IteratedDilemma
from srl_envs.families.dilemmas.iterated_dilemma_bots import read_view as read_meeting
from srl_envs.families.dilemmas.public_goods import (
    EFFECTS,
    MOST_CUT,
    MOST_TOKENS,
    RICH,
    PublicGoods,
)
from srl_envs.families.dilemmas.public_goods_bots import read_view as read_pot
from srl_envs.wrappers.numeric.features import Features, Reading, filled, floats, one_hot

MOST_SPREADS = 20_000
"""Actions of the largest game of blotto that has a twin."""
_CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))


class DilemmaFeatures(Features):
    """Own and the other's points in the four cells, rounds to come, then every past round.

    Points are shares of 9, rounds of 20; a round is the two moves one-hot. Actions: A and B, without
    a message; the other's messages are not read.
    """

    def __init__(self, game: IteratedDilemma) -> None:
        self._rounds = game.max_turns
        self.size = 2 * len(_CELLS) + 1 + 4 * self._rounds
        self.actions = ("A", "B")

    def read(self, text: str) -> Reading:
        """The table and what was played."""
        view = read_meeting(text)
        values = [
            points[cell] / LARGEST_POINTS for points in (view.mine, view.theirs) for cell in _CELLS
        ]
        values.append(view.left / MAX_ROUNDS)
        for at in range(self._rounds):
            mine, theirs = view.past[at] if at < len(view.past) else (-1, -1)
            values += [*one_hot(mine, 2), *one_hot(theirs, 2)]
        return Reading(floats(values), self.mask(self.actions))


class BlottoFeatures(Features):
    """Values of the fields, rounds played, then what the other sent in each of them.

    Values are shares of 9, rounds of all, soldiers of all. Actions: every spread, the last
    field's soldiers counting up first.

    Raises:
        ConfigError: there are more than `MOST_SPREADS`.
    """

    def __init__(self, game: Blotto) -> None:
        spreads = comb(game.soldiers + game.fields - 1, game.fields - 1)
        if spreads > MOST_SPREADS:
            raise ConfigError(
                f"blotto: {game.soldiers} soldiers can be spread over {game.fields} fields in "
                f"{spreads:,} ways; a numeric twin has at most {MOST_SPREADS:,}. Lower one of them."
            )
        self._soldiers, self._fields, self._rounds = game.soldiers, game.fields, game.max_turns
        self.size = game.fields + 1 + game.max_turns * game.fields
        self.actions = tuple(
            " ".join(map(str, spread)) for spread in _spreads(game.soldiers, game.fields)
        )
        self._every = np.ones(spreads, dtype=np.bool_)

    def read(self, text: str) -> Reading:
        """The values and the past rounds."""
        view = read_campaign(text)
        values = [value / MOST_VALUE for value in view.values]
        values.append(len(view.theirs) / self._rounds)
        sent = [soldiers / self._soldiers for spread in view.theirs for soldiers in spread]
        values += filled(sent, self._rounds * self._fields)
        return Reading(floats(values), self._every.copy())


class CommonsFeatures(Features):
    """Growth, capacity, limit, stock, rounds played, then per past round the stock and all harvests.

    Seats are in turn from the own one on. The growth is a share of 0.9, the capacity of 240, stocks of
    1.5 capacities, the limit of 48, rounds of the most, harvests of the limit. Actions: every request,
    without a word; what the others say is not read.
    """

    def __init__(self, game: Commons) -> None:
        self._rounds = game.max_turns
        self.size = 5 + game.max_turns * (1 + SEATS)
        self.actions = tuple(map(str, range(MOST_LIMIT + 1)))

    def read(self, text: str) -> Reading:
        """The place, the stock and the past rounds."""
        view = read_stock(text)
        values = [
            view.rate / max(RATES),
            view.capacity / MOST_CAPACITY,
            view.limit / MOST_LIMIT,
            view.stock / (FULLEST * view.capacity),
            len(view.past) / self._rounds,
        ]
        past: list[float] = []
        for stock, *harvest in view.past:
            mine_first = harvest[view.seat :] + harvest[: view.seat]
            past += [
                stock / (FULLEST * view.capacity),
                *(units / view.limit for units in mine_first),
            ]
        values += filled(past, self._rounds * (1 + SEATS))
        return Reading(floats(values), self.mask(self.actions[: view.limit + 1]))


class PublicGoodsFeatures(Features):
    """Own seat one-hot, tokens, cut, rounds to come, the largest cut, factors, then all past gifts.

    Tokens are shares of 24, what a cut takes of 4, rounds of all, the largest cut of 7, factors of 6.2,
    gifts of the tokens; seats are in the order of their names, which cuts are made by. Actions: every
    gift, without and with each cut.
    """

    def __init__(self, game: PublicGoods) -> None:
        self._rounds = game.max_turns
        self.size = 4 + 4 + game.max_turns * 5
        gifts = range(MOST_TOKENS + 1)
        cuts = 0 < game.cuts_from <= game.max_turns
        self.actions = (
            *map(str, gifts),
            *(
                _with_cut(gift, seat, spent)
                for gift in gifts
                for seat in range(4)
                for spent in range(1, MOST_CUT + 1)
                if cuts
            ),
        )

    def read(self, text: str) -> Reading:
        """The terms and the past rounds."""
        view = read_pot(text)
        values = [
            *one_hot(view.seat, 4),
            view.tokens / MOST_TOKENS,
            view.effect / max(EFFECTS),
            view.left / self._rounds,
            view.largest_cut / MOST_CUT,
            *(10 * factor / max(RICH) for factor in view.factors),
        ]
        given = [gift / view.tokens for gifts in view.given for gift in gifts]
        values += filled(given, self._rounds * 4)
        gifts = range(view.tokens + 1)
        legal = [str(gift) for gift in gifts]
        legal += [
            _with_cut(gift, seat, spent)
            for gift in gifts
            for seat in range(4)
            for spent in range(1, view.largest_cut + 1)
            if seat != view.seat
        ]
        return Reading(floats(values), self.mask(legal))


def _with_cut(gift: int, seat: int, spent: int) -> str:
    return f"{gift} cut {seat_name(seat)} {spent}"


def _spreads(soldiers: int, fields: int) -> Iterator[tuple[int, ...]]:
    """Every way to send ``soldiers`` to ``fields``, in lexical order."""
    if fields == 1:
        yield (soldiers,)
        return
    for first in range(soldiers + 1):
        for rest in _spreads(soldiers - first, fields - 1):
            yield (first, *rest)
