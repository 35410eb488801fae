"""``kl/max`` is the largest divergence of a token, over all micro-batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from srl_agents.models.base_model import BaseModel
from srl_agents.records import TrainingBatch
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings


def token_logprobs(base: BaseModel, batch: TrainingBatch) -> np.ndarray:
    """Of all completion tokens, by plain forwards, one row at a time."""
    found = []
    for row in range(len(batch.completion_ids_RT)):
        prompt = batch.prompt_ids_RP[row][batch.prompt_mask_RP[row]]
        reply = batch.completion_ids_RT[row][batch.completion_mask_RT[row]]
        ids = torch.from_numpy(np.concatenate([prompt, reply]))
        with torch.no_grad():
            distribution = base.model(ids[None]).logits[0].double().log_softmax(-1)
        chosen = distribution[:-1].gather(1, ids[1:, None])[:, 0]
        found.append(chosen[len(prompt) - 1 :].numpy())
    return np.concatenate(found)


@pytest.mark.parametrize("rows", [1, 64])
def test_the_largest_divergence_of_a_token_is_told(base: BaseModel, sample: Any, rows: int) -> None:
    settings = GRPOSettings(learning_rate=1e-2, kl_coef=0.5, micro_batch_rows=rows)
    agent = GRPOLearner("alice", base, settings, temperature=1.0, seed=1)
    generator = torch.Generator().manual_seed(3)
    base.set_adapter_tensors(
        "alice",
        {
            key: value + 0.05 * torch.randn(value.shape, generator=generator)
            for key, value in base.adapter_tensors("alice").items()
        },
    )
    batch = sample(base, "alice")
    metrics = agent.compute_gradients(batch)
    base.activate("alice")
    now = token_logprobs(base, batch)
    with base.reference():
        difference = token_logprobs(base, batch) - now
    kl = np.exp(difference) - difference - 1
    assert metrics["kl/max"] == pytest.approx(kl.max(), rel=1e-4)
    assert metrics["kl/max"] > metrics["kl"] == pytest.approx(kl.mean(), rel=1e-4)


def test_without_a_reference_there_is_none(base: BaseModel, sample: Any) -> None:
    settings = GRPOSettings(learning_rate=1e-2, kl_coef=0.0)
    agent = GRPOLearner("alice", base, settings, temperature=1.0, seed=1)
    assert "kl/max" not in agent.compute_gradients(sample(base, "alice"))
