"""Exchange of rollouts in real runs: killed, across bases, beside generation, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from srl_agents.metrics.names import MEANINGS
from srl_agents.recipes.loading import find_recipe, load
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError
from tests.training_runs import metrics_of, state_of, train_run

SHORT = (
    "updates=2", "rollout={start_states: 2, group_size: 4, max_new_tokens: 12}",
    "evaluation={every: 0, final_pairs: 1, bots: []}", "snapshot_every=2", "checkpoint_every=1",
)  # fmt: skip
RECIPE = """
name: exchange
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 2
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
sharing: {kind: rollouts}
rollout: {start_states: 2, group_size: 3, max_new_tokens: 8}
opponents: {mirror: 1, live: 1, past: 0}
training: {learning_rate: 0.003, iterations: 2}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 2
checkpoint_every: 1
"""


def ends(run: Path) -> dict[str, Any]:
    last = run / "checkpoints/step-00000002"
    weights = {
        path.name: {key: tensor.tolist() for key, tensor in load_file(path).items()}
        for path in sorted(last.glob("*.safetensors"))
    }
    return {"metrics": metrics_of(run), "weights": weights, "state": state_of(last)}


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text)
    return path


@pytest.mark.slow
def test_learners_of_two_bases_exchange_rows_and_a_killed_run_ends_alike(tmp_path: Path) -> None:
    recipe = load(LeagueRecipe, find_recipe("exchange-tiny"), SHORT)
    train_run(recipe, tmp_path / "whole", 1, killed=tmp_path / "run")
    train_run(recipe, tmp_path / "run")
    whole = ends(tmp_path / "whole")
    assert ends(tmp_path / "run") == whole
    windows = whole["state"]["exchange"]
    assert {name: len(own["math_duel-v0"]["0"]) for name, own in windows.items()} == {
        "alice": 2,
        "bob": 2,
    }
    for line in whole["metrics"]:
        for values in line["learners"].values():
            assert values["exchange/rows"] > 0
            assert 0 < values["exchange/ratio"] < 10
            assert {name for name in values if name.startswith("exchange/")} <= MEANINGS.keys()
    assert any(
        values["exchange/gradient_share"] > 0
        for line in whole["metrics"]
        for values in line["learners"].values()
    )


@pytest.mark.slow
def test_rows_are_exchanged_with_several_seats_turns_and_steps(tmp_path: Path) -> None:
    """Learners of one base begin alike, so in the first step no row of others is below the clip."""
    recipe = load(LeagueRecipe, written(tmp_path, RECIPE), ["training.iterations=1", "updates=1"])
    train_run(recipe, tmp_path / "run")
    (line,) = metrics_of(tmp_path / "run")
    for values in line["learners"].values():
        assert values["exchange/rows"] > 0
        assert values["exchange/below"] == values["exchange/above"] == 0.0
        assert values["exchange/ratio"] == pytest.approx(1.0, abs=1e-3)
        assert values["exchange/gradient_share"] > 0


@pytest.mark.nightly
def test_rows_are_exchanged_beside_generation(tmp_path: Path) -> None:
    more = ["asynchronous={ahead: 1, max_staleness: 2}", "transport={kind: files}"]
    train_run(load(LeagueRecipe, written(tmp_path, RECIPE), more), tmp_path / "run")
    for line in metrics_of(tmp_path / "run"):
        assert all(values["exchange/rows"] > 0 for values in line["learners"].values())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["learners=[alice]"], "one learner has no other to share with"),
        (["training={algorithm: ppo}"], "algorithm='ppo': it learns from its own rows only"),
        (["training={algorithm: dpo, reference: start}"], "algorithm='dpo'"),
        (
            ["training={variant: rloo}", "credit={estimator: leave_one_out}"],
            "loss_type='rloo': its rows do not weigh",
        ),
        (["seats={alice: [0], bob: [1]}"], "they meet no common state"),
        (["credit={mode: competitive}"], "compared by what their own seats earned"),
        (["credit={normalise: agent}"], "Use scale_advantages"),
        (["coordination={kind: synchronized}"], "equal for ever"),
        (["sharing={kind: rollouts, every: 2}"], "exchanged in every update"),
        (["sharing={kind: sft, exchange: {exponent: 2}}"], "exchanges no rows"),
        (["prompt={thoughts: {budget: 4}}"], "'rollouts' learn whole completions"),
    ],
)
def test_an_exchange_that_cannot_be_is_refused_in_one_line(
    tmp_path: Path, settings: list[str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        load(LeagueRecipe, written(tmp_path, RECIPE), settings)
    assert any(words in line for line in str(refused.value).splitlines())
