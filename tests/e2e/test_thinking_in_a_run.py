"""A small model that thinks, trained end to end: budgets, masks, memory and records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from srl_agents.agents.prompt_file import PROMPT, read_prompt
from srl_agents.metrics import ConsoleView
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.prompt import EarlierTurn
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode
from srl_agents.training.folder.layout import SNAPSHOTS
from srl_agents.training.loop.run import LeagueTraining
from tests import thinking_model
from tests.training_runs import metrics_of

RECIPE = """
name: thinking
model: {model}
env: connect_four-v0
env_options: {{rows: 4, cols: 4, k: 3}}
updates: 1
snapshot_every: 1
learners: [alice]
lora: {{rank: 2, alpha: 4}}
prompt:
  template_arguments: {{enable_thinking: true}}
  thoughts: {{budget: 12}}
  memory: {{tokens: 200, thoughts: {remembers}}}
rollout: {{start_states: {states}, group_size: 4, max_new_tokens: 6, order: {order}}}
opponents: {{mirror: 1, live: 0, past: 0}}
training: {{algorithm: {algorithm}, learning_rate: 0.01}}
credit: {{train_thoughts: {train}, level: turn}}
rewards:
  terms:
    thinking: {{kind: thought_cost, weight: 0.01}}
    cut: {{kind: cut_thoughts, weight: 0.5}}
evaluation: {{every: 0, final_pairs: 1, bots: []}}
"""


class Heard:
    """An experience that keeps what it was given and what it made of it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.episodes: list[Episode] = []
        self.made: Any = None

    def batch(self, learner: str, episodes: Sequence[Episode], policy: str) -> Any:
        self.episodes = list(episodes)
        self.made, values = self.inner.batch(learner, episodes, policy)
        return self.made, values


def trained(folder: Path, **said: Any) -> tuple[LeagueRecipe, Heard, Path]:
    model = thinking_model.build(folder / "model")
    path = folder / "asked.yaml"
    path.write_text(RECIPE.format(model=model, **said))
    recipe = load(LeagueRecipe, path)
    with ConsoleView("run", 1, Console(quiet=True)) as view:
        training = LeagueTraining(recipe, folder / "run", view)
        try:
            heard = Heard(training.parts.experience["alice"])
            experience: Any = training.parts.experience
            experience.update(dict.fromkeys(recipe.learners, heard))
            training.run()
        finally:
            training.close()
    return recipe, heard, folder / "run"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "algorithm", "train", "remembers", "states"),
    [
        ("exact", "grpo", "true", "false", 2),
        pytest.param("free", "ppo", "false", "true", 1, marks=pytest.mark.nightly),
    ],
)
def test_a_model_that_thinks_is_trained_as_the_recipe_says(
    tmp_path: Path, order: str, algorithm: str, train: str, remembers: str, states: int
) -> None:
    said = {"order": order, "algorithm": algorithm, "train": train, "remembers": remembers}
    recipe, heard, run = trained(tmp_path, states=states, **said)
    chat = ChatTokenizer.load(tmp_path / "model", recipe.prompt.whole())
    forced = 0
    for episode in heard.episodes:
        for trajectory in episode.trajectories:
            earlier: list[EarlierTurn] = []
            for turn in trajectory.turns:
                own = turn.thought_tokens - turn.forced_tokens
                assert 1 <= own <= 12
                assert len(turn.completion_ids) - turn.thought_tokens <= 6
                assert "</think>" not in turn.thoughts
                reply = chat.decode(turn.completion_ids[turn.thought_tokens :])
                assert turn.reply == reply
                assert turn.prompt_ids == chat.encode_prompt(turn.observation, (), tuple(earlier))
                earlier.append(
                    EarlierTurn(turn.observation, turn.completion_ids, turn.thought_tokens)
                )
                cut = -0.5 * (turn.forced_tokens > 0) / len(trajectory.turns)
                assert turn.components["thinking"] == pytest.approx(-0.01 * turn.thought_tokens)
                assert turn.components["cut"] == pytest.approx(cut)
                forced += turn.forced_tokens > 0
    assert forced, "no budget was used up"
    batch = heard.made
    turns = [u for e in heard.episodes for t in e.trajectories for u in t.turns]
    by_tokens = {(u.prompt_ids, u.completion_ids): u for u in turns}
    for row in range(batch.rows):
        said = batch.completion_mask_RT[row]
        prompt = tuple(batch.prompt_ids_RP[row][batch.prompt_mask_RP[row]].tolist())
        turn = by_tokens[prompt, tuple(batch.completion_ids_RT[row][said].tolist())]
        learned = np.array(turn.learned(thoughts=train == "true"))
        assert (batch.learned_RT[row][said] == learned).all()
        assert not batch.advantages_RT[row][said][~learned].any()
    values = metrics_of(run)[0]["learners"]["alice"]
    assert values["thought_tokens"] > 1
    assert 0 < values["cut_thoughts"] <= 1
    if algorithm == "grpo":  # ppo's is that of its later passes, too
        assert values["sampler_kl"] < 1e-3
    adapter = max((run / SNAPSHOTS).glob("alice@*"))
    assert read_prompt(adapter) == recipe.prompt
    assert json.loads((adapter / PROMPT).read_text())["thoughts"]["budget"] == 12
