"""One rating over several games: each game counts alike, and games that were not played count nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.league.all_games import field
from srl_agents.league.ratings.overall import overall
from srl_agents.league.ratings.pairs import Pairs
from srl_agents.league.ratings.tables import RatingTable, rate


def table(points: dict[tuple[str, str], float], seeds: int = 40) -> RatingTable:
    """A game in which the first of each pair wins such a share."""
    return rate(
        Pairs.of(
            [
                (a, b, float(seed < share * seeds), f"{seed}")
                for (a, b), share in points.items()
                for seed in range(seeds)
            ]
        )
    )


def gap(found: RatingTable, a: str, b: str) -> float:
    return found[a].elo - found[b].elo


def test_all_in_all_games_is_the_mean_of_the_tables_whatever_was_played() -> None:
    easy, hard = table({("a", "b"): 0.9}, seeds=400), table({("a", "b"): 0.4}, seeds=20)
    found = overall({"easy": easy, "hard": hard})
    assert found is not None
    assert gap(found, "a", "b") == pytest.approx((gap(easy, "a", "b") + gap(hard, "a", "b")) / 2)
    assert sum(row.elo for row in found.ratings) == pytest.approx(0)
    widths = [t.difference("a", "b").half_width for t in (easy, hard)]
    expected = math.hypot(*widths) / 2
    assert found.difference("a", "b").half_width == pytest.approx(expected, rel=0.2)


def test_a_game_that_was_left_out_neither_costs_nor_brings_anything() -> None:
    both = table({("a", "b"): 0.7, ("a", "c"): 0.6})
    without_c = table({("a", "b"): 0.2})
    found = overall({"x": both, "y": without_c})
    assert found is not None
    # c is compared in x alone: with a and b as far as they are from their own means there
    alone = overall({"x": both})
    assert alone is not None
    middle = (gap(alone, "c", "a") + gap(alone, "c", "b")) / 2
    assert (gap(found, "c", "a") + gap(found, "c", "b")) / 2 == pytest.approx(middle)
    assert "played 1 of 2 games" in found["c"].provisional
    assert "played 1 of 2 games" not in found["a"].provisional


def test_bots_are_left_out_and_a_field_of_one_has_no_table() -> None:
    game = table({("a", "bot:random"): 0.9, ("b", "bot:random"): 0.6})
    found = overall({"x": game})
    assert found is not None
    assert set(found.agents) == {"a", "b"}
    assert overall({"x": table({("a", "bot:random"): 0.9})}) is None


def test_agents_that_no_chain_of_games_joins_are_not_compared() -> None:
    found = overall({"x": table({("a", "b"): 0.9}), "y": table({("c", "d"): 0.9})})
    assert found is not None
    assert all(math.isinf(row.half_width) for row in found.ratings)
    assert all("no chain of games joins all agents" in row.provisional for row in found.ratings)
    ranks = [found[name].best_rank for name in "abcd"]
    assert ranks == [1, 2, 1, 2]  # each behind the one that it met


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(0.1, 0.9), min_size=3, max_size=3),
    st.lists(st.floats(0.1, 0.9), min_size=3, max_size=3),
    st.permutations(["a", "b", "c"]),
)
def test_names_and_the_order_of_games_change_nothing(
    one: list[float], other: list[float], names: list[str]
) -> None:
    def game(shares: list[float], agents: list[str]) -> RatingTable:
        pairs = [(0, 1), (0, 2), (1, 2)]
        return table(
            {(agents[i], agents[j]): s for (i, j), s in zip(pairs, shares, strict=True)}, 20
        )

    plain = ["a", "b", "c"]
    found = overall({"x": game(one, plain), "y": game(other, plain)})
    again = overall({"q": game(other, names), "p": game(one, names)})
    assert found is not None
    assert again is not None
    for old, new in zip(plain, names, strict=True):
        assert again[new].elo == pytest.approx(found[old].elo, abs=1e-6)
        assert (again[new].best_rank, again[new].worst_rank) == (
            found[old].best_rank,
            found[old].worst_rank,
        )


def test_ranks_follow_from_resolved_differences() -> None:
    clear, even = table({("a", "b"): 0.95}, seeds=200), table({("a", "b"): 0.5}, seeds=200)
    found = overall({"x": clear, "y": clear})
    assert found is not None
    assert (found["a"].worst_rank, found["b"].best_rank) == (1, 2)
    tied = overall({"x": even, "y": even})
    assert tied is not None
    assert {(row.best_rank, row.worst_rank) for row in tied.ratings} == {(1, 2)}


def test_an_infinite_interval_of_one_game_decides_nothing() -> None:
    known = table({("a", "b"): 0.6})
    row = known.ratings[0]
    lost = replace(known, ratings=(replace(row, low=-math.inf, high=math.inf), known.ratings[1]))
    found = overall({"x": lost, "y": known})
    assert found is not None
    assert np.isfinite([r.elo for r in found.ratings]).all()
    assert found["a"].half_width > 1000


@pytest.mark.slow
def test_intervals_hold_the_truth_where_pooling_does_not() -> None:
    row = field("5 agents")
    assert row["overall coverage"] >= 0.9
    assert row["pooled coverage"] < 0.7
    assert row["overall rmse_elo"] < row["pooled rmse_elo"]
