"""Sharing changes the work, not the replies."""

from typing import Any

import numpy as np
import pytest
import torch

from srl_agents.engines import prompt_cache
from srl_agents.engines.transformers_engine import (
    GenerationRequest,
    SamplingSettings,
    TransformersEngine,
)
from srl_agents.models.base_model import BaseModel

RULES = tuple(range(20, 50))
BOARDS: dict[str, list[tuple[int, ...]]] = {
    "equal prompts": [(*RULES, 60, 61)] * 6,
    "equal rules": [(*RULES, 60 + i, *range(70, 70 + 2 * i)) for i in range(6)],
    "both": [(*RULES, 60 + i % 3, *range(70, 70 + i % 3)) for i in range(6)],
    "one is the beginning of another": [RULES, RULES, (*RULES, 60), (*RULES, 60, 61), RULES, RULES],
    "nothing": [tuple(range(20 + 40 * i, 30 + 41 * i)) for i in range(6)],
    "single tokens": [(20,), (20,), (20,), (21,), (20,), (22,)],
}


@pytest.fixture
def players(base: BaseModel) -> BaseModel:
    generator = torch.Generator().manual_seed(0)
    for name in ("alice", "bob"):
        base.add_adapter(name, seed=1)
        tensors = base.adapter_tensors(name)
        base.set_adapter_tensors(
            name, {k: 0.1 * torch.randn(v.shape, generator=generator) for k, v in tensors.items()}
        )
    return base


@pytest.mark.parametrize("boards", BOARDS)
def test_shared_prompts_give_the_replies_of_lonely_ones(players: BaseModel, boards: str) -> None:
    engine = TransformersEngine(players, SamplingSettings(max_new_tokens=6))
    asked = [
        GenerationRequest(prompt_ids=prompt, adapter=("alice", "bob", None)[i % 3], key=(i,))
        for i, prompt in enumerate(BOARDS[boards])
    ]
    together = engine.generate(asked)
    for reply, request in zip(together, asked, strict=True):
        alone = engine.generate([request])[0]
        assert reply.token_ids == alone.token_ids
        assert reply.logprobs == pytest.approx(alone.logprobs, abs=1e-4)


def tokens_read(players: BaseModel, prompts: list[tuple[int, ...]]) -> int:
    """Rows times positions that pass through the first block while prompts are read."""
    seen: list[int] = []

    def count(_module: Any, inputs: Any, _output: Any) -> None:
        seen.append(inputs[0].shape[0] * inputs[0].shape[1])

    block = players.model.get_base_model().model.layers[0].mlp.gate_proj
    hook = block.register_forward_hook(count)
    engine = TransformersEngine(players, SamplingSettings(max_new_tokens=1))
    engine.generate(
        [
            GenerationRequest(prompt_ids=prompt, adapter="alice", key=(i,))
            for i, prompt in enumerate(prompts)
        ]
    )
    hook.remove()
    return sum(seen)


def test_what_is_shared_is_read_once(players: BaseModel) -> None:
    equal = [(*RULES, 60, 61)] * 8
    assert tokens_read(players, equal) == 31 + 8
    rules = [(*RULES, 60 + i, 61) for i in range(8)]
    assert tokens_read(players, rules) == 30 + 8 + 8
    nothing = [tuple(range(20 + i, 52 + i)) for i in range(8)]
    assert tokens_read(players, nothing) == 8 * 32


def test_a_long_prompt_does_not_make_the_others_long(players: BaseModel) -> None:
    rng = np.random.default_rng(0)
    prompts = [tuple(int(t) for t in rng.integers(3, 300, size=n)) for n in [400, *[20] * 30]]
    assert tokens_read(players, prompts) == 400 + 30 * 20


def test_models_with_sliding_windows_read_whole_prompts(
    players: BaseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_cache, "DynamicLayer", int)  # as if no layer were a plain one
    prompts = prompt_cache.prefill(players, ["alice"] * 8, [RULES] * 8)
    assert prompts.cache is None
    assert prompts.ids_RP.shape == (8, 30)
