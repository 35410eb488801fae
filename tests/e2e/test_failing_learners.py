"""Learners that cannot learn: each is named, takes no step, and leaves the others as they would be."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForCausalLM

from srl_agents import checkpoints
from srl_agents.metrics import ConsoleView
from srl_agents.metrics.sinks import read_lines
from srl_agents.models.sources import random_model
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import MatchSpec
from srl_agents.training.loop.run import LeagueTraining
from srl_envs.errors import CheckpointError, ModelError
from tests.commit_cases import nightly_but

pytestmark = pytest.mark.slow

RECIPE = """
name: failing
model: tiny
env: math_duel-v0
env_options: {difficulty: 2, problems: 1, max_retries: 0}
updates: 2
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 4, max_new_tokens: 8}
opponents: {mirror: 0, live: 0, past: 1}
training: {learning_rate: 0.01}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 2
checkpoint_every: 1
"""
Matches = Callable[[int, int, int], list[MatchSpec]]
Weights = dict[str, dict[str, torch.Tensor]]


class Run:
    """A run with what it said, its learners' first and last weights, and its metrics."""

    def __init__(self, folder: Path, *settings: str) -> None:
        path = folder.with_suffix(".yaml")
        path.write_text(RECIPE)
        self.said = io.StringIO()
        self.folder = folder
        self.view = ConsoleView("run", 2, Console(file=self.said, width=200))
        self.training = LeagueTraining(load(LeagueRecipe, path, settings), folder, self.view)
        self.first = self.weights()

    def train(self) -> None:
        try:
            with self.view:
                self.training.run()
        finally:
            self.training.close()

    def weights(self) -> Weights:
        return {
            name: self.training.parts.bases[0].model.adapter_tensors(name)
            for name in ("alice", "bob")
        }

    def learners(self) -> list[dict[str, dict[str, float]]]:
        return [line["learners"] for line in read_lines(self.folder / "metrics.jsonl")]


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, other[key]) for key, tensor in one.items())


def test_weights_that_a_step_broke_are_named_before_anything_keeps_them(tmp_path: Path) -> None:
    """Finite gradients, so large that the step leaves what a float can hold."""
    run = Run(
        tmp_path / "run",
        "lora.alpha=100000",
        "training={optimizer: sgd, learning_rate: 1.0e38, max_grad_norm: 0}",
    )
    with pytest.raises(ModelError, match="learner 'alice', version 0: its weights contain NaN"):
        run.train()
    assert not (tmp_path / "run/checkpoints").exists()
    assert not (tmp_path / "run/snapshots").exists()


ENORMOUS = "{optimizer: sgd, learning_rate: 1.0e38, max_grad_norm: 0}"


@pytest.mark.parametrize(
    "settings",
    [
        ("lora.alpha=100000", f"sharing={{kind: sft, every: 1, top: 1, sft: {ENORMOUS}}}"),
        ("lora.alpha=100000", f"sharing={{kind: dpo, every: 1, top: 1, dpo: {ENORMOUS}}}"),
        ("training.learning_rate=1e38",),  # torch's own AdamW: no float32 holds the step
    ],
    ids=["sft", "dpo", "adamw"],
)
def test_weights_that_any_step_broke_are_kept_by_nothing(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    run = Run(tmp_path / "run", *settings)
    with pytest.raises(ModelError, match=r"learner '\w+', version \d: its weights contain NaN"):
        run.train()
    assert not (tmp_path / "run/checkpoints").exists()


def test_a_broken_warm_start_is_not_kept(tmp_path: Path) -> None:
    start = f"{{bots: [middle], episodes: 4, updates: 1, training: {ENORMOUS}}}"
    with pytest.raises(ModelError, match="learner 'alice', version 0: its weights contain NaN"):
        Run(tmp_path / "run", "lora.alpha=100000", f"warm_start={start}")
    assert not (tmp_path / "run/warm_start").exists()


def test_a_checkpoint_of_an_older_srl_is_refused_by_name(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.train()
    last = checkpoints.load(tmp_path / "run/checkpoints/step-00000002")
    older = {key: value for key, value in last.state.items() if key != "coordination"}
    checkpoints.save(tmp_path / "run/checkpoints", 2, last.tensors, older)
    with pytest.raises(CheckpointError, match=r"step-00000002 .* older SRL .* 'coordination'"):
        Run(tmp_path / "run")


@pytest.mark.parametrize("rate", ["1e30", "1e8"])
def test_weights_that_would_break_the_probabilities_are_kept_by_nothing(
    tmp_path: Path, rate: str
) -> None:
    """They are numbers still, but what the model made of them would not be."""
    run = Run(tmp_path / "run", f"training.learning_rate={rate}")
    with pytest.raises(
        ModelError, match=r"learner 'alice', version 0: its weights contain NaN, or are larger than"
    ):
        run.train()
    assert not (tmp_path / "run/checkpoints").exists()


def test_a_learner_whose_attempts_all_earn_the_same_keeps_its_weights(tmp_path: Path) -> None:
    """Full cooperation in a zero-sum game pays everyone nothing."""
    run = Run(tmp_path / "run", "credit={mode: cooperative, cooperation: 1, estimator: group}")
    run.train()
    assert [v.label for v in run.training.parts.league.versions.values()] == ["alice@0", "bob@0"]
    for name in ("alice", "bob"):
        assert equal(run.weights()[name], run.first[name])
        assert [line[name]["flat_groups"] for line in run.learners()] == [1, 1]
        assert [line[name]["rows"] for line in run.learners()] == [0, 0]
        message = (
            f"update 1: {name} takes no step: all attempts at each start state earned the same."
        )
        assert run.said.getvalue().count(message) == 1
    assert "update 2: alice" not in run.said.getvalue()


def silent_model(folder: Path) -> Path:
    """A model whose every reply is only its end token, whatever the prompt."""
    random_model.build(folder, hidden=32, layers=1)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        model.get_input_embeddings().weight[:, 0] = 1e3  # the final norm leaves little but this
        model.lm_head.weight.zero_()
        model.lm_head.weight[model.config.eos_token_id, 0] = 10.0
    model.save_pretrained(folder)
    return folder


def test_empty_replies_are_counted_and_named(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", f"model={silent_model(tmp_path / 'silent')}")
    run.train()
    for name in ("alice", "bob"):
        assert equal(run.weights()[name], run.first[name])
        for line in run.learners():
            assert (line[name]["reply_tokens"], line[name]["invalid_share"]) == (1, 1)
        assert (
            f"{name} takes no step: all of its replies were refused, and all" in run.said.getvalue()
        )


FEDERATED = "{kind: federated, every: 2, weights: rows, local_share: 0}"


@pytest.mark.parametrize(
    "coordination",
    nightly_but(
        [FEDERATED],
        ["{kind: independent}", FEDERATED],
    ),
)
def test_a_learner_that_never_plays_stays_and_moves_nobody(
    tmp_path: Path, coordination: str
) -> None:
    # a pass over one learner rounds otherwise than one over two, and Adam would make much of it
    alike = (
        "rollout.batch_rows=1",
        "training={optimizer: sgd, learning_rate: 0.3, max_grad_norm: 0}",
    )
    settings = (
        () if "independent" in coordination else ("coordination={kind: federated, every: 9}",)
    )
    whole = Run(tmp_path / "whole", *settings, *alike)
    whole.train()
    run = Run(tmp_path / "run", f"coordination={coordination}", *alike)
    matches: Matches = run.training.parts.league.training_matches

    def without_alice(update: int, start_states: int, attempts: int) -> list[MatchSpec]:
        return [m for m in matches(update, start_states, attempts) if m.schedule == "train/bob"]

    run.training.parts.league.training_matches = without_alice  # type: ignore[method-assign]
    run.train()
    assert [line["alice"].get("reward") for line in run.learners()] == [None, None]
    assert run.said.getvalue().count("alice takes no step: it played no valid episode") == 1
    expected = whole.weights()["bob"]
    assert not equal(expected, run.first["bob"])
    if "independent" in coordination:
        assert equal(run.weights()["alice"], run.first["alice"])
        bob = run.weights()["bob"]
        for key, tensor in expected.items():
            torch.testing.assert_close(bob[key], tensor, atol=1e-6, rtol=0)
        return
    # alice brought no rows, so the common part comes only from bob
    for name in ("alice", "bob"):
        mine = run.weights()[name]
        for key in (k for k in expected if "lora_A" in k):
            b = key.replace("lora_A", "lora_B")
            assert torch.allclose(mine[b] @ mine[key], expected[b] @ expected[key], atol=1e-6)
