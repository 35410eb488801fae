"""Imitation learns the tokens of replies, by TRL's loss, on one adapter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

from srl_agents.models.base_model import BaseModel
from srl_agents.sharing.demonstrations import Demonstration, DemonstrationBatch
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.supervised.sft import SFTLearner
from srl_agents.trainers.supervised.sft_settings import SFTSettings
from srl_envs.errors import ConfigError

Tensors = dict[str, torch.Tensor]


def learner(base: BaseModel, name: str = "alice", seed: int = 1, **settings: Any) -> SFTLearner:
    return SFTLearner(name, base, SFTSettings(**{"learning_rate": 1e-2, **settings}), seed=seed)


def rows(count: int = 5, seed: int = 0) -> tuple[Demonstration, ...]:
    rng = np.random.default_rng(seed)

    def some(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(i) for i in rng.integers(3, 300, size=int(rng.integers(low, high))))

    return tuple(
        Demonstration(prompt_ids=some(3, 12), reply_ids=some(1, 8), by="bot:middle")
        for _ in range(count)
    )


def batch(some: tuple[Demonstration, ...], name: str = "alice") -> DemonstrationBatch:
    return DemonstrationBatch(learner=name, demonstrations=some)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing")
@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("loss_type", ["nll", "dft"])
def test_loss_gradient_and_metrics_are_those_of_plain_trl(
    base: BaseModel, model_folder: Path, tmp_path: Path, loss_type: Any, share: bool
) -> None:
    agent = learner(base, loss_type=loss_type, micro_batch_rows=3, share_prefixes=share)
    generator = torch.Generator().manual_seed(3)
    weights = {
        key: tensor + 0.05 * torch.randn(tensor.shape, generator=generator)
        for key, tensor in base.adapter_tensors("alice").items()
    }
    base.set_adapter_tensors("alice", weights)
    some = rows()
    some += tuple(replace(row, prompt_ids=(*some[0].prompt_ids[:-1], 7)) for row in rows(3, seed=1))

    config = LoraConfig(r=4, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    plain = get_peft_model(
        AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32), config
    )
    own = dict(plain.named_parameters())
    with torch.no_grad():
        for key, tensor in weights.items():
            own[f"{key.removesuffix('.weight')}.default.weight"].copy_(tensor)
    trainer = SFTTrainer(
        model=plain,
        args=SFTConfig(
            output_dir=str(tmp_path),
            loss_type=loss_type,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            report_to=[],
            dataset_kwargs={"skip_prepare_dataset": True},
        ),
        train_dataset=Dataset.from_dict({"input_ids": [[0, 0]], "labels": [[0, 0]]}),
        processing_class=base.tokenizer,
    )
    inputs = trainer.data_collator(
        [
            {
                "input_ids": [*r.prompt_ids, *r.reply_ids],
                "labels": [-100] * len(r.prompt_ids) + list(r.reply_ids),
            }
            for r in some
        ]
    )
    trainer.current_gradient_accumulation_steps = 1
    loss = trainer.training_step(plain, inputs, None).item()
    expected = {
        key.replace(".default.", "."): p.grad
        for key, p in plain.named_parameters()
        if p.grad is not None
    }

    got = agent.compute_gradients(batch(some))
    assert got["loss"] == pytest.approx(loss, abs=1e-6)
    assert agent.gradients.keys() == expected.keys()
    largest = max(float(g.abs().max()) for g in expected.values())
    assert largest > 1e-3
    for key, gradient in agent.gradients.items():  # single precision has 7 digits
        assert torch.allclose(gradient, expected[key], atol=1e-6 * max(1.0, largest)), key
    seen = trainer._metrics["train"]
    assert got["entropy"] == pytest.approx(seen["entropy"][0], abs=1e-5)
    assert got["token_accuracy"] == pytest.approx(seen["mean_token_accuracy"][0], abs=1e-6)


def test_the_loss_is_the_mean_over_reply_tokens_alone(base: BaseModel) -> None:
    some = rows(3)
    logprobs = []
    learner(base)
    for row in some:
        ids = torch.tensor([*row.prompt_ids, *row.reply_ids])
        with torch.no_grad():
            logits = base.model(ids[None]).logits[0].double().log_softmax(-1)
        start = len(row.prompt_ids)
        logprobs += [float(logits[start + t - 1, token]) for t, token in enumerate(row.reply_ids)]
    got = learner(base, "bob").compute_gradients(batch(some, "bob"))
    assert got["loss"] == pytest.approx(-np.mean(logprobs), abs=1e-5)


@pytest.mark.slow
def test_imitation_learns_replies_and_moves_no_neighbour(base: BaseModel) -> None:
    agent = learner(base)
    learner(base, "bob", 2)
    before = base.adapter_tensors("bob")
    metrics = [agent.update(batch(rows(4))) for _ in range(40)]
    assert metrics[-1]["token_accuracy"] > 0.9 > metrics[0]["token_accuracy"]
    assert metrics[-1]["loss"] < 0.5 < metrics[0]["loss"]
    assert all(torch.equal(t, before[key]) for key, t in base.adapter_tensors("bob").items())


def test_imitating_leaves_a_policy_gradient_as_it_was(base: BaseModel, sample: Any) -> None:
    grpo = GRPOSettings(learning_rate=1e-2, kl_coef=0.1)
    agent = GRPOLearner("alice", base, grpo, temperature=0.5, seed=1)
    some = sample(base, "alice", temperature=0.5)
    agent.compute_gradients(some)
    before = {key: tensor.clone() for key, tensor in agent.gradients.items()}
    learner(base).compute_gradients(batch(rows()))  # the same adapter, another trainer
    agent.compute_gradients(some)
    assert all(torch.equal(tensor, before[key]) for key, tensor in agent.gradients.items())


@pytest.mark.parametrize(
    ("settings", "word"),
    [({"batch_rows": 0}, "batch_rows"), ({"loss_type": "nnl"}, "nll")],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        SFTSettings(**settings)
