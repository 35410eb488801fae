"""A finished run goes on, longer and with another learning rate, and reports the consequences."""

from __future__ import annotations

from pathlib import Path

import pytest

from srl_agents.cli.main import main
from srl_agents.metrics.sinks import read_lines
from tests.faults.stage import Stage


@pytest.mark.slow
def test_a_run_goes_on_longer_and_at_another_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(tmp_path, monkeypatch)
    assert stage.train("updates=1") == 0
    capsys.readouterr()
    rate, rows = "training.learning_rate=0.01", "training.micro_batch_rows=2"
    longer = ["train", "--more", "1", str(stage.run), "--profile", "--set", rate, "--set", rows]
    longer += ["--set", "memory.tf32=true"]
    assert main(longer) == 0
    said = capsys.readouterr().out.replace("\n", " ")
    assert "training.learning_rate: 0.001 -> 0.01 (another experiment" in said
    assert "training.micro_batch_rows: 16 -> 2 (numbers round" in said
    assert "memory.tf32: False -> True (numbers round" in said
    assert "memory.tf32: this run has no GPU" in said
    assert "traceEvents" in (stage.run / "profile/update-2.json").read_text()
    measured = read_lines(stage.run / "metrics.jsonl")[-1]["run"]
    assert 0 < measured["phase/play"] + measured["phase/update"] <= 1
    assert measured["memory/host_free_gb"] > 0
    assert measured["train_tokens_per_s"] > 0
    assert 0 < measured["cache_share"] < 1
    rates = [
        r["learners"]["alice"]["learning_rate"] for r in read_lines(stage.run / "metrics.jsonl")
    ]
    assert rates == [0.001, 0.01]
    assert main(["train", "--more", "1", str(tmp_path / "typo")]) == 2
    assert "is not a run's folder" in capsys.readouterr().err
