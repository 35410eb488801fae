"""The main job on a real model: SmolLM2-135M is better than its start after ten updates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from srl_agents.cli.main import main
from srl_agents.league.standings import read_status
from srl_agents.league.store.history import LeagueStore

MOST_REFUSED = 0.2


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_smollm2_is_better_than_its_start_after_ten_updates(tmp_path: Path, seed: int) -> None:
    run = tmp_path / "run"
    assert main(["train", "quickstart-smollm2-135m", "--seed", str(seed), "--out", str(run)]) == 0
    with LeagueStore(run / "league.db", mode="read") as store:
        (status,) = read_status(store)
    assert {agent.partition("@")[0] for agent in status.gains} == {"alice", "bob"}
    for agent, gain in status.gains.items():
        assert gain.low > 0, f"{agent}: {gain}"
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    for learner, metrics in last["learners"].items():
        assert metrics["invalid_share"] <= MOST_REFUSED, learner
