"""A league of two bases: trained, killed, resumed bit for bit, rated on one scale, exported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from srl_agents.checkpoints import load as load_checkpoint
from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.store.history import LeagueStore
from srl_agents.memory.devices import target_of
from srl_agents.memory.planner import plan
from srl_agents.metrics.names import WALL_CLOCK
from srl_agents.metrics.sinks import read_lines
from srl_agents.recipes.loading import load
from srl_agents.recipes.plan_description import describe
from srl_agents.recipes.sections.environment import surroundings
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.loop.state import CLOCK, FILES
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build
from tests.training_runs import metrics_of, train_run

RECIPE = """
name: two
models:
  deep: {model: tiny, learners: [alice, bob]}
  shallow: {model: tiny-shallow, learners: [carol], lora: {rank: 4, alpha: 8}}
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 3
lora: {rank: 2, alpha: 4}
coordination: {kind: federated, every: 2}
sharing: {kind: sft, every: 2, top: 2}
rollout: {start_states: 1, group_size: 4, max_new_tokens: 6}
opponents: {mirror: 0, live: 1, past: 1}
training: {learning_rate: 0.01, kl_coef: 0.1}
evaluation: {every: 2, pairs: 1, final_pairs: 1, bots: [random]}
snapshot_every: 2
checkpoint_every: 1
"""


def recipe_in(folder: Path, *settings: str, text: str = RECIPE) -> LeagueRecipe:
    path = folder / "two.yaml"
    path.write_text(text)
    return load(LeagueRecipe, path, settings)


def left_by(run: Path) -> tuple[str, list[dict[str, Any]], Mapping[str, Any]]:
    """Matches, metrics but for times, and all that the last checkpoint holds."""
    with LeagueStore(run / "league.db", mode="read") as store:
        matches = store.content_digest()
    metrics = read_lines(run / "metrics.jsonl")
    for line in metrics:
        for name in WALL_CLOCK:
            line["run"].pop(name, None)
        line["run"] = {k: v for k, v in line["run"].items() if "/" not in k}
    last = load_checkpoint(run / "checkpoints/step-00000003")
    tensors = {
        f"{group}/{name}": tensor
        for group, own in last.tensors.items()
        for name, tensor in own.items()
    }
    return matches, metrics, {"state": last.state | {FILES: {}, CLOCK: {}}, **tensors}


@pytest.mark.nightly
def test_two_bases_meet_are_killed_resumed_bit_for_bit_rated_and_exported(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train_run(recipe, whole, 3, killed=killed)
    train_run(recipe, killed)

    (matches, metrics, expected), (same, found_metrics, found) = left_by(whole), left_by(killed)
    assert same == matches
    assert found_metrics == metrics
    assert found["state"] == expected["state"]
    assert all(
        torch.equal(found[key], tensor) for key, tensor in expected.items() if key != "state"
    )
    with LeagueStore(whole / "league.db", mode="read") as store:
        agents = {agent.agent_id: agent for agent in store.agents()}
        seats = {frozenset(spec.seats) for spec, _ in store.matches(split="train")}
        rated = store.pairs("connect_four-v0", options=recipe.games[0].options, schedule=FINAL)
    assert {"deep", "shallow", "bot:random"} <= set(rated.agents)
    assert {agent.parent for agent in agents.values() if agent.parent} == {"deep", "shallow"}
    lineages = {frozenset(name.partition("@")[0] for name in pair) for pair in seats}
    assert {"alice", "carol"} in lineages or {"bob", "carol"} in lineages
    ranks = {
        name: json.loads((whole / f"adapters/{name}/adapter_config.json").read_text())["r"]
        for name in recipe.learners
    }
    assert ranks == {"alice": 2, "bob": 2, "carol": 4}
    assert "tiny-shallow" in (whole / "adapters/carol/README.md").read_text()
    shared = [
        line["learners"]["carol"] for line in metrics if "shared" in line["learners"]["carol"]
    ]
    assert any(key.startswith("shared_from:") for line in shared for key in line)


@pytest.mark.slow
def test_bases_that_take_turns_in_memory_learn_the_same(tmp_path: Path) -> None:
    settings = ("updates=1", "sharing=null", "evaluation.every=0")
    free, bound = tmp_path / "free", tmp_path / "bound"
    train_run(recipe_in(tmp_path, *settings), free)
    train_run(recipe_in(tmp_path, *settings, "memory.budget_gib=8"), bound)

    assert metrics_of(bound) == metrics_of(free)
    for name in ("alice", "carol"):
        place = f"checkpoints/step-00000001/{name}.adapter.safetensors"
        own, expected = load_file(bound / place), load_file(free / place)
        assert all(torch.equal(own[key], tensor) for key, tensor in expected.items())
    roles = {
        line["phase"]: line["roles"]
        for line in map(json.loads, (bound / "memory.jsonl").read_text().splitlines())
    }
    assert "base of shallow" not in roles["gradients: deep"]
    assert {"base of deep", "base of shallow"} <= set(roles["play"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ("models.deep.learners=1",),
            "federated.*different bases cannot be merged.*deep has deep_1",
        ),
        (("model=tiny",), "model: .*one of the two"),
        (("models.shallow.learners=[alice]",), "a name twice"),
        (("models.shallow.learners=[deep]",), "names of bases, too"),
        (("models.shallow.model=tyni",), "models.shallow: no model 'tyni'"),
        (("models.shallow.parameters=full",), "models.shallow: lora: parameters 'full'"),
        (("sharing.kind=dpo",), "sharing.kind 'dpo', models"),
        (("reward_model={weight: 0.1}",), "reward_model, models"),
        (("init_adapter=some/folder",), "init_adapter: an adapter is of one base"),
        (("learners=[zoe]",), "learners: with `models` each base names its own"),
    ],
)
def test_what_several_bases_cannot_do_is_refused_by_name(
    settings: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=f"(?s){words}"):
        recipe_in(tmp_path, *settings)


def test_learners_are_counted_and_named() -> None:
    one = {"name": "n", "env": "nim-v0"}
    counted = build(LeagueRecipe, {**one, "model": "tiny", "learners": 3}, "recipe")
    assert counted.learners == ("alice", "bob", "carol")
    on = {"deep": {"model": "tiny", "learners": 2}, "small": {"model": "tiny-shallow"}}
    several = build(LeagueRecipe, {**one, "models": on}, "recipe")
    assert several.learners == ("deep_1", "deep_2", "small_1")
    wrongs: tuple[object, ...] = (0, 9, [])
    for wrong in wrongs:
        with pytest.raises(ConfigError, match="learners"):
            build(LeagueRecipe, {**one, "model": "tiny", "learners": wrong}, "recipe")


def test_a_plan_of_two_bases_holds_both_in_play_and_lets_one_wait_under_a_budget(
    tmp_path: Path,
) -> None:
    target = target_of("24GB")
    made, turns = (
        plan(describe(recipe_in(tmp_path, *more), accelerator=True), target)
        for more in ((), ("memory.budget_gib=8",))
    )
    parts = {phase.name: set(phase.parts) for phase in made.phases}
    assert {"base of deep", "base of shallow"} <= parts["rollout"]
    assert {"base of deep", "base of shallow"} <= parts["train"]
    waits = {phase.name: set(phase.parts) for phase in turns.phases}["train"]
    assert len(waits & {"base of deep", "base of shallow"}) == 1
    assert made.numbers()["bases"]["shallow"]["learners"] == 1


ROLES = """
name: roles
models:
  deep: {{model: tiny, learners: [alice]}}
  shallow: {{model: tiny-shallow, learners: [bob]}}
env: {env}
updates: 1
lora: {{rank: 2, alpha: 4}}
rollout: {{start_states: 1, group_size: 2, max_new_tokens: 6}}
survival: {{allow_nothing_learned: true}}
evaluation: {{every: 1, pairs: 1, final_pairs: 1, bots: [random]}}
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("env", "seats"),
    [
        ("kuhn_poker-v0", {"alice": [0], "bob": [1]}),
        ("schema_relay-v0", {"alice": [0, 2], "bob": [1]}),
    ],
)
def test_roles_are_adapters_of_their_own_whose_seats_are_theirs_alone(
    env: str, seats: dict[str, list[int]], tmp_path: Path
) -> None:
    recipe = recipe_in(tmp_path, f"seats={json.dumps(seats)}", text=ROLES.format(env=env))
    train_run(recipe, tmp_path / "run")
    with LeagueStore(tmp_path / "run/league.db", mode="read") as store:
        found = [spec for spec, _ in store.matches()]
    held: dict[str, set[int]] = {"alice": set(), "bob": set()}
    for spec in found:
        for seat, name in enumerate(spec.seats):
            held.get(name.partition("@")[0], set()).add(seat)
    assert held == {name: set(own) for name, own in seats.items()}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("seats={alice: [0], bob: [0]}", r"no main may hold seat \[1\] of kuhn_poker"),
        ("seats={alice: [2]}", "kuhn_poker-v0 has seats 0 to 1"),
        ("seats={zoe: [0]}", r"seats: \['zoe'\] are not learners"),
        ("teams=[0, 0, 1]", "give one team per seat of 2"),
        ("rewards={weights: {resource: 0.1}}", "has no scarce pool"),
    ],
)
def test_seats_that_do_not_fit_the_game_are_refused_by_name(
    settings: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        recipe_in(tmp_path, settings, text=ROLES.format(env="kuhn_poker-v0"))


def test_the_share_of_a_scarce_pool_can_be_paid_under_one_name(tmp_path: Path) -> None:
    for env, name in (("commons-v1", "share"), ("blotto-v0", "fields_won")):
        text = ROLES.format(env=env)
        recipe = recipe_in(tmp_path, "rewards={weights: {resource: 0.25}}", text=text)
        around = surroundings(recipe.env, recipe.env_options, recipe.wrappers)
        assert recipe.rewards is not None
        weights = recipe.rewards.check(
            around.paid, around.statistics, around.references, 6, resource=around.resource
        )
        assert weights == {"outcome": 1.0, "format": 1.0, name: 0.25}
        with pytest.raises(ConfigError, match="give one of the two"):
            recipe_in(tmp_path, f"rewards={{weights: {{resource: 0.25, {name}: 1}}}}", text=text)
