"""Prompts read once give what prompts read once per row give."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from srl_agents.engines.base_model import BaseModel
from srl_agents.records import CriticBatch, TrainingBatch
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.policy_gradient import micro_batches
from srl_agents.trainers.ppo import PPOLearner
from srl_agents.trainers.ppo_settings import CRITICS, PPOSettings
from srl_agents.trainers.shared_prompts import share_prompts


def grouped(batch: TrainingBatch) -> TrainingBatch:
    """Rows 0, 2, 4, ... begin like row 0, rows 1, 3, 5 like row 1; the last keeps its own prompt."""
    source = np.array([row % 2 for row in range(batch.rows - 1)] + [batch.rows - 1])
    return replace(
        batch,
        prompt_ids_RP=batch.prompt_ids_RP[source],
        prompt_mask_RP=batch.prompt_mask_RP[source],
    )


def disturb(base: BaseModel, name: str) -> None:
    generator = torch.Generator().manual_seed(3)
    tensors = base.adapter_tensors(name)
    base.set_adapter_tensors(
        name, {k: v + 0.05 * torch.randn(v.shape, generator=generator) for k, v in tensors.items()}
    )


def assert_same_gradients(padded: Any, shared: Any, batch: Any) -> None:
    shared.base.set_adapter_tensors(shared.name, padded.base.adapter_tensors(padded.name))
    expected = padded.compute_gradients(batch)
    kept = {key: gradient.clone() for key, gradient in padded.gradients.items()}
    got = shared.compute_gradients(replace(batch, learner=shared.name))
    assert expected["grad_norm"] > 1e-2
    assert got == pytest.approx(expected, abs=1e-5, rel=1e-5)
    largest = max(float(gradient.abs().max()) for gradient in kept.values())
    for key, gradient in shared.gradients.items():
        torch.testing.assert_close(gradient, kept[key], atol=1e-5 * max(1, largest), rtol=1e-5)


@pytest.mark.parametrize("variant", ["dapo", "gspo", "rloo"])
def test_grpo_gradients(base: BaseModel, sample: Any, variant: Any) -> None:
    kl = 0.0 if variant == "rloo" else 0.1
    padded, shared = (
        GRPOLearner(
            name,
            base,
            GRPOSettings(variant=variant, kl_coef=kl, micro_batch_rows=4, share_prompts=share),
            temperature=1.0,
            seed=1,
        )
        for name, share in (("alice", False), ("bob", True))
    )
    disturb(base, "alice")
    batch = grouped(sample(base, "alice"))
    assert_same_gradients(padded, shared, batch)
    both = [agent.token_logprobs(batch, "alice") for agent in (padded, shared)]
    assert both[1] == pytest.approx(both[0], abs=1e-5)


@pytest.mark.parametrize("critic", CRITICS)
def test_ppo_gradients_and_values(base: BaseModel, sample: Any, critic: Any) -> None:
    padded, shared = (
        PPOLearner(
            name,
            base,
            PPOSettings(critic=critic, kl_coef=0.1, entropy_coef=0.02, share_prompts=share),
            temperature=1.0,
            seed=1,
        )
        for name, share in (("alice", False), ("bob", True))
    )
    disturb(base, "alice")
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for key, parameter in padded._extras.items():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
            other = shared._extras[key.replace("alice", "bob")]
            other.copy_(parameter)
    plain = grouped(sample(base, "alice"))
    rng = np.random.default_rng(0)
    noise = rng.normal(size=plain.completion_mask_RT.shape).astype("f4")
    arrays = {name: getattr(plain, name) for name in TrainingBatch.__dataclass_fields__}
    batch = CriticBatch(**arrays, values_RT=0.1 * noise, returns_RT=noise)
    assert_same_gradients(padded, shared, batch)
    for key, parameter in padded._extras.items():
        other = shared._extras[key.replace("alice", "bob")]
        torch.testing.assert_close(other.grad, parameter.grad, atol=1e-5, rtol=1e-4)
    assert shared.values(batch) == pytest.approx(padded.values(batch), abs=1e-5)


def test_layout_by_hand() -> None:
    """Two replies to the prompt 5 6 7, one to the prompt 8."""
    layout = share_prompts(
        torch.tensor([[5, 6, 7], [0, 0, 8], [5, 6, 7]]),
        torch.tensor([[1, 1, 1], [0, 0, 1], [1, 1, 1]]),
        torch.tensor([[10, 11], [12, 0], [13, 0]]),
        torch.tensor([[1, 1], [1, 0], [1, 0]]),
    )
    assert layout.input_ids_GL.tolist() == [[5, 6, 7, 10, 7], [8, 0, 0, 0, 0]]
    assert layout.position_ids_GL[0].tolist() == [0, 1, 2, 3, 2]
    assert layout.labels_GL.tolist() == [[-100, -100, 10, 11, 13], [12, -100, -100, -100, -100]]
    assert layout.visible_GLL[0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 0, 0, 1],
    ]
    assert layout.visible_GLL.any(dim=2).all()
    places = torch.arange(10).reshape(2, 5)
    assert layout.rows(places).tolist() == [[2, 3], [5, 0], [4, 0]]


def test_rows_of_one_prompt_stand_together(base: BaseModel, sample: Any) -> None:
    base.add_adapter("alice", 0)
    batch = grouped(sample(base, "alice", rows=9))
    parts = list(micro_batches(batch, 4, base.device, share=True))
    assert sorted(row for rows, _ in parts for row in rows) == list(range(9))
    order = [int(row) for rows, _ in parts for row in rows]
    kinds = [0 if row == 8 else 1 + row % 2 for row in order]
    assert sum(a != b for a, b in pairwise(kinds)) == 2
