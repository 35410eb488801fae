"""`srl leaderboard run` before the first reply: registered, unregistered on purpose, or not at all."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from leaderboards.bundles.run import HEADER
from leaderboards.cli.shared import admission
from leaderboards.keys import keys_folder
from leaderboards.registration.charter import CHARTER
from leaderboards.registration.ticket_log import registrations
from srl_agents.models.sources import random_model
from tests.leaderboards.command import main
from tests.leaderboards.forging import registered

GAME = "kuhn_poker-v0"
TOKENS = 3


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("base")
    random_model.build(folder, context=2048)
    return str(folder)


@pytest.fixture
def board(tmp_path: Path, base: str) -> Path:
    registered(tmp_path / "board", GAME, (f"first={base}",), TOKENS)
    return tmp_path / "board"


def run(out: Path, base: str, *more: str, name: str = "me") -> int:
    agent = ["--agent", f"{name}={base}", "--max-new-tokens", str(TOKENS), "--seeds", "2"]
    return main(["run", GAME, "--out", str(out), *agent, *more])


def ticket_of(out: Path) -> dict | None:
    return json.loads((out / GAME / HEADER).read_text())["ticket"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, answer: str) -> Terminal:
    err = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer + "\n"))
    monkeypatch.setattr(sys, "stderr", err)
    return err


def test_a_script_that_chooses_nothing_plays_nothing_and_loads_nothing(
    tmp_path: Path, base: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("leaderboards.bundles.agents.seat", _never)
    assert run(tmp_path / "out", base) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    for words in ("can never be published", "--register BOARD", "--unregistered", "Nothing was pl"):
        assert words in err
    assert not (tmp_path / "out").exists()


def test_references_need_no_board(tmp_path: Path) -> None:
    assert main(["run", GAME, "--out", str(tmp_path / "out"), "--seeds", "1"]) == 0


def _never(*_: object) -> None:
    raise AssertionError("a model was loaded")


@pytest.mark.slow
def test_registered_on_the_way_a_run_is_published(tmp_path: Path, base: str, board: Path) -> None:
    """And the same command goes on with the ticket that the run began with."""
    out = tmp_path / "out"
    assert run(out, base, "--register", str(board)) == 0
    known = registrations(board)
    assert ticket_of(out) == known[-1].data
    assert run(out, base, "--register", str(board)) == 0
    assert run(out, base) == 0  # begun with a ticket: nothing to ask
    assert registrations(board) == known
    assert main(["bundle", str(out)]) == 0
    assert main(["publish", str(out / "bundles"), "--board", str(board)]) == 0
    assert len(list(board.glob("*/*/manifest.json"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["BOARD", "u"])
def test_a_terminal_is_asked_before_anything_is_loaded(
    answer: str, tmp_path: Path, base: str, board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    err = at_a_terminal(monkeypatch, answer.replace("BOARD", str(board)))
    assert run(tmp_path / "out", base) == 0
    assert "can never be published" in err.getvalue()
    assert (ticket_of(tmp_path / "out") is None) == (answer == "u")


def test_enter_stops_and_names_the_way_to_a_board_elsewhere(
    tmp_path: Path, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    err = at_a_terminal(monkeypatch, admission.STOP)
    monkeypatch.setattr("leaderboards.bundles.agents.seat", _never)
    assert run(tmp_path / "out", base) == 2
    assert "srl leaderboard register ENV --agent" in err.getvalue()
    assert not (tmp_path / "out").exists()


def test_a_mistyped_board_is_not_made(
    tmp_path: Path, base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "out", base, "--register", str(tmp_path / "borad")) == 2
    assert "not a board. Give a folder" in capsys.readouterr().err
    assert not (tmp_path / "borad" / CHARTER).exists()


def test_a_name_that_is_anothers_is_refused_before_a_match(
    tmp_path: Path,
    base: str,
    board: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    thief = tmp_path / "thief"
    thief.mkdir(mode=0o700)
    for key in keys_folder().glob("board-*"):
        (thief / key.name).write_bytes(key.read_bytes())
        (thief / key.name).chmod(0o600)
    monkeypatch.setenv("SRL_KEYS", str(thief))
    assert run(tmp_path / "out", base, "--register", str(board), name="F1rst") == 2
    assert "belongs to the owner" in capsys.readouterr().err
    assert not (tmp_path / "out" / GAME).exists()


@pytest.mark.parametrize("name", ["gpt-5", "L3-verified", "strong", "constructor", "tiny"])
def test_reserved_names_are_refused_before_anything(
    name: str, tmp_path: Path, base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "out", base, "--unregistered", name=name) == 2
    assert "reserved" in (err := capsys.readouterr().err) or "these are not its weights" in err
    assert not (tmp_path / "out" / GAME / HEADER).exists()


def test_two_ways_at_once_are_refused(
    tmp_path: Path, base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, base, "--unregistered", "--register", "x") == 2
    assert "give one of --tickets, --register and --unregistered" in capsys.readouterr().err
    assert run(tmp_path, base, "--unregistered", "--submitter", "0penAI") == 2
    assert "--submitter '0penAI': it reads like 'openai'" in capsys.readouterr().err
