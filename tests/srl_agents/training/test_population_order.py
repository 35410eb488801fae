"""A population plays in the order that its recipe names, with the same seeds in both."""

from __future__ import annotations

from pathlib import Path

import pytest

from srl_agents.recipes.population_settings import AgentSettings, PopulationRecipe
from srl_agents.records import MatchResult
from srl_agents.training.population.rounds import PopulationRun


def played(order: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[MatchResult]:
    """Results of a run in which the other order cannot be played."""
    other = "free" if order == "exact" else "exact"
    recipe = PopulationRecipe(
        name="bots",
        env="nim-v0",
        agents=(AgentSettings(agent="strong", role="main"), AgentSettings(agent="random")),
        matches=8,
        batch=4,
        order=order,  # type: ignore[arg-type]
    )
    with monkeypatch.context() as patch:
        patch.delattr(f"srl_agents.rollouts.rollouts.play_{other}")
        run = PopulationRun(recipe, folder)
        try:
            run.run()
            return [result for _, result in run.store.matches()]
        finally:
            run.close()


def test_both_orders_play_the_same_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = played("exact", tmp_path / "exact", monkeypatch)
    free = played("free", tmp_path / "free", monkeypatch)
    assert len(exact) >= 8
    assert sorted(free, key=lambda r: r.match_id) == sorted(exact, key=lambda r: r.match_id)
