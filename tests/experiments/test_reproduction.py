"""`srl reproduce`: what counts as reproduced, and what is refused before anything runs."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.experiments import announced, reproduction, rows
from srl_agents.cli.verification.reproduction import ReproduceOptions, reproduce
from srl_envs.child_imports import SAFE
from srl_envs.errors import ConfigError


def row(seed: int, last: float, weights: str = "alice@3-1") -> dict[str, Any]:
    return {"seed": seed, "versions": [weights], "values": {"last": last}}


def test_one_more_seed_may_lie_where_the_arm_scatters() -> None:
    """Mean .5, deviation .1, t(2) = 4.3027: 4.3027 * .1 * sqrt(4 / 3) = .49683."""
    stored = [row(0, 0.4), row(1, 0.5), row(2, 0.6)]
    found = reproduction.compared(stored, row(0, 0.9, "alice@3-2"), 0.05)
    assert found.allowed == pytest.approx(0.49683, abs=1e-5)
    assert found.difference == pytest.approx(0.5)
    assert found.distance == pytest.approx(0.4)
    assert found.reproduced
    assert not found.equal
    assert not reproduction.compared(stored, row(0, 1.0, "alice@3-2"), 0.05).reproduced
    assert reproduction.compared(stored, row(0, 0.4), 0.05).equal


def test_seeds_that_agree_allow_the_margin() -> None:
    stored = [row(0, 0.4), row(1, 0.4)]
    assert reproduction.compared(stored, row(1, 0.44, "alice@3-2"), 0.05).reproduced
    assert not reproduction.compared(stored, row(1, 0.46, "alice@3-2"), 0.05).reproduced


def test_an_arm_without_a_result_is_refused(tmp_path: Path) -> None:
    name = announced.names()[0]
    key = announced.read(name).experiment.runs()[0]
    with pytest.raises(ConfigError, match=r"no result of seed 5 is stored. Stored seeds: \[\]"):
        reproduction.chosen(f"{name}/{key.arena}/{key.arm}", 5, tmp_path)
    rows.save(name, [{**key._asdict(), "cpu_s": 1.0}], tmp_path)
    _, found, stored = reproduction.chosen(f"{name}/{key.arena}/{key.arm}", key.seed, tmp_path)
    assert found == key
    assert len(stored) == 1
    with pytest.raises(ConfigError, match="Did you mean"):
        reproduction.chosen(f"{name}/{key.arena}/{key.arm}x", key.seed, tmp_path)


def test_a_package_without_the_repository_is_told_where_results_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="clone it"):
        reproduce(ReproduceOptions(what="a/b/c"), tmp_path)


def test_the_command_returns_the_status_of_the_program(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SAFE.items():  # as `srl` has its processes start
        monkeypatch.setenv(name, value)
    root = Path(__file__).parents[2]
    assert reproduce(ReproduceOptions(what="no_such/nim/a"), root) == 2
    assert "no_such" in capfd.readouterr().err
