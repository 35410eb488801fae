"""Quantiles, matrices of wins, and the difference of two agents that met."""

from __future__ import annotations

import math

import numpy as np
import pytest

from srl_agents.league.ratings.tables import (
    Pairs,
    head_to_head,
    paired_interval,
    rate,
    t_quantile,
    win_matrix,
)
from tests.srl_agents.league.rated_games import games


@pytest.mark.parametrize(
    ("degrees", "expected"),
    # printed tables of Student's t, two-sided 95 %
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (5, 2.5706), (10, 2.2281), (29, 2.0452),
     (59, 2.0010), (120, 1.9799), (200, 1.9719), (201, 1.97184), (1000, 1.9623)],
)  # fmt: skip
def test_t_quantiles_match_the_printed_table(degrees: int, expected: float) -> None:
    assert t_quantile(degrees) == pytest.approx(expected, abs=6e-5)


def test_t_quantile_edges() -> None:
    assert t_quantile(0) == math.inf
    assert t_quantile(10**6) == pytest.approx(1.959964, abs=1e-5)
    assert t_quantile(10, 0.95) == pytest.approx(1.8125, abs=6e-5)
    values = [t_quantile(k) for k in range(1, 400)]
    assert values == sorted(values, reverse=True)


def test_win_matrix_counts_points_and_leaves_gaps() -> None:
    rows = games("a", "b", won=3, tied=2, lost=1) + games("c", "a", won=1)
    matrix = win_matrix(Pairs.of(rows), order=("c", "a", "b"))
    assert matrix.agents == ("c", "a", "b")
    assert matrix.games_NN.tolist() == [[0, 1, 0], [1, 0, 6], [0, 6, 0]]
    assert matrix.points_NN[1, 2] == 4
    assert matrix.score_NN[2, 1] == pytest.approx(2 / 6)
    assert np.isnan(matrix.score_NN[0, 2])
    assert matrix.low_NN[0, 1] == pytest.approx(0.2065, abs=1e-4)  # Wilson, 1 of 1
    assert matrix.high_NN[0, 1] == pytest.approx(1)


def test_the_matrix_interval_counts_seeds_not_games() -> None:
    rows = [("a", "b", float(k % 2), f"s{k % 4}") for k in range(80)]
    few = win_matrix(Pairs.of(rows))
    many = win_matrix(Pairs.of([(a, b, s, str(k)) for k, (a, b, s, _) in enumerate(rows)]))
    assert few.low_NN[0, 1] < many.low_NN[0, 1] < 0.5


def test_field_score_weighs_every_opponent_once() -> None:
    rows = games("a", "b", won=90) + games("a", "c", lost=10)
    assert rate(Pairs.of(rows))["a"].field_score == 0.5


def test_paired_interval_by_hand() -> None:
    interval = paired_interval(np.array([1.0, 0.0, 0.5, 0.5]), np.array(["s", "t", "u", "v"]))
    # sample variance 1/6 over 4 pairs, t(3) = 3.1824
    assert interval.estimate == 0.5
    assert interval.half_width == pytest.approx(3.182446 * math.sqrt(1 / 6 / 4))
    assert interval.low == interval.estimate - interval.half_width
    assert interval.high == interval.estimate + interval.half_width


def test_paired_interval_groups_by_cluster() -> None:
    scores = np.array([1.0, 0.0, 0.5, 0.5] * 10)
    labels = np.array([0, 1, 2, 3] * 10)
    assert paired_interval(scores, labels).half_width == pytest.approx(
        paired_interval(scores[:4], labels[:4]).half_width
    )


def test_a_spread_of_zero_is_not_certainty() -> None:
    assert paired_interval(np.ones(1), np.zeros(1)).half_width == math.inf
    assert paired_interval(np.ones(2), np.arange(2)).low < 0
    assert paired_interval(np.ones(64), np.arange(64)).low == pytest.approx(0.888, abs=1e-3)


def test_two_equal_policies_that_mirror_each_other_are_not_certain_either() -> None:
    """Every mirrored pair is one win and one loss: the games differ, the seeds agree."""
    rows = [r for s in range(8) for r in (("a", "b", 1.0, f"s{s}"), ("b", "a", 1.0, f"s{s}"))]
    interval = head_to_head(Pairs.of(rows), "a", "b")
    assert interval.estimate == 0
    assert interval.half_width == pytest.approx(2 * (1 - 0.025 ** (1 / 8)))


def test_head_to_head_reads_both_directions() -> None:
    rows = games("a", "b", won=3, lost=1) + games("b", "a", won=1, tied=1, seed=10)
    rows += games("c", "a", won=50)
    interval = head_to_head(Pairs.of(rows), "a", "b")
    assert interval.estimate == pytest.approx((3 - 1 - 1) / 6)
    assert interval.clusters == 6
    assert head_to_head(Pairs.of(rows), "b", "a").estimate == pytest.approx(-1 / 6)


def test_multi_seat_matches_are_clustered_pairs() -> None:
    """A three-seat match is three rows of one cluster: its width is that of the matches."""
    rng = np.random.default_rng(0)
    rows = []
    for match in range(60):
        place = rng.permutation(3)
        for i in range(3):
            for j in range(i):
                rows.append((f"a{i}", f"a{j}", float(place[i] < place[j]), f"s{match}"))
    table = rate(Pairs.of(rows))
    assert table.clusters == 60
    assert table.games == 180
    assert table.difference("a0", "a1").low < 0 < table.difference("a0", "a1").high
