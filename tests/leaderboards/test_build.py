"""The board's numbers come only from evaluation, and its page holds everything it needs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leaderboards.boards.archive import read_board
from leaderboards.pages.build import board_data, boards_of_store, slug, write_site
from leaderboards.pages.matrices import compared, surprises
from leaderboards.pages.standings import Scope, played, rank_sets
from srl_agents.cli.pages.shared import embedded_json
from srl_agents.league.agents import Role
from srl_agents.league.ratings.pairs import WinMatrix
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.errors import StoreError
from srl_envs.redteam.findings import Report
from tests.leaderboards.command import main
from tests.leaderboards.synthetic import BOTS, LEARNERS, START, agents, fill_store

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


def add(
    store: LeagueStore,
    number: int,
    seats: tuple[str, ...] = ("a", "b"),
    outcomes: tuple[float, ...] = (1.0, -1.0),
    **changes: Any,
) -> None:
    values: dict[str, Any] = {
        "env_id": "duel-v0",
        "seed": number,
        "split": "eval",
        "seats": seats,
        "number": number,
    }
    outcome: dict[str, Any] = {
        "outcomes": outcomes,
        "rewards": outcomes,
        "termination": "ok",
        "turns": 10,
    }
    outcome |= {k: changes.pop(k) for k in list(changes) if k not in MatchSpec.__slots__}
    spec = MatchSpec(**(values | changes))
    store.report(spec, MatchResult(match_id=spec.match_id, **outcome))


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
        assert abs(row["value"] - (truth[row["agent"]] - zero)) < 2 * row["half_width"]
        assert row["best_rank"] <= row["worst_rank"]
        assert not row["provisional"]
    assert sorted(board["anchors"]) == sorted(BOTS)
    assert sum(r["value"] for r in board["agents"] if r["role"] == "anchor") == pytest.approx(
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


def test_conduct_divides_by_the_seats_own_replies(tmp_path: Path) -> None:
    """Ten replies, four of them invalid by seat 0: it wrote 3 + 4, the other 3."""
    with small_store(tmp_path / "league.db") as store:
        add(
            store, 0, outcomes=(-1.0, 1.0), termination="forfeit", forfeited=(0,),
            invalid_replies=(4, 0),
        )  # fmt: skip
        add(store, 1, termination="void")
        add(store, 2, purpose="gate")
        scope = Scope(env_id="duel-v0", options={}, schedule=None, mode="competitive")
        total = played(store, scope)
    assert (total.matches, total.void) == (1, 1)
    a, b = total.conduct["a"], total.conduct["b"]
    assert (a.invalid, a.replies, a.forfeits) == (4, 7.0, 1)
    assert (b.invalid, b.replies, b.forfeits) == (0, 3.0, 0)


def test_one_match_makes_a_board_without_invented_numbers(tmp_path: Path) -> None:
    with small_store(tmp_path / "league.db") as store:
        add(store, 0, turns=0)
        board = board_data(store)["boards"][0]
    row = board["agents"][0]
    assert row["half_width"] is None
    assert row["invalid_share"] is None
    assert row["provisional"]


def test_descent_with_a_cycle_or_unknown_parents_ends(tmp_path: Path) -> None:
    with LeagueStore(tmp_path / "league.db") as store:
        for name, parent in (("a", "b"), ("b", "a"), ("c", "gone")):
            store.add_agent(AgentVersion(agent_id=name, lineage=name, parent=parent, role="frozen"))
        add(store, 0)
        add(store, 1, seats=("c", "a"))
        assert board_data(store)["boards"][0]["agents"]


# --- modes -----------------------------------------------------------------------------------


def test_a_cooperative_game_is_ranked_by_returns_with_strangers(tmp_path: Path) -> None:
    """a and b reach 0.75 together, a and c 0.5; a with itself 1: a's cross-play is 0.625, b's 0.75."""
    with small_store(tmp_path / "league.db", "a", "b", "c") as store:
        for n in range(2):
            add(store, n, env_id="split_clues-v0", seats=("a", "b"), outcomes=(0.5, 0.5))
            add(store, n, env_id="split_clues-v0", seats=("a", "c"), outcomes=(0.0, 0.0))
            add(store, n, env_id="split_clues-v0", seats=("a", "a"), outcomes=(1.0, 1.0))
        board = board_data(store)["boards"][0]
    rows = {row["agent"]: row for row in board["agents"]}
    assert board["mode"] == "cooperative"
    assert [row["agent"] for row in board["agents"]] == ["b", "a", "c"]
    assert (rows["b"]["value"], rows["a"]["value"], rows["c"]["value"]) == (0.75, 0.625, 0.5)
    assert (rows["a"]["self_play"], rows["a"]["gap"], rows["a"]["worst_partner"]) == (
        1.0, 0.375, "c",
    )  # fmt: skip
    cells = board["cross_play"]
    assert cells["agents"] == ["b", "a", "c"]
    assert (cells["mean"][1][1], cells["mean"][0][1], cells["mean"][0][2]) == (1.0, 0.75, None)
    assert board["matrix"] is None


def test_partners_of_ones_own_lineage_count_nowhere(tmp_path: Path) -> None:
    """a@1 and a@2 share a code and earn 1 together; with strangers 0.5, with the held-out bot 0.25."""
    agents: list[tuple[str, str, Role]]
    agents = [("a@1", "a", "frozen"), ("a@2", "a", "frozen"), ("s", "s", "frozen"),
              ("bot:held_out", "bot:held_out", "heldout")]  # fmt: skip
    with LeagueStore(tmp_path / "league.db") as store:
        for name, lineage, role in agents:
            store.add_agent(AgentVersion(agent_id=name, lineage=lineage, role=role))
        tables = [(("a@1", "a@2"), 1.0), (("a@1", "a@1"), 1.0), (("a@1", "s"), 0.0),
                  (("bot:held_out", "a@1"), -0.5)]  # fmt: skip
        for seats, outcome in tables:
            for n in range(2):
                add(store, n, env_id="codewords_duet-v0", seats=seats, outcomes=(outcome, outcome))
        board = board_data(store)["boards"][0]
    rows = {row["agent"]: row for row in board["agents"]}
    assert (rows["a@1"]["value"], rows["a@1"]["held_out"]) == (0.375, 0.25)
    assert rows["a@1"]["self_play"] == 1.0
    assert rows["a@2"]["value"] is None
    assert rows["a@2"]["provisional"][0] == "it met no agent of another lineage"


def test_a_board_shows_the_last_published_attack_of_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only of default options; empty without an attack."""
    attacked = Report("nim-v0", measures={"gain": -0.5, "half": 0.1, "thoughtless": "rank 1"})
    monkeypatch.setattr("leaderboards.pages.hackability.published", lambda: {"nim-v0": attacked})
    with small_store(tmp_path / "league.db") as store:
        for n, (env_id, options) in enumerate(
            [("nim-v0", {}), ("nim-v0", {"misere": True}), ("blotto-v0", {})]
        ):
            add(store, n, env_id=env_id, options=options)
        boards = {(b["env_id"], b["options"]): b for b in board_data(store)["boards"]}
    shown = boards.pop(("nim-v0", ""))["hackability"]
    assert ["gain", "-0.500 ± 0.100"] in shown["rows"]
    assert (shown["gain"], shown["half"], shown["findings"]) == (-0.5, 0.1, 0)
    assert [board["hackability"] for board in boards.values()] == [None, None]


def test_a_mixed_game_is_ranked_by_the_mean_over_numbers_of_seats_held(tmp_path: Path) -> None:
    """As one of three a earns 1, as two of three 0.5: its value is 0.75, whatever the games, and
    whatever it earns with itself in all seats."""
    with small_store(tmp_path / "league.db", "a", "b") as store:
        for n in range(3):
            add(store, n, env_id="commons-v1", seats=("a", "b", "b"), outcomes=(1.0, 0.0, 0.0))
        add(store, 9, env_id="commons-v1", seats=("a", "a", "b"), outcomes=(0.0, 0.0, -1.0))
        add(store, 10, env_id="commons-v1", seats=("a", "a", "a"), outcomes=(-1.0, -1.0, -1.0))
        board = board_data(store)["boards"][0]
    rows = {row["agent"]: row for row in board["agents"]}
    assert board["mode"] == "mixed"
    assert (rows["a"]["value"], rows["b"]["value"]) == (0.75, 0.25)
    assert rows["a"]["others"] == 0.25
    held = {(r["agent"], r["focal_seats"]): r["focal"]["estimate"] for r in board["focal"]}
    assert held == {
        ("a", 1): 1.0, ("a", 2): 0.5, ("a", 3): 0.0, ("b", 1): 0.0, ("b", 2): 0.5,
    }  # fmt: skip


def test_among_strangers_an_agent_counts_only_where_it_holds_one_seat(tmp_path: Path) -> None:
    """a's copies earn 1 in four of five seats and c's 0; a single a earns 0.25 beside b and c earns 0.5."""
    with small_store(tmp_path / "league.db", "a", "b", "c") as store:
        for n in range(3):
            for one, earned in (("a", -0.5), ("c", 0.0)):
                seats, outcomes = (one, *"bbbb"), (earned, *(0.0,) * 4)
                add(store, n, env_id="undercover-v0", seats=seats, outcomes=outcomes)
            for many, earned in (("a", 1.0), ("c", -1.0)):
                seats, outcomes = ("b", *many * 4), (-1.0, *(earned,) * 4)
                add(store, n, env_id="undercover-v0", seats=seats, outcomes=outcomes)
        (rated,) = boards_of_store(store)
    values = {row["agent"]: row["value"] for row in rated.data["agents"]}
    assert values == {"a": 0.25, "b": 0.0, "c": 0.5}
    assert {row["focal_seats"] for row in rated.data["focal"]} == {1}
    assert rated.tables.as_played is not None
    elo = {row.agent: row.elo for row in rated.tables.as_played.ratings}
    assert elo["c"] > elo["a"]
    assert "b" not in elo  # no other sat singly beside the same copies


def test_rank_sets_follow_the_intervals() -> None:
    """0.9 +- 0.05 is ahead of all; 0.6 and 0.5 overlap; an unknown row may stand anywhere."""
    values, widths = np.array([0.9, 0.6, 0.5, 0.0]), np.array([0.05, 0.1, 0.1, np.inf])
    best, worst = rank_sets(values, widths)
    assert best.tolist() == [1, 2, 2, 1]
    assert worst.tolist() == [2, 4, 4, 4]
    best, worst = rank_sets(np.array([0.5, 0.25]), np.array([0.125, 0.125]))  # they touch
    assert (best.tolist(), worst.tolist()) == ([1, 1], [2, 2])


def test_surprise_counts_standard_errors_towards_the_expectation() -> None:
    """Equal ratings expect 0.5; 0.8 with an interval from 0.604 is (0.3 / 0.1) errors above."""
    score = np.array([[np.nan, 0.8], [0.2, np.nan]])
    matrix = WinMatrix(
        agents=("a", "b"),
        points_NN=score,
        games_NN=np.array([[0, 10], [10, 0]]),
        score_NN=score,
        low_NN=np.array([[np.nan, 0.604], [0.09, np.nan]]),
        high_NN=np.array([[np.nan, 0.91], [0.396, np.nan]]),
    )
    found = surprises(matrix, {"a": 0.0, "b": 0.0}, 0.0)
    assert found[0, 1] == pytest.approx(3.0)
    assert found[1, 0] == pytest.approx(-3.0)
    assert np.isnan(found[0, 0])


def test_anchors_stand_beside_the_best_because_everybody_met_them() -> None:
    order = ["a", "b", "c", "d", "e"]
    assert compared(order, {"d", "e"}, 4) == ["a", "b", "d", "e"]
    assert compared(order, {"d", "e"}, 3) == ["a", "b", "d"]  # at most half are anchors
    assert compared(order, (), 9) == order


def test_a_cycle_surprises_where_no_ranking_explains_it(tmp_path: Path) -> None:
    with small_store(tmp_path / "league.db", "rock", "paper", "scissors") as store:
        for n in range(60):
            for winner, loser in (("paper", "rock"), ("scissors", "paper"), ("rock", "scissors")):
                outcome = 1.0 if n % 10 else -1.0
                add(store, n, seats=(winner, loser), outcomes=(outcome, -outcome))
        board = board_data(store)["boards"][0]
    cells = {
        frozenset((one, other)): abs(board["matrix"]["surprise"][i][j])
        for i, one in enumerate(board["matrix"]["agents"])
        for j, other in enumerate(board["matrix"]["agents"])
        if i != j
    }
    assert min(cells.values()) > 3
    assert board["diagnostics"]["cyclic_share"] > 0.9
    assert {row["agent"]: row["exploiter"] for row in board["diagnostics"]["agents"]} == {
        "rock": "paper", "paper": "scissors", "scissors": "rock",
    }  # fmt: skip


def test_large_fields_take_the_other_way_and_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srl_agents.league.ratings.moved_games.MOST_MOVES", 0)
    with small_store(tmp_path / "league.db", "a", "b", "c") as store:
        for n in range(20):
            add(store, n, seats=("a", "b"), outcomes=(1.0, -1.0) if n % 3 else (-1.0, 1.0))
            add(store, n, seats=("b", "c"), outcomes=(1.0, -1.0) if n % 4 else (-1.0, 1.0))
        dense = board_data(store)["boards"][0]
        monkeypatch.setattr("leaderboards.pages.standings.DENSE_AGENTS", 2)
        large = board_data(store)["boards"][0]
    for one, other in zip(dense["agents"], large["agents"], strict=True):
        assert (one["agent"], one["value"], one["half_width"]) == (
            other["agent"], other["value"], other["half_width"],
        )  # fmt: skip


# --- files -----------------------------------------------------------------------------------


def site_files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_building_twice_gives_the_same_bytes(filled: Path, tmp_path: Path) -> None:
    with LeagueStore(filled, mode="read") as store:
        for name in ("one", "two"):
            write_site(board_data(store, "again"), tmp_path / name)
    one = site_files(tmp_path / "one")
    assert one == site_files(tmp_path / "two")
    assert {"index.html", "data.json", "boards/connect_four-v0.js", "assets/uPlot.LICENSE"} <= set(
        one
    )


def test_data_files_hold_the_numbers_of_data_json(filled: Path, tmp_path: Path) -> None:
    with LeagueStore(filled, mode="read") as store:
        data = board_data(store, "srl leaderboard build")
    index = write_site(data, tmp_path / "deep" / "site")
    assert json.loads(index.with_name("data.json").read_text()) == data
    call = (index.parent / "boards" / "connect_four-v0.js").read_text()
    inside = re.fullmatch(r'SRL\.receive\("boards/connect_four-v0",(.*)\);\n', call)
    assert inside
    assert json.loads(inside[1]) == data["boards"][0]


def test_the_page_asks_for_nothing_from_elsewhere(filled: Path, tmp_path: Path) -> None:
    with LeagueStore(filled, mode="read") as store:
        index = write_site(board_data(store), tmp_path)
    html = index.read_text(encoding="utf-8")
    assert "default-src 'none'" in html
    for address in re.findall(r'(?:src|href)="([^"]*)"', html):
        assert address.startswith(("assets/", "#", "data:", "data.json")), address
        if address.startswith("assets/"):
            assert (tmp_path / address).is_file()
    fetched = r"\b(?:fetch|XMLHttpRequest|import)\s*\("
    for script in (tmp_path / "assets").glob("*.js"):
        assert not re.search(fetched, script.read_text(encoding="utf-8")), script.name


def test_names_cannot_leave_their_script(tmp_path: Path) -> None:
    with small_store(tmp_path / "league.db", "a", NASTY) as store:
        add(store, 0, seats=("a", NASTY))
        data = board_data(store, NASTY)
    text = embedded_json(data)
    assert not {"<", ">", "&", "\u2028"} & set(text)
    assert json.loads(text) == data
    html = write_site(data, tmp_path / "site").read_text(encoding="utf-8")
    scripts = len(re.findall(r"<script", html))
    assert scripts == html.count("</script>")
    assert "<script>alert" not in html


def test_file_names_of_boards_are_plain_and_differ() -> None:
    assert slug("connect_four-v0", "") == "connect_four-v0"
    found = {slug(env, options) for env, options in [
        ("connect_four-v0", '{"k":3}'), ("connect_four-v0", '{"k":4}'), ("../../etc", ""), ("..", ""),
        ("a/b", ""), ("a b", ""),
    ]}  # fmt: skip
    assert len(found) == 6
    assert all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", name) for name in found)


def test_an_unwritable_folder_is_a_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"Not a directory|File exists"):
        write_site(
            {"boards": [], "command": "", "content_sha256": "", "changes": [], "set_aside": []},
            tmp_path / "file" / "site",
        )


def test_every_script_parses() -> None:
    node = shutil.which("node")
    if not node:
        pytest.skip("needs node on the PATH")
    for package in ("leaderboards.pages", "srl_agents.cli.pages.shared"):
        for script in sorted(Path(str(files(package))).rglob("*.js")):
            done = subprocess.run(
                [node, "--check", script], check=False, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr


def test_the_plotting_library_is_the_one_that_its_version_file_names() -> None:
    folder = Path(str(files("srl_agents.cli.pages.shared"))) / "uplot"
    version = (folder / "VERSION").read_text().split()[1].rstrip(",")
    assert f"(v{version})" in (folder / "uPlot.iife.min.js").read_text(encoding="utf-8")[:80]
    assert "MIT" in (folder / "uPlot.LICENSE").read_text()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 300_000


# --- a published board -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_board_of_bundles_becomes_a_site_with_levels_and_replays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Play, bundle, publish, build: the table has the bundle's numbers and names the level of its checks."""
    run, board, site = tmp_path / "run", tmp_path / "board", tmp_path / "site"
    for command in (
        ["run", "kuhn_poker-v0", "--out", str(run), "--seeds", "2"],
        ["bundle", str(run)],
        ["publish", str(run / "bundles"), "--board", str(board), "--level", "L2"],
        ["build", "--board", str(board), "--out", str(site), "--episodes", "6"],
    ):
        assert main(command) == 0, (command, capsys.readouterr())
    data = json.loads((site / "data.json").read_text())
    (found,) = data["boards"]
    assert {row["level"] for row in found["agents"]} == {"L2"}
    assert all(list(row["levels"]) == ["L2"] for row in found["agents"])
    commands = {row["entry"]["command"] for row in found["agents"]}
    assert len(commands) == 1
    assert commands.pop().startswith("srl leaderboard run kuhn_poker-v0")
    assert data["set_aside"] == []
    assert [line["action"] for line in data["changes"]] == ["add"]
    (bundle,) = (entry.bundle for group in read_board(board).groups for entry in group.entries)
    claimed = {row["agent"]: row["elo"] for row in bundle.ratings["rows"]}
    assert {row["agent"] for row in found["agents"]} == set(claimed)
    for row in found["agents"]:
        assert row["value"] == pytest.approx(claimed[row["agent"]], abs=0.01)
    assert len(found["episodes"]) == 6
    for episode in found["episodes"]:
        text = (site / "episodes" / f"{episode['match']}.js").read_text()
        assert '"differs":[]' in text


def test_an_empty_board_is_a_users_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", "--board", str(tmp_path), "--out", str(tmp_path / "site")]) == 2
    assert "holds no bundle" in capsys.readouterr().err
    assert main(["build", "--board", "x", "--out", "y", "--schedule", "z"]) == 2
    assert "--schedule goes with --store" in capsys.readouterr().err
