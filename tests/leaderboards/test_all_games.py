"""The first screen's numbers: those of the rating over all games, legality apart, prices per game."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leaderboards.boards.archive import read_board
from leaderboards.contents.mistakes import mistakes_of
from leaderboards.pages.all_games import RatedBoard, all_games
from leaderboards.pages.build import board_data
from leaderboards.pages.game_tables import GameTables
from leaderboards.pages.write import FIRST_AGENTS, overview
from srl_agents.league.ratings.focal_returns import (
    MOST_COMPARED,
    SeatedResult,
    compared_returns,
)
from srl_agents.league.ratings.overall import overall
from srl_agents.league.ratings.pairs import Pairs
from srl_agents.league.ratings.tables import RatingTable, rate
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec
from tests.leaderboards.synthetic import fill_store


def table(points: dict[tuple[str, str], float], seeds: int = 40) -> RatingTable:
    rows = [
        (a, b, float(seed < share * seeds), str(seed))
        for (a, b), share in points.items()
        for seed in range(seeds)
    ]
    return rate(Pairs.of(rows))


def rated(
    slug: str, played: RatingTable, clean: RatingTable | None = None, **facts: Any
) -> RatedBoard:
    """A board with only what the first screen reads; ``facts`` are of every row."""
    rows = [
        {
            "agent": row.agent, "best_rank": row.best_rank, "worst_rank": row.worst_rank, "value": row.elo,
            "seat_games": 80, "level": "L3", "base": None, "entry": None, "mistakes": {"illegal": 2},
            "clean_share": 0.5, "forfeit_share": 0.5, "others_forfeit_share": 0.0, "invalid_share": 0.1,
            "replies_per_game": 4.0, "tokens_per_game": 20.0,
        } | facts
        for row in played.ratings
    ]  # fmt: skip
    return RatedBoard({"slug": slug, "agents": rows}, GameTables(as_played=played, clean=clean))


def test_the_ratings_are_those_over_all_games_and_bots_have_none() -> None:
    one = table({("a", "b"): 0.8, ("a", "bot:x"): 0.9, ("b", "bot:x"): 0.6})
    other, clean = table({("a", "b"): 0.4, ("c", "b"): 0.7}), table({("a", "b"): 0.3})
    found = all_games([rated("one", one, one), rated("other", other, clean)])
    expected = overall({"one": one, "other": other})
    expected_clean = overall({"one": one, "other": clean})
    assert expected is not None
    assert expected_clean is not None
    assert [row["agent"] for row in found["agents"]] == [row.agent for row in expected.ratings]
    for shown, row in zip(found["agents"], expected.ratings, strict=True):
        assert [shown[key] for key in ("value", "low", "high")] == pytest.approx(
            [row.elo, row.low, row.high], abs=0.01
        )
        assert (shown["best_rank"], shown["worst_rank"]) == (row.best_rank, row.worst_rank)
    clean_of = {row["agent"]: row["clean"] for row in found["agents"]}
    assert clean_of["a"][0] == pytest.approx(expected_clean["a"].elo, abs=0.01)
    assert clean_of["c"] is None
    entered = {row["agent"]: (row["entered"], row["rated_in"]) for row in found["agents"]}
    assert entered == {"a": (2, 2), "b": (2, 2), "c": (1, 1)}
    assert [row["agent"] for row in found["bots"]] == ["bot:x"]


def test_a_model_that_nobody_met_is_listed_last_without_a_rating() -> None:
    single = table({("d", "bot:x"): 0.9})
    found = all_games([rated("one", table({("a", "b"): 0.8})), rated("two", single)])
    last = found["agents"][-1]
    assert (last["agent"], last["value"], last["entered"], last["rated_in"]) == ("d", None, 1, 0)
    assert found["rated_games"] == 1
    assert found["joined"] is True


def test_shares_and_prices_are_means_over_games_and_unknown_where_one_is() -> None:
    pair = table({("a", "b"): 0.8})
    usage = {"completion_tokens": 800, "cost": 1.6, "currency": "USD", "seconds": 40.0}
    entry = {"submitter": "me", "endpoint": {"usage": usage}}
    dear = rated("dear", pair, clean_share=1.0, entry=entry)
    row = all_games([rated("plain", pair, seat_games=8000), dear])["agents"][0]
    assert row["clean_share"] == 0.75  # not the mean over matches
    assert row["tokens_per_game"] == 15.0  # (20 + 800 / 80) / 2
    assert row["cost_per_game"] is None
    assert row["mistakes"] == {"illegal": 4}
    (both, _) = all_games([dear, rated("again", pair, entry=entry)])["agents"]
    assert (both["cost_per_game"], both["currency"]) == (0.02, "USD")
    assert (both["seconds_per_game"], row["seconds_per_game"]) == (0.5, None)


def test_the_first_page_holds_no_more_than_it_shows() -> None:
    rng = np.random.default_rng(0)
    names = [f"agent{k:03}" for k in range(FIRST_AGENTS + 5)]
    field = table({(a, names[k - 1]): float(rng.random()) for k, a in enumerate(names)}, seeds=4)
    board = rated("one", field)
    data = {
        "command": "", "content_sha256": "", "fingerprint": "", "changes": [], "set_aside": [],
        "boards": [], "all_games": all_games([board]) | {"games": []},
    }  # fmt: skip
    shown = overview(data)["all_games"]
    keys, rows = shown["agents"]["keys"], shown["agents"]["rows"]
    assert (len(rows), shown["more_agents"]) == (FIRST_AGENTS, 5)
    assert 0 < sum(row[keys.index("places")] is not None for row in rows) < 50


# --- games without winners -------------------------------------------------------------------


def seated(seats: tuple[str, ...], outcomes: tuple[float, ...], start: str = "s") -> SeatedResult:
    return SeatedResult(seats, outcomes, start)


def rows_of(pairs: Pairs) -> Counter[tuple[str, str, float]]:
    names = pairs.agents
    return Counter(
        (names[a], names[b], float(score))
        for a, b, score in zip(pairs.a_M, pairs.b_M, pairs.score_M, strict=True)
    )


def test_returns_are_compared_only_in_the_same_place() -> None:
    """Seat, company and start state must agree; a table of one's own compares nothing."""
    results = [
        seated(("a", "x"), (0.5, 0.0)), seated(("b", "x"), (0.2, 0.0)), seated(("x", "b"), (0.0, 1.0)),
        seated(("c", "x"), (0.2, 0.0), "other"), seated(("c", "y"), (0.9, 0.0)),
        seated(("a", "a"), (1.0, 1.0)), seated(("b", "b"), (0.0, 0.0)),
    ]  # fmt: skip
    assert rows_of(compared_returns(results)) == {("a", "b", 1.0): 1}
    tied = [seated(("a", "x"), (0.5, 0.0)), seated(("b", "x"), (0.5, 1.0))]
    assert rows_of(compared_returns(tied)) == {("a", "b", 0.5): 1}
    assert rows_of(compared_returns(results, {"a": "k", "x": "k"})) == {}


def test_only_references_are_company_and_every_pair_holds_one() -> None:
    results = [
        seated((me, "bot:x"), (value, 0.0))
        for me, value in (("a", 0.1), ("b", 0.3), ("bot:y", 0.2), ("bot:z", 0.4))
    ] + [seated(("a", "b"), (0.0, 0.0)), seated(("bot:y", "b"), (1.0, 1.0))]
    found = rows_of(compared_returns(results, references=["bot:x", "bot:y", "bot:z"]))
    pairs = {(one, other) for one, other, _ in found}
    everybody = combinations(["a", "b", "bot:y", "bot:z"], 2)
    in_company_of_y = {("b", "bot:x")}
    assert pairs == {pair for pair in everybody if pair != ("a", "b")} | in_company_of_y


def test_in_a_crowd_everybody_is_compared_with_some_and_with_others_in_the_next_place() -> None:
    names = [f"a{k:02}" for k in range(60)]
    results = [
        seated((name, company), (k / 100, 0.0))
        for company in ("x", "y")
        for k, name in enumerate(names)
    ]
    first, both = (rows_of(compared_returns(some)) for some in (results[:60], results))
    for name in names:
        met = [pair for pair in first if name in pair]
        assert 2 < len(met) <= MOST_COMPARED
    assert len({pair[:2] for pair in both}) > 1.5 * len(first)


# --- whose error -----------------------------------------------------------------------------


def test_a_forfeit_is_one_agents_error_and_the_others_lost_game(tmp_path: Path) -> None:
    with LeagueStore(tmp_path / "league.db") as store:
        for name in ("a", "b"):
            store.add_agent(AgentVersion(agent_id=name, lineage=name, role="frozen"))
        for seed in range(4):
            spec = MatchSpec(env_id="nim-v0", seed=seed, split="eval", seats=("a", "b"))
            lost = seed == 0
            outcomes = (-1.0, 1.0) if lost else (1.0, -1.0)
            result = MatchResult(
                match_id=spec.match_id, outcomes=outcomes, rewards=outcomes, turns=6, tokens=(12, 4),
                termination="forfeit" if lost else "ok", forfeited=(0,) if lost else (),
                invalid_replies=(2 * lost, 0),
            )  # fmt: skip
            store.report(spec, result)
        data = board_data(store)
    rows = {row["agent"]: row for row in data["all_games"]["agents"]}
    shares = ("clean_share", "forfeit_share", "others_forfeit_share", "tokens_per_game")
    assert [rows["a"][key] for key in shares] == [0.75, 0.25, 0.0, 12.0]
    assert [rows["b"][key] for key in shares] == [0.75, 0.0, 0.25, 4.0]
    assert rows["a"]["clean"][0] > rows["a"]["value"]


def test_the_first_seats_advantage_counts_start_states_that_both_seats_had(tmp_path: Path) -> None:
    """The first seat always wins: one point more of one. A start state from only one seat shows nothing."""
    with LeagueStore(tmp_path / "league.db") as store:
        for name in ("a", "b"):
            store.add_agent(AgentVersion(agent_id=name, lineage=name, role="frozen"))
        tables = [(seed, seats) for seed in range(3) for seats in (("a", "b"), ("b", "a"))]
        for seed, seats in [*tables, (9, ("a", "b"))]:
            spec = MatchSpec(env_id="nim-v0", seed=seed, split="eval", seats=seats)
            outcomes = (1.0, -1.0) if seed < 9 else (-1.0, 1.0)
            result = MatchResult(
                match_id=spec.match_id, outcomes=outcomes, rewards=outcomes, termination="ok"
            )
            store.report(spec, result)
        (board,) = board_data(store)["boards"]
    assert [row["first_seat"][0] for row in board["agents"]] == [1.0, 1.0]


def test_a_reply_at_its_limit_is_cut_and_not_malformed() -> None:
    """SmolLM2's replies have twelve tokens: most that are refused had no room to end."""
    (bundle,) = (
        entry.bundle
        for group in read_board().groups
        for entry in group.entries
        if any(agent.agent_id == "smollm2-135m" for agent in entry.bundle.agents)
    )
    record = next(r for r in bundle.records() if sum(r.result.invalid_replies) > 1)
    (seat,) = record.tokens
    refused = sum(record.result.invalid_replies)
    agent = record.spec.seats[seat]
    assert mistakes_of(record, {agent: 12})[agent]["cut"] > 0
    assert mistakes_of(record, {agent: 12})[agent].total() == refused
    assert "cut" not in mistakes_of(record, {agent: 1000})[agent]


def test_every_kind_of_game_counts(tmp_path: Path) -> None:
    for root, env_id in enumerate(("connect_four-v0", "split_clues-v0", "commons-v1")):
        fill_store(tmp_path / "league.db", env_id=env_id, seeds=3, root=root)
    with LeagueStore(tmp_path / "league.db", mode="read") as store:
        found = board_data(store)["all_games"]
    assert found["rated_games"] == 3
    assert {row["rated_in"] for row in found["agents"]} == {3}
    assert found["agents"][0]["agent"] == "alice@8"
