"""A random model and batches whose rows were really sampled."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from srl_agents.credit.batches import training_batch
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.records import TrainingBatch, Turn

Sampler = Callable[..., TrainingBatch]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_model.build(tmp_path_factory.mktemp("model") / "qwen3")


@pytest.fixture
def base(model_folder: Path) -> BaseModel:
    return BaseModel.load(model_folder, lora_rank=4, device="cpu")


@pytest.fixture
def sample() -> Sampler:
    return sample_batch


def sample_batch(
    base: BaseModel, adapter: str, *, rows: int = 7, seed: int = 0, temperature: float = 1.0
) -> TrainingBatch:
    """Replies of up to 9 tokens to random prompts, with random advantages."""
    rng = np.random.default_rng(seed)
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=9, temperature=temperature))
    version = base.freeze_adapter(adapter)
    requests = [
        GenerationRequest(
            observation="".join(
                chr(i) for i in rng.integers(97, 123, size=int(rng.integers(1, 17)))
            ),
            version=version,
            key=(seed, row),
            sampling=replace(engine.sampling, max_new_tokens=int(rng.integers(2, 10))),
        )
        for row in range(rows)
    ]
    replies = asyncio.run(engine.generate_together(requests))
    base.forget(str(version))
    turns = [
        Turn(
            turn_index=0,
            observation="",
            reply="",
            invalid=None,
            reward=0.0,
            components={},
            version=f"{adapter}@0-0123456789abcdef",
            prompt_ids=reply.prompt_ids,
            completion_ids=reply.token_ids,
            logprobs=reply.logprobs,
            finish=reply.finish,
        )
        for reply in replies
    ]
    advantages = rng.normal(size=rows)
    return training_batch(
        adapter,
        [(turn, float(a)) for turn, a in zip(turns, advantages, strict=True)],
        base.tokenizer.pad_token_id,
    )
