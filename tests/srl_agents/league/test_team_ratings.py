"""Side against side: a side is as strong as the sum of its members."""

from __future__ import annotations

import math

import numpy as np
import pytest

from srl_agents.league.ratings.tables import ELO_PER_NAT, Pairs, TeamResult, rate, rate_teams
from srl_envs.errors import ConfigError


def one_against_one(rows: list[tuple[str, str, float, str]]) -> list[TeamResult]:
    return [((a,), (b,), score, cluster) for a, b, score, cluster in rows]


def test_sides_of_one_are_rated_as_pairs() -> None:
    rng = np.random.default_rng(0)
    rows = [
        (a, b, float(rng.choice([0, 0.5, 1])), f"s{k % 40}")
        for k in range(60)
        for a, b in (("a", "b"), ("c", "a"), ("b", "c"), ("d", "a"))
    ]
    pairs, teams = rate(Pairs.of(rows), anchors=["b"]), rate_teams(
        one_against_one(rows), anchors=["b"]
    )  # fmt: skip
    assert teams.agents == pairs.agents
    assert teams.tie_nu == pytest.approx(pairs.tie_nu)
    for mine, theirs in zip(teams.ratings, pairs.ratings, strict=True):
        assert mine.elo == pytest.approx(theirs.elo)
        assert mine.half_width == pytest.approx(theirs.half_width)
        for name in ("games", "wins", "draws", "losses", "clusters", "field_score", "best_rank"):
            assert getattr(mine, name) == getattr(theirs, name)


def test_a_member_is_worth_the_log_odds_it_adds() -> None:
    """(x, z) beats (y, z) 3 : 1, so x is log 3 above y for every z."""
    rows: list[TeamResult] = [(("x", "z"), ("y", "w"), 1.0, f"s{k}") for k in range(300)]
    rows += [(("x", "z"), ("y", "w"), 0.0, f"t{k}") for k in range(100)]
    rows += [(("x", "w"), ("y", "z"), 1.0, f"u{k}") for k in range(300)]
    rows += [(("x", "w"), ("y", "z"), 0.0, f"v{k}") for k in range(100)]
    table = rate_teams(rows, ridge=1e-9)
    difference = table["x"].elo - table["y"].elo
    assert difference == pytest.approx(ELO_PER_NAT * math.log(3), rel=1e-4)
    assert table["z"].elo == pytest.approx(table["w"].elo, abs=1e-3)


def test_skills_of_teams_are_found_and_covered() -> None:
    rng = np.random.default_rng(1)
    skill = rng.normal(0, 0.8, 6)
    covered = []
    for _ in range(10):
        rows: list[TeamResult] = []
        for k in range(200):
            four = rng.permutation(6)[:4]
            d = skill[four[:2]].sum() - skill[four[2:]].sum()
            score = float(rng.random() < 1 / (1 + math.exp(-d)))
            names = [f"a{i}" for i in four]
            rows.append(((names[0], names[1]), (names[2], names[3]), score, f"s{k}"))
        table = rate_teams(rows)
        truth = (skill - skill.mean()) * ELO_PER_NAT
        covered += [
            abs(table[f"a{i}"].elo - truth[i]) <= table[f"a{i}"].half_width for i in range(6)
        ]
    assert 0.85 <= np.mean(covered) <= 1.0


def test_larger_sides_win_by_number() -> None:
    """One against two with equal results: the one is worth the two together."""
    rows: list[TeamResult] = [(("a",), ("b", "c"), float(k % 2), f"s{k}") for k in range(200)]
    table = rate_teams(rows, anchors=["b"])
    assert table["a"].elo > table["b"].elo - 1e-9
    assert table["b"].elo == pytest.approx(table["c"].elo)


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="no result"):
        rate_teams([])
    with pytest.raises(ConfigError, match="a score is"):
        rate_teams([(("a",), ("b",), 0.7, "s")])
    with pytest.raises(ConfigError, match="same size in every match"):
        rate_teams([(("a",), ("b",), 1.0, "s"), (("a", "c"), ("b", "d"), 1.0, "t")])
