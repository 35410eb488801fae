"""Factors go on layers that read every token, and mixtures of experts learn only with the others."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.models.weights.lora_targets import Targets
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_envs.errors import ConfigError, ModelError
from tests.srl_agents.trainers.conftest import sample_batch

MIXTURES: list[tuple[str, dict[str, Any]]] = [
    ("qwen3_moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}),
    ("mixtral", {"num_local_experts": 4}),
]
ATTENTION = {"q_proj", "k_proj", "v_proj", "o_proj"}


def loaded(
    folder: Path, kind: str = "qwen3", targets: Targets = "all-linear", **options: Any
) -> BaseModel:
    random_model.build(folder, kind=kind, **options)
    return BaseModel.load(folder, lora_rank=4, lora_targets=targets, device="cpu")


def adapted(base: BaseModel, name: str = "alice") -> set[str]:
    """Short names of the layers that an adapter has factors for."""
    return {key.split(".lora_")[0].rpartition(".")[2] for key in base.adapter_tensors(name)}


def disturb(base: BaseModel, name: str) -> None:
    generator = torch.Generator().manual_seed(len(name))
    tensors = base.adapter_tensors(name)
    base.set_adapter_tensors(
        name, {k: 0.2 * torch.randn(v.shape, generator=generator) for k, v in tensors.items()}
    )


@pytest.mark.parametrize(("kind", "options"), MIXTURES)
def test_a_mixture_of_experts_learns_with_its_attention(
    tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    base = loaded(tmp_path, kind, **options)
    found = []
    for name, share in (("alice", False), ("bob", True)):
        settings = GRPOSettings(kl_coef=0.1, share_prefixes=share, learning_rate=1e-2)
        agent = GRPOLearner(name, base, settings, temperature=1.0, seed=1)
        batch = replace(sample_batch(base, name), learner=name)
        assert agent.compute_gradients(batch)["sampler_kl"] < 1e-5
        found.append({key: gradient.clone() for key, gradient in agent.gradients.items()})
        before = base.adapter_tensors(name)
        agent.apply_gradients()
        assert all(
            not torch.equal(t, before[k])
            for k, t in base.adapter_tensors(name).items()
            if "_B" in k
        )
    assert adapted(base) == ATTENTION
    for key, gradient in found[0].items():
        torch.testing.assert_close(found[1][key], gradient, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("kind", "options"), MIXTURES)
def test_rows_of_several_adapters_are_sampled_together(
    tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    base = loaded(tmp_path, kind, **options)
    for name in ("alice", "bob"):
        base.add_adapter(name, 0)
        disturb(base, name)
    versions = (base.freeze_adapter("alice"), base.freeze_adapter("bob"), None)
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=8))
    asked = [
        GenerationRequest(observation=f"rock {row}", version=versions[row % 3], key=(row,))
        for row in range(6)
    ]
    together = asyncio.run(engine.generate_together(asked))
    separate = [asyncio.run(engine.generate_together([request]))[0] for request in asked]
    assert [reply.token_ids for reply in together] == [reply.token_ids for reply in separate]
    assert len({reply.token_ids for reply in together}) > 3


def test_chosen_layers_alone_have_factors(tmp_path: Path) -> None:
    base = loaded(tmp_path, targets=("q_proj", "v_proj"))
    base.add_adapter("alice", 0)
    assert adapted(base) == {"q_proj", "v_proj"}


@pytest.mark.parametrize(
    ("kind", "target", "message"),
    [
        ("qwen3", "q_prj", r"'q_prj' is not a layer of Qwen3ForCausalLM. Did you mean 'q_proj'\?"),
        ("qwen3", "lm_head", "'lm_head' is not a linear layer .* the output head stay as they are"),
        (
            "qwen3_moe",
            "gate_up_proj",
            "'gate_up_proj' is not a linear layer .* Use some of .*'q_proj'",
        ),
    ],
)
def test_what_cannot_have_factors_is_refused_by_name(
    tmp_path: Path, kind: str, target: str, message: str
) -> None:
    options = dict(MIXTURES).get(kind, {})
    with pytest.raises(ConfigError, match=message):
        loaded(tmp_path, kind, ("v_proj", target), **options)


def test_a_model_that_peft_refuses_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no adapter can be put on mamba.*incompatible"):
        loaded(tmp_path, "mamba")


def test_an_adapter_of_fewer_layers_plays_on_a_base_of_all(tmp_path: Path) -> None:
    few = loaded(tmp_path / "base", targets=("q_proj",))
    few.add_adapter("alice", 0)
    disturb(few, "alice")
    few.save_adapter("alice", tmp_path / "adapter")
    every = BaseModel.load(tmp_path / "base", lora_rank=4, device="cpu")
    every.load_adapter("alice", tmp_path / "adapter")
    ids = torch.tensor([[5, 6, 7]])
    logits = []
    for base in (few, every):
        with torch.no_grad(), base.through("alice"):
            logits.append(base.model(ids).logits)
    torch.testing.assert_close(logits[0], logits[1])
    with torch.no_grad(), few.reference():
        assert not torch.allclose(few.model(ids).logits, logits[0], atol=1e-2)


def test_an_adapter_of_more_layers_does_not_fit(tmp_path: Path) -> None:
    every = loaded(tmp_path / "base")
    every.add_adapter("alice", 0)
    every.save_adapter("alice", tmp_path / "adapter")
    few = BaseModel.load(tmp_path / "base", lora_rank=4, lora_targets=("q_proj",), device="cpu")
    with pytest.raises(ModelError, match=r"lora\.target_modules"):
        few.load_adapter("alice", tmp_path / "adapter")
