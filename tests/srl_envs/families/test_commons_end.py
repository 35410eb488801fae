"""No policy, however clever, gains from the end of the commons: its best reply to three of ``strong``, by
dynamic programming over all requests, at every place that can be drawn."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

import srl_envs
from srl_envs.draws import Draws
from srl_envs.families.dilemmas.commons import (
    ENDS_IN,
    FULLEST,
    LEAST_CAPACITY,
    MOST_CAPACITY,
    MOST_ROUNDS,
    RATES,
    SURE_ROUNDS,
    Commons,
    Place,
    Request,
    Stock,
    draw_place,
    expected_rounds,
    grown,
    par,
)
from srl_envs.families.dilemmas.commons_bots import fair_share, read_view
from tests.commit_cases import nightly_but

MOST_GAIN = 0.01
"""Outcome; half of what a free end would have to be worth to matter."""
GOES_ON = [
    0.0 if played == MOST_ROUNDS else 1.0 if played < SURE_ROUNDS else 1 - 1 / ENDS_IN
    for played in range(1, MOST_ROUNDS + 1)
]
"""Chance that a round follows the first, the second and so on."""
ROUNDS = expected_rounds(MOST_ROUNDS)
Act = Callable[[int, str], int]
KNOWN_END = [1.0] * 11 + [0.0]


class Values:
    """Units that a seat can expect before the first round, for every stock.

    Args:
        place: its start is not used.
        goes_on: chance that another round follows, per round.
    """

    own: NDArray[np.float64]
    """As a fourth ``strong``."""
    best: NDArray[np.float64]
    """By the best reply to three of ``strong``."""
    joint: NDArray[np.float64]
    """A fourth of the most that all four can harvest together."""

    def __init__(self, place: Place, goes_on: Sequence[float]) -> None:
        _, capacity, rate, limit = place
        stocks = range(int(FULLEST * capacity) + 1)
        share = np.array([fair_share(units, capacity, limit) for units in stocks])
        next_stock = np.array([grown(left, capacity, rate) for left in stocks])
        stock = np.array(stocks)
        self.own, self.best, self.joint, betrayed = (np.zeros(len(stock)) for _ in range(4))
        for chance in reversed(goes_on):
            due = share if chance else np.full(len(stock), limit)
            got, others = _harvests(stock, limit, due)
            after = next_stock[stock[:, None] - got - 3 * others]
            later = np.where(got > others, betrayed[after], self.best[after])
            mine = got[stock, due]
            self.own = mine + chance * self.own[next_stock[stock - 4 * mine]]
            self.best = (got + chance * later).max(axis=1)
            got, others = _harvests(stock, limit, np.full(len(stock), limit))
            after = next_stock[stock[:, None] - got - 3 * others]
            betrayed = (got + chance * betrayed[after]).max(axis=1)
            taken = np.minimum(np.arange(4 * limit + 1), stock[:, None])
            all_later = self.joint[next_stock[stock[:, None] - taken]]
            self.joint = (taken / 4 + chance * all_later).max(axis=1)


def _harvests(
    stock: NDArray[np.int64], limit: int, due: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What a seat that asks for 0 to ``limit`` gets beside three that ask for ``due``, and each of these.

    Both are (stocks, requests).
    """
    asked, others = np.broadcast_arrays(np.arange(limit + 1)[None, :], due[:, None])
    wanted, there = asked + 3 * others, stock[:, None]
    scarce = wanted > there
    least = np.maximum(wanted, 1)
    return (
        np.where(scarce, asked * there // least, asked),
        np.where(scarce, others * there // least, others),
    )


def places(capacity: int) -> Iterator[Place]:
    """All that can be drawn with this capacity, with the smallest start of each."""
    for limit in range(-(-3 * capacity // 20), capacity // 5 + 1):
        for rate in RATES:
            yield Place(4 * limit - (-11 * capacity // 20), capacity, rate, limit)


def test_all_places_that_are_drawn_are_tried() -> None:
    for seed in range(500):
        drawn = draw_place(Draws(seed))
        (least,) = (place.start for place in places(drawn.capacity) if place[1:] == drawn[1:])
        assert least <= drawn.start <= least + drawn.capacity // 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "capacities",
    nightly_but({"some"}, ["some", *range(LEAST_CAPACITY, MOST_CAPACITY + 1, 20)]),
    ids=str,
)
def test_no_reply_to_three_of_strong_earns_much_more_than_a_fourth(capacities: str | int) -> None:
    first = capacities if isinstance(capacities, int) else 0
    some = range(first, min(first + 20, MOST_CAPACITY + 1)) if first else (80, 106, 163, 240)
    for place in (place for capacity in some for place in places(capacity)):
        values = Values(place, GOES_ON)
        at = range(place.start, place.start + place.capacity // 10 + 1)
        worth = np.array([par(place._replace(start=start), ROUNDS) for start in at])
        own, best, joint = (each[at] / worth for each in (values.own, values.best, values.joint))
        assert (best - own).max() < MOST_GAIN, place
        assert (joint - own).max() < 3 * MOST_GAIN, place
        assert joint.max() <= 0.5, place


def test_with_a_known_end_the_last_rounds_are_free() -> None:
    """The same sums, where all know that the twelfth round is the last."""
    place = Place(200, 160, 7, 28)
    values = Values(place, KNOWN_END)
    assert (values.best - values.own)[place.start] / par(place, 12) > 0.05


def expected_units(place: Place, act: Act, seat: int) -> float:
    """Of ``act`` (round, text -> request) beside three of ``strong``, over all lengths."""
    game = Commons()
    state = Stock(place.start, place, MOST_ROUNDS)
    strong = srl_envs.make_bot("commons-v1", "strong")
    chance, before, total = 1.0, 0, 0.0
    for number, follows in enumerate(GOES_ON, 1):
        requests = {
            other: game.parse(state, other, strong(game.observe(state, other))[8:-9])
            for other in range(4)
            if other != seat
        }
        requests[seat] = Request(act(number, game.observe(state, seat)))
        state = game.apply(state, requests)
        total += chance * (state.totals[seat] - before)
        before = state.totals[seat]
        chance *= follows
        if not state.amount:
            break
    return total


def fair(text: str) -> int:
    return int(srl_envs.make_bot("commons-v1", "strong")(text)[8:-9])


def limit_from(first: int) -> Act:
    """The fair share, and from this round on the limit."""
    return lambda number, text: read_view(text).limit if number >= first else fair(text)


def limit_below(tenths: int) -> Act:
    """The fair share while there are so many tenths of the capacity, else the limit."""

    def act(_: int, text: str) -> int:
        view = read_view(text)
        return view.limit if 10 * view.stock < tenths * view.capacity else fair(text)

    return act


@pytest.mark.parametrize("seed", range(3))
def test_the_sums_are_those_of_the_bots_and_late_limits_gain_little(seed: int) -> None:
    place = draw_place(Draws(seed))
    values, worth = Values(place, GOES_ON), par(place, ROUNDS)
    own = expected_units(place, lambda _, text: fair(text), seed % 4)
    assert own == pytest.approx(values.own[place.start])
    late = [expected_units(place, limit_from(first), seed % 4) for first in (2, 4, 10, 27, 29)]
    more = expected_units(place, lambda _, text: fair(text) + 1, seed % 4)
    poor = expected_units(place, limit_below(8), seed % 4)
    best = float(values.best[place.start])
    assert max(late) > own  # the last of all rounds is known
    assert max(*late, more, poor) <= best + 1e-9
    assert best < own + MOST_GAIN * worth
    assert max(*late[:3], more, poor) < own
