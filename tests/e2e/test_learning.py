"""Learning is real: a trained version beats the version it started as, on seeds it never saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from srl_agents.cli.main import main
from srl_agents.league.standings import read_status
from srl_agents.league.store.history import LeagueStore


@pytest.mark.nightly
def test_the_quickstart_beats_its_own_start(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shorter = (
        "updates=14", "rollout.start_states=3",
        "evaluation={every: 0, bots: [], final_pairs: 48}",
    )  # fmt: skip
    overrides = [part for value in shorter for part in ("--set", value)]
    assert main(["train", "quickstart-tiny", "--out", str(run), *overrides]) == 0
    with LeagueStore(run / "league.db", mode="read") as store:
        (status,) = read_status(store)
        trained = {agent.agent_id for agent in store.agents() if agent.step}
        seeds = {spec.seed for spec, _ in store.matches(split="train")}
        assert not seeds & {spec.seed for spec, _ in store.matches(split="eval")}
    assert len(status.gains) == 2
    for agent, gain in status.gains.items():
        assert agent in trained
        assert gain.clusters == 48
        assert gain.low > 0, f"{agent}: {gain}"
