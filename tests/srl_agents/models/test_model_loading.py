"""In which type, with which attention and in how many bits a base is loaded."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path

import pytest
import torch

from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
from srl_agents.models import model_loading
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build
from tests.srl_agents.trainers.conftest import sample_batch


def test_a_model_above_the_limit_is_loaded_in_bfloat16_and_one_below_in_float32(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = BaseModel.load(model_folder, device="cpu").model.dtype
    size = sum(p.numel() for p in BaseModel.load(model_folder, device="cpu").model.parameters())
    monkeypatch.setattr(model_loading, "LARGE", size // 2)

    assert small == torch.float32
    assert BaseModel.load(model_folder, device="cpu").model.dtype == torch.bfloat16
    whole = BaseModel.load(model_folder, parameters="full", device="cpu")
    assert whole.model.dtype == torch.float32  # it learns in no other type


def test_parameters_are_counted_without_loading_them(model_folder: Path) -> None:
    model = BaseModel.load(model_folder, device="cpu").model.get_base_model()
    own = [p for name, p in model.named_parameters() if "lora_" not in name]

    assert model_loading.parameters_of(model_folder) == sum(p.numel() for p in own)


def test_the_chosen_attention_is_the_models(model_folder: Path) -> None:
    base = BaseModel.load(model_folder, attention="eager", device="cpu")

    assert base.model.config._attn_implementation == "eager"


@pytest.mark.skipif(
    importlib.util.find_spec("flash_attn") is not None, reason="flash-attn is installed"
)
def test_flash_attention_is_refused_by_name_where_it_is_not_installed(model_folder: Path) -> None:
    with pytest.raises(ConfigError, match="package flash-attn is not installed"):
        BaseModel.load(model_folder, attention="flash_attention_2", device="cpu")


def test_a_base_in_four_bits_plays_and_learns_close_to_itself(model_folder: Path) -> None:
    plain = BaseModel.load(model_folder, lora_rank=4, device="cpu")
    base = BaseModel.load(model_folder, lora_rank=4, quantization="nf4", device="cpu")
    linear = base.model.get_base_model().model.layers[0].self_attn.q_proj
    learner = GRPOLearner("alice", base, GRPOSettings(learning_rate=1e-2), 1.0, seed=0)
    batch = sample_batch(base, "alice")
    before = base.adapter_tensors("alice")

    metrics = learner.update(batch)

    assert linear.base_layer.weight.dtype == torch.uint8
    assert linear.base_layer.weight.numel() * 2 == 64 * 64
    after = base.adapter_tensors("alice")
    assert all(not torch.equal(after[key], before[key]) for key in after if "lora_B" in key)
    assert metrics["sampler_kl"] < 1e-4  # the engine played the same four bits
    assert {tensor.dtype for tensor in after.values()} == {torch.float32}
    ids = torch.arange(3, 19)[None]
    with plain.reference(), base.reference(), torch.no_grad():
        exact, coarse = plain.model(ids).logits, base.model(ids).logits
    assert 0 < float((coarse - exact).norm() / exact.norm()) < 0.3


def test_versions_of_a_base_in_four_bits_are_frozen_and_mixed(model_folder: Path) -> None:
    base = BaseModel.load(model_folder, lora_rank=4, quantization="nf4", device="cpu")
    base.add_adapter("alice", seed=0)
    version = base.freeze_adapter("alice")
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=4))
    asked = [
        GenerationRequest(observation="hello", version=who, key=(0, 0)) for who in (None, version)
    ]

    replies = asyncio.run(engine.generate_together(asked))

    assert replies[0].token_ids == replies[1].token_ids  # B is 0: the version is the base


def test_weights_in_four_bits_cannot_learn(model_folder: Path) -> None:
    with pytest.raises(ConfigError, match="weights in 4 bits cannot learn"):
        BaseModel.load(model_folder, quantization="nf4", parameters="full", device="cpu")


def test_layers_of_excluded_modules_have_no_factors(tmp_path: Path) -> None:
    folder = random_model.build(
        tmp_path, kind="qwen2_moe", moe_intermediate_size=32, shared_expert_intermediate_size=32,
        num_experts=4, num_experts_per_tok=2, decoder_sparse_step=1,
    )  # fmt: skip

    base = BaseModel.load(
        folder, lora_rank=2, lora_excluded=("shared_expert", "o_proj"), device="cpu"
    )

    base.add_adapter("alice", seed=0)
    names = {key.split(".lora_")[0].rpartition(".")[2] for key in base.adapter_tensors("alice")}
    assert {"q_proj", "k_proj", "v_proj"} <= names
    assert not names & {"o_proj", "gate_proj", "up_proj", "down_proj"}
    with pytest.raises(ConfigError, match=r"'o_prod' is not a module.*Did you mean 'o_proj'"):
        BaseModel.load(folder, lora_excluded=("o_prod",), device="cpu")
    with pytest.raises(ConfigError, match="no layer is left"):
        BaseModel.load(folder, lora_excluded=("layers",), device="cpu")


def test_only_tensors_of_4096_entries_have_state_in_eight_bits(model_folder: Path) -> None:
    """As `srl plan` counts it, and as settings of `min_8bit_size` were removed for."""
    sizes = {}
    for optimizer in ("adamw_torch", "adamw_8bit"):
        base = BaseModel.load(model_folder, lora_rank=4, device="cpu")
        learner = GRPOLearner("alice", base, GRPOSettings(optimizer=optimizer), 1.0, seed=0)
        learner.update(sample_batch(base, "alice"))
        assert max(t.numel() for t in base.trainable_parameters("alice").values()) < 4096
        sizes[optimizer] = learner.compute_gradients(sample_batch(base, "alice"))["optimizer_mb"]
    assert sizes["adamw_8bit"] == pytest.approx(sizes["adamw_torch"], rel=0.01)
    with pytest.raises(ConfigError, match=r"min_8bit_size=256: this setting was removed, 4096 is"):
        build(GRPOSettings, {"min_8bit_size": 256}, "training")
