"""An opponent behind an endpoint is asked no more than its budget, then leaves, and training goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import load
from srl_agents.recipes.sections.environment import surroundings
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError
from tests.chat_server import MODEL, chat_server
from tests.training_runs import train_run

RECIPE = """
name: asked
models:
  deep: {{model: tiny, learners: [alice]}}
  shallow: {{model: tiny-shallow, learners: [bob]}}
env: kuhn_poker-v0
updates: 3
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 1, group_size: 2, max_new_tokens: 4}}
opponents: {{mirror: 0, live: 0, past: 0, agents: {{"{agent}": 1}}, budgets: {{"{agent}": {budget}}}}}
survival: {{allow_nothing_learned: true}}
evaluation: {{every: 0, final_pairs: 1, bots: []}}
"""


def recipe_in(folder: Path, agent: str, budget: str) -> LeagueRecipe:
    path = folder / "asked.yaml"
    path.write_text(RECIPE.format(agent=agent, budget=budget))
    return load(LeagueRecipe, path)


@pytest.mark.slow
def test_who_has_spent_its_budget_leaves_and_the_learners_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chat_server(reply=lambda _: "<action>check</action>") as server:
        agent = f"openai:{MODEL}@{server.url}"
        # covers the first update's four matches, and not the second's once some were asked
        enough = 4 * surroundings("kuhn_poker-v0", {}, ()).most_replies + 3
        train_run(recipe_in(tmp_path, agent, f"{{requests: {enough}}}"), tmp_path / "run")
        asked = [one for one in server.requests if one["max_tokens"] > 1]
    assert 0 < len(asked) <= enough
    spent = json.loads((tmp_path / "run/budgets.json").read_text())[agent]
    assert spent["requests"] == len(asked)
    with LeagueStore(tmp_path / "run/league.db", mode="read") as store:
        met = [agent in spec.seats for spec, _ in store.matches(split="train")]
    assert met[0]
    assert not met[-1]


def test_a_budget_in_money_needs_a_price(tmp_path: Path) -> None:
    agent = f"openai:{MODEL}@http://127.0.0.1:9/v1"
    with pytest.raises(ConfigError, match="what it costs is not known"):
        recipe_in(tmp_path, agent, "{requests: 60, cost: 1.5}")
