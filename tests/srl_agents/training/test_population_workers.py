"""Workers of a population that die lose nothing."""

from __future__ import annotations

import pytest

from srl_agents.recipes.population_settings import AgentSettings, PopulationRecipe
from srl_agents.records import MatchSpec
from srl_agents.training.population.workers import WorkerPool


# Python's own tracker of shared memory, which the tests of a process have in common, may have been killed.
@pytest.mark.filterwarnings("ignore:resource_tracker")
def test_a_worker_that_died_while_it_had_nothing_to_do_is_replaced() -> None:
    recipe = PopulationRecipe(
        name="bots",
        env="nim-v0",
        agents=(AgentSettings(agent="random"), AgentSettings(agent="middle")),
    )
    spec = MatchSpec(
        env_id="nim-v0", seed=1, split="eval", seats=("bot:random", "bot:middle"), schedule="s"
    )
    pool = WorkerPool(recipe, 1)
    try:
        (name,) = pool.idle()
        pool._workers[0].process.kill()
        pool._workers[0].process.join()
        pool.give(name, [spec])
        assert pool.collect(5.0) == [(name, None)]
        (other,) = pool.idle()
        pool.give(other, [spec])
        ((worker, played),) = pool.collect(60.0)
        assert worker == other != name
        assert played is not None
        assert [result.match_id for _, result in played] == [spec.match_id]
    finally:
        pool.close()
