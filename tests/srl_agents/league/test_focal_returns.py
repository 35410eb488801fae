"""Cross-play and focal returns against sums done by hand."""

from __future__ import annotations

import math

import pytest

from srl_agents.league.ratings.focal_returns import SeatedResult, cross_play, focal_returns
from srl_envs.errors import ConfigError


def played(seats: str, *outcomes: float, cluster: str = "s0") -> SeatedResult:
    names = tuple(seats.split())
    return SeatedResult(names, outcomes if len(outcomes) > 1 else outcomes * len(names), cluster)


GAMES = [
    played("a a", 1.0, cluster="s0"), played("a a", 0.6, cluster="s1"),
    played("b b", 0.0, cluster="s0"), played("b b", 0.2, cluster="s1"),
    played("a b", -1.0, cluster="s0"), played("b a", -0.6, cluster="s1"),
    played("a c", 0.2, cluster="s0"), played("c a", 0.4, cluster="s1"),
    played("b c", 0.6, cluster="s0"), played("c b", 0.8, cluster="s1"),
]  # fmt: skip


def test_cross_play_by_hand() -> None:
    table = cross_play(GAMES)
    assert table.agents == ("c", "b", "a")
    a = table.ratings[2]
    assert a.self_play is not None
    assert a.cross_play is not None
    assert a.self_play.estimate == pytest.approx(0.9)  # mean of 1.0 and 0.8
    assert a.cross_play.estimate == pytest.approx((0.0 + 0.2 + 0.6 + 0.7) / 4)
    assert a.gap == pytest.approx(0.9 - 0.375)
    assert a.worst_partner == "b"
    assert table.mean_NN[2].tolist() == pytest.approx([0.65, 0.1, 0.9])
    assert table.games_NN.tolist() == [[0, 2, 2], [2, 2, 2], [2, 2, 2]]
    assert math.isnan(table.mean_NN[0, 0])
    assert table.ratings[0].self_play is None
    assert math.isnan(table.ratings[0].gap)


def test_versions_of_one_lineage_are_no_strangers() -> None:
    table = cross_play(GAMES, {"a": "run1", "b": "run1", "c": "run2"})
    rows = {r.agent: r for r in table.ratings}
    assert rows["a"].cross_play is not None
    assert rows["a"].cross_play.estimate == pytest.approx(0.65)  # only with c
    assert rows["a"].worst_partner == "c"


def test_intervals_count_seeds() -> None:
    copies = [played("a b", 0.0, cluster=f"s{k % 2}") for k in range(40)]
    (row, _) = cross_play(copies).ratings
    assert row.cross_play is not None
    assert row.cross_play.clusters == 2


def test_focal_returns_by_hand() -> None:
    games = [
        played("a b b", 1.0, 0.0, -1.0, cluster="s0"), played("b a b", -0.5, 0.5, 0.5, cluster="s1"),
        played("a a b", 0.2, 0.4, 1.0, cluster="s0"), played("a a a", 0.0, cluster="s0"),
    ]  # fmt: skip
    rows = {(r.agent, r.focal_seats): r for r in focal_returns(games)}
    assert set(rows) == {("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)}
    visitor = rows["a", 1]
    assert visitor.focal.estimate == pytest.approx((1 + 0.75) / 2)
    assert visitor.background is not None
    assert visitor.background.estimate == pytest.approx((0.25 + 0.5) / 2)
    assert (visitor.games, visitor.seats) == (2, 3)
    resident = rows["a", 2]
    assert resident.focal.estimate == pytest.approx(0.65)
    assert resident.background is not None
    assert resident.background.estimate == pytest.approx(1.0)
    assert rows["a", 3].background is None


def test_nothing_played_is_named() -> None:
    with pytest.raises(ConfigError, match="no result"):
        cross_play([])


def test_alone_only_one_seat_counts() -> None:
    games = [played("a b b", 1.0, 0.0, -1.0), played("a a b", 0.2, 0.4, 1.0), played("a a a", 0.0)]
    rows = [(r.agent, r.focal_seats, r.focal.estimate) for r in focal_returns(games, one_seat=True)]
    assert rows == [("a", 1, 1.0), ("b", 1, 1.0)]
