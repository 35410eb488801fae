"""Parts of a bfloat16 base stay float32, in learning and in the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents.memory import tensor_bytes
from srl_agents.memory.architecture import from_folder
from srl_agents.models.base_model import BaseModel
from srl_agents.models.model_loading import allow_tf32
from srl_agents.models.sources import random_model
from srl_agents.recipes.sections.memory import MemorySettings
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_envs.errors import ConfigError
from tests.srl_agents.trainers.conftest import sample_batch

IDS = torch.arange(3, 35)[None]


def loaded(folder: Path, *islands: Any, **options: Any) -> BaseModel:
    return BaseModel.load(
        folder, lora_rank=4, dtype="bfloat16", device="cpu", float32_islands=islands, **options
    )


def logits_of(base: BaseModel) -> torch.Tensor:
    with base.reference(), torch.no_grad():
        return base.model(IDS).logits.float()


@pytest.mark.parametrize("tied", [False, True])
def test_heads_and_norms_are_float32_in_both_trees_and_the_rest_is_not(
    tmp_path: Path, tied: bool
) -> None:
    folder = random_model.build(tmp_path, tied=tied)
    base, plain = loaded(folder, "norms", "head"), loaded(folder)
    for model in (base.model.get_base_model(), base.playing()._tree):
        layer = model.model.layers[0]
        assert model.lm_head.weight.dtype == torch.float32
        assert layer.input_layernorm.weight.dtype == torch.float32
        assert layer.self_attn.q_norm.weight.dtype == torch.float32
        assert model.model.embed_tokens.weight.dtype == torch.bfloat16
        weight = next(layer.mlp.up_proj.parameters())  # the base's, before factors
        assert weight.dtype == torch.bfloat16
    with base.reference(), torch.no_grad():
        assert base.model(IDS).logits.dtype == torch.float32
    more = sum(p.nbytes for p in base.frozen_parameters)
    more -= sum(p.nbytes for p in plain.frozen_parameters)
    counted = tensor_bytes.island_bytes(from_folder("m", folder), "bfloat16", ("norms", "head"))
    assert more == counted


def test_a_head_in_float32_rounds_no_logit(model_folder: Path) -> None:
    plain, island = loaded(model_folder), loaded(model_folder, "head")
    inner = plain.model.get_base_model()
    with plain.reference(), torch.no_grad():
        hidden = inner.base_model(IDS).last_hidden_state.float()
        exact = hidden @ inner.lm_head.weight.float().T
    torch.testing.assert_close(logits_of(island), exact, rtol=1e-5, atol=1e-5)
    assert float((logits_of(plain) - exact).abs().max()) > 1e-3


@pytest.mark.parametrize("head", ["chunked", "trl"])
def test_engine_and_learner_agree_better_on_an_island(model_folder: Path, head: Any) -> None:
    differ = {}
    for islands in ((), ("head",)):
        base = loaded(model_folder, *islands)
        settings = GRPOSettings(log_probabilities=head, learning_rate=1e-3)
        learner = GRPOLearner("alice", base, settings, 1.0, seed=0)
        # the means of a few rows differ by chance, and by how a processor rounds
        metrics = learner.update(sample_batch(base, "alice", rows=64))
        assert metrics["grad_norm"] > 0
        differ[islands] = metrics["sampler_kl"]
    assert differ["head",] < differ[()]


def test_routers_are_islands_where_there_are_experts(tmp_path: Path, model_folder: Path) -> None:
    folder = random_model.build(
        tmp_path, kind="qwen3_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16
    )
    base = loaded(folder, "routers")
    gate = base.model.get_base_model().model.layers[0].mlp.gate
    assert gate.weight.dtype == torch.float32
    assert logits_of(base).isfinite().all()
    learner = GRPOLearner("alice", base, GRPOSettings(), 1.0, seed=0)
    assert learner.update(sample_batch(base, "alice"))["grad_norm"] > 0
    with pytest.raises(ConfigError, match="Qwen3ForCausalLM has no routers"):
        loaded(model_folder, "routers")


def test_islands_in_four_bits(model_folder: Path) -> None:
    base = loaded(model_folder, "head", quantization="nf4")
    assert base.model.get_base_model().lm_head.weight.dtype == torch.float32
    assert logits_of(base).isfinite().all()


def test_islands_of_what_is_float32_already_are_refused(model_folder: Path) -> None:
    with pytest.raises(ConfigError, match="all of this base is float32"):
        BaseModel.load(model_folder, float32_islands=("head",), device="cpu")
    memory = MemorySettings(float32_islands=("head",))
    for settings, words in (
        ({"parameters": "full"}, "whole weights learn in float32"),
        ({"training": GRPOSettings(autocast=True)}, "every product is bfloat16"),
    ):
        with pytest.raises(ConfigError, match=words):
            LeagueRecipe(name="r", model="tiny", env="nim-v0", memory=memory, **settings)


def test_tf32_is_allowed_and_forbidden_again() -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        for allowed in (True, False):
            allow_tf32(allowed)
            assert torch.backends.cuda.matmul.allow_tf32 == allowed
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
