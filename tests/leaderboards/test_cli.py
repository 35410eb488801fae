"""`srl leaderboard build`: what it prints, writes and returns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from srl_agents.league.store.history import LeagueStore
from tests.leaderboards.command import main
from tests.leaderboards.synthetic import fill_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "my league.db"
    fill_store(path, seeds=2)
    return path


def test_build_prints_the_table_and_where_to_look(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", "--store", str(store), "--out", str(tmp_path / "site")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("connect_four-v0: ")
    assert "2 seeds" in lines[0]
    assert "provisional" in lines[1]
    assert lines[-2] == "  ... and 6 more"
    assert lines[-1] == f"open {tmp_path / 'site' / 'index.html'}"


def test_json_holds_the_boards_and_the_command_repeats(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "site")
    assert main(["build", "--store", str(store), "--out", out, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    written = json.loads(Path(output["data"]).read_text())
    assert output["boards"] == written["boards"]
    assert written["command"] == f"srl leaderboard build --store '{store}' --out {out}"


def test_a_schedule_is_part_of_the_command(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["build", "--store", str(store), "--out", str(tmp_path), "--schedule", "final"]
    assert main([*arguments, "--json"]) == 0
    data = json.loads((tmp_path / "data.json").read_text())
    assert data["command"].endswith("--schedule final")
    assert data["boards"][0]["matches"] > 0
    assert main([*arguments[:-1], "none"]) == 2
    assert "none: no evaluation match is of it. There are: final" in capsys.readouterr().err


def test_an_empty_store_and_one_without_evaluation_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LeagueStore(tmp_path / "empty.db").close()
    assert main(["build", "--store", str(tmp_path / "empty.db"), "--out", str(tmp_path)]) == 0
    assert "no match yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["build", "--store", "absent.db", "--out", "x"], "no league store at absent.db"),
        (["build", "--out", "x"], "--store"),
        (["build", "--store"], "--store"),
        (["bild"], "bild"),
        ([], "COMMAND"),
        (["build", "--store", "a", "--out", "b", "--color"], "--color"),
    ],
)
def test_mistakes_take_one_line_and_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert words in output.err


@pytest.mark.parametrize("arguments", [["--help"], ["build", "--help"]])
def test_help_has_an_example(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "srl leaderboard build --" in capsys.readouterr().out
