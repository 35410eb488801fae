"""Large fields get the numbers of `rate`, without its matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from srl_agents.league.ratings.large_field import rate_large
from srl_agents.league.ratings.pairs import Pairs
from srl_agents.league.ratings.tables import rate
from srl_envs.errors import ConfigError


@pytest.fixture(autouse=True)
def own_games_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """`rate` counts as in a large field, where match-ups of others are not searched."""
    monkeypatch.setattr("srl_agents.league.ratings.moved_games.MOST_MOVES", 0)


POOL = ("bot:middle", "bot:random", "bot:strong")


def against_a_pool(
    entries: int, seeds: int, *, ties: bool, own_seeds: bool = False, root: int = 0
) -> Pairs:
    """Every entry and pool member meets the pool on each seed, seats swapped."""
    rng = np.random.default_rng(root)
    names = [*POOL, *(f"agent{k}" for k in range(entries))]
    skill = dict(zip(names, rng.normal(0, 1.0, len(names)), strict=True))
    rows = []
    for number, name in enumerate(names):
        for other in POOL:
            if other == name or (name in POOL and name > other):
                continue
            for seed in range(seeds):
                luck = rng.normal(0, 0.5)
                for a, b in ((name, other), (other, name)):
                    half = (skill[a] - skill[b] + luck) / 2
                    odds = np.array([math.exp(half), math.exp(-half), 0.4 if ties else 0.0])
                    score = float(rng.choice([1.0, 0.0, 0.5], p=odds / odds.sum()))
                    rows.append((a, b, score, f"{number}/{seed}" if own_seeds else str(seed)))
    return Pairs.of(rows)


@pytest.mark.parametrize("anchors", [(), POOL])
@pytest.mark.parametrize("own_seeds", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_ratings_and_intervals_are_those_of_rate(
    ties: bool, own_seeds: bool, anchors: tuple[str, ...]
) -> None:
    pairs = against_a_pool(17, 31, ties=ties, own_seeds=own_seeds)
    dense, large = rate(pairs, anchors=anchors), rate_large(pairs, anchors=anchors)
    assert (large.games, large.clusters) == (dense.games, dense.clusters)
    assert large.tie_nu == pytest.approx(dense.tie_nu, abs=1e-9)
    for mine in large.ratings:  # equal agents may change places
        theirs = dense[mine.agent]
        assert mine.elo == pytest.approx(theirs.elo, abs=1e-6)
        assert mine.low == pytest.approx(theirs.low, abs=1e-5)
        assert mine.high == pytest.approx(theirs.high, abs=1e-5)
        assert mine.field_score == pytest.approx(theirs.field_score)
        for name in ("games", "wins", "draws", "losses", "clusters", "provisional"):
            assert getattr(mine, name) == getattr(theirs, name), name


def test_rank_sets_are_nearly_those_of_rate() -> None:
    pairs = against_a_pool(25, 40, ties=True)
    dense, large = rate(pairs, anchors=POOL), rate_large(pairs, anchors=POOL)
    for mine, theirs in zip(large.ratings, dense.ratings, strict=True):
        assert abs(mine.best_rank - theirs.best_rank) <= 2
        assert abs(mine.worst_rank - theirs.worst_rank) <= 2
    assert large.ratings[0].worst_rank < 25  # and say something
    assert large.resolution == pytest.approx(dense.resolution, rel=0.15)


def test_results_may_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = against_a_pool(6, 12, ties=True)
    whole = rate_large(pairs)
    monkeypatch.setattr("srl_agents.league.ratings.davidson.BLOCK_ROWS", 50)
    for one, other in zip(whole.ratings, rate_large(pairs).ratings, strict=True):
        assert one.half_width == pytest.approx(other.half_width, rel=1e-9)


def test_an_agent_that_only_won_is_provisional_and_wide() -> None:
    pairs = against_a_pool(5, 30, ties=False)
    rows = [
        (pairs.agents[a], pairs.agents[b], s, str(c))
        for a, b, s, c in zip(pairs.a_M, pairs.b_M, pairs.score_M, pairs.cluster_M, strict=True)
    ]
    rows += [("winner", name, 1.0, str(seed)) for name in POOL for seed in range(30)]
    dense, large = rate(Pairs.of(rows)), rate_large(Pairs.of(rows))
    mine = next(r for r in large.ratings if r.agent == "winner")
    assert mine.half_width == pytest.approx(dense["winner"].half_width, rel=1e-7)
    assert "no chain of wins both to and from the rest of the field" in mine.provisional


def test_a_field_without_a_pool_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srl_agents.league.ratings.large_field.MOST_HUBS", 3)
    names = [f"agent{k}" for k in range(8)]
    rows = [(a, b, 1.0, "0") for a in names for b in names if a < b]
    with pytest.raises(ConfigError, match="fixed pool of opponents"):
        rate_large(Pairs.of(rows))


def test_no_result_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="no result to rate"):
        rate_large(Pairs.of([]))
