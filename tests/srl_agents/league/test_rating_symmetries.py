"""Ratings do not depend on order, on names or on the size of blocks."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.league.ratings import davidson
from srl_agents.league.ratings.tables import (
    Pairs,
    RatingTable,
    expected_score,
    rate,
)
from tests.srl_agents.league.rated_games import Row, field

SCORES = st.sampled_from([0.0, 0.5, 1.0])
ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), SCORES, st.integers(0, 9)).filter(
        lambda r: r[0] != r[1]
    ),
    min_size=1,
    max_size=60,
)


Games = list[tuple[int, int, float, int]]


def named(rows: Games, names: str = "abcde") -> list[Row]:
    return [(names[i], names[j], s, f"s{c}") for i, j, s, c in rows]


def assert_same(one: RatingTable, other: RatingTable, names: dict[str, str] | None = None) -> None:
    for r in one.ratings:
        twin = other[names[r.agent] if names else r.agent]
        assert twin.elo == pytest.approx(r.elo, abs=1e-6)
        assert twin.half_width == pytest.approx(r.half_width, rel=1e-6, abs=1e-6)
        assert (twin.games, twin.wins, twin.draws, twin.losses) == (
            r.games,
            r.wins,
            r.draws,
            r.losses,
        )


@settings(max_examples=40, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(rows: Games, random: Random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert_same(rate(Pairs.of(named(rows))), rate(Pairs.of(named(shuffled))))


@settings(max_examples=40, deadline=None)
@given(ROWS)
def test_names_do_not_matter(rows: Games) -> None:
    names = dict(zip("abcde", "zwxvy", strict=True))
    one, other = rate(Pairs.of(named(rows))), rate(Pairs.of(named(rows, "zwxvy")))
    assert_same(one, other, names)


@settings(max_examples=40, deadline=None)
@given(ROWS)
def test_who_is_written_first_does_not_matter(rows: Games) -> None:
    mirrored = [(j, i, 1 - s, c) for i, j, s, c in rows]
    assert_same(rate(Pairs.of(named(rows))), rate(Pairs.of(named(mirrored))))


@settings(max_examples=40, deadline=None)
@given(ROWS)
def test_every_table_is_sane(rows: Games) -> None:
    table = rate(Pairs.of(named(rows)))
    ranks = [r.elo for r in table.ratings]
    assert ranks == sorted(ranks, reverse=True)
    assert sum(ranks) == pytest.approx(0, abs=1e-6)
    for position, r in enumerate(table.ratings, start=1):
        assert math.isfinite(r.elo)
        assert r.low <= r.elo <= r.high
        assert r.best_rank <= position <= r.worst_rank
        assert r.wins + r.draws + r.losses == r.games
    assert sum(r.games for r in table.ratings) == 2 * len(rows)


@settings(max_examples=40, deadline=None)
@given(ROWS, st.integers(0, 4))
def test_one_more_win_never_lowers_a_rating(rows: Games, who: int) -> None:
    other = (who + 1) % 5
    base = [*named(rows), ("abcde"[who], "abcde"[other], 0.0, "z")]
    more = [*named(rows), ("abcde"[who], "abcde"[other], 1.0, "z")]
    assert rate(Pairs.of(more))["abcde"[who]].elo > rate(Pairs.of(base))["abcde"[who]].elo


@settings(max_examples=60, deadline=None)
@given(st.floats(-2000, 2000), st.floats(0, 10))
def test_expected_scores_add_up_to_one(difference: float, nu: float) -> None:
    assert expected_score(difference, nu) + expected_score(-difference, nu) == pytest.approx(1)


def test_small_blocks_give_the_same_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = field(4, 25, nu=0.4, rng=np.random.default_rng(4))
    np.random.default_rng(0).shuffle(rows)
    whole = rate(Pairs.of(rows))
    monkeypatch.setattr(davidson, "BLOCK_ROWS", 20)
    assert_same(whole, rate(Pairs.of(rows)))
