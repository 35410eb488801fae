"""The planner's formulas: equal to the tensors that torch, transformers, PEFT and bitsandbytes keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from srl_agents.engines.embedded.places.kv_packing import EightBits
from srl_agents.memory import architecture, tensor_bytes
from srl_agents.memory.description import Description, Traffic
from srl_agents.models.sources.random_model import build
from srl_agents.models.weights.lora import LoRAWeights
from srl_envs.errors import ConfigError

SHAPE = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 8,
         "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 500,
         "tie_word_embeddings": False}  # fmt: skip


def described(kind: str, **settings: Any) -> Description:
    model = architecture.from_config("small", {"model_type": kind, **SHAPE})
    traffic = Traffic(
        rows=3, prompt_tokens=32, reply_tokens=32, mean_prompt_tokens=32, mean_reply_tokens=32, source="test"
    )  # fmt: skip
    return Description(name="test", model=model, traffic=traffic, micro_batch_rows=3, **settings)


@pytest.mark.parametrize("name", architecture.shipped())
def test_shipped_architectures_have_the_parameters_that_transformers_makes(name: str) -> None:
    entry = architecture.shipped()[name]
    config = dict(entry["config"])
    kind = config.pop("model_type")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(kind, **(config | {"num_hidden_layers": 2}))
        )
    ours = architecture.from_config(name, entry["config"] | {"num_hidden_layers": 2})
    assert ours.parameters == sum(p.numel() for p in model.parameters())
    whole = architecture.published(name)
    assert whole is not None
    digits = float(entry["parameters_published"].rstrip("BM"))
    unit = 1e9 if entry["parameters_published"].endswith("B") else 1e6
    assert whole.parameters / unit == pytest.approx(digits, rel=0.01)
    assert entry["source"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize(
    ("base", "parameters", "autocast"),
    [
        ("float32", "lora", False),
        ("bfloat16", "lora", False),
        ("bfloat16", "lora", True),
        ("float32", "full", False),
    ],
)
def test_saved_activations_are_those_that_autograd_keeps(
    kind: str, base: str, parameters: str, autocast: bool
) -> None:
    plan = described(kind, base_type=base, parameters=parameters, rank=4, autocast=autocast)
    counted = tensor_bytes.saved_bytes_per_layer(plan, plan.traffic.width)
    two, three = (_saved(kind, base, parameters, autocast, layers) for layers in (2, 3))
    assert counted == pytest.approx(three - two, rel=0.02)


def _saved(kind: str, base: str, parameters: str, autocast: bool, layers: int) -> float:
    """Bytes per token that a forward pass keeps, without weights and their copies."""
    config = AutoConfig.for_model(kind, **(SHAPE | {"num_hidden_layers": layers}))
    model: Any = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, base))
    if parameters == "lora":
        weights = LoRAWeights(model, rank=4, alpha=8)
        weights.add("own", 0)
        weights.activate("own")
        model = weights.model.get_base_model()
    kept: dict[int, torch.UntypedStorage] = {}
    shapes = {p.shape for p in model.parameters()} | {
        p.T.shape for p in model.parameters() if p.dim() == 2
    }
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and tensor.shape not in shapes:  # autocast copies weights
            kept[storage.data_ptr()] = storage
        return tensor

    ids = torch.arange(192).reshape(3, 64) % 400
    mask = torch.ones_like(ids)
    mask[0, :5] = 0
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=autocast),
    ):
        model.model(input_ids=ids, attention_mask=mask, use_cache=False)
    return sum(storage.nbytes() for storage in kept.values()) / ids.numel()


@pytest.mark.parametrize(
    "optimizer", ["adamw_torch", "adamw_8bit", "lion_8bit", "ademamix_8bit", "adafactor", "sgd"]
)
def test_optimizer_states_are_those_that_a_learner_reports(optimizer: str, tmp_path: Path) -> None:
    from srl_agents.models.base_model import BaseModel
    from srl_agents.trainers import optimizer_state
    from srl_agents.trainers.supervised.sft import SFTLearner
    from srl_agents.trainers.supervised.sft_settings import SFTSettings

    folder = build(tmp_path / "model", hidden=256)
    model = architecture.from_folder("test", folder)
    base = BaseModel.load(folder, lora_rank=16, device="cpu")
    learner = SFTLearner("own", base, SFTSettings(optimizer=optimizer, learning_rate=1e-4), 0)
    for parameter in base.trainable_parameters("own").values():
        parameter.grad = torch.ones_like(parameter)
    learner.apply_gradients()
    expected = tensor_bytes.optimizer_bytes(model.lora_tensors(16, "all-linear"), optimizer)
    assert expected == pytest.approx(optimizer_state.size(learner._optimizer), rel=0.03, abs=2000)


def test_four_bits_take_half_a_byte_and_their_scales() -> None:
    model = architecture.published("qwen2.5-7b")
    assert model is not None
    packed = model.linear_parameters * tensor_bytes.NF4_BYTES
    rest = 2.0 * (model.parameters - model.linear_parameters)
    assert tensor_bytes.base_bytes(model, "nf4") == packed + rest
    assert (
        0.515 < tensor_bytes.NF4_BYTES < 0.517
    )  # arXiv:2305.14314: 0.127 bits per weight of constants


def test_other_kinds_of_model_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="model_type 'gemma2' cannot be planned"):
        architecture.from_config("other", {"model_type": "gemma2", **SHAPE})


def test_prompts_that_are_kept_in_8_bits_have_the_bytes_that_the_engine_packs() -> None:
    model = described("llama").model
    kv = torch.zeros(model.layers, 2, model.kv_heads, 1, model.head_size)
    packed = EightBits(dtype=kv.dtype, whole_bytes_per_token=kv.nbytes, bytes_per_token=1).pack(kv)
    assert tensor_bytes.kept_bytes_per_token(model, "float32", eight_bits=True) == packed.nbytes
    assert tensor_bytes.kept_bytes_per_token(model, "float32", eight_bits=False) == kv.nbytes
