"""Completion tokens that are not the policy's own are read, and nothing is learned from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from srl_agents.credit.batches import training_batch
from srl_agents.credit.critic import PaidTurn, judged
from srl_agents.models.base_model import BaseModel
from srl_agents.records import TrainingBatch, Turn, WeightVersion
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings

ALICE = str(WeightVersion("alice", 0, "0" * 16))


def thought_out(thought: int, forced: int, reply: int) -> Turn:
    size = thought + reply
    return Turn(
        turn_index=0,
        observation="",
        reply="",
        invalid=None,
        reward=0.0,
        components={},
        version=ALICE,
        prompt_ids=(7, 8),
        completion_ids=tuple(range(10, 10 + size)),
        logprobs=(-0.5,) * size,
        finish="stop",
        thought_tokens=thought,
        forced_tokens=forced,
    )


def test_a_batch_says_which_tokens_are_learned() -> None:
    rows = [(thought_out(3, 1, 2), 1.0), (thought_out(0, 0, 3), -1.0)]
    batch = training_batch("alice", rows, 0)
    assert batch.completion_mask_RT.tolist() == [[True] * 5, [True] * 3 + [False] * 2]
    assert batch.learned_RT.tolist() == [
        [True, True, False, True, True],
        [True, True, True, False, False],
    ]
    assert batch.advantages_RT.tolist() == [[1, 1, 0, 1, 1], [-1, -1, -1, 0, 0]]
    assert batch.logprobs_RT[0].tolist() == [-0.5, -0.5, 0.0, -0.5, -0.5]
    replies_only = training_batch("alice", rows, 0, thoughts=False)
    assert replies_only.learned_RT.tolist() == [[False] * 3 + [True] * 2, [True] * 3 + [False] * 2]
    assert replies_only.completion_ids_RT.tolist() == batch.completion_ids_RT.tolist()


def test_a_critic_judges_learned_tokens_alone() -> None:
    turn = thought_out(3, 1, 2)
    batch = training_batch("alice", [(turn, 0.0)], 0)
    plain = training_batch("alice", [(thought_out(0, 0, 4), 0.0)], 0)
    values = np.array([[0.1, 0.2, 9.0, 0.3, 0.4]])
    got = judged(batch, [PaidTurn(turn, 1.0, 0)], values, normalise=False)
    expected = judged(
        plain, [PaidTurn(turn, 1.0, 0)], values[:, [0, 1, 3, 4]], normalise=False
    )  # fmt: skip
    assert got.advantages_RT[0, [0, 1, 3, 4]].tolist() == expected.advantages_RT[0].tolist()
    assert got.returns_RT[0, [0, 1, 3, 4]].tolist() == expected.returns_RT[0].tolist()
    assert (got.advantages_RT[0, 2], got.values_RT[0, 2], got.returns_RT[0, 2]) == (0, 0, 0)


def hand_loss(base: BaseModel, batch: TrainingBatch, kind: str) -> torch.Tensor:
    """By plain forwards over whole rows, summed only over learned tokens."""
    shares = []
    for row in range(batch.rows):
        prompt = batch.prompt_ids_RP[row][batch.prompt_mask_RP[row]]
        said = batch.completion_mask_RT[row]
        ids = torch.from_numpy(np.concatenate([prompt, batch.completion_ids_RT[row][said]]))
        logprobs = base.model(ids[None]).logits[0].log_softmax(-1)
        now = logprobs[:-1].gather(1, ids[1:, None])[len(prompt) - 1 :, 0]
        learned = torch.from_numpy(batch.learned_RT[row][said])
        old = torch.from_numpy(batch.logprobs_RT[row][said])
        advantage = torch.from_numpy(batch.advantages_RT[row][said])
        gap = torch.where(learned, now - old, 0.0)
        if kind == "rloo":
            shares.append(-gap.sum().exp() * advantage[learned][0])
        elif kind == "grpo":
            shares.append(-(gap.exp() * advantage * learned).sum() / learned.sum())
        else:
            shares.append(-(gap.exp() * advantage * learned).sum() / batch.learned_RT.sum())
    total = torch.stack(shares)
    return total.sum() if kind == "dapo" else total.mean()


@pytest.mark.slow
@pytest.mark.parametrize("share", [False, True], ids=["padded", "shared prefixes"])
@pytest.mark.parametrize("kind", ["dapo", "grpo", "rloo"])
def test_the_loss_is_that_of_learned_tokens_in_their_whole_context(
    base: BaseModel, sample: Any, kind: Any, share: bool
) -> None:
    settings = GRPOSettings(loss_type=kind, share_prefixes=share, micro_batch_rows=3)
    agent = GRPOLearner("alice", base, settings, temperature=1.0, seed=1)
    batch = sample(base, "alice")
    learned = batch.completion_mask_RT.copy()
    learned[:, 1] = False
    learned[::2, 0] = False
    learned[:, 0] |= ~learned.any(axis=1)
    batch = replace(
        batch,
        learned_RT=learned,
        logprobs_RT=np.where(learned, batch.logprobs_RT, 0).astype("f4"),
        advantages_RT=np.where(learned, batch.advantages_RT, 0).astype("f4"),
    )
    got = agent.compute_gradients(batch)
    base.activate("alice")
    loss = hand_loss(base, batch, kind)
    wanted = torch.autograd.grad(loss, list(base.trainable_parameters("alice").values()))
    assert got["loss"] == pytest.approx(loss.item(), abs=1e-5)
    assert got["sampler_kl"] == pytest.approx(0.0, abs=1e-5)
    for name, gradient in zip(base.trainable_parameters("alice"), wanted, strict=True):
        torch.testing.assert_close(agent.gradients[name], gradient, atol=1e-5, rtol=1e-3)
    assert not agent.token_logprobs(batch, "alice")[~learned].any()
