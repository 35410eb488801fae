"""Pairs enter TRL's losses exactly; the reference is ours; no other learner's weights move."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

from srl_agents.credit.preferences import Preference, PreferenceBatch
from srl_agents.models.base_model import BaseModel
from srl_agents.trainers.dpo import DPOLearner
from srl_agents.trainers.dpo_settings import DPOSettings, PairLoss
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_envs.errors import ConfigError

Tensors = dict[str, torch.Tensor]
plain_trl = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing")
SMOOTHING = {"robust": 0.1, "exo_pair": 1e-3}


def learner(base: BaseModel, name: str = "alice", seed: int = 1, **settings: Any) -> DPOLearner:
    given = DPOSettings(**{"learning_rate": 1e-2, **settings})
    return DPOLearner(name, base, given, temperature=1.0, seed=seed)


def disturb(base: BaseModel, name: str, scale: float = 0.05) -> None:
    generator = torch.Generator().manual_seed(3)
    tensors = base.adapter_tensors(name)
    base.set_adapter_tensors(
        name,
        {k: v + scale * torch.randn(v.shape, generator=generator) for k, v in tensors.items()},
    )


def pairs(count: int = 5, seed: int = 0) -> tuple[Preference, ...]:
    rng = np.random.default_rng(seed)

    def some(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(i) for i in rng.integers(3, 300, size=int(rng.integers(low, high))))

    return tuple(
        Preference(
            start="s",
            prompt_ids=some(3, 12),
            chosen_ids=some(1, 8),
            rejected_ids=some(1, 8),
            chosen_by=("alice@0",),
            rejected_by=("alice@0",),
            margin=float(rng.uniform(0.1, 2.0)),
            source="rank",
        )
        for _ in range(count)
    )


def batch(some: tuple[Preference, ...], name: str = "alice") -> PreferenceBatch:
    return PreferenceBatch(learner=name, pairs=some)


@pytest.fixture
def plain(model_folder: Path, tmp_path: Path) -> Any:
    """TRL's own trainer around its own PEFT model, with one adapter called "default"."""

    def make(weights: Tensors, settings: DPOSettings, some: tuple[Preference, ...]) -> DPOTrainer:
        model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
        config = LoraConfig(
            r=4, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM", lora_dropout=0.0
        )
        peft = get_peft_model(copy.deepcopy(model), config)
        own = dict(peft.named_parameters())
        with torch.no_grad():
            for key, tensor in weights.items():
                own[f"{key.removesuffix('.weight')}.default.weight"].copy_(tensor)
        rows = {
            "prompt_ids": [list(p.prompt_ids) for p in some],
            "chosen_ids": [list(p.chosen_ids) for p in some],
            "rejected_ids": [list(p.rejected_ids) for p in some],
        }
        text = {"prompt": ["a"], "chosen": ["b"], "rejected": ["c"]}
        tokenizer = BaseModel.load(model_folder, device="cpu").tokenizer
        trainer = DPOTrainer(
            model=peft,
            ref_model=model,
            args=DPOConfig(
                output_dir=str(tmp_path),
                beta=settings.kl_coef,
                loss_type=[settings.loss_type],
                label_smoothing=settings.label_smoothing,
                ld_alpha=None if settings.tail_weight == 1 else settings.tail_weight,
                per_device_train_batch_size=len(some),
                gradient_checkpointing=False,
                bf16=False,
                use_cpu=True,
                report_to=[],
            ),
            train_dataset=Dataset.from_dict(text),
            processing_class=tokenizer,
        )
        inputs = trainer.data_collator(Dataset.from_dict(rows).to_list())
        trainer.current_gradient_accumulation_steps = 1
        loss = trainer.training_step(peft, inputs, None)
        grads = {
            key.replace(".default.", "."): parameter.grad
            for key, parameter in peft.named_parameters()
            if parameter.grad is not None
        }
        trainer.seen = (loss.item(), grads, {k: v[0] for k, v in trainer._metrics["train"].items()})
        return trainer

    return make


def assert_same(got: Tensors, expected: Tensors) -> None:
    """Equal to 1e-6 of the largest entry and 1e-5 of each: single precision has 7 digits."""
    assert got.keys() == expected.keys()
    largest = max(float(tensor.abs().max()) for tensor in expected.values())
    assert largest > 1e-3
    for key, tensor in expected.items():
        assert torch.allclose(got[key], tensor, rtol=1e-5, atol=1e-6 * max(1.0, largest)), key


@pytest.mark.slow
@plain_trl
@pytest.mark.parametrize("loss_type", get_args(PairLoss))
def test_loss_gradient_and_metrics_are_those_of_plain_trl(
    base: BaseModel, plain: Any, loss_type: PairLoss
) -> None:
    agent = learner(
        base,
        loss_type=loss_type,
        label_smoothing=SMOOTHING.get(loss_type, 0.0),
        kl_coef=0.3,
        micro_batch_rows=4,  # two pairs at a time: the last micro-batch is smaller
    )
    disturb(base, "alice")
    some = pairs()
    loss, grads, metrics = plain(base.adapter_tensors("alice"), agent.settings, some).seen
    got = agent.compute_gradients(batch(some))
    assert got["loss"] == pytest.approx(loss, abs=1e-6, rel=5e-6)  # sums of squares reach 16
    assert_same(agent.gradients, grads)
    for key in ("rewards/accuracies", "rewards/margins", "rewards/chosen", "entropy"):
        assert got[key] == pytest.approx(metrics[key], abs=1e-5), key


@plain_trl
def test_less_weight_behind_the_shorter_reply_is_trls(base: BaseModel, plain: Any) -> None:
    agent = learner(base, tail_weight=0.5)
    disturb(base, "alice")
    some = pairs()
    loss, grads, _ = plain(base.adapter_tensors("alice"), agent.settings, some).seen
    assert agent.compute_gradients(batch(some))["loss"] == pytest.approx(loss, abs=1e-6)
    assert_same(agent.gradients, grads)
    full = learner(base, "bob", tail_weight=1.0)
    base.set_adapter_tensors("bob", base.adapter_tensors("alice"))
    assert abs(full.compute_gradients(batch(some, "bob"))["loss"] - loss) > 1e-4


def reply_logprob(base: BaseModel, prompt: tuple[int, ...], reply: tuple[int, ...]) -> float:
    ids = torch.tensor([*prompt, *reply])
    with torch.no_grad():
        logits = base.model(ids[None]).logits[0].double().log_softmax(-1)
    return sum(float(logits[len(prompt) + t - 1, token]) for t, token in enumerate(reply))


@pytest.mark.parametrize("reference", ["base", "start", "folder"])
def test_the_loss_is_the_hand_computed_one_against_the_named_reference(
    base: BaseModel, tmp_path: Path, reference: str
) -> None:
    base.add_adapter("alice", 1)
    disturb(base, "alice", 0.03)  # a warm start
    start = base.adapter_tensors("alice")
    if reference == "folder":
        base.save_adapter("alice", tmp_path)
        disturb(base, "alice", 0.01)
        reference = str(tmp_path)
    agent = learner(base, reference=reference, kl_coef=0.5, offset=0.7)
    disturb(base, "alice", 0.05)
    some = pairs(3)
    got = agent.compute_gradients(batch(some))

    def scores() -> list[tuple[float, float]]:
        return [
            (
                reply_logprob(base, p.prompt_ids, p.chosen_ids),
                reply_logprob(base, p.prompt_ids, p.rejected_ids),
            )
            for p in some
        ]

    base.activate("alice")
    now = scores()
    if reference == "base":
        with base.reference():
            before = scores()
    else:
        base.set_adapter_tensors("alice", start)
        before = scores()
    chosen = [0.5 * (n[0] - b[0]) for n, b in zip(now, before, strict=True)]
    rejected = [0.5 * (n[1] - b[1]) for n, b in zip(now, before, strict=True)]
    asked = [c - r - 0.7 * p.margin for c, r, p in zip(chosen, rejected, some, strict=True)]
    losses = [np.log1p(np.exp(-x)) for x in asked]
    assert got["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    assert got["rewards/chosen"] == pytest.approx(np.mean(chosen), abs=1e-5)
    assert got["rewards/rejected"] == pytest.approx(np.mean(rejected), abs=1e-5)
    assert got["rewards/margins"] == pytest.approx(np.mean(chosen) - np.mean(rejected), abs=1e-5)
    assert got["rewards/accuracies"] == pytest.approx(np.mean([x > 0 for x in asked]))


def test_an_untrained_adapter_is_its_reference(base: BaseModel) -> None:
    got = learner(base).compute_gradients(batch(pairs()))
    assert got["loss"] == pytest.approx(np.log(2), abs=1e-6)
    assert got["rewards/margins"] == pytest.approx(0.0, abs=1e-6)


def test_learning_turns_the_pairs_round_and_moves_no_neighbour(base: BaseModel) -> None:
    agent = learner(base, learning_rate=2e-2, reference="start")
    learner(base, "bob", 2)
    others = {name: base.adapter_tensors(name) for name in ("bob", "alice@start")}
    some = pairs()
    metrics = [agent.update(batch(some)) for _ in range(12)]
    assert metrics[-1]["rewards/accuracies"] == 1.0
    assert metrics[-1]["loss"] < 0.5 < metrics[0]["loss"]
    assert agent.version == 12
    for name, tensors in others.items():
        assert all(torch.equal(t, tensors[k]) for k, t in base.adapter_tensors(name).items())


def test_resuming_gives_the_same_weights_bit_for_bit(model_folder: Path) -> None:
    def run(steps: int, base: BaseModel, agent: DPOLearner, first: int = 0) -> Tensors:
        for step in range(first, steps):
            agent.update(batch(pairs(4, seed=step)))
        return base.adapter_tensors("alice")

    def fresh() -> tuple[BaseModel, DPOLearner]:
        base = BaseModel.load(model_folder, lora_rank=4, device="cpu")
        return base, learner(base, optimizer="adamw_8bit", reference="start")

    whole = run(4, *fresh())
    base, agent = fresh()
    run(2, base, agent)
    weights, (tensors, state) = base.adapter_tensors("alice"), agent.state()
    base, agent = fresh()
    base.set_adapter_tensors("alice", weights)
    agent.load_state(tensors, state)
    resumed = run(4, base, agent, first=2)
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)


def test_trainers_of_two_kinds_share_a_base_in_either_order(
    model_folder: Path, sample: Any
) -> None:
    def gradients(order: tuple[str, ...]) -> tuple[Tensors, Tensors]:
        base = BaseModel.load(model_folder, lora_rank=4, device="cpu")
        agents: dict[str, Any] = {}
        for name in order:
            if name == "alice":
                agents[name] = learner(base)
            else:
                settings = GRPOSettings(learning_rate=1e-2, kl_coef=0.1)
                agents[name] = GRPOLearner("bob", base, settings, temperature=0.5, seed=2)
        rows = sample(base, "bob", temperature=0.5)
        got = {}
        for name in ("alice", "bob", "alice"):
            agents[name].compute_gradients(batch(pairs()) if name == "alice" else rows)
            got[name] = {key: g.clone() for key, g in agents[name].gradients.items()}
        return got["alice"], got["bob"]

    for one, other in zip(gradients(("alice", "bob")), gradients(("bob", "alice")), strict=True):
        assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"kl_coef": 0.0}, "kl_coef"),
        ({"loss_type": "sigmiod"}, "sigmoid"),
        ({"loss_type": "aot"}, "Known"),
        ({"loss_type": "exo_pair"}, "label_smoothing"),
        ({"label_smoothing": 0.1}, "robust"),
        ({"label_smoothing": 0.5, "loss_type": "robust"}, "0.5"),
        ({"tail_weight": 1.5}, "tail_weight"),
        ({"offset": 0.1, "loss_type": "ipo"}, "offset"),
        ({"learning_rate": 0.0}, "learning_rate"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        DPOSettings(**settings)
