"""Behaviour of TRL, transformers, PEFT and bitsandbytes that we rely on; fails when they change it.

The numbers of the losses are compared in `test_equals_plain_trl.py`.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from trl import GRPOConfig, GRPOTrainer, RLOOTrainer
from trl.trainer.utils import (
    FusedCausalLMOutput,
    add_fused_lm_head,
    shuffle_sequence_dict,
    split_tensor_dict,
)

from srl_agents.models.base_model import BaseModel
from srl_agents.models.quiet import quiet_libraries
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings, LossType
from srl_agents.trainers.ppo import PPOLearner
from srl_agents.trainers.ppo_settings import PPOSettings
from srl_agents.trainers.update_settings import OPTIMIZERS


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_overridden_methods_have_their_signatures() -> None:
    trainer = GRPOTrainer
    assert parameters(trainer._generate_and_score_completions) == ["self", "inputs"]
    assert parameters(trainer._compute_loss) == ["self", "model", "inputs"]
    assert parameters(trainer._save) == ["self", "output_dir", "state_dict"]
    assert parameters(trainer.training_step) == ["self", "model", "inputs", "num_items_in_batch"]
    logps = parameters(trainer._get_per_token_logps_and_entropies)
    assert logps[:5] == ["self", "model", "input_ids", "attention_mask", "logits_to_keep"]
    for name in ("model", "reward_funcs", "args", "train_dataset", "processing_class"):
        assert name in parameters(trainer.__init__)


def translated(settings: Any, folder: Path, temperature: float = 1.0) -> GRPOConfig:
    with quiet_libraries():
        config: GRPOConfig = settings.to_trl(folder, temperature=temperature, seed=4, cpu=True)
    return config


def test_translated_values_arrive(tmp_path: Path) -> None:
    settings = GRPOSettings(
        loss_type="cispo", ratio_level="sequence", clip_low=0.1, clip_high=2.0, entropy_coef=0.3,
        learning_rate=0.5, optimizer="adamw_8bit", weight_decay=0.2, max_grad_norm=0.7,
    )  # fmt: skip
    made = translated(settings, tmp_path, temperature=0.6)
    assert (made.loss_type, made.importance_sampling_level) == ("cispo", "sequence")
    assert (made.epsilon, made.epsilon_high, made.entropy_coef) == (0.1, 2.0, 0.3)
    assert (made.learning_rate, made.weight_decay, made.max_grad_norm) == (0.5, 0.2, 0.7)
    assert (made.optim, made.temperature, made.seed) == ("adamw_8bit", 0.6, 4)


def test_losses_that_settings_admit_are_those_that_trl_computes() -> None:
    source = inspect.getsource(GRPOTrainer._compute_loss)
    for loss in set(get_args(LossType)) - {"rloo"}:
        assert f'"{loss}"' in source, loss
    assert 'importance_sampling_level == "sequence"' in source


def test_the_rloo_loss_reads_what_our_trainer_has() -> None:
    """It is borrowed from a trainer that we do not build."""
    assert parameters(RLOOTrainer._compute_loss) == ["self", "model", "inputs"]
    source = inspect.getsource(RLOOTrainer._compute_loss)
    read = {"epsilon_low", "epsilon_high", "aux_loss_enabled", "accelerator", "model", "_metrics"}
    read |= {"_get_per_token_logps_and_entropies", "router_aux_loss_coef"}
    assert set(re.findall(r"self\.(\w+)", source)) == read
    assert set(re.findall(r'inputs\["(\w+)"\]', source)) == {
        "prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "old_logps", "advantages",
    }  # fmt: skip


@pytest.mark.parametrize("settings", [GRPOSettings(), GRPOSettings(variant="rloo"), PPOSettings()])
def test_a_trainer_has_what_we_read_and_set(base: BaseModel, settings: Any) -> None:
    kind = PPOLearner if settings.algorithm == "ppo" else GRPOLearner
    trainer = kind("alice", base, settings, 1.0, 0)._trainer
    read = ["epsilon_low", "epsilon_high", "beta", "_metrics", "_buffered_inputs", "_step"]
    read += ["loss_type", "importance_sampling_level", "entropy_coef", "aux_loss_enabled"]
    assert [name for name in read if not hasattr(trainer, name)] == []
    # traps 2 and 3: with a beta of its own TRL looks for an adapter "default" or reloads the model
    assert trainer.args.beta == 0.0
    assert trainer.ref_model is None
    # trap 5: leftover rows of a split are dropped
    assert trainer.args.steps_per_generation == 1
    assert trainer.num_iterations == 1
    assert not trainer.use_vllm
    # GRPO's loss is divided by the accumulation steps inside, and nowhere else
    assert trainer.loss_is_scaled_for_ga is True
    # trap 14: the optimizer holds the active adapter, and nothing of the base
    own = {id(p) for p in base.trainable_parameters("alice").values()}
    held = {id(p) for group in trainer.optimizer.param_groups[:2] for p in group["params"]}
    assert held == own


@pytest.mark.parametrize("kind", [GRPOSettings, PPOSettings])
@pytest.mark.parametrize("corrected", [True, False])
def test_the_correction_of_the_kl_term_is_ours_to_set(
    tmp_path: Path, kind: Any, corrected: bool
) -> None:
    made = translated(kind(kl_coef=0.1, kl_correction=corrected), tmp_path)
    assert made.use_bias_correction_kl is corrected
    assert "use_bias_correction_kl" in inspect.getsource(GRPOTrainer._compute_loss)


def test_a_split_into_one_keeps_every_row_and_into_more_drops_some() -> None:
    """Trap 5: so rows enter TRL in one piece."""
    rows = {"x": torch.arange(7)}
    assert [len(part["x"]) for part in split_tensor_dict(rows, 1)] == [7]
    assert sum(len(part["x"]) for part in split_tensor_dict(rows, 2)) == 6


def test_shuffling_moves_all_columns_alike() -> None:
    """Columns of our own (values, returns) pass through, scalars too."""
    rows = {"x": torch.arange(9), "values": 10.0 * torch.arange(9)[:, None], "n": torch.tensor(3)}
    shuffled = shuffle_sequence_dict(rows)
    assert torch.equal(shuffled["values"][:, 0], 10.0 * shuffled["x"])
    assert shuffled["n"] == 3


def test_the_fused_head_patches_the_instance_and_holds_the_temperature(base: BaseModel) -> None:
    """Trap 4: the last trainer's temperature would apply to all."""
    assert parameters(add_fused_lm_head)[:2] == ["model", "temperature"]
    fields = {field.name for field in dataclasses.fields(FusedCausalLMOutput)}
    assert {"log_probs", "entropy"} <= fields
    inner = base.model.get_base_model()
    assert "forward" not in inner.__dict__
    GRPOLearner("alice", base, GRPOSettings(), 0.5, 0)
    head = inner.__dict__["forward"]
    ids = torch.tensor([[3, 4, 5]])
    base.activate("alice")
    with torch.no_grad():
        logits = base.model(ids).logits[0, :-1]
        fused = base.model(ids, labels=ids, fused_lm_head=True).log_probs[0]
    expected = (logits / 0.5).log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
    torch.testing.assert_close(fused, expected, atol=1e-5, rtol=1e-5)
    GRPOLearner("bob", base, GRPOSettings(), 0.5, 0)
    assert inner.__dict__["forward"] is head


def test_labels_may_come_shifted(base: BaseModel) -> None:
    """Shared prompts need this: one place, one label."""
    GRPOLearner("alice", base, GRPOSettings(), 1.0, 0)
    ids, labels = torch.tensor([[3, 4, 5]]), torch.tensor([[-100, 9, 7]])
    with torch.no_grad():
        logits = base.model(ids).logits[0].log_softmax(-1)
        fused = base.model(ids, shift_labels=labels, fused_lm_head=True).log_probs[0]
    expected = [0.0, float(logits[1, 9]), float(logits[2, 7])]
    assert fused.tolist() == pytest.approx(expected, abs=1e-5)


def test_activating_an_adapter_makes_it_alone_trainable(base: BaseModel) -> None:
    """Trap 14."""
    for name in ("alice", "bob"):
        base.add_adapter(name, 0)
    base.activate("alice")
    trainable = [n for n, p in base.model.named_parameters() if p.requires_grad]
    assert trainable
    assert all(".alice." in name for name in trainable)


def test_small_tensors_keep_32_bit_state() -> None:
    """Trap 13: of bitsandbytes' 8-bit optimizers, below 4096 elements."""
    import bitsandbytes

    small, large = torch.nn.Parameter(torch.ones(4095)), torch.nn.Parameter(torch.ones(4096))
    optimizer = bitsandbytes.optim.AdamW8bit([small, large])
    for parameter in (small, large):
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert optimizer.state[small]["state1"].dtype == torch.float32
    assert optimizer.state[large]["state1"].dtype == torch.uint8


def test_every_optimizer_name_is_one_of_transformers() -> None:
    from transformers.training_args import OptimizerNames

    assert set(OPTIMIZERS) <= {name.value for name in OptimizerNames}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Paged optimizers are not supported on CPU")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_steps_on_the_cpu(base: BaseModel, sample: Any, optimizer: str) -> None:
    """Paged ones fall back to memory that is not paged; `paged_ademamix_8bit` fails and is left out."""
    settings = GRPOSettings(optimizer=optimizer, learning_rate=1e-2, gradient_checkpointing=False)
    agent = GRPOLearner("alice", base, settings, 1.0, 0)
    before = base.adapter_tensors("alice")
    agent.update(sample(base, "alice", rows=2))
    after = base.adapter_tensors("alice")
    assert any(not torch.equal(after[key], value) for key, value in before.items())
    assert all(np.isfinite(value.numpy()).all() for value in after.values())


def test_one_torch_thread_unless_asked() -> None:
    """Trap 9: loading a base sees to it."""
    from srl_agents.models import base_model

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        base_model.limit_threads()
        assert torch.get_num_threads() == int(os.environ.get("SRL_TORCH_THREADS", "1"))
    finally:
        torch.set_num_threads(before)
