"""The board's numbers come from evaluation alone, and its page holds everything it needs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from synthetic import BOTS, LEARNERS, START, agents, fill_store

from leaderboards.build import board_data, conduct_by_agent, write_site
from leaderboards.pages.render import embedded_json, page
from srl_agents.league.store import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.errors import StoreError

NASTY = "</script><script>alert('1')</script>&<!--\u2028"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "league.db"
    fill_store(path, seeds=32)
    return path


@pytest.fixture(scope="module")
def board(filled: Path) -> dict:
    with LeagueStore(filled, mode="read") as store:
        return board_data(store)["boards"][0]


def add(store: LeagueStore, number: int, seats=("a", "b"), outcomes=(1.0, -1.0), **changes) -> None:
    values = {
        "env_id": "duel-v0",
        "seed": number,
        "split": "eval",
        "seats": seats,
        "number": number,
    }
    told = {"outcomes": outcomes, "rewards": outcomes, "termination": "ok", "turns": 10}
    told |= {k: changes.pop(k) for k in list(changes) if k not in MatchSpec.__slots__}
    spec = MatchSpec(**(values | changes))
    store.report(spec, MatchResult(match_id=spec.match_id, **told))


def small_store(path: Path, *names: str) -> LeagueStore:
    store = LeagueStore(path)
    for name in names or ("a", "b"):
        store.add_agent(AgentVersion(agent_id=name, lineage=name, role="frozen"))
    return store


# --- numbers ---------------------------------------------------------------------------------


def test_known_skills_are_found(board: dict) -> None:
    truth = {agent.agent_id: elo for agent, elo in agents()}
    zero = sum(BOTS.values()) / len(BOTS)
    for row in board["agents"]:
        # the luck of a start state shrinks the scale a little, hence the factor
        assert abs(row["elo"] - (truth[row["agent"]] - zero)) < 2 * row["half_width"]
        assert row["best_rank"] <= row["worst_rank"]
        assert not row["provisional"]
    assert sorted(board["anchors"]) == sorted(BOTS)
    assert sum(r["elo"] for r in board["agents"] if r["role"] == "anchor") == pytest.approx(
        0, abs=0.1
    )
    assert board["clusters"] == 32


def test_counts_add_up(board: dict) -> None:
    pairings = len(agents()) * (len(agents()) - 1) // 2
    assert board["matches"] + board["void"] == pairings * 32 * 2
    assert board["void"] > 0
    assert board["not_rated"] == 50
    assert sum(r["games"] for r in board["agents"]) == 2 * board["matches"]
    for row in board["agents"]:
        assert row["wins"] + row["draws"] + row["losses"] == row["games"]
        assert 0 <= row["invalid_share"] < 0.2
        assert 0 <= row["forfeit_share"] < 0.1


def test_the_matrix_is_in_the_tables_order_and_antisymmetric(board: dict) -> None:
    matrix, n = board["matrix"], len(board["agents"])
    assert matrix["agents"] == [r["agent"] for r in board["agents"]]
    for i in range(n):
        assert matrix["score"][i][i] is None
        for j in range(n):
            if i != j:
                assert matrix["score"][i][j] + matrix["score"][j][i] == pytest.approx(1, abs=2e-4)
                assert matrix["low"][i][j] <= matrix["score"][i][j] <= matrix["high"][i][j]


def test_learning_is_shown_from_the_common_start(board: dict) -> None:
    assert [c["lineage"] for c in board["curves"]] == sorted(LEARNERS)
    for curve in board["curves"]:
        assert [p["step"] for p in curve["points"]] == [0, 2, 4, 8]
        assert curve["points"][0]["agent"] == START
        assert curve["points"][-1]["elo"] > curve["points"][0]["elo"]
    last = next(r for r in board["versus_start"] if r["agent"] == "alice@8")
    assert (last["start"], last["verdict"], last["clusters"]) == (START, "better", 32)
    assert last["difference"] - last["half_width"] > 0


def test_only_played_evaluation_moves_the_board(tmp_path: Path) -> None:
    with small_store(tmp_path / "league.db") as store:
        for n in range(8):
            add(store, n, outcomes=(1.0, -1.0) if n % 3 else (-1.0, 1.0))
        before = board_data(store)["boards"][0]
        add(store, 100, split="train", purpose="self")
        add(store, 101, purpose="gate")
        add(store, 102, termination="void")
        after = board_data(store)["boards"][0]
    assert (after["not_rated"], after["void"]) == (2, 1)
    assert after | {"not_rated": 0, "void": 0} == before


def test_a_schedule_can_be_singled_out(tmp_path: Path) -> None:
    with small_store(tmp_path / "league.db") as store:
        add(store, 0, schedule="eval/1", outcomes=(-1.0, 1.0))
        add(store, 1, schedule="eval/final")
        board = board_data(store, schedule="eval/final")["boards"][0]
    assert (board["schedule"], board["matches"], board["not_rated"]) == ("eval/final", 1, 1)
    assert board["agents"][0]["agent"] == "a"


def test_environments_and_options_are_apart_and_empty_ones_last(tmp_path: Path) -> None:
    with small_store(tmp_path / "league.db") as store:
        add(store, 0, env_id="a-v0", split="train")
        add(store, 1, env_id="b-v0")
        add(store, 2, env_id="b-v0", options={"size": 3}, outcomes=(-1.0, 1.0))
        boards = board_data(store)["boards"]
    assert [(b["env_id"], b["options"]) for b in boards] == [
        ("b-v0", ""), ("b-v0", '{"size":3}'), ("a-v0", ""),
    ]  # fmt: skip
    assert [b["agents"][0]["agent"] for b in boards[:2]] == ["a", "b"]
    assert boards[2]["agents"] == []


def test_conduct_divides_by_the_seats_own_replies() -> None:
    """Ten replies, four of them invalid by seat 0: it wrote 3 + 4, the other 3."""
    spec = MatchSpec(env_id="duel-v0", seed=0, split="eval", seats=("a", "b"))
    told = MatchResult(
        match_id=spec.match_id, outcomes=(-1.0, 1.0), rewards=(-1.0, 1.0), termination="forfeit",
        forfeited=(0,), invalid_replies=(4, 0), turns=10,
    )  # fmt: skip
    total = conduct_by_agent([(spec, told)])
    assert (total["a"].invalid, total["a"].replies, total["a"].forfeits) == (4, 7.0, 1)
    assert (total["b"].invalid, total["b"].replies, total["b"].forfeits) == (0, 3.0, 0)


def test_one_match_makes_a_board_without_invented_numbers(tmp_path: Path) -> None:
    with small_store(tmp_path / "league.db") as store:
        add(store, 0, turns=0)
        board = board_data(store)["boards"][0]
    row = board["agents"][0]
    assert row["half_width"] is None
    assert row["invalid_share"] is None
    assert row["provisional"]
    page({"boards": [board], "command": "", "store_sha256": ""})


def test_descent_with_a_cycle_or_unknown_parents_ends(tmp_path: Path) -> None:
    with LeagueStore(tmp_path / "league.db") as store:
        for name, parent in (("a", "b"), ("b", "a"), ("c", "gone")):
            store.add_agent(AgentVersion(agent_id=name, lineage=name, parent=parent, role="frozen"))
        add(store, 0)
        add(store, 1, seats=("c", "a"))
        assert board_data(store)["boards"][0]["agents"]


# --- files -----------------------------------------------------------------------------------


def test_building_twice_gives_the_same_bytes(filled: Path, tmp_path: Path) -> None:
    with LeagueStore(filled, mode="read") as store:
        for name in ("one", "two"):
            write_site(board_data(store, "again"), tmp_path / name)
    for file in ("index.html", "data.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_the_page_carries_the_data_and_no_address(filled: Path, tmp_path: Path) -> None:
    with LeagueStore(filled, mode="read") as store:
        data = board_data(store, "srl leaderboard build")
    index, numbers = write_site(data, tmp_path / "deep" / "site")
    html = index.read_text(encoding="utf-8")
    inline = re.search(r'<script id="data" type="application/json">(.*?)</script>', html)
    assert inline
    assert json.loads(inline[1]) == json.loads(numbers.read_text()) == data
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", html))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not fetched
    assert "default-src 'none'" in html


def test_names_cannot_leave_their_script_element(tmp_path: Path) -> None:
    with small_store(tmp_path / "league.db", "a", NASTY) as store:
        add(store, 0, seats=("a", NASTY))
        data = board_data(store, NASTY)
    text = embedded_json(data)
    assert not {"<", ">", "&", "\u2028"} & set(text)
    assert json.loads(text) == data
    html = page(data)
    assert html.count("<script") == html.count("</script>") == 2


def test_an_unwritable_folder_is_a_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        write_site({"boards": [], "command": "", "store_sha256": ""}, tmp_path / "file" / "site")
