"""A run that ends where its tokens do: by itself, after a stop, and beside runs that share its budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError
from tests.faults.test_interrupted_runs import contents, recipe_of
from tests.training_runs import metrics_of, state_of, train_run

pytestmark = pytest.mark.slow
UPDATES = 3


def recipe_with(folder: Path, updates: int = UPDATES, **stop: Any) -> LeagueRecipe:
    given = {"updates": updates, "checkpoint_every": 1, "stop": stop or None}
    return load(LeagueRecipe, recipe_of("one", folder), given)


def tokens_by_update(run: Path) -> list[int]:
    """Tokens of an update's matches, as the store has them."""
    with LeagueStore(run / "league.db", "read") as store:
        lengths = [sum(result.tokens) for _, result in store.matches(split="train")]
    of_one = 2 * 4  # start states, attempts
    return [sum(lengths[n : n + of_one]) for n in range(0, len(lengths), of_one)]


@pytest.fixture(scope="module")
def unlimited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unlimited")
    train_run(recipe_with(folder), folder / "run")
    return folder / "run"


def test_the_update_that_reaches_a_limit_is_the_last_and_a_stopped_run_ends_alike(
    unlimited: Path, tmp_path: Path
) -> None:
    per_update = tokens_by_update(unlimited)
    assert len(per_update) == UPDATES
    recipe, run = recipe_with(tmp_path, tokens=per_update[0] + 1), tmp_path / "run"
    train_run(recipe, run)

    records = metrics_of(run)
    assert records == metrics_of(unlimited)[:2]
    spent = [record["run"]["spent/tokens"] for record in records]
    assert spent == [per_update[0], sum(per_update[:2])]
    assert all(record["run"]["spent/trained_tokens"] > 0 for record in records)
    assert list((run / "adapters").iterdir())
    with LeagueStore(run / "league.db", "read") as store:
        assert list(store.matches(schedule=FINAL))

    again = tmp_path / "again"
    with pytest.raises(KeyboardInterrupt):
        train_run(recipe, again, interrupt_after=1)
    train_run(recipe, again)
    assert contents(again) == contents(run)
    train_run(recipe, again)  # nothing is left to do
    assert contents(again) == contents(run)
    last = "checkpoints/step-00000002"
    assert state_of(again / last) == state_of(run / last)


def test_runs_share_a_budget_and_none_begins_when_it_is_spent(
    unlimited: Path, tmp_path: Path
) -> None:
    shared: dict[str, Any] = {"budget": str(tmp_path / "budget.json")}
    shared["tokens"] = tokens_by_update(unlimited)[0] + 1
    train_run(recipe_with(tmp_path, updates=1, **shared), tmp_path / "first")
    train_run(recipe_with(tmp_path, **shared), tmp_path / "second")
    assert len(metrics_of(tmp_path / "second")) == 1
    with pytest.raises(ConfigError, match=r"budget\.json is spent: tokens .* by 2 runs"):
        train_run(recipe_with(tmp_path, **shared), tmp_path / "third")
    assert not (tmp_path / "third").exists()


def test_seconds_of_processors_end_a_run(tmp_path: Path) -> None:
    train_run(recipe_with(tmp_path, cpu_s=1e-3), tmp_path / "run")
    assert len(metrics_of(tmp_path / "run")) == 1
