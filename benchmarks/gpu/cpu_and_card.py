"""The engine and the learner on a device beside the same on this machine's CPU, number for number."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from srl_agents.credit.batches import training_batch
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.records import TrainingBatch, Turn
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings

ROWS, TOKENS = 16, 24
SHAPE: dict[str, Any] = {"hidden": 256, "layers": 4, "vocab": 2048}
LOGPROB_BOUND = {"float32": 1e-3, "bfloat16": 0.25}
"""Largest difference of a token's log-probability, both sides in that type; bfloat16 has 8 bits."""
GRADIENT_BOUND = 1e-3
"""Largest relative difference of the gradient's norm over all adapter weights, in float32."""
LAYOUTS: dict[str, dict[str, Any]] = {
    "padded": {"share_prefixes": False},
    "shared prefixes": {"share_prefixes": True},
    "recomputed activations": {"share_prefixes": False, "gradient_checkpointing": True},
    "chunked logits": {"share_prefixes": False, "log_probabilities": "chunked"},
    "TRL's logits": {"share_prefixes": False, "log_probabilities": "trl"},
}


def engine(device: str, *, broken: bool = False) -> dict[str, Any]:
    """The same requests on the CPU and on a device: greedy tokens, and log-probabilities of tokens.

    Args:
        device: to compare with the CPU.
        broken: change one weight of the device's model, so that the step fails.
    """
    row: dict[str, Any] = {"passed": True, "rows": ROWS, "tokens": TOKENS}
    with tempfile.TemporaryDirectory() as scratch:
        folder = random_model.build(Path(scratch) / "model", **SHAPE)
        for dtype, bound in LOGPROB_BOUND.items():
            sides = [_replies(folder, where, dtype, broken and where == device and place == 1)
                     for place, where in enumerate(("cpu", device))]  # fmt: skip
            equal, compared, worst = 0, 0, 0.0
            for ours, theirs in zip(*sides, strict=True):
                same = _common(ours.token_ids, theirs.token_ids)
                equal += same
                compared += min(len(ours.token_ids), len(theirs.token_ids))
                gaps = np.abs(np.subtract(ours.logprobs[:same], theirs.logprobs[:same]))
                worst = max(worst, float(gaps.max(initial=0.0)))
            row[f"{dtype}: equal tokens"] = equal / compared
            row[f"{dtype}: largest difference of a log-probability"] = worst
            row["passed"] &= worst <= bound and (dtype != "float32" or equal == compared)
    return row


def learner(device: str, *, broken: bool = False) -> dict[str, Any]:
    """One batch's gradients in every layout of rows: on the CPU, padded, and on a device.

    Args:
        device: to compare with the CPU.
        broken: give the device's batch other advantages, so that the step fails.
    """
    row: dict[str, Any] = {"passed": True}
    with tempfile.TemporaryDirectory() as scratch:
        folder = random_model.build(Path(scratch) / "model", **SHAPE)
        batch = _batch(_replies(folder, "cpu", "float32"))
        expected = _gradients(folder, "cpu", batch, LAYOUTS["padded"])
        if broken:
            batch = replace(batch, advantages_RT=batch.advantages_RT * 1.1)
        for layout, settings in LAYOUTS.items():
            found = _gradients(folder, device, batch, settings)
            difference = float((found - expected).norm() / expected.norm())
            row[f"{layout}: relative difference of the gradient"] = difference
            row["passed"] &= difference <= GRADIENT_BOUND
    return row


def _replies(folder: Path, device: str, dtype: Any, broken: bool = False) -> list[Generation]:
    """Greedy replies of an adapter that is not zero."""
    base = BaseModel.load(folder, lora_rank=4, dtype=dtype, device=device)
    base.add_adapter("alice", 0)
    _fill(base)
    if broken:
        with torch.no_grad():
            next(base.model.parameters()).mul_(1.5)
    sampling = SamplingSettings(max_new_tokens=TOKENS, temperature=0.0)
    served = TransformersEngine(base, sampling)
    version = base.freeze_adapter("alice")
    rng = np.random.default_rng(0)
    requests = [
        GenerationRequest(
            observation=" ".join(
                rng.choice(["rock", "paper", "scissors"], int(rng.integers(2, 60)))
            ),
            version=version,
            key=(row,),
        )
        for row in range(ROWS)
    ]
    return list(asyncio.run(served.generate_together(requests)))


def _fill(base: BaseModel) -> None:
    draw = torch.Generator().manual_seed(0)
    tensors = base.adapter_tensors("alice")
    base.set_adapter_tensors(
        "alice", {k: 0.02 * torch.randn(t.shape, generator=draw) for k, t in tensors.items()}
    )


def _common(ours: tuple[int, ...], theirs: tuple[int, ...]) -> int:
    """Tokens before the first that differs."""
    pairs = zip(ours, theirs, strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))


def _batch(replies: list[Generation]) -> TrainingBatch:
    turns = [
        Turn(turn_index=0, observation="", reply="", invalid=None, reward=0.0, components={},
             version="alice@0-0123456789abcdef", prompt_ids=reply.prompt_ids,
             completion_ids=reply.token_ids, logprobs=reply.logprobs, finish=reply.finish)
        for reply in replies
    ]  # fmt: skip
    advantages = np.random.default_rng(1).normal(size=len(turns))
    return training_batch("alice", list(zip(turns, map(float, advantages), strict=True)), 0)


def _gradients(
    folder: Path, device: str, batch: TrainingBatch, settings: dict[str, Any]
) -> torch.Tensor:
    """All gradients of the adapter in one vector, on the CPU."""
    base = BaseModel.load(folder, lora_rank=4, dtype="float32", device=device)
    made = GRPOLearner("alice", base, GRPOSettings(**settings), 1.0, seed=0)
    _fill(base)
    made.compute_gradients(batch)
    own = made.gradients
    return torch.cat([own[name].detach().double().cpu().flatten() for name in sorted(own)])
