"""Where a command prints is full, or its reader leaves: one rule for the status, and nothing is lost."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from srl_agents.cli.main import main
from srl_agents.league.store.history import LeagueStore
from tests.faults.test_interrupted_runs import contents, recipe_of
from tests.forked_commands import finish_command, start_command, start_function
from tests.srl_agents.cli.test_command_line import COMMANDS as EVERY_COMMAND
from tests.srl_agents.cli.test_command_line import PARENTS

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


def printing_without_reader(arguments: list[str]) -> None:
    """The command, the reader of whose standard output has left."""
    os.dup2(writer_without_reader(), 1)
    sys.exit(main(arguments))


def read_until(text: str, arguments: list[str], folder: Path) -> tuple[int | None, str]:
    """Exit code and messages of a command whose reader leaves after a text, before it if that is empty."""
    if not text:
        process = start_function(printing_without_reader, (arguments,), folder / "unread.log")
        process.join(SECONDS)
        return process.exitcode, (folder / "unread.log").read_text()
    fifo, log = folder / "fifo", folder / "fifo.log"
    os.mkfifo(fifo)
    process = start_function(printing_to, (str(fifo), arguments), log)
    with fifo.open() as reader:
        while text not in (line := reader.readline()):
            assert line, log.read_text()
    process.join(SECONDS)
    fifo.unlink()
    return process.exitcode, log.read_text()


@pytest.fixture(scope="module")
def bots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bots")
    (folder / "recipe.yaml").write_text(POPULATION)
    (folder / "replies.jsonl").write_text('{"reply": "4", "answer": "4"}\n')
    arguments = ["league", "run", str(folder / "recipe.yaml"), "--out", str(folder / "run")]
    finish_command(start_command(arguments, folder / "log"), folder / "log")
    return folder


def statuses(listed: list[list[str]], results: str) -> None:
    """Write down the exit codes of commands whose output is full, and of those whose reader has left."""
    codes = []
    for arguments in listed:
        of_one: list[int] = []
        for _ in range(2):
            os.dup2(os.open("/dev/full", os.O_WRONLY) if not of_one else writer_without_reader(), 1)
            of_one.append(main(arguments))
        codes.append(of_one)
    Path(results).write_text(json.dumps(codes))


def writer_without_reader() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.slow
def test_each_command_that_is_installed_has_one_rule_for_its_output(tmp_path: Path) -> None:
    listed = [[*words, "--help"] for words in ([], *EVERY_COMMAND, *([name] for name in PARENTS))]
    log, results = tmp_path / "log", tmp_path / "codes.json"
    process = start_function(statuses, (listed, str(results)), log)
    process.join(SECONDS)
    assert process.exitcode == 0, log.read_text()
    codes = json.loads(results.read_text())
    assert {" ".join(a): c for a, c in zip(listed, codes, strict=True) if c != [2, 141]} == {}
    lines = log.read_text().splitlines()
    assert len(lines) == len(listed)
    assert all(line.endswith(FULL) for line in lines)


Fill = Callable[[Path], list[str]]
COMMANDS: dict[str, Fill] = {
    "help": lambda _: ["--help"],
    "play": lambda _: ["play", "nim-v0", "random", "middle"],
    "envs": lambda _: ["envs"],
    "recipes": lambda _: ["recipes", "quickstart-tiny"],
    "doctor": lambda _: ["doctor"],
    "docs": lambda _: ["docs"],
    "completion": lambda _: ["completion", "bash"],
    "watch": lambda bots: ["watch", str(bots / "run"), "--all"],
    "serve": lambda _: ["serve", "human", "--port", "0"],
    "score": lambda bots: ["score", str(bots / "replies.jsonl"), "--rubric", "math"],
    "redteam": lambda bots: [
        "redteam",
        "formats",
        "--budget-s",
        "1",
        "--out",
        str(bots / "attack"),
    ],
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


ELSEWHERE = {
    "new": "refuses the folder that its first call made; its help is tried",
    "train": "the test of a training below",
    "report": "the test of a training below, whose run it shows",
    "verify-trainer": "computes gradients for a minute before it prints; its help is tried",
    "reproduce": "trains for minutes; its help is tried",
    "push": "sends to a hub; tests/srl_agents/cli/test_push_and_pull.py has one",
    "pull": "fetches from a hub, likewise",
    "eval": "prints after Inspect ends, which has an environment of its own (`make inspect`)",
}
"""Commands that are not tried on the run of bots, and why."""


def test_each_command_is_tried_with_what_it_prints(tmp_path: Path) -> None:
    tried = {fill(tmp_path)[0] for fill in COMMANDS.values()} - {"--help"}
    assert tried | set(ELSEWHERE) == {words[0] for words in EVERY_COMMAND}


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


@pytest.mark.nightly
def test_a_training_whose_reader_leaves_keeps_its_last_update(tmp_path: Path) -> None:
    recipe, run = recipe_of("one", tmp_path), tmp_path / "run"
    code, said = read_until("2/6", ["train", str(recipe), "--out", str(run)], tmp_path)
    assert code == 141
    assert "Traceback" not in said
    assert list((run / "checkpoints").glob("step-0000000[2-6]"))

    calm, log = tmp_path / "calm", tmp_path / "log"
    for arguments in ([str(recipe), "--out", str(calm)], [str(run)]):
        finish_command(start_command(["train", *arguments], log), log)
    code, printed = read_until("", ["report", str(run)], tmp_path)
    assert code == 141, printed
    assert contents(run) == contents(calm)
