"""`srl leaderboard run | bundle | verify | publish`: what they print, write and return."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leaderboards.bundles.submission import open_bundle
from leaderboards.cli.bundle import rows
from leaderboards.redteam.forger import Forger
from tests.leaderboards.command import main


@pytest.mark.slow
def test_from_a_run_to_a_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, board = str(tmp_path / "run"), str(tmp_path / "board")
    assert main(["run", "kuhn_poker", "nim", "--seeds", "1", "--out", out]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines() == [
        f"kuhn_poker-v0: 20 matches in {out}/kuhn_poker-v0",
        f"nim-v0: 20 matches in {out}/nim-v0",
        f"next: srl leaderboard bundle {out}",
    ]
    assert not output.err  # off a terminal progress is printed after 30 s
    assert main(["bundle", out, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [entry["env"] for entry in made] == ["kuhn_poker-v0", "nim-v0"]
    assert main(["bundle", out, "--out", str(tmp_path / "again")]) == 0
    assert "\n  bot:strong: elo " in capsys.readouterr().out
    bundles = str(tmp_path / "run" / "bundles")
    assert main(["verify", bundles, "--level", "L3", "--json"]) == 0
    verdicts = json.loads(capsys.readouterr().out)
    assert [v["reached"] for v in verdicts] == ["L3", "L3"]
    assert "in a fresh process" in verdicts[0]["checked"]["L2"]
    assert verdicts[0]["notes"] == ["1 of the protocol's 64 seeds"]
    assert main(["publish", bundles, "--board", board, "--level", "L2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{made[0]['folder']}: added",
        f"{made[1]['folder']}: added",
        "kuhn_poker-v0: 1 bundles, 5 agents, verified to L2",
        "nim-v0: 1 bundles, 5 agents, verified to L2",
    ]
    assert main(["publish", bundles, "--board", board, "--level", "L2"]) == 0
    assert "kuhn_poker-v0/" in (said := capsys.readouterr().out)
    assert said.count("the board has the same claim: reproduced") == 2
    assert main(["run", "kuhn_poker", "--seeds", "1", "--out", out, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again[0]["matches"], again[0]["played_before"]) == (20, 20)


@pytest.mark.slow
def test_a_rejected_bundle_gives_code_1_and_is_not_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    assert main(["run", "nim", "--seeds", "1", "--out", out, "--json"]) == 0
    assert main(["bundle", out, "--json"]) == 0
    made = json.loads(capsys.readouterr().out.splitlines()[-1])[0]["folder"]
    forged = Forger.of(open_bundle(Path(made)), tmp_path / "forged")
    forged.matches[3]["result"]["rewards"][0] += 1
    folder = str(forged.rehash())
    assert main(["verify", folder, made, "--level", "L2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "L1 holds, the next level does not: record 3 (match " in lines[0]
    assert "rewards" in lines[0]
    assert "L2 holds" in lines[1]
    assert main(["publish", folder, "--board", str(tmp_path / "board")]) == 1
    assert not (tmp_path / "board").exists()


def test_a_bundle_prints_agents_with_scores_and_intervals() -> None:
    elo = [
        {"agent": "a", "elo": 101.26, "half_width": 40.0},
        {"agent": "b", "elo": -3.0, "half_width": None},
    ]
    assert rows({"measure": "elo", "rows": elo}) == [
        "a: elo 101.3, ± 40",
        "b: elo -3, interval unknown",
    ]
    pairs = [{"agent": "a", "cross_play": 0.5, "cross_play_half_width": 0.1}]
    assert rows({"measure": "cross_play", "rows": pairs}) == ["a: cross_play 0.5, ± 0.1"]


@pytest.mark.parametrize("command", ["run", "bundle", "verify", "publish"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"  srl leaderboard {command} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--out", "x"], "name environments, or give --all"),
        (["run", "nim", "--all", "--out", "x"], "name environments, or give --all"),
        (["run", "nimm-v0", "--out", "x"], "Did you mean 'nim-v0'"),
        (["run", "nim"], "--out"),
        (["run", "nim", "--out", "x", "--seeds", "65"], "nim-v0 has 1 to 64"),
        (["run", "nim", "--seeds", "abc"], "--seeds 'abc': give a number, apart"),
        (["run", "nim", "--seeds", "abc", "--out", "x"], "--seeds 'abc': give a number, apart"),
        (["run", "nim", "--out", "x", "--agent", "tinny"], "Did you mean 'tiny'"),
        (["run", "nim", "--out", "x", "--agent", "tiny+y"], "y is not an adapter folder"),
        (["bundle", "nowhere"], "nowhere holds no run"),
        (["verify", "nowhere"], "nowhere holds no bundle"),
        (["verify", "nowhere", "--level", "L9"], "L9"),
        (["verify", "x", "--model", "alice"], "AGENT=MODEL"),
        (["publish", "nowhere", "--board", "b"], "nowhere holds no bundle"),
        (["verfy"], "Did you mean 'verify'"),
    ],
)
def test_mistakes_take_one_line_and_code_2(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert words in output.err
    assert list(tmp_path.iterdir()) == []
