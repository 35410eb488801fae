"""`srl score`: its output and files, and errors that name broken files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from srl_agents.cli.main import main
from srl_agents.rewards.rubric_files import SHIPPED_RUBRICS, find_rubric
from srl_agents.yaml_files import read_yaml
from srl_envs.rewards import Rubric


def write(path: Path, *rows: object) -> str:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n\n")
    return str(path)


def test_a_file_is_scored_and_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chat = [{"role": "assistant", "content": "\\boxed{5}"}]
    file = write(
        tmp_path / "r.jsonl",
        {"completion": "\\boxed{4}", "answer": "4"},
        {"completion": chat, "answer": 4},
    )
    out = tmp_path / "s.jsonl"
    options = ["--rubric", "math"]
    assert main(["score", file, *options, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "2 of 2 replies judged, mean reward 0.500" in printed
    assert "match 1, mismatch 1" in printed
    rewards = [json.loads(line)["reward"] for line in out.read_text().splitlines()]
    assert rewards == [1.0, 0.0]
    assert main(["score", file, *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reward"] == 0.5


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["x"], "line 1: no JSON"),
        ([{"reply": "a", "answer": "1"}, [1]], "line 2: no JSON object"),
        ([{"repl": "a", "answer": "1"}], "line 1: no field 'reply'. Did you mean 'repl'"),
        ([{"reply": "a"}], "no field 'answer'"),
        ([{"reply": 5, "answer": "1"}], "'reply' is neither text"),
        ([""], "holds no replies"),
        (["x"] * 9, "and 4 more"),
    ],
)
def test_broken_lines_are_named_before_anything_is_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[object], message: str
) -> None:
    file = write(tmp_path / "r.jsonl", *lines)
    assert main(["score", file, "--rubric", "math"]) == 2
    assert message in capsys.readouterr().err


def test_files_that_are_not_there_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", "none.jsonl", "--rubric", "math"]) == 2
    assert "none.jsonl: No such file or directory." in capsys.readouterr().err
    assert main(["score", "none.jsonl", "--rubric", "maths"]) == 2
    assert "Did you mean 'math'" in capsys.readouterr().err
    file = write(tmp_path / "r.jsonl", {"reply": "a", "answer": "1"})
    assert main(["score", file, "--rubric", "math", "--out", str(tmp_path / "no" / "x")]) == 2
    assert ": No such file or directory." in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(SHIPPED_RUBRICS.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_shipped_rubric_loads(path: Path) -> None:
    assert find_rubric(path.stem) == path
    assert Rubric.from_config(read_yaml(path), place=path.name).parts
