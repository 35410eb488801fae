"""Faults are read from a run's metrics, the most likely first; a healthy run has no complaint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srl_agents.cli.doctor import main
from srl_agents.training.faults.diagnosis import diagnose
from srl_agents.training.faults.survival import EVENTS, write_event
from srl_agents.training.faults.vital_signs import Finding
from srl_envs.errors import ConfigError

HEALTHY = {"reward": 0.1, "invalid_share": 0.02, "flat_groups": 0.3, "rows": 64.0, "entropy": 1.0}
RECIPE = {"rollout": {"max_new_tokens": 16, "group_size": 8}, "training": {"max_grad_norm": 1.0}}


def run_with(folder: Path, *, updates: int = 12, **metrics: Any) -> Path:
    lines = [
        {
            "update": n,
            "updates": updates,
            "run": {"void": 0.0},
            "learners": {"alice": HEALTHY | metrics},
        }
        for n in range(1, updates + 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "recipe.yaml").write_text(json.dumps(RECIPE))
    return folder


def test_a_healthy_run_has_no_complaint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert diagnose(run_with(tmp_path), RECIPE) == []
    assert main([str(tmp_path)]) == 0
    assert "looks wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"invalid_share": 0.9}, "90% of its replies are refused"),
        ({"flat_groups": 1.0}, "100% of groups earn the same"),
        ({"rows": 0.0}, "never had a row to learn from"),
        ({"kl": 3.0}, "3.0 nats per token from its reference"),
        ({"reply_tokens": 16.0}, "most are cut off"),
        ({"grad_norm": 50.0}, "clipped to 1 in every step"),
        ({"score_start": 0.3}, "30% against the version it started as"),
    ],
)
def test_each_sign_is_named(tmp_path: Path, metrics: dict[str, Any], message: str) -> None:
    found = diagnose(run_with(tmp_path, **metrics), RECIPE)
    assert message in found[0].what
    assert found[0].learner == "alice"
    assert found[0].remedy


def test_the_fault_that_stopped_a_run_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    event = {"update": 13, "policy": "stop", "fault": "disk_full", "learner": "", "told": "no room"}
    (tmp_path / "faults.jsonl").write_text(json.dumps(event) + "\n")
    run_with(tmp_path, invalid_share=0.9)
    assert main([str(tmp_path), "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert first["what"] == "disk_full in update 13 (stop): no room"
    assert first["likelihood"] > second["likelihood"]


def test_a_fault_is_read_though_a_full_disk_cut_the_line_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_with(tmp_path)
    (tmp_path / EVENTS).write_text('{"update": 12, "policy": "st')
    assert main([str(tmp_path)]) == 0
    write_event(tmp_path, 13, Finding(fault="disk_full", message="no room"), "stop")
    with pytest.warns(UserWarning, match="left out line 1"):
        assert main([str(tmp_path), "--json"]) == 1
    found = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert [one["what"] for one in found] == ["disk_full in update 13 (stop): no room"]


def test_agents_that_do_not_learn_have_no_metrics_to_read(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("agents: ['bot:weak', 'bot:strong']")
    with pytest.raises(ConfigError, match="srl league status"):
        main([str(tmp_path)])


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        main([str(tmp_path)])


def test_a_machine_is_examined_with_a_token_of_each_engine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SRL_VLLM_PYTHON", "/nowhere/python")
    assert main(["--json"]) == 1
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert {"srl", "packages", "disk", "sandbox", "host memory", "GPU"} <= checks.keys()
    assert "wrote 1 token" in checks["engine transformers"]["told"]
    assert not checks["engine vllm"]["good"]
    assert "/nowhere/python is not an interpreter" in checks["engine vllm"]["told"]
    assert checks["engine vllm"]["fix"]
    assert checks["engine vllm_process"]["told"].startswith(("not tried", "wrote 1 token"))
