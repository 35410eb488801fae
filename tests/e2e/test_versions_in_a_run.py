"""One id, one player: whatever is trained meanwhile, a version writes the same replies or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from srl_agents.metrics import ConsoleView
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec, WeightVersion
from srl_agents.training.loop.phases import Update
from srl_agents.training.loop.run import LeagueTraining
from srl_envs.errors import ConfigError, StoreError
from tests.commit_cases import nightly_but
from tests.training_runs import metrics_of, train_run

pytestmark = pytest.mark.slow

RECIPE = """
name: versions
model: tiny
env: math_duel-v0
env_options: {difficulty: 2, problems: 1, max_retries: 0}
updates: 2
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 4, max_new_tokens: 8}
opponents: {mirror: 0.5, live: 1, past: 1}
training: {learning_rate: 0.003}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 1
checkpoint_every: 1
"""


def recipe_of(folder: Path, *settings: str) -> LeagueRecipe:
    path = folder / "versions.yaml"
    path.write_text(RECIPE)
    return load(LeagueRecipe, path, settings)


@pytest.fixture(params=["lora", "full"])
def training(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LeagueTraining]:
    settings = (
        ["parameters=full", "lora={}", "training.learning_rate=1e-4"]
        if request.param == "full"
        else []
    )
    recipe = recipe_of(tmp_path, *settings)
    training = LeagueTraining(recipe, tmp_path / "run", ConsoleView("run", 2, Console(quiet=True)))
    yield training
    training.close()


def update(training: LeagueTraining, *phases: str) -> None:
    """Go through some phases of the next update."""
    number = training.done + 1
    made = Update(number=number, sinks=())
    for name in phases or training.phases:
        training.phases[name](made)
    training.done = number


def tokens(episodes: list[Episode]) -> list[tuple[str, tuple[int, ...], tuple[float, ...]]]:
    return [
        (turn.version, turn.completion_ids, turn.logprobs)
        for episode in episodes
        for trajectory in episode.trajectories
        for turn in trajectory.turns
    ]


def test_one_match_id_gives_one_sequence_of_tokens(training: LeagueTraining) -> None:
    """Before and after training, as long as the engine keeps the versions."""
    parts = training.parts
    specs = parts.league.training_matches(0, 2, 4)
    first = parts.matches.play("first", specs)
    written = {(t.policy, turn.version) for e in first for t in e.trajectories for turn in t.turns}
    assert all(version == ("" if policy == "tiny" else policy) for policy, version in written)
    assert tokens(parts.matches.play("again", specs)) == tokens(first)
    update(training)
    frozen = [str(version) for version in parts.league.versions.values()]
    assert set(frozen) <= set(parts.league.past)
    again = [replace(spec, seats=tuple(frozen), learner_seats=()) for spec in specs]
    before = tokens(parts.matches.play("frozen", again))
    update(training)
    assert {*map(str, parts.league.versions.values())} != {*frozen}
    assert tokens(parts.matches.play("frozen, later", again)) == before


def test_a_version_that_nobody_keeps_is_refused_and_never_played_with_other_weights(
    training: LeagueTraining,
) -> None:
    parts = training.parts
    specs = parts.league.training_matches(0, 2, 4)
    gone = parts.league.live("alice")
    update(training, "play", "judge", "credit", "update", "publish")
    assert parts.league.live("alice") != gone
    with pytest.raises(ConfigError, match="no policy 'alice@0-"):
        parts.matches.play("gone", specs)


def test_the_store_refuses_a_second_result_of_one_match(training: LeagueTraining) -> None:
    parts = training.parts
    (spec, *_) = parts.league.training_matches(0, 2, 4)
    (episode,) = parts.matches.play("once", [spec])
    other = replace(episode.result(), outcomes=(1.0, -1.0), turns=99)
    with pytest.raises(StoreError, match="One spec gave two results"):
        parts.store.report(spec, other)


def test_rows_name_the_version_that_wrote_them(training: LeagueTraining) -> None:
    parts = training.parts
    made = Update(number=1, sinks=())
    for name in ("play", "judge", "credit"):
        training.phases[name](made)
    for name, batch in made.batches.items():
        assert set(batch.versions) == {parts.league.versions[name]}  # type: ignore[attr-defined]
        assert made.learners[name]["version_lag"] == 0


def test_a_run_through_files_is_the_run_through_memory(tmp_path: Path) -> None:
    for kind in ("shared", "files"):
        recipe = recipe_of(tmp_path, f"transport={kind}")
        train_run(recipe, tmp_path / kind)
    assert metrics_of(tmp_path / "files") == metrics_of(tmp_path / "shared")
    published = {WeightVersion.parse(path.name) for path in (tmp_path / "files/versions").iterdir()}
    assert {version.learner for version in published} == {"alice", "bob"}
    assert max(version.number for version in published) == 2


def other_draws(root_seed: int, spec: MatchSpec, _: object) -> tuple[int, int]:
    return (root_seed + 1, int(spec.match_id[:15], 16))


@pytest.mark.parametrize("order", nightly_but({"free"}, ["exact", "free"]))
def test_a_killed_run_goes_on_where_matches_need_not_end_alike(
    order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other draws stand for other rounding; update 2 is played again, under the ids of the first time."""
    not_chosen = "exact" if order == "free" else "free"
    monkeypatch.delattr(f"srl_agents.rollouts.rollouts.play_{not_chosen}")
    recipe, run = recipe_of(tmp_path, f"rollout.order={order}"), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train_run(recipe, run, interrupt_after=2)
    monkeypatch.setattr("srl_agents.rollouts.match_queue.match_key", other_draws)
    if order == "exact":
        with pytest.raises(StoreError, match="One spec gave two results"):
            train_run(recipe, run)
        return
    train_run(recipe, run)
    assert [record["update"] for record in metrics_of(run)] == [1, 2]


def test_a_finished_run_goes_on_when_it_is_given_more_updates(tmp_path: Path) -> None:
    train_run(recipe_of(tmp_path, "updates=1"), tmp_path / "run")
    train_run(recipe_of(tmp_path, "rollout.batch_rows=3"), tmp_path / "run")
    assert [record["update"] for record in metrics_of(tmp_path / "run")] == [1, 2]
    with pytest.raises(ConfigError, match=r"updates=1: the run in .* has 2 already"):
        train_run(recipe_of(tmp_path, "updates=1"), tmp_path / "run")
