"""What a playing model is made of, as hashes: the contents that an agent's address is computed from."""

from __future__ import annotations

import hashlib
from typing import Any

from srl_agents.engines.base_model import BaseModel, Example
from srl_agents.engines.transformers_engine import SamplingSettings
from srl_agents.league.agents import model_contents
from srl_agents.records import digest


def contents_of(
    base: BaseModel,
    adapter: str | None,
    sampling: SamplingSettings,
    env_id: str,
    examples: tuple[Example, ...] = (),
) -> dict[str, Any]:
    """Contents of an adapter on a base, or of the base alone; ``examples`` are the policy's own."""
    prompt, shown = base.prompt, (*base.prompt.examples, *examples)
    tokenizer = base.tokenizer
    return model_contents(
        base=base.name,
        adapter=None if adapter is None else _weights(base, adapter),
        prompt=digest([prompt.system, shown, tokenizer.chat_template])[:16],
        tokenizer=digest(sorted(tokenizer.get_vocab().items()))[:16],
        sampling={
            "temperature": sampling.temperature,
            "max_new_tokens": sampling.max_new_tokens,
        },
        parser=env_id,
    )


def _weights(base: BaseModel, adapter: str) -> str:
    hashed = hashlib.sha256()
    for name, tensor in sorted(base.adapter_tensors(adapter).items()):
        hashed.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        hashed.update(tensor.contiguous().numpy().tobytes())
    return hashed.hexdigest()[:16]
