"""What coordination needs from a learner: gradients side by side, other weights, others' opinions."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from srl_agents.coordination.members import AdapterShape, Member
from srl_agents.coordination.synchronized import Synchronized
from srl_agents.credit.token_weights import teacher_advantages
from srl_agents.models.base_model import BaseModel
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_envs.errors import ShapeError


def learner(base: BaseModel, name: str, seed: int = 1, **settings: Any) -> GRPOLearner:
    settings = {"learning_rate": 1e-2, **settings}
    return GRPOLearner(name, base, GRPOSettings(**settings), temperature=1.0, seed=seed)


def member(agent: GRPOLearner, gradients: bool = True) -> Member:
    return Member(
        name=agent.name,
        shape=AdapterShape(base="random", rank=4, scaling=4.0),
        adapter=dict(agent.base.trainable_parameters(agent.name)),
        gradients=agent.gradients if gradients else None,
    )


def test_gradients_of_two_learners_stand_side_by_side(base: BaseModel, sample: Any) -> None:
    alice, bob = learner(base, "alice", 1), learner(base, "bob", 2)
    alice.compute_gradients(sample(base, "alice"))
    before = {key: g.clone() for key, g in alice.gradients.items()}
    bob.compute_gradients(sample(base, "bob", seed=5))
    assert all(torch.equal(alice.gradients[key], g) for key, g in before.items())
    alice.drop_gradients()
    assert not alice.gradients
    assert bob.gradients


def test_synchronized_learners_step_by_the_mean_and_stay_equal(
    base: BaseModel, sample: Any
) -> None:
    agents = [learner(base, name, seed=7, optimizer="sgd", max_grad_norm=0.0) for name in "ab"]
    coordinator = Synchronized()
    for i in range(2):
        for k, agent in enumerate(agents):
            agent.compute_gradients(sample(base, agent.name, seed=10 * i + k))
        before = base.adapter_tensors("a")
        mean = {
            key: (agents[0].gradients[key] + agents[1].gradients[key]) / 2
            for key in agents[0].gradients
        }
        decision = coordinator.before_step([member(agent) for agent in agents])
        for agent in agents:
            agent.set_gradients(decision.changes[agent.name])
            agent.apply_gradients()
        for key, tensor in base.adapter_tensors("a").items():
            assert torch.allclose(tensor, before[key] - 1e-2 * mean[key], atol=1e-7)
            assert torch.equal(tensor, base.adapter_tensors("b")[key])


@pytest.mark.parametrize("optimizer", ["adamw_torch", "adamw_8bit"])
def test_other_weights_are_a_new_version_with_fresh_moments(
    base: BaseModel, sample: Any, optimizer: str
) -> None:
    alice = learner(base, "alice", 1, optimizer=optimizer)
    batch = sample(base, "alice")
    alice.update(batch)
    other = {key: tensor + 0.01 for key, tensor in base.adapter_tensors("alice").items()}
    alice.replace_weights(other, reset_moments=True)
    assert alice.version == 2
    fresh = learner(base, "bob", 2, optimizer=optimizer)
    base.set_adapter_tensors("bob", other)
    alice.update(batch)
    fresh.update(replace(batch, learner="bob"))
    mine = base.adapter_tensors("bob")
    assert all(torch.equal(t, mine[key]) for key, t in base.adapter_tensors("alice").items())


def test_kept_moments_still_move_the_weights(base: BaseModel, sample: Any) -> None:
    alice = learner(base, "alice", 1)
    alice.update(sample(base, "alice"))
    tensors, _ = alice.state()
    alice.replace_weights(base.adapter_tensors("alice"), reset_moments=False)
    kept, _ = alice.state()
    assert kept
    assert all(torch.equal(kept[key], tensor) for key, tensor in tensors.items())


def test_token_logprobs_are_those_of_the_named_adapter(base: BaseModel, sample: Any) -> None:
    alice = learner(base, "alice", 1, micro_batch_rows=3)
    learner(base, "bob", 2)
    base.set_adapter_tensors(
        "bob", {key: t + 0.03 for key, t in base.adapter_tensors("bob").items()}
    )
    batch = sample(base, "alice")
    base.activate("alice")
    own, other = alice.token_logprobs(batch, "alice"), alice.token_logprobs(batch, "bob")
    assert base.active == "alice"
    assert own == pytest.approx(batch.logprobs_RT, abs=1e-4)  # what the sampler wrote down
    assert not own[~batch.completion_mask_RT].any()
    row = 2
    ids = np.concatenate(
        [
            batch.prompt_ids_RP[row][batch.prompt_mask_RP[row]],
            batch.completion_ids_RT[row][batch.completion_mask_RT[row]],
        ]
    )
    base.activate("bob")
    with torch.no_grad():
        logits = base.model(torch.from_numpy(ids)[None]).logits[0].log_softmax(-1)
    length = int(batch.completion_mask_RT[row].sum())
    start = len(ids) - length
    expected = [float(logits[start + t - 1, ids[start + t]]) for t in range(length)]
    assert other[row, :length] == pytest.approx(expected, abs=1e-4)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_student_comes_closer_to_its_teacher(base: BaseModel, sample: Any) -> None:
    steps = 40
    student = learner(
        base, "student", 1, learning_rate=2e-2, schedule="linear", total_updates=steps
    )
    learner(base, "teacher", 2)
    generator = torch.Generator().manual_seed(0)
    base.set_adapter_tensors(
        "teacher",
        {
            key: t + 0.2 * torch.randn(t.shape, generator=generator)
            for key, t in base.adapter_tensors("teacher").items()
        },
    )
    gaps = []
    for i in range(steps):
        batch = sample(base, "student", rows=64, seed=i)
        mask = batch.completion_mask_RT
        own = student.token_logprobs(batch, "student")
        teacher = student.token_logprobs(batch, "teacher")
        gaps.append(float((own - teacher)[mask].mean()))
        pull = teacher_advantages(own, teacher, mask, weight=1.0)
        student.update(replace(batch, advantages_RT=pull.astype(np.float32)))
    assert np.mean(gaps[-3:]) < 0.65 * np.mean(gaps[:3])  # 0.52 here


def test_gradients_of_another_shape_are_refused(base: BaseModel) -> None:
    alice = learner(base, "alice", 1)
    with pytest.raises(ShapeError, match="alice"):
        alice.set_gradients({"x": torch.zeros(1)})
