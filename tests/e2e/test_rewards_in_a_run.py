"""Sections `rewards` and `wrappers` in a real run: credit uses them, and every match is played with them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import srl_envs
from srl_agents.metrics import ConsoleView
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchResult, MatchSpec
from srl_agents.rollouts.transcripts import TRANSCRIPTS, read_transcripts
from srl_agents.training.loop.run import LeagueTraining
from tests.training_runs import metrics_of

RECIPE = """
name: rewarded
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
wrappers: [{kind: HistoryWindow, turns: 1}]
updates: 1
learners: [alice]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 4, max_new_tokens: 6}
opponents: {mirror: 1, live: 0, past: 0}
training: {learning_rate: 0.01}
evaluation: {every: 0, final_pairs: 1, bots: []}
"""
REWARDS = """
rewards:
  weights: {format: 0.5, pieces: 0.1}
  terms:
    tidy: {rubric: action-alone, weight: 0.2}
    short: {kind: overlong, buffer: 4, weight: 0.3}
    cost: {kind: token_cost, weight: 0.01}
"""


ONLY_ACTION = re.compile(r"\s*<action>[^<]*[^<\s][^<]*</action>\s*")


class Heard:
    """An experience that keeps what it was given and what it made of it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.episodes: list[Episode] = []
        self.policy = ""
        self.batch_made: Any = None

    def batch(self, learner: str, episodes: Sequence[Episode], policy: str) -> Any:
        self.episodes, self.policy = list(episodes), policy
        self.batch_made, values = self.inner.batch(learner, episodes, policy)
        return self.batch_made, values


class Run:
    """One run, and what its only update learned from."""

    def __init__(self, folder: Path, text: str) -> None:
        folder.mkdir()
        path = folder / "asked.yaml"
        path.write_text(text)
        recipe = load(LeagueRecipe, path)
        self.folder = folder / "run"
        with ConsoleView("run", 1, Console(quiet=True)) as view:
            training = LeagueTraining(recipe, self.folder, view)
            try:
                self.heard = Heard(training.parts.experience["alice"])
                experience: Any = training.parts.experience
                experience.update(dict.fromkeys(recipe.learners, self.heard))
                training.run()
                self.matches: list[tuple[MatchSpec, MatchResult]] = list(
                    training.parts.store.matches()
                )
            finally:
                training.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """With rewards, and the same without."""
    folder = tmp_path_factory.mktemp("runs")
    return Run(folder / "with", RECIPE + REWARDS), Run(folder / "without", RECIPE)


def expected(episode: Episode, seat: int) -> float:
    """The reward of the recipe above, added up by hand from the game's outcome and the token counts."""
    own = episode.trajectories[seat]
    lengths = [len(turn.completion_ids) for turn in own.turns]
    tidy = [ONLY_ACTION.fullmatch(turn.reply) is not None for turn in own.turns]
    overlong = [-max(0, tokens - 2) / 4 for tokens in lengths]
    return float(
        own.components["outcome"]
        + 0.5 * own.components["format"]
        + 0.1 * own.components["pieces"]
        + 0.2 * np.mean(tidy)
        + 0.3 * np.mean(overlong)
        - 0.01 * sum(lengths)
    )


@pytest.mark.slow
def test_advantages_are_those_that_the_recipe_says(runs: tuple[Run, Run]) -> None:
    heard = runs[0].heard
    groups: dict[tuple[str, int, int], list[tuple[Episode, float]]] = defaultdict(list)
    for episode in heard.episodes:
        for seat in episode.spec.learner_seats:
            key = (episode.spec.schedule, episode.spec.number, seat)
            groups[key].append((episode, expected(episode, seat)))
    by_hand: list[float] = []
    for (_, _, seat), attempts in groups.items():
        mean = float(np.mean([reward for _, reward in attempts]))
        by_hand += [
            reward - mean
            for episode, reward in attempts
            for turn in episode.trajectories[seat].turns
            if reward < mean or not turn.invalid
        ]
    batch = heard.batch_made
    assert len(by_hand) > 10
    assert np.ptp(by_hand) > 0.05
    made = batch.advantages_RT[:, 0]
    assert np.sort(made) == pytest.approx(np.sort(by_hand), abs=1e-6)


@pytest.mark.slow
def test_ratings_and_the_store_hear_nothing_of_rewards(runs: tuple[Run, Run]) -> None:
    """The update plays the same matches, whatever is made of them; only what is learned differs."""
    with_rewards, without = (
        [result for spec, result in run.matches if spec.split == "train"] for run in runs
    )
    assert with_rewards == without
    (rewarded,), (plain,) = (metrics_of(run.folder) for run in runs)
    ours, theirs = rewarded["learners"]["alice"], plain["learners"]["alice"]
    for name in ("reward", "outcome", "format", "reward/std"):
        assert ours[name] == theirs[name]
    parts = {f"reward/{name}" for name in ("outcome", "format", "pieces", "tidy", "short", "cost")}
    assert parts | {"reward/credited"} <= set(ours)
    assert not parts & set(theirs)
    assert ours["reward/credited"] == pytest.approx(sum(ours[name] for name in parts))
    assert ours["reward/credited"] != pytest.approx(ours["reward"])
    assert ours["grad_norm"] != theirs["grad_norm"]


@pytest.mark.slow
def test_wrappers_are_around_every_match_and_records_replay(runs: tuple[Run, Run]) -> None:
    run = runs[0]
    wrappers = [{"kind": "HistoryWindow", "turns": 1, "reply_chars": 300}]
    assert {spec.schedule.partition("/")[0] for spec, _ in run.matches} == {"train", "eval"}
    assert all(spec.options["wrappers"] == wrappers for spec, _ in run.matches)
    shown = [t.observation for e in run.heard.episodes for t in e.trajectories[0].turns[1:]]
    assert shown
    assert all("Your last 1 turns, oldest first." in text for text in shown)
    transcripts = read_transcripts(run.folder / TRANSCRIPTS)
    claimed = {spec.match_id: result for spec, result in run.matches}
    assert transcripts
    for match_id, transcript in transcripts.items():
        assert transcript.options["wrappers"] == wrappers
        assert srl_envs.replay(transcript).digest == claimed[match_id].trajectory_sha256
