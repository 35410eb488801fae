"""The reward model learns by TRL's loss, ranks pairs that it never saw, and moves no other weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForSequenceClassification
from trl import RewardConfig, RewardTrainer

from srl_agents.credit.preferences import Preference, PreferenceBatch
from srl_agents.models.base_model import BaseModel
from srl_agents.trainers.supervised.reward_model import NAME, RewardLearner
from srl_agents.trainers.supervised.reward_model_settings import CENTERING, RewardModelSettings
from srl_envs.errors import ConfigError

LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
GOOD, BAD = 65, 66
"""In the toy a reply is better if it holds GOOD."""


def learner(base: BaseModel, **settings: Any) -> RewardLearner:
    return RewardLearner(base, RewardModelSettings(**{"learning_rate": 1e-2, **settings}), seed=1)


def pairs(count: int = 5, seed: int = 0) -> tuple[Preference, ...]:
    rng = np.random.default_rng(seed)

    def some(low: int, high: int) -> list[int]:
        return [int(i) for i in rng.integers(100, 300, size=int(rng.integers(low, high)))]

    return tuple(
        Preference(
            start="s",
            prompt_ids=tuple(some(3, 12)),
            chosen_ids=(*some(0, 3), GOOD, *some(0, 3)),
            rejected_ids=(*some(0, 3), BAD, *some(0, 3)),
            chosen_by=("alice@0",),
            rejected_by=("bob@0",),
            margin=1.0,
            source="rank",
        )
        for _ in range(count)
    )


def batch(some: tuple[Preference, ...]) -> PreferenceBatch:
    return PreferenceBatch(learner=NAME, pairs=some)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing")
def test_loss_gradient_and_metrics_are_those_of_plain_trl(
    base: BaseModel, model_folder: Path, tmp_path: Path
) -> None:
    agent = learner(base, micro_batch_rows=4)
    generator = torch.Generator().manual_seed(3)
    weights = {
        key: tensor + 0.05 * torch.randn(tensor.shape, generator=generator)
        for key, tensor in base.adapter_tensors(NAME).items()
    }
    base.set_adapter_tensors(NAME, weights)
    head = 0.3 * torch.randn((1, 64), generator=generator)
    with torch.no_grad():
        agent._head.weight.copy_(head)

    model = AutoModelForSequenceClassification.from_pretrained(
        model_folder, num_labels=1, dtype=torch.float32
    )
    plain = get_peft_model(model, LoraConfig(r=4, lora_alpha=16, target_modules=LAYERS))
    own = dict(plain.named_parameters())
    with torch.no_grad():
        for key, tensor in weights.items():
            own[f"{key.removesuffix('.weight')}.default.weight"].copy_(tensor)
        plain.base_model.model.score.weight.copy_(head)
    plain.base_model.model.score.weight.requires_grad_(True)
    trainer = RewardTrainer(
        model=plain,
        args=RewardConfig(
            output_dir=str(tmp_path),
            center_rewards_coefficient=CENTERING,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            report_to=[],
        ),
        train_dataset=Dataset.from_dict({"chosen_ids": [[3]], "rejected_ids": [[4]]}),
        processing_class=base.tokenizer,
    )
    some = pairs()
    inputs = trainer.data_collator(
        [
            {
                "chosen_ids": [*p.prompt_ids, *p.chosen_ids],
                "rejected_ids": [*p.prompt_ids, *p.rejected_ids],
            }
            for p in some
        ]
    )
    trainer.current_gradient_accumulation_steps = 1
    loss = trainer.training_step(plain, inputs, None).item()
    expected = {
        key.replace(".default.", "."): p.grad
        for key, p in plain.named_parameters()
        if p.grad is not None and "lora" in key
    }

    got = agent.compute_gradients(batch(some))
    assert got["loss"] == pytest.approx(loss, abs=1e-6)
    assert agent.gradients.keys() == expected.keys()
    largest = max(float(g.abs().max()) for g in expected.values())
    assert largest > 1e-3
    for key, gradient in agent.gradients.items():  # single precision has 7 digits
        assert torch.allclose(gradient, expected[key], atol=1e-6 * max(1.0, largest)), key
    score = plain.base_model.model.score.weight.grad
    assert agent._head.weight.grad is not None
    assert torch.allclose(agent._head.weight.grad, score, atol=1e-6)
    seen = trainer._metrics["train"]
    assert got["accuracy"] == pytest.approx(seen["accuracy"][0])
    assert got["margin"] == pytest.approx(seen["margin"][0], abs=1e-5)


@pytest.mark.slow
def test_it_ranks_pairs_that_it_never_saw_and_moves_no_neighbour(base: BaseModel) -> None:
    base.add_adapter("alice", 2)
    before = base.adapter_tensors("alice")
    agent = learner(base)
    held_out = pairs(40, seed=99)

    def accuracy() -> float:
        chosen = agent.scores([(p.prompt_ids, p.chosen_ids) for p in held_out])
        rejected = agent.scores([(p.prompt_ids, p.rejected_ids) for p in held_out])
        return float((chosen > rejected).mean())

    assert accuracy() == 0.0  # a head of 0 prefers no reply
    for step in range(25):
        agent.update(batch(pairs(8, seed=step)))
    assert accuracy() > 0.8  # of 40 pairs, where chance is half
    assert all(torch.equal(t, before[key]) for key, t in base.adapter_tensors("alice").items())


def test_a_score_does_not_depend_on_what_is_judged_beside_it(base: BaseModel) -> None:
    agent = learner(base)
    agent.update(batch(pairs(8)))
    replies = [(p.prompt_ids, p.chosen_ids) for p in pairs(6, seed=5)]
    together = agent.scores(replies)
    assert len(set(together.round(6))) > 1
    separate = [agent.scores([reply])[0] for reply in replies]
    assert together == pytest.approx(separate, abs=1e-5)
    judged = agent.judgements(replies)
    assert judged == pytest.approx(2 / (1 + np.exp(-together)) - 1)
    assert agent.scores([]).shape == (0,)


def test_resuming_gives_the_same_scores_bit_for_bit(model_folder: Path) -> None:
    def fresh() -> tuple[BaseModel, RewardLearner]:
        base = BaseModel.load(model_folder, lora_rank=4, device="cpu")
        return base, learner(base, optimizer="adamw_8bit")

    replies = [(p.prompt_ids, p.chosen_ids) for p in pairs(6, seed=5)]
    base, agent = fresh()
    agent.update(batch(pairs(4, seed=0)))
    weights, (tensors, state) = base.adapter_tensors(NAME), agent.state()
    agent.update(batch(pairs(4, seed=1)))
    whole = agent.scores(replies)
    base, agent = fresh()
    base.set_adapter_tensors(NAME, weights)
    agent.load_state(tensors, state)
    agent.update(batch(pairs(4, seed=1)))
    assert (agent.scores(replies) == whole).all()


@pytest.mark.parametrize("settings", [{"weight": 0.0}, {"ready_pairs": 0}])
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        RewardModelSettings(**settings)
