"""Settings of recipe and learner reach the rows of a batch, against sums done by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.preferences import PairSettings, PreferenceBatch
from srl_agents.credit.settings import CreditSettings
from srl_agents.credit.token_weights import Teaching
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.records import CriticBatch, Episode, MatchSpec, TrainingBatch, Trajectory, Turn
from srl_agents.trainers.dpo_settings import DPOSettings
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.ppo_settings import PPOSettings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_model.build(tmp_path_factory.mktemp("model"))


@pytest.fixture
def base(folder: Path) -> BaseModel:
    """With a bob who plays otherwise."""
    base = BaseModel.load(folder, lora_rank=4, device="cpu")
    base.add_adapter("bob", seed=2)
    generator = torch.Generator().manual_seed(3)
    moved = {
        key: tensor + 0.1 * torch.randn(tensor.shape, generator=generator)
        for key, tensor in base.adapter_tensors("bob").items()
    }
    base.set_adapter_tensors("bob", moved)
    return base


def turn(
    reply: tuple[int, ...],
    reward: float = 0.0,
    sampled: tuple[float, ...] = (),
    prompt: tuple[int, ...] = (10, 11, 12),
) -> Turn:
    return Turn(
        turn_index=0, observation="", reply="", invalid=None, reward=reward, components={},
        version="alice@0-0123456789abcdef",
        prompt_ids=prompt, completion_ids=reply,
        logprobs=sampled or (-5.0,) * len(reply), finish="stop",
    )  # fmt: skip


def episode(attempt: int, total: float, *turns: Turn) -> Episode:
    """Alice against bob, who wins what she loses and always writes the same."""
    seats = ("alice@0", "bob@0")
    spec = MatchSpec(
        env_id="nim-v0", seed=1, split="train", seats=seats, learner_seats=(0, 1), attempt=attempt
    )

    def seat(number: int, turns: tuple[Turn, ...], total: float) -> Trajectory:
        return Trajectory(
            seat=number, policy=seats[number], turns=turns, outcome=total, total_reward=total,
            components={"format": 0.0},
        )  # fmt: skip

    others = (turn((90, 91), prompt=(20, 21)),)
    return Episode(
        spec=spec, trajectories=(seat(0, turns, total), seat(1, others, -total)), termination="ok"
    )


GROUP = [
    episode(0, 1.0, turn((65, 70, 71), sampled=(-1.0, -9.0, -4.0))),
    episode(1, 0.0, turn((66, 72), sampled=(-20.0, -2.0))),
]
"""Two attempts at one prompt, with advantages of 0.5 and -0.5."""


def batch_of(
    base: BaseModel, episodes: list[Episode], training: Any, *,
    credit: CreditSettings | None = None, teaching: Teaching | None = None,
) -> Any:  # fmt: skip
    """Alice's batch, whom bob may teach, metrics, and her learner; a critic predicts 1."""
    learners: dict[str, Any] = {
        name: training.make_learner(name, base, temperature=1.0, seed=1)
        for name in ("alice", "bob")
    }
    if training.algorithm == "ppo":
        with torch.no_grad():
            learners["alice"]._value_head.layers[-1].bias.fill_(1.0)
    assigner = CreditAssigner(credit or CreditSettings())
    experience = training.make_experience(learners, assigner, lambda _: teaching)
    return *experience.batch("alice", episodes, "alice@0"), learners["alice"]


def test_ppo_judges_tokens_as_its_settings_say(base: BaseModel) -> None:
    """Two turns of two tokens, paid 1 and 2, where the critic predicts 1 everywhere."""
    settings = PPOSettings(discount=0.5, trace=0.8)
    played = [episode(0, 3.0, turn((65, 66), 1.0), turn((67, 68), 2.0))]
    batch, metrics, _ = batch_of(base, played, settings)
    assert isinstance(batch, CriticBatch)
    second = 2.0 - 1.0
    first = 1.0 + 0.5 * 1.0 - 1.0 + 0.5 * 0.8 * (0.8 * second)
    by_hand = np.array([[0.8 * first, first], [0.8 * second, second]])
    centred = (by_hand - by_hand.mean()) / by_hand.std()
    assert batch.advantages_RT == pytest.approx(centred, abs=1e-4)
    assert batch.returns_RT == pytest.approx(1.0 + by_hand, abs=1e-6)
    assert metrics["reward"] == 3.0


def test_ppo_normalises_where_nothing_else_is_said(base: BaseModel) -> None:
    batch, _, _ = batch_of(base, GROUP, PPOSettings())
    own = batch.advantages_RT[batch.completion_mask_RT]
    assert (own.mean(), own.std()) == (pytest.approx(0, abs=1e-6), pytest.approx(1, abs=1e-4))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("training", [GRPOSettings(), PPOSettings()])
def test_stale_tokens_weigh_what_the_ratio_to_their_sampler_says(
    base: BaseModel, training: Any, level: Any
) -> None:
    """The loss then starts from the log-probabilities of now."""
    plain, _, _ = batch_of(base, GROUP, training)
    credit = CreditSettings(importance_cap=1.5, importance_level=level)
    batch, metrics, learner = batch_of(base, GROUP, training, credit=credit)
    mask = plain.completion_mask_RT
    now = learner.token_logprobs(plain, "alice")
    gap = np.where(mask, now - plain.logprobs_RT, 0.0).astype(np.float64)
    if level == "sequence":
        gap = np.broadcast_to(gap.sum(axis=1, keepdims=True), gap.shape)
    weights = np.minimum(np.exp(gap), 1.5)
    assert (weights[mask] < 1.5).any()
    assert (weights[mask] == 1.5).any()
    assert batch.advantages_RT == pytest.approx(plain.advantages_RT * weights, abs=1e-6)
    assert np.array_equal(batch.logprobs_RT, now)
    assert metrics["importance_weight"] == pytest.approx(weights[mask].mean())


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_the_loss_on_stale_rows_is_the_sum_done_by_hand(base: BaseModel, level: Any) -> None:
    """Also where the policy has moved since: the weight stays, TRL's clipped ratio starts from then."""
    credit = CreditSettings(importance_cap=1.5, importance_level=level)
    batch, _, learner = batch_of(base, GROUP, GRPOSettings(), credit=credit)
    sampled = np.array([[-1.0, -9.0, -4.0], [-20.0, -2.0, 0.0]])
    mask = np.array([[1, 1, 1], [1, 1, 0]], dtype=bool)
    before = learner.token_logprobs(batch, "alice").astype(np.float64)
    moved = base.adapter_tensors("bob")
    base.set_adapter_tensors("alice", {key: 0.2 * tensor for key, tensor in moved.items()})
    now = learner.token_logprobs(batch, "alice").astype(np.float64)
    assert np.abs(now - before)[mask].max() > 0.01
    stale = np.where(mask, before - sampled, 0.0)
    if level == "sequence":
        stale = stale.sum(axis=1, keepdims=True)
    weight = np.exp(np.minimum(stale, np.log(1.5)))
    advantage = np.array([[0.5], [-0.5]]) * weight
    ratio = np.exp(now - before)
    clipped = np.clip(ratio, 0.8, 1.2)
    objective = np.minimum(ratio * advantage, clipped * advantage)
    loss = learner.compute_gradients(batch)["loss"]
    assert loss == pytest.approx(-objective[mask].mean(), rel=1e-4)


@pytest.mark.parametrize("training", [GRPOSettings(), PPOSettings()])
def test_a_teacher_judges_what_the_student_wrote(base: BaseModel, training: Any) -> None:
    teaching = Teaching(teacher="bob", weight=0.7, limit=2.0)
    plain, _, _ = batch_of(base, GROUP, training)
    batch, metrics, learner = batch_of(base, GROUP, training, teaching=teaching)
    mask = plain.completion_mask_RT
    assert np.array_equal(batch.completion_ids_RT, plain.completion_ids_RT)
    gap = learner.token_logprobs(plain, "bob") - learner.token_logprobs(plain, "alice")
    assert (np.abs(gap[mask]) > 2.0).any()
    assert (np.abs(gap[mask]) < 2.0).any()
    pull = np.where(mask, 0.7 * np.clip(gap, -2.0, 2.0), 0.0)
    assert batch.advantages_RT - plain.advantages_RT == pytest.approx(pull, abs=1e-6)
    assert metrics["teacher_kl"] == pytest.approx(-gap[mask].mean(), abs=1e-6)


def test_where_attempts_earn_the_same_a_teacher_alone_has_something_to_say(
    base: BaseModel,
) -> None:
    flat = [episode(0, 1.0, turn((65, 70))), episode(1, 1.0, turn((66,)))]
    assert batch_of(base, flat, GRPOSettings())[0] is None
    teaching = Teaching(teacher="bob", weight=0.1, limit=5.0)
    batch, _, _ = batch_of(base, flat, GRPOSettings(), teaching=teaching)
    assert isinstance(batch, TrainingBatch)
    assert batch.rows == 2
    assert batch.advantages_RT.any()


def test_pairs_are_made_as_the_learner_says(base: BaseModel) -> None:
    batch, metrics, _ = batch_of(base, GROUP, DPOSettings())
    assert isinstance(batch, PreferenceBatch)
    (pair,) = batch.pairs
    assert (pair.chosen_ids, pair.rejected_ids) == ((65, 70, 71), (66, 72))
    assert metrics["pairs"] == 1.0
    strict = DPOSettings(pairs=PairSettings(max_length_ratio=1.0))
    batch, metrics, _ = batch_of(base, GROUP, strict)
    assert (batch, metrics["pairs"]) == (None, 0.0)
