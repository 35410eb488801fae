"""Every algorithm on whole weights: loss and gradients of the plain model, and no other learner's moved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer

from srl_agents.credit.preferences import Preference, PreferenceBatch
from srl_agents.models.base_model import BaseModel
from srl_agents.models.quiet import quiet_libraries
from srl_agents.records import CriticBatch, TrainingBatch
from srl_agents.sharing.demonstrations import Demonstration, DemonstrationBatch
from srl_agents.trainers.dpo import DPOLearner
from srl_agents.trainers.dpo_settings import DPOSettings
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.ppo import PPOLearner
from srl_agents.trainers.ppo_settings import CRITICS, PPOSettings
from srl_agents.trainers.supervised.sft import SFTLearner
from srl_agents.trainers.supervised.sft_settings import SFTSettings

Tensors = dict[str, torch.Tensor]
PROMPT, SHORT, LONG = (5, 9, 40, 41), (7, 8), (11, 12, 13, 14)


@pytest.fixture
def full(model_folder: Path) -> BaseModel:
    return BaseModel.load(model_folder, parameters="full", device="cpu")


def disturb(base: BaseModel, name: str, seed: int = 3) -> None:
    generator = torch.Generator().manual_seed(seed)
    tensors = base.adapter_tensors(name)
    base.set_adapter_tensors(
        name, {k: v + 0.02 * torch.randn(v.shape, generator=generator) for k, v in tensors.items()}
    )


def base_tensors(base: BaseModel) -> Tensors:
    with base.reference():
        return {k: p.detach().clone() for k, p in base.model.get_base_model().named_parameters()}


def plain_copy(folder: Path, base: BaseModel, name: str) -> Any:
    """The model as transformers loads it, with a learner's weights."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.load_state_dict(base.adapter_tensors(name))
    return model


def reply_logprobs(model: Any, prompt: tuple[int, ...], reply: tuple[int, ...]) -> torch.Tensor:
    """(T,) log-probability of each token of the reply, by one plain forward."""
    logits = model(torch.tensor([[*prompt, *reply]])).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1)[torch.arange(len(reply)), torch.tensor(reply)]


def assert_gradients(own: Tensors, plain: Any) -> None:
    """Equal to 3e-6 of the largest; every weight of the model has one."""
    named = dict(plain.named_parameters())
    assert own.keys() == named.keys()
    largest = max(1.0, *(float(p.grad.abs().max()) for p in named.values()))
    for key, gradient in own.items():
        torch.testing.assert_close(gradient, named[key].grad, atol=3e-6 * largest, rtol=1e-6)
    assert all(float(p.grad.abs().max()) > 0 for p in named.values())


def stale(batch: TrainingBatch) -> TrainingBatch:
    """As if an older policy had sampled the rows, so that ratios are clipped."""
    mask = batch.completion_mask_RT
    noise = 0.3 * np.random.default_rng(1).normal(size=mask.shape)
    return replace(batch, logprobs_RT=np.where(mask, batch.logprobs_RT + noise, 0).astype("f4"))


@pytest.mark.parametrize("checkpointing", [False, True])
def test_grpo_is_that_of_plain_trl_with_a_reference_model(
    full: BaseModel, sample: Any, model_folder: Path, tmp_path: Path, checkpointing: bool
) -> None:
    settings = GRPOSettings(kl_coef=0.1, micro_batch_rows=3, gradient_checkpointing=checkpointing)
    agent = GRPOLearner("alice", full, settings, 1.0, 1)
    disturb(full, "alice")
    batch = stale(sample(full, "alice", rows=8))
    with torch.random.fork_rng(devices=[]), quiet_libraries():
        plain = GRPOTrainer(
            model=plain_copy(model_folder, full, "alice"),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=GRPOConfig(
                output_dir=str(tmp_path), per_device_train_batch_size=2, num_generations=2,
                gradient_checkpointing=False, bf16=False, use_cpu=True, report_to=[], beta=0.1,
                loss_type="dapo", epsilon=0.2,
            ),
            train_dataset=Dataset.from_dict({"prompt": ["", ""]}),
            processing_class=full.tokenizer,
        )  # fmt: skip
    plain.current_gradient_accumulation_steps = 1
    plain.model.train()
    mask = torch.from_numpy(batch.completion_mask_RT).long()
    prompt_mask = torch.from_numpy(batch.prompt_mask_RP).long()
    prompt, reply = torch.from_numpy(batch.prompt_ids_RP), torch.from_numpy(batch.completion_ids_RT)
    with torch.no_grad():
        reference, *_ = plain._get_per_token_logps_and_entropies(
            plain.ref_model,
            torch.cat([prompt, reply], 1),
            torch.cat([prompt_mask, mask], 1),
            mask.shape[1],
        )
    loss = plain.compute_loss(
        plain.model,
        {
            "prompt_ids": prompt,
            "prompt_mask": prompt_mask,
            "completion_ids": reply,
            "completion_mask": mask,
            "advantages": torch.from_numpy(batch.advantages_RT[:, 0].copy()),
            "old_per_token_logps": torch.from_numpy(batch.logprobs_RT),
            "ref_per_token_logps": reference,
            "num_items_in_batch": mask.sum(),
        },
    )
    loss.backward()
    got = agent.compute_gradients(batch)
    assert got["loss"] == pytest.approx(loss.item(), rel=1e-5, abs=1e-6)
    assert got["kl"] > 1e-4
    assert_gradients(agent.gradients, plain.model)


def test_sft_is_the_mean_log_probability_of_reply_tokens(
    full: BaseModel, model_folder: Path
) -> None:
    agent = SFTLearner("alice", full, SFTSettings(), seed=1)
    disturb(full, "alice")
    plain = plain_copy(model_folder, full, "alice")
    logprobs = torch.cat([reply_logprobs(plain, PROMPT, r) for r in (SHORT, LONG)])
    loss = -logprobs.mean()
    loss.backward()
    rows = [Demonstration(prompt_ids=PROMPT, reply_ids=r, by="bot") for r in (SHORT, LONG)]
    got = agent.compute_gradients(DemonstrationBatch(learner="alice", demonstrations=tuple(rows)))
    assert got["loss"] == pytest.approx(loss.item(), rel=1e-5, abs=1e-6)
    assert_gradients(agent.gradients, plain)


def pair(chosen: tuple[int, ...], rejected: tuple[int, ...]) -> Preference:
    return Preference(
        start="s", prompt_ids=PROMPT, chosen_ids=chosen, rejected_ids=rejected,
        chosen_by=("alice@0",), rejected_by=("alice@0",), margin=1.0, source="rank",
    )  # fmt: skip


def test_dpo_is_the_sigmoid_of_log_ratios_to_the_untouched_base(
    full: BaseModel, model_folder: Path
) -> None:
    agent = DPOLearner("alice", full, DPOSettings(kl_coef=0.5), 1.0, 1)
    disturb(full, "alice")
    plain = plain_copy(model_folder, full, "alice")
    reference = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    with torch.no_grad():
        before = [reply_logprobs(reference, PROMPT, r).sum() for r in (LONG, SHORT)]
    ratio = [
        reply_logprobs(plain, PROMPT, r).sum() - b
        for r, b in zip((LONG, SHORT), before, strict=True)
    ]
    loss = -torch.nn.functional.logsigmoid(0.5 * (ratio[0] - ratio[1]))
    loss.backward()
    batch = PreferenceBatch(learner="alice", pairs=(pair(LONG, SHORT),))
    got = agent.compute_gradients(batch)
    assert got["loss"] == pytest.approx(loss.item(), rel=1e-5, abs=1e-6)
    assert_gradients(agent.gradients, plain)


def judged(batch: TrainingBatch) -> CriticBatch:
    """With values of 0 and noise for returns."""
    fields = {name: getattr(batch, name) for name in batch.__dataclass_fields__}
    mask = batch.completion_mask_RT
    noise = np.where(mask, np.random.default_rng(0).normal(size=mask.shape), 0).astype("f4")
    return CriticBatch(**fields, values_RT=np.zeros_like(noise), returns_RT=noise)


def moved(before: Tensors, after: Tensors) -> bool:
    return any(not torch.equal(before[key], after[key]) for key in before)


@pytest.mark.slow
@pytest.mark.parametrize("critic", CRITICS)
def test_ppo_moves_policy_and_critic_and_nothing_else(
    full: BaseModel, sample: Any, model_folder: Path, critic: Any
) -> None:
    full.add_adapter("bob", 0)
    base, bob = base_tensors(full), full.adapter_tensors("bob")
    settings = PPOSettings(critic=critic, learning_rate=1e-4, critic_learning_rate=1e-3)
    agent = PPOLearner("alice", full, settings, 1.0, 1)
    batch = judged(sample(full, "alice"))
    for _ in range(2):  # a head of 0 gives its trunk no gradient
        alice, extras = full.adapter_tensors("alice"), agent.state()[0]
        agent.update(batch)
    assert moved(alice, full.adapter_tensors("alice"))
    trunk = {k: v for k, v in extras.items() if k.startswith("extra/")}
    assert (len(trunk) > 2) == (critic == "adapter")
    after = agent.state()[0]
    for key in ("extra/head.layers.0.weight", *[k for k in trunk if "mlp" in k]):
        assert not torch.equal(trunk[key], after[key])
    assert not moved(bob, full.adapter_tensors("bob"))
    assert not moved(base, base_tensors(full))

    # the critic's loss reaches the policy where it shares its trunk, and nowhere else
    disturb(full, "alice")
    policy = GRPOLearner("alice", full, GRPOSettings(clip_low=0.2, clip_high=0.2), 1.0, 1)
    assert policy.compute_gradients(batch)
    expected = {k: g.clone() for k, g in policy.gradients.items()}
    agent.compute_gradients(batch)
    gaps = [float((agent.gradients[k] - g).abs().max()) for k, g in expected.items()]
    assert (max(gaps) > 1e-3) == (critic == "shared")


@pytest.mark.parametrize("optimizer", ["adamw_torch", "adamw_8bit"])
def test_a_learner_continues_bit_for_bit_from_its_state(
    full: BaseModel, sample: Any, model_folder: Path, optimizer: str
) -> None:
    settings = GRPOSettings(optimizer=optimizer, learning_rate=1e-4, kl_coef=0.1)
    agent = GRPOLearner("alice", full, settings, 1.0, 1)
    batch = sample(full, "alice")
    before = base_tensors(full)
    agent.update(batch)
    kept, (tensors, state) = full.adapter_tensors("alice"), agent.state()
    agent.update(batch)
    expected = full.adapter_tensors("alice")
    assert moved(kept, expected)
    assert not moved(before, base_tensors(full))

    other = BaseModel.load(model_folder, parameters="full", device="cpu")
    again = GRPOLearner("alice", other, settings, 1.0, 1)
    other.set_adapter_tensors("alice", kept)
    again.load_state(tensors, state)
    again.update(batch)
    assert not moved(expected, other.adapter_tensors("alice"))


def test_learners_take_turns_and_a_teacher_reads_without_moving(
    full: BaseModel, sample: Any
) -> None:
    """What distillation asks for: the log-probabilities of one learner's tokens under another."""
    settings = GRPOSettings(learning_rate=1e-3)
    alice = GRPOLearner("alice", full, settings, 1.0, 1)
    full.add_adapter("bob", 1)
    disturb(full, "bob")
    before = full.adapter_tensors("bob")
    batch = sample(full, "alice")
    own = alice.token_logprobs(batch, "alice")
    np.testing.assert_allclose(own, batch.logprobs_RT, atol=1e-4)
    taught = alice.token_logprobs(batch, "bob")
    assert np.abs(taught - own).max() > 0.01
    alice.update(batch)
    assert not moved(before, full.adapter_tensors("bob"))
    np.testing.assert_array_equal(alice.token_logprobs(batch, "bob"), taught)
    assert np.abs(alice.token_logprobs(batch, "alice") - own).max() > 1e-3


def test_embeddings_keep_32_bit_state_whoever_was_active_last(full: BaseModel, sample: Any) -> None:
    """All gradients come before all steps; bitsandbytes identifies embeddings by the modules' tensors."""
    import bitsandbytes

    bitsandbytes.optim.GlobalOptimManager.get_instance().initialize()  # forget other tests
    settings = GRPOSettings(optimizer="adamw_8bit", learning_rate=1e-4)
    learners = [GRPOLearner(name, full, settings, 1.0, 1) for name in ("alice", "bob")]
    for learner in learners:
        learner.compute_gradients(sample(full, learner.name, rows=2))
    for learner in learners:
        learner.apply_gradients()
        parameters = full.trainable_parameters(learner.name)
        kept = {
            key: learner._optimizer.state[parameter]["state1"].dtype
            for key, parameter in parameters.items()
        }
        assert kept["model.embed_tokens.weight"] == torch.float32
        assert kept["lm_head.weight"] == torch.uint8
