"""Learners for tests, and the sums of a plain forward to hold them against."""

from typing import Any

import numpy as np
import torch

from srl_agents.models.base_model import BaseModel
from srl_agents.records import TrainingBatch
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings


def learner(base: BaseModel, name: str = "alice", seed: int = 1, **settings: Any) -> GRPOLearner:
    settings = {"learning_rate": 1e-2, "kl_coef": 0.1, **settings}
    return GRPOLearner(name, base, GRPOSettings(**settings), temperature=1.0, seed=seed)


def disturb(base: BaseModel, name: str, scale: float = 0.05) -> None:
    """Move an adapter away from the base, else the reference would equal the policy."""
    generator = torch.Generator().manual_seed(3)
    tensors = base.adapter_tensors(name)
    base.set_adapter_tensors(
        name,
        {k: v + scale * torch.randn(v.shape, generator=generator) for k, v in tensors.items()},
    )


def token_logprobs(base: BaseModel, batch: TrainingBatch, *, learned: bool = False) -> torch.Tensor:
    """(R, T) by a plain forward over unpadded rows, one at a time; ``learned``: with its graph."""
    logprobs = torch.zeros(batch.completion_ids_RT.shape, dtype=torch.float64)
    for row in range(len(batch.completion_ids_RT)):
        prompt = batch.prompt_ids_RP[row][batch.prompt_mask_RP[row]]
        reply = batch.completion_ids_RT[row][batch.completion_mask_RT[row]]
        ids = torch.from_numpy(np.concatenate([prompt, reply]))
        with torch.set_grad_enabled(learned):
            distribution = base.model(ids[None]).logits[0].double().log_softmax(-1)
        chosen = distribution[:-1].gather(1, ids[1:, None])[:, 0]
        logprobs[row, : len(reply)] = chosen[len(prompt) - 1 :]
    return logprobs
