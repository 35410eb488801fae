"""Rows of several learners in one batch give every learner the gradient of a pass of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.memory.many_adapters import rows_of, use_float64
from srl_agents.models.base_model import BaseModel
from srl_agents.records import TrainingBatch
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.mixed_gradients import mixed_gradients
from srl_agents.trainers.prefix_sharing import worth_mixing
from srl_envs.errors import ConfigError
from tests.srl_agents.trainers.conftest import sample_batch

ROWS = {"alice": 5, "bob": 1, "carol": 12}


def learners_of(base: BaseModel, **more: Any) -> dict[str, GRPOLearner]:
    made = {}
    for seed, name in enumerate(ROWS):
        made[name] = GRPOLearner(name, base, GRPOSettings(micro_batch_rows=8, **more), 1.0, seed)
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for key, parameter in base.trainable_parameters(name).items():
                if "lora_B" in key:
                    parameter.normal_(std=0.1, generator=draw)
    return made


def batches_of(base: BaseModel) -> dict[str, TrainingBatch]:
    return {name: sample_batch(base, name, rows=rows, seed=rows) for name, rows in ROWS.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"variant": "grpo"},
        {"variant": "rloo"},
        {"loss_type": "dapo", "entropy_coef": 0.1, "log_probabilities": "chunked"},
        {"variant": "gspo", "gradient_checkpointing": True},
    ],
    ids=lambda more: "-".join(map(str, more.values())),
)
def test_mixed_gradients_are_those_of_separate_passes(
    base: BaseModel, more: dict[str, Any]
) -> None:
    with torch.no_grad():  # logits as small as a real model's, so that rounding is
        base.model.get_base_model().lm_head.weight.mul_(0.1)
    learners, batches = learners_of(base, **more), batches_of(base)
    expected, expected_metrics = {}, {}
    for name, learner in learners.items():
        expected_metrics[name] = learner.compute_gradients(batches[name])
        expected[name] = {key: g.clone() for key, g in learner.gradients.items()}
        learner.drop_gradients()

    metrics = mixed_gradients(learners, batches)

    for name, learner in learners.items():
        assert metrics[name] == pytest.approx(expected_metrics[name], rel=1e-4, abs=1e-5)
        own = learner.gradients
        wrong = sum(float((own[key] - g).square().sum()) for key, g in expected[name].items())
        size = sum(float(g.square().sum()) for g in expected[name].values())
        assert (wrong / size) ** 0.5 < 5e-6  # either is 1e-6 from the gradient in float64


def test_in_float64_mixed_gradients_are_equal_up_to_its_rounding(base: BaseModel) -> None:
    learners = learners_of(base, log_probabilities="chunked")
    # of one length: transformers' rotations are float32, and padding moves positions
    batches = {
        name: rows_of(base, name, count, 100 * count, (9, 5)) for name, count in ROWS.items()
    }
    use_float64(base.model)
    expected = {}
    for name, learner in learners.items():
        batches[name].logprobs_RT[:] = learner.token_logprobs(batches[name], name)
        learner.compute_gradients(batches[name])
        expected[name] = {key: g.clone() for key, g in learner.gradients.items()}
        learner.drop_gradients()

    mixed_gradients(learners, batches)

    for name, learner in learners.items():
        own = learner.gradients
        wrong = max(float((own[key] - g).abs().max()) for key, g in expected[name].items())
        assert wrong < 1e-12 * max(float(g.abs().max()) for g in expected[name].values())


def test_nobody_has_stepped_and_everybody_can(base: BaseModel) -> None:
    learners, batches = learners_of(base), batches_of(base)
    before = {name: base.adapter_tensors(name) for name in learners}

    mixed_gradients(learners, batches)

    for name, learner in learners.items():
        assert all(torch.equal(t, before[name][k]) for k, t in base.adapter_tensors(name).items())
        learner.apply_gradients()
        assert any(
            not torch.equal(t, before[name][k]) for k, t in base.adapter_tensors(name).items()
        )


def test_learners_are_mixed_where_that_saves_passes(base: BaseModel) -> None:
    learners, batches = learners_of(base, share_prefixes=False), batches_of(base)

    assert set(worth_mixing(learners, batches)) == set(ROWS)  # 3 passes instead of 1 + 1 + 2
    assert worth_mixing(learners, {"carol": batches["carol"]}) == {}
    full = sample_batch(base, "carol", rows=8)
    as_alice = replace(full, learner="alice")
    assert worth_mixing(learners, {"carol": full, "alice": as_alice}) == {}  # full passes already
    for learner in learners.values():
        learner.mixes = False
    assert worth_mixing(learners, batches) == {}


def test_beside_shared_prefixes_learners_are_mixed_where_a_quarter_of_the_passes_is_less(
    base: BaseModel,
) -> None:
    learners = {}
    for seed in range(9):
        name = f"learner{seed}"
        learners[name] = GRPOLearner(name, base, GRPOSettings(micro_batch_rows=18), 1.0, seed)
        assert learners[name].sharing.shares
    batches = {name: sample_batch(base, name, rows=2, seed=1) for name in learners}
    few = dict(list(batches.items())[:4])

    assert set(worth_mixing(learners, batches)) == set(learners)  # 1 pass instead of 9
    assert worth_mixing(learners, few) == {}  # 1 instead of 4


def test_whole_weights_do_not_share_a_pass(model_folder: Path) -> None:
    base = BaseModel.load(model_folder, parameters="full", device="cpu")
    base.add_adapter("alice", seed=0)

    with pytest.raises(ConfigError, match="only LoRA adapters share a pass"):
        base.learning(["alice"])
