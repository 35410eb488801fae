"""A recipe placed otherwise is the same run: weights and results are equal bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from safetensors.torch import load_file

from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.ahead.launch import GENERATION_LOG
from srl_agents.training.folder.layout import SHARED_BASE
from tests.training_runs import train_run

pytestmark = pytest.mark.slow

RECIPE = """
name: placed
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 2
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 1, group_size: 3, max_new_tokens: 6}
opponents: {mirror: 0, live: 1, past: 1}
training: {learning_rate: 0.003}
credit: {importance_cap: 2.0}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 2
checkpoint_every: 2
"""
BESIDE = "asynchronous={ahead: 1, max_staleness: 1}"
Trained = tuple[dict[str, torch.Tensor], dict[str, object]]
Train = Callable[..., Trained]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Trains a placement; returns both adapters and what every match came to."""

    def once(*settings: str, recipe: str) -> tuple[Trained, str]:
        """A training, and the log of its generation process if that process ended before it."""
        folder = tmp_path_factory.mktemp("placed")
        (folder / "r.yaml").write_text(recipe)
        run = folder / "run"
        training = train_run(load(LeagueRecipe, folder / "r.yaml", ("device=cpu", *settings)), run)
        weights = {
            f"{name} {key}": tensor
            for name in ("alice", "bob")
            for key, tensor in load_file(
                run / f"checkpoints/step-00000002/{name}.adapter.safetensors"
            ).items()
        }
        with LeagueStore(run / "league.db", mode="read") as store:
            results: dict[str, object] = {
                spec.match_id: result.outcomes for spec, result in store.matches()
            }
        assert not (run / SHARED_BASE).exists()
        process = training.parts.process
        lived = process is None or process.starts == 1
        return (weights, results), "" if lived else f"ended: {(run / GENERATION_LOG).read_text()}"

    def trained(*settings: str, recipe: str = RECIPE) -> Trained:
        """Undisturbed: the rest of an order is played in a smaller batch, which rounds otherwise."""
        run, fault = once(*settings, recipe=recipe)
        if fault:
            print(fault)
            run, fault = once(*settings, recipe=recipe)
            assert not fault
        return run

    return trained


def differences(one: Trained, other: Trained) -> list[str]:
    """What is not equal bit for bit, in words, so that a failure on another machine can be understood."""
    (weights, results), (other_weights, other_results) = one, other
    lines = [
        f"{key} by {(tensor - other_weights[key]).abs().max():g}"
        for key, tensor in weights.items()
        if not torch.equal(tensor, other_weights[key])
    ]
    for match in sorted(results.keys() | other_results.keys()):
        if results.get(match) != other_results.get(match):
            lines.append(f"match {match}: {results.get(match)} and {other_results.get(match)}")
    return lines


@pytest.mark.nightly
def test_synchronous_placements_are_one_run(train: Train) -> None:
    here = train()
    assert any(tensor.abs().max() > 1e-4 for key, tensor in here[0].items() if "lora_B" in key)
    for settings in (
        (
            "placement=colocated",
            "memory.budget_gib=8",
        ),  # its copy of the base leaves and comes back
        ("placement=disaggregated",),
    ):
        assert not differences(here, train(*settings)), settings


@pytest.mark.nightly
def test_two_bases_that_another_process_plays_are_one_run(train: Train) -> None:
    one = "model: tiny\n", "learners: [alice, bob]\n"
    two = "models: {deep: {model: tiny, learners: [alice]}, flat: {model: tiny-shallow, learners: [bob]}}\n"
    several = RECIPE.replace(one[0], two).replace(one[1], "")
    here = train(recipe=several)
    assert not differences(here, train("placement=disaggregated", recipe=several))
    beside = train(BESIDE, "placement=disaggregated", recipe=several)
    assert not differences(beside, train(BESIDE, "placement=hybrid", recipe=several))


@pytest.mark.nightly
def test_asynchronous_placements_are_one_run(train: Train) -> None:
    assert not differences(
        train(BESIDE, "placement=hybrid"), train(BESIDE, "placement=disaggregated")
    )
