"""Where a command prints is full, or its reader leaves: one rule for the status, and nothing is lost."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from srl_agents.cli.main import main
from srl_agents.league.store.history import LeagueStore
from tests.faults.test_interrupted_runs import contents, recipe_of
from tests.forked_commands import finish_command, start_command, start_function

SECONDS = 120
POPULATION = """
name: bots
env: nim-v0
agents: [{agent: random, role: anchor}, {agent: middle}]
matches: 64
matchmaking: {block: 32}
"""
FULL = "standard output: No space left on device."


def printing_to(place: str, arguments: list[str]) -> None:
    """The command, whose standard output is a file."""
    os.dup2(os.open(place, os.O_WRONLY), 1)
    sys.exit(main(arguments))


def read_until(text: str, arguments: list[str], folder: Path) -> tuple[int | None, str]:
    """Exit code and messages of a command whose reader leaves after a text, at once if it is empty."""
    fifo, log = folder / "fifo", folder / "fifo.log"
    os.mkfifo(fifo)
    process = start_function(printing_to, (str(fifo), arguments), log)
    with fifo.open() as reader:
        while text and text not in (line := reader.readline()):
            assert line, log.read_text()
    process.join(SECONDS)
    fifo.unlink()
    return process.exitcode, log.read_text()


@pytest.fixture(scope="module")
def bots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bots")
    (folder / "recipe.yaml").write_text(POPULATION)
    arguments = ["league", "run", str(folder / "recipe.yaml"), "--out", str(folder / "run")]
    finish_command(start_command(arguments, folder / "log"), folder / "log")
    return folder


Fill = Callable[[Path], list[str]]
COMMANDS: dict[str, Fill] = {
    "help": lambda _: ["--help"],
    "play": lambda _: ["play", "nim-v0", "random", "middle"],
    "plan": lambda _: ["plan", "quickstart-tiny"],
    "status": lambda bots: ["league", "status", str(bots / "run")],
    "run": lambda bots: ["league", "run", str(bots / "recipe.yaml"), "--out", str(bots / "run")],
    "new": lambda bots: ["league", "run", str(bots / "recipe.yaml"), "--out", str(bots / "new")],
    "build": lambda bots: [
        *("leaderboard", "build", "--store", str(bots / "run/league.db")),
        *("--schedule", "league", "--out", str(bots / "site")),
    ],
    "board": lambda bots: [
        *("leaderboard", "run", "kuhn_poker", "--seeds", "1", "--out", str(bots / "board")),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_or_closed_output_has_the_same_status_in_all_commands(
    name: str, bots: Path, tmp_path: Path
) -> None:
    arguments = COMMANDS[name](bots)
    log = tmp_path / "log"
    process = start_function(printing_to, ("/dev/full", arguments), log)
    process.join(SECONDS)
    said = log.read_text()
    assert process.exitcode == 2, said
    assert "Traceback" not in said
    assert FULL in said.splitlines()[-1]

    code, said = read_until("", arguments, tmp_path)
    assert code == 141, said
    assert "Traceback" not in said
    if name == "new":
        finish_command(start_command(["league", "resume", str(bots / "new")], log), log)
        digests = []
        for run in ("run", "new"):
            with LeagueStore(bots / run / "league.db", "read") as store:
                digests.append(store.content_digest())
        assert digests[0] == digests[1]


@pytest.mark.slow
def test_a_training_whose_reader_leaves_keeps_its_last_update(tmp_path: Path) -> None:
    recipe, run = recipe_of("one", tmp_path), tmp_path / "run"
    code, said = read_until("2/6", ["train", str(recipe), "--out", str(run)], tmp_path)
    assert code == 141
    assert "Traceback" not in said
    assert list((run / "checkpoints").glob("step-0000000[2-6]"))

    calm, log = tmp_path / "calm", tmp_path / "log"
    for arguments in ([str(recipe), "--out", str(calm)], [str(run)]):
        finish_command(start_command(["train", *arguments], log), log)
    assert contents(run) == contents(calm)
