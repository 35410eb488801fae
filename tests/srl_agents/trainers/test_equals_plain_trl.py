"""Loss and gradients are those of a plain TRL trainer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from srl_agents.models.base_model import BaseModel
from srl_agents.models.quiet import quiet_libraries
from srl_agents.records import TrainingBatch
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import VARIANTS, GRPOSettings, LossType

Gradients = dict[str, torch.Tensor]
CASES = [
    *((loss, "token", True) for loss in get_args(LossType) if loss != "rloo"),
    *((loss, "sequence", True) for loss in get_args(LossType) if loss != "rloo"),
    ("grpo", "token", False),
    ("cispo", "sequence", False),
    ("rloo", None, False),
]


def disturb(base: BaseModel, name: str) -> None:
    generator = torch.Generator().manual_seed(3)
    tensors = base.adapter_tensors(name)
    base.set_adapter_tensors(
        name, {k: v + 0.05 * torch.randn(v.shape, generator=generator) for k, v in tensors.items()}
    )


def stale(batch: TrainingBatch) -> TrainingBatch:
    """As if an older policy had sampled the rows, so that ratios are clipped."""
    mask = batch.completion_mask_RT
    noise = 0.3 * np.random.default_rng(1).normal(size=mask.shape)
    return replace(batch, logprobs_RT=np.where(mask, batch.logprobs_RT + noise, 0).astype("f4"))


def plain_trainer(folder: Path, base: BaseModel, tmp_path: Path, **names: Any) -> Any:
    """TRL as its documentation builds it: a model, ``peft_config`` and a reward function."""
    rloo = names.pop("rloo", False)
    config, trainer = (RLOOConfig, RLOOTrainer) if rloo else (GRPOConfig, GRPOTrainer)
    with torch.random.fork_rng(devices=[]), quiet_libraries():
        made = trainer(
            model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=config(
                output_dir=str(tmp_path), per_device_train_batch_size=2, num_generations=2,
                gradient_checkpointing=False, bf16=False, use_cpu=True, report_to=[], **names,
            ),
            train_dataset=Dataset.from_dict({"prompt": ["", ""]}),
            processing_class=base.tokenizer,
            peft_config=LoraConfig(
                r=4, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"
            ),
        )  # fmt: skip
    own = dict(made.model.named_parameters())
    with torch.no_grad():
        for key, tensor in base.adapter_tensors("alice").items():
            own[key.replace(".weight", ".default.weight")].copy_(tensor)
    made.current_gradient_accumulation_steps = 1
    made.model.train()
    return made


def plain_step(trainer: Any, batch: TrainingBatch) -> tuple[float, Gradients]:
    """One forward and backward over the padded batch, as TRL's own loop would make it."""
    mask = torch.from_numpy(batch.completion_mask_RT).long()
    old = torch.from_numpy(batch.logprobs_RT)
    inputs = {
        "prompt_ids": torch.from_numpy(batch.prompt_ids_RP),
        "prompt_mask": torch.from_numpy(batch.prompt_mask_RP).long(),
        "completion_ids": torch.from_numpy(batch.completion_ids_RT),
        "completion_mask": mask,
        "advantages": torch.from_numpy(batch.advantages_RT[:, 0].copy()),
        "old_per_token_logps": old,
        "old_logps": (old * mask).sum(1),
        "num_items_in_batch": mask.sum(),
    }
    if trainer.beta:
        with torch.no_grad(), trainer.model.disable_adapter():
            inputs["ref_per_token_logps"], *_ = trainer._get_per_token_logps_and_entropies(
                trainer.model,
                torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1),
                torch.cat([inputs["prompt_mask"], mask], 1),
                mask.shape[1],
            )
    loss = trainer.compute_loss(trainer.model, inputs)
    loss.backward()
    gradients = {
        name.replace(".default.weight", ".weight"): p.grad
        for name, p in trainer.model.named_parameters()
        if p.grad is not None
    }
    return loss.item(), gradients


def assert_equal(base: BaseModel, agent: GRPOLearner, plain: Any, batch: TrainingBatch) -> None:
    got = agent.compute_gradients(batch)
    loss, gradients = plain_step(plain, batch)
    # rloo's ratio is the product over a whole row, and so is its rounding
    close = 5e-6 if agent.settings.loss.loss_type == "rloo" else 1e-6
    assert got["loss"] == pytest.approx(loss, abs=close)
    assert agent.gradients.keys() == gradients.keys()
    assert got["grad_norm"] > 1e-2
    largest = max(1.0, *(float(gradient.abs().max()) for gradient in gradients.values()))
    for key, gradient in agent.gradients.items():
        torch.testing.assert_close(gradient, gradients[key], atol=close * largest, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("loss_type", "ratio_level", "corrected"), CASES)
def test_every_loss_and_ratio(
    base: BaseModel,
    sample: Any,
    model_folder: Path,
    tmp_path: Path,
    loss_type: LossType,
    ratio_level: Any,
    corrected: bool,
) -> None:
    names: dict[str, Any] = {"epsilon": 0.1, "epsilon_high": 1.2}
    settings: dict[str, Any] = {"clip_low": 0.1, "clip_high": 1.2}
    if loss_type == "rloo":
        names |= {"rloo": True, "beta": 0.0}
    else:
        names |= {"loss_type": loss_type, "importance_sampling_level": ratio_level}
        names |= {"beta": 0.1, "entropy_coef": 0.02, "max_completion_length": 64}
        names |= {"use_bias_correction_kl": corrected}
        settings |= {"ratio_level": ratio_level, "kl_coef": 0.1, "entropy_coef": 0.02}
        settings |= {"kl_correction": corrected}
    own = GRPOSettings(loss_type=loss_type, micro_batch_rows=99, share_prefixes=False, **settings)
    agent = GRPOLearner("alice", base, own, temperature=1.0, seed=1)
    disturb(base, "alice")
    batch = stale(sample(base, "alice", rows=8))
    assert_equal(base, agent, plain_trainer(model_folder, base, tmp_path, **names), batch)


PUBLISHED: dict[Any, dict[str, Any]] = {
    "grpo": {"loss_type": "grpo", "epsilon": 0.2, "beta": 0.04, "use_bias_correction_kl": False},
    "dapo": {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28, "beta": 0.0},
    "dr_grpo": {"loss_type": "dr_grpo", "epsilon": 0.2, "max_completion_length": 64, "beta": 0.0},
    "gspo": {
        "beta": 0.0,
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "epsilon": 3e-4,
        "epsilon_high": 4e-4,
    },
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0, "beta": 0.0},
    "rloo": {"rloo": True, "beta": 0.0, "epsilon": 0.2},
}
"""How TRL's documentation spells what the papers do."""


@pytest.mark.slow
@pytest.mark.parametrize("variant", [name for name in VARIANTS if name])
def test_every_variant(
    base: BaseModel, sample: Any, model_folder: Path, tmp_path: Path, variant: Any
) -> None:
    own = GRPOSettings(variant=variant, micro_batch_rows=3, share_prefixes=False)
    agent = GRPOLearner("alice", base, own, temperature=1.0, seed=1)
    disturb(base, "alice")
    batch = stale(sample(base, "alice", rows=8))
    plain = plain_trainer(model_folder, base, tmp_path, **PUBLISHED[variant])
    assert_equal(base, agent, plain, batch)
