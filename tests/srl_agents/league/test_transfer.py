"""The transfer table, by hand."""

from __future__ import annotations

import pytest

from srl_agents.league.ratings.focal_returns import SeatedResult
from srl_agents.league.ratings.transfer import (
    MeasuredGame,
    over_games,
    transfer_table,
)


def game(name: str, gained: float, *, trained: bool) -> MeasuredGame:
    """The learner gets 0.5 + ``gained`` in mean against the bot, its start one half."""
    results = [
        SeatedResult((agent, "bot:random"), (outcome, -outcome), f"seed {seed}")
        for seed in range(6)
        for agent, outcome in (("alice@3", 2 * gained + 0.1 * (seed % 2) - 0.05), ("tiny", 0.0))
    ]
    # results against each other carry no information about either
    results.append(SeatedResult(("alice@3", "tiny"), (-1.0, 1.0), "seed 0"))
    return MeasuredGame(name=name, mode="mixed", trained=trained, results=results)


def test_learner_and_start_are_compared_with_the_same_opponents_on_the_same_seeds() -> None:
    games = [game("here", 0.2, trained=True), game("there", -0.1, trained=False)]
    here, there = transfer_table(games, {"alice@3": "tiny"})
    assert (here.gain.estimate, there.gain.estimate) == pytest.approx((0.2, -0.1))
    assert (here.start_score, here.score) == pytest.approx((0.5, 0.7))
    assert here.gain.clusters == 6
    assert here.gain.low > 0 > there.gain.high
    assert over_games([here, there], trained=True)["alice@3"].estimate == pytest.approx(0.2)
    assert over_games([here, there], trained=False)["alice@3"].estimate == pytest.approx(-0.1)


def test_a_learner_that_met_nobody_whom_its_start_met_has_no_row() -> None:
    results = [SeatedResult(("alice@3", "tiny"), (1.0, -1.0), "seed 0")]
    only = MeasuredGame(name="x", mode="competitive", trained=True, results=results)
    assert transfer_table([only], {"alice@3": "tiny"}) == []


def test_who_holds_one_seat_is_compared_with_its_start_in_that_seat() -> None:
    """The start sits everywhere, and the other seat is worth more; the learner must not lose by that."""
    results = [SeatedResult(("alice@3", "bot:random"), (0.2, -0.2), "seed 0")]
    results += [SeatedResult(("tiny", "bot:random"), (0.0, 0.0), "seed 0")]
    results += [SeatedResult(("bot:random", "tiny"), (-1.0, 1.0), "seed 0")]
    only = MeasuredGame(name="x", mode="competitive", trained=True, results=results)
    (row,) = transfer_table([only], {"alice@3": "tiny"})
    assert (row.gain.estimate, row.start_score) == pytest.approx((0.1, 0.5))


def test_copies_of_a_learner_gain_nothing_where_strangers_are_scored() -> None:
    """In one seat it earns what its start does; in two of three seats a code would have brought it 1 more."""
    results = [
        SeatedResult(seats, tuple(float(seats.count(name) == 2) for name in seats), "seed 0")
        for name in ("alice@3", "tiny")
        for seats in ((name, "bot:random", "bot:random"), ("bot:random", name, name))
    ]
    results[-1] = SeatedResult(results[-1].seats, (0.0, 0.0, 0.0), "seed 0")
    for one_seat, gain in ((True, 0.0), (False, 0.25)):
        only = MeasuredGame(
            name="x", mode="mixed", trained=True, results=results, one_seat=one_seat
        )
        (row,) = transfer_table([only], {"alice@3": "tiny"})
        assert row.gain.estimate == gain


def test_alone_in_the_only_seat_learner_and_start_are_compared_on_common_seeds() -> None:
    results = [SeatedResult(("alice@3",), (1.0,), f"seed {seed}") for seed in range(4)]
    results += [SeatedResult(("tiny",), (-1.0,), f"seed {seed}") for seed in range(1, 6)]
    only = MeasuredGame(name="x", mode="cooperative", trained=True, results=results)
    (row,) = transfer_table([only], {"alice@3": "tiny"})
    assert (row.score, row.start_score, row.gain.estimate) == (1.0, 0.0, 1.0)
    assert row.gain.clusters == 3
