"""Losses and gradients against sums by hand: what we rely on in TRL and PEFT, and our own promises."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import VARIANTS, GRPOSettings, LossType
from srl_envs.errors import (
    ConfigError,
    ModelError,
    ShapeError,
)
from tests.srl_agents.trainers.small_learners import disturb, learner, token_logprobs


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo", "bnpo"])
def test_loss_is_the_hand_computed_one(base: BaseModel, sample: Any, loss_type: LossType) -> None:
    agent = learner(base, loss_type=loss_type, kl_coef=0.1, clip_low=0.1, clip_high=0.3)
    disturb(base, "alice")
    batch = sample(base, "alice")
    rng = np.random.default_rng(1)
    mask = batch.completion_mask_RT
    stale = np.where(mask, batch.logprobs_RT + 0.3 * rng.normal(size=mask.shape), 0.0)
    advantages = np.where(mask, rng.normal(size=mask.shape), 0.0)  # another one for each token
    batch = replace(
        batch,
        logprobs_RT=stale.astype(np.float32),
        advantages_RT=advantages.astype(np.float32),
    )
    got = agent.compute_gradients(batch)

    base.activate("alice")
    now = token_logprobs(base, batch)
    with base.reference():
        frozen = token_logprobs(base, batch)
    old, adv = torch.from_numpy(batch.logprobs_RT), torch.from_numpy(batch.advantages_RT)
    ratio = (now - old).exp()
    surrogate = -torch.minimum(ratio * adv, ratio.clamp(0.9, 1.3) * adv)
    kl = ((frozen - now).exp() - (frozen - now) - 1) * ratio  # TRL corrects it for stale rows
    weights = torch.from_numpy(mask)
    values = (surrogate + 0.1 * kl) * weights
    rows, tokens = weights.shape[0], weights.sum()
    expected = {
        "dapo": values.sum() / tokens,
        "bnpo": values.sum() / tokens,
        "grpo": (values.sum(1) / weights.sum(1)).mean(),
        "dr_grpo": values.sum() / (rows * 64),
    }[loss_type]
    assert got["loss"] == pytest.approx(expected.item(), abs=1e-5)
    clipped = ((ratio < 0.9) & (adv < 0)) | ((ratio > 1.3) & (adv > 0))
    assert got["clip_fraction"] == pytest.approx(
        ((clipped & weights).sum() / tokens).item(), abs=1e-6
    )
    drift = ((now - old).abs() * weights).sum() / tokens
    assert got["sampler_kl"] == pytest.approx(drift.item(), abs=1e-5)


def test_whole_rows_are_clipped_where_ratios_are_of_rows(base: BaseModel, sample: Any) -> None:
    """The share of tokens in clipped rows; a row's ratio is the geometric mean of its tokens'."""
    agent = learner(base, variant="gspo", kl_coef=0.0, clip_low=0.02, clip_high=0.02)
    batch = sample(base, "alice")
    mask = batch.completion_mask_RT
    noise = 0.3 * np.random.default_rng(1).normal(size=mask.shape)
    stale = np.where(mask, batch.logprobs_RT + noise, 0.0).astype(np.float32)
    batch = replace(batch, logprobs_RT=stale)
    got = agent.compute_gradients(batch)
    base.activate("alice")
    gap = (token_logprobs(base, batch).numpy() - stale) * mask
    ratio = np.exp(gap.sum(1) / mask.sum(1))
    up = batch.advantages_RT[:, 0] > 0
    clipped = np.where(up, ratio > 1.02, ratio < 0.98)
    assert 0 < clipped.sum() < len(clipped)
    assert got["clip_fraction"] == pytest.approx((clipped[:, None] & mask).sum() / mask.sum())


def test_kl_is_that_to_the_bare_base(base: BaseModel, sample: Any) -> None:
    agent = learner(base, kl_coef=0.5)
    disturb(base, "alice")
    batch = sample(base, "alice")
    with_kl = agent.compute_gradients(batch)
    base.activate("alice")
    now = token_logprobs(base, batch)
    with base.reference():
        frozen = token_logprobs(base, batch)
    weights = torch.from_numpy(batch.completion_mask_RT)
    kl = (((frozen - now).exp() - (frozen - now) - 1) * weights).sum() / weights.sum()
    assert kl > 0.01
    assert with_kl["kl"] == pytest.approx(kl.item(), rel=1e-5, abs=1e-5)
    without = learner(base, "bob", kl_coef=0.0)
    base.set_adapter_tensors("bob", base.adapter_tensors("alice"))
    plain = without.compute_gradients(replace(batch, learner="bob"))
    assert "kl" not in plain
    assert with_kl["loss"] - plain["loss"] == pytest.approx(0.5 * kl.item(), abs=1e-4)


@pytest.mark.parametrize("sampled_by", ["the policy", "an older one"])
@pytest.mark.parametrize("corrected", [False, True])
def test_the_divergence_is_that_of_the_paper(
    base: BaseModel, sample: Any, corrected: bool, sampled_by: str
) -> None:
    """Equation 4 of arXiv:2402.03300, or that of arXiv:2512.02556, differentiated as written.

    Even where every ratio is 1 the two have different gradients: the ratio is differentiated, too.
    """
    agent = learner(base, variant="grpo", kl_coef=0.5, kl_correction=corrected, micro_batch_rows=3)
    disturb(base, "alice")
    batch = sample(base, "alice")
    mask = batch.completion_mask_RT
    if sampled_by == "an older one":
        noise = 0.3 * np.random.default_rng(1).normal(size=mask.shape)
        batch = replace(batch, logprobs_RT=np.where(mask, batch.logprobs_RT + noise, 0))
    batch = replace(batch, advantages_RT=np.zeros_like(batch.advantages_RT))
    got = agent.compute_gradients(batch)
    gradients = {key: gradient.clone() for key, gradient in agent.gradients.items()}
    agent.drop_gradients()

    base.activate("alice")
    now = token_logprobs(base, batch, learned=True)
    with base.reference():
        gap = token_logprobs(base, batch) - now
    each = gap.exp() - gap - 1
    if corrected:
        each = each * (now - torch.from_numpy(batch.logprobs_RT)).exp()
    kept = torch.from_numpy(mask)
    loss = 0.5 * ((each * kept).sum(1) / kept.sum(1)).mean()
    loss.backward()
    assert got["loss"] == pytest.approx(loss.item(), abs=1e-6)
    assert got["grad_norm"] > 1e-2
    for key, gradient in agent.gradients.items():
        torch.testing.assert_close(gradients[key], gradient, atol=1e-5, rtol=1e-4)


def test_an_untrained_adapter_has_no_kl(base: BaseModel, sample: Any) -> None:
    agent = learner(base)
    assert agent.compute_gradients(sample(base, "alice"))["kl"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_trainer_and_sampler_agree(
    tmp_path: Path, sample: Any, kind: Any, temperature: float
) -> None:
    base = BaseModel.load(random_model.build(tmp_path, kind=kind), device="cpu")
    settings = GRPOSettings(micro_batch_rows=3)
    agent = GRPOLearner("alice", base, settings, temperature=temperature, seed=1)
    disturb(base, "alice")
    batch = sample(base, "alice", rows=20, temperature=temperature)
    metrics = agent.compute_gradients(batch)
    assert metrics["sampler_kl"] < 1e-5
    assert metrics["clip_fraction"] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("loss_type", get_args(LossType))
def test_micro_batches_give_the_gradient_of_the_whole(
    base: BaseModel, sample: Any, loss_type: LossType
) -> None:
    settings: dict[str, Any] = {"loss_type": loss_type, "clip_high": 5.0, "entropy_coef": 0.05}
    if loss_type == "luspo":
        settings["ratio_level"] = "sequence"
    if loss_type == "rloo":
        settings |= {"kl_coef": 0.0, "entropy_coef": 0.0}
    whole = learner(base, "alice", micro_batch_rows=99, **settings)
    parts = learner(base, "bob", micro_batch_rows=3, **settings)
    disturb(base, "alice")
    base.set_adapter_tensors("bob", base.adapter_tensors("alice"))
    batch = sample(base, "alice", rows=8)
    expected = whole.compute_gradients(batch)
    kept = {key: gradient.clone() for key, gradient in whole.gradients.items()}
    got = parts.compute_gradients(replace(batch, learner="bob"))
    assert got == pytest.approx(expected, abs=1e-5, rel=1e-5)
    assert expected["grad_norm"] > 1e-3
    close = 5e-5 if loss_type == "rloo" else 1e-5  # its ratio is the product over a whole row
    for key, gradient in parts.gradients.items():
        torch.testing.assert_close(gradient, kept[key], atol=close, rtol=1e-4)


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo"])
def test_gradients_of_seats_add_up_to_that_of_the_whole(
    base: BaseModel, sample: Any, loss_type: LossType
) -> None:
    agent = learner(base, loss_type=loss_type, kl_coef=0.1)
    disturb(base, "alice")
    plain = sample(base, "alice", rows=5)
    seats_R, games_R = np.arange(5) % 2, np.array(["go", "go", "nim", "nim", "nim"])
    batch = replace(plain, seats_R=seats_R, games_R=games_R)
    agent.compute_gradients(batch)
    whole = {key: gradient.clone() for key, gradient in agent.gradients.items()}
    seats = batch.by_seat()
    assert list(replace(batch, games_R=None).by_seat()) == [("", 0), ("", 1)]
    assert {place: rows.rows for place, rows in seats.items()} == {
        ("go", 0): 1, ("go", 1): 1, ("nim", 0): 2, ("nim", 1): 1,
    }  # fmt: skip
    agent.begin(batch)
    for rows in seats.values():
        agent.add_gradients(rows)
    for key, gradient in agent.gradients.items():
        torch.testing.assert_close(gradient, whole[key], rtol=1e-4, atol=1e-6)
    assert plain.by_seat() == {}


def test_gradients_do_not_pile_up_over_calls(base: BaseModel, sample: Any) -> None:
    agent = learner(base)
    batch = sample(base, "alice")
    first = agent.compute_gradients(batch)
    assert agent.compute_gradients(batch) == first


def test_training_one_adapter_moves_nothing_else(base: BaseModel, sample: Any) -> None:
    alice, bob = learner(base, "alice", seed=1), learner(base, "bob", seed=2)
    for agent in (alice, bob, alice):
        other = "bob" if agent is alice else "alice"
        before = {n: p.detach().clone() for n, p in base.model.named_parameters()}
        agent.update(sample(base, agent.name))
        moved = {
            n for n, p in base.model.named_parameters() if not torch.equal(p.detach(), before[n])
        }
        assert moved
        assert all(f".{agent.name}." in name for name in moved)
        assert not any(p.grad is not None for p in base.trainable_parameters(other).values())
    assert (alice.version, bob.version) == (2, 1)


def test_two_learners_in_turn_equal_each_alone(
    base: BaseModel, model_folder: Path, sample: Any
) -> None:
    alice, bob = learner(base, "alice", seed=1), learner(base, "bob", seed=2)
    batches = {n: [sample(base, n, seed=i) for i in range(3)] for n in ("alice", "bob")}
    for i in range(3):
        alice.update(batches["alice"][i])
        bob.update(batches["bob"][i])
    lonely_base = BaseModel.load(model_folder, lora_rank=4, device="cpu")
    lonely = learner(lonely_base, "bob", seed=2)
    for batch in batches["bob"]:
        lonely.update(batch)
    expected = lonely_base.adapter_tensors("bob")
    assert all(torch.equal(v, expected[k]) for k, v in base.adapter_tensors("bob").items())


def test_gradient_checkpointing_changes_no_gradient(base: BaseModel, sample: Any) -> None:
    plain = learner(base, "alice")
    disturb(base, "alice")
    batch = sample(base, "alice")
    expected = plain.compute_gradients(batch)
    saving = learner(base, "bob", gradient_checkpointing=True)
    base.set_adapter_tensors("bob", base.adapter_tensors("alice"))
    assert saving.compute_gradients(replace(batch, learner="bob")) == pytest.approx(expected)
    again = sample(base, "alice")
    assert np.array_equal(again.completion_ids_RT, batch.completion_ids_RT)


@pytest.mark.parametrize("share", [False, True])
def test_half_precision_comes_close(model_folder: Path, sample: Any, share: bool) -> None:
    """A bfloat16 base, and bfloat16 passes over a float32 base; adapters stay float32."""
    exact = BaseModel.load(model_folder, lora_rank=4, device="cpu")
    expected = learner(exact, kl_coef=0.0)
    disturb(exact, "alice")
    batch = sample(exact, "alice", rows=12)
    wanted = expected.compute_gradients(batch)
    kept = torch.cat([g.flatten() for g in expected.gradients.values()])
    half = BaseModel.load(model_folder, lora_rank=4, device="cpu", dtype="bfloat16")
    for base, autocast in ((exact, True), (half, False)):
        agent = learner(base, "bob", kl_coef=0.0, autocast=autocast, share_prefixes=share)
        base.set_adapter_tensors("bob", exact.adapter_tensors("alice"))
        got = agent.compute_gradients(replace(batch, learner="bob"))
        assert got["loss"] == pytest.approx(wanted["loss"], abs=0.02)
        assert got["loss"] != wanted["loss"]
        gradients = torch.cat([g.flatten() for g in agent.gradients.values()])
        assert gradients.dtype == torch.float32
        assert torch.cosine_similarity(gradients, kept, dim=0) > 0.98
    assert {p.dtype for p in half.trainable_parameters("bob").values()} == {torch.float32}


@pytest.mark.parametrize("reference", ["start", "folder"])
def test_kl_to_a_frozen_adapter(
    base: BaseModel, sample: Any, tmp_path: Path, reference: str
) -> None:
    """The learner moves; what it is measured from does not."""
    base.add_adapter("alice", 1)
    disturb(base, "alice")
    if reference == "folder":
        base.save_adapter("alice", tmp_path)
        reference = str(tmp_path)
    agent = learner(base, kl_coef=0.5, reference=reference)
    batch = sample(base, "alice")
    assert agent.compute_gradients(batch)["kl"] == pytest.approx(0.0, abs=1e-9)
    start = base.adapter_tensors("alice")
    disturb(base, "alice", scale=0.1)
    base.activate("alice")
    now = token_logprobs(base, batch)
    base.add_adapter("kept", 0)
    base.set_adapter_tensors("kept", start)
    base.activate("kept")
    frozen = token_logprobs(base, batch)
    weights = torch.from_numpy(batch.completion_mask_RT)
    kl = (((frozen - now).exp() - (frozen - now) - 1) * weights).sum() / weights.sum()
    assert kl > 0.01
    assert agent.compute_gradients(batch)["kl"] == pytest.approx(kl.item(), rel=1e-5, abs=1e-5)
    assert base.active == "alice"


def test_a_reference_that_is_not_there_is_named(base: BaseModel, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"adapter_model\.safetensors"):
        learner(base, reference=str(tmp_path / "none"))
    learner(base, "bob", kl_coef=0.0)
    assert not [name for name in base.adapters if "@" in name]


def test_rloo_refuses_advantages_per_token(base: BaseModel, sample: Any) -> None:
    agent = learner(base, variant="rloo", kl_coef=0.0)
    batch = sample(base, "alice")
    ramp = np.arange(batch.completion_mask_RT.shape[1], dtype="f4")
    with pytest.raises(ShapeError, match="whole replies"):
        agent.compute_gradients(replace(batch, advantages_RT=batch.advantages_RT * ramp))


def test_variants_set_what_is_not_said() -> None:
    gspo = GRPOSettings(variant="gspo").loss
    assert (gspo.loss_type, gspo.ratio_level, gspo.clip_low) == ("grpo", "sequence", 3e-4)
    mixed = GRPOSettings(variant="gspo", clip_low=0.1).loss
    assert (mixed.ratio_level, mixed.clip_low, mixed.clip_high) == ("sequence", 0.1, 4e-4)
    assert GRPOSettings().loss.loss_type == "dapo"


def test_a_variant_has_the_divergence_of_its_paper() -> None:
    """Only GRPO's own paper weighs one in the loss; and none corrects it."""
    losses = {variant: GRPOSettings(variant=variant).loss for variant in VARIANTS if variant}
    assert {variant: loss.kl_coef for variant, loss in losses.items()} == {
        "grpo": 0.04, "dapo": 0.0, "dr_grpo": 0.0, "gspo": 0.0, "cispo": 0.0, "rloo": 0.0,
    }  # fmt: skip
    for variant in ("grpo", "dapo", "dr_grpo", "gspo", "cispo"):
        assert not GRPOSettings(variant=variant, kl_coef=0.1).loss.kl_correction, variant
    assert GRPOSettings(kl_coef=0.1).loss.kl_correction
    assert GRPOSettings(variant="grpo", kl_correction=True).loss.kl_correction
    with pytest.raises(ConfigError, match="kl_correction=False: with kl_coef 0"):
        GRPOSettings(kl_correction=False)


def test_a_learning_rate_schedule_counts_updates(base: BaseModel, sample: Any) -> None:
    agent = learner(
        base, learning_rate=1.0, schedule="linear", warmup_updates=2, total_updates=4, kl_coef=0.0
    )
    batch = replace(
        sample(base, "alice"), advantages_RT=np.zeros_like(sample(base, "alice").advantages_RT)
    )
    rates = [agent.update(batch)["learning_rate"] for _ in range(5)]
    assert rates == pytest.approx([0.0, 0.5, 1.0, 0.5, 0.0])


def test_mistakes_are_named(base: BaseModel, sample: Any) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'adamw_8bit'"):
        GRPOSettings(optimizer="adamw_8bits")
    with pytest.raises(ConfigError, match="learning_rate"):
        GRPOSettings(learning_rate=float("nan"))
    with pytest.raises(ConfigError, match="total_updates"):
        GRPOSettings(schedule="linear")
    with pytest.raises(ConfigError, match="loss_type"):
        GRPOSettings(loss_type="ppo")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cuts ratios at clip_high itself"):
        GRPOSettings(loss_type="cispo")
    with pytest.raises(ConfigError, match="'rloo' has none"):
        GRPOSettings(variant="rloo", kl_coef=0.1)
    with pytest.raises(ConfigError, match="gspo"):
        GRPOSettings(variant="gsp")  # type: ignore[arg-type]
    agent = learner(base)
    with pytest.raises(ModelError, match="compute_gradients"):
        agent.apply_gradients()
    batch = sample(base, "alice")
    with pytest.raises(ShapeError, match="bob"):
        agent.compute_gradients(replace(batch, learner="bob"))
    with pytest.raises(ModelError, match="gradient norm nan"):
        agent.compute_gradients(replace(batch, advantages_RT=batch.advantages_RT * np.nan))


@pytest.mark.slow
def test_a_policy_learns(tmp_path: Path) -> None:
    """Reward: the share of a reply's tokens whose id 3 divides."""
    from srl_agents.credit.batches import training_batch
    from srl_agents.credit.group_relative import group_advantages
    from srl_agents.records import Turn

    base = BaseModel.load(random_model.build(tmp_path, vocab=300), device="cpu")
    agent = learner(base, learning_rate=2e-2, kl_coef=0.0)
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=8, stop=()))
    means = []
    for step in range(16):
        version = base.freeze_adapter("alice", step)
        requests = [
            GenerationRequest(observation=str(i % 4), version=version, key=(step, i))
            for i in range(32)
        ]
        replies = asyncio.run(engine.generate_together(requests))
        base.forget(str(version))
        rewards = np.array([np.mean([t % 3 == 0 for t in r.token_ids]) for r in replies])
        means.append(rewards.mean())
        advantages = group_advantages(rewards.reshape(8, 4).T, np.ones((4, 8), bool)).T.ravel()
        rows = [
            (
                Turn(
                    turn_index=0,
                    observation="",
                    reply="",
                    invalid=None,
                    reward=0.0,
                    components={},
                    version=str(version),
                    prompt_ids=reply.prompt_ids,
                    completion_ids=reply.token_ids,
                    logprobs=reply.logprobs,
                    finish=reply.finish,
                ),
                float(advantage),
            )
            for reply, advantage in zip(replies, advantages, strict=True)
        ]
        agent.update(training_batch("alice", rows, base.tokenizer.pad_token_id))
    assert means[0] < 0.4
    assert np.mean(means[-3:]) > 0.9
