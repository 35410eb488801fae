"""PPO against a reference of its own in numpy, and what a critic must not touch."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from srl_agents.credit.critic import VALUE_CLIP, VALUE_COEF, explained_variance
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.records import CriticBatch, TrainingBatch
from srl_agents.trainers.ppo import PPOLearner, ValueHead, value_loss
from srl_agents.trainers.ppo_settings import CRITICS, PPOSettings
from srl_envs.errors import CheckpointError, ConfigError, ModelError

Arrays = dict[str, np.ndarray]


def learner(base: BaseModel, name: str = "alice", seed: int = 1, **settings: Any) -> PPOLearner:
    settings = {"learning_rate": 1e-2, "critic_learning_rate": 1e-2, **settings}
    return PPOLearner(name, base, PPOSettings(**settings), temperature=1.0, seed=seed)


def disturb(base: BaseModel, name: str, agent: PPOLearner | None = None) -> None:
    """Move the adapter off the base and the critic off 0."""
    generator = torch.Generator().manual_seed(3)

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        return tensor + 0.05 * torch.randn(tensor.shape, generator=generator)

    base.set_adapter_tensors(name, {k: moved(v) for k, v in base.adapter_tensors(name).items()})
    with torch.no_grad():
        for parameter in agent._extras.values() if agent else ():
            parameter.copy_(moved(parameter))


def judged_batch(batch: TrainingBatch, seed: int = 0) -> CriticBatch:
    """With other advantages, values and returns for each token, and stale log-probabilities."""
    rng = np.random.default_rng(seed)
    mask = batch.completion_mask_RT

    def noise(scale: float) -> np.ndarray:
        return np.where(mask, scale * rng.normal(size=mask.shape), 0.0).astype(np.float32)

    return CriticBatch(
        learner=batch.learner,
        versions=batch.versions,
        prompt_ids_RP=batch.prompt_ids_RP,
        prompt_mask_RP=batch.prompt_mask_RP,
        completion_ids_RT=batch.completion_ids_RT,
        completion_mask_RT=mask,
        learned_RT=mask,
        logprobs_RT=batch.logprobs_RT + noise(0.3),
        advantages_RT=noise(1.0),
        values_RT=noise(0.3),
        returns_RT=noise(1.0),
    )


def one_row_at_a_time(base: BaseModel, batch: TrainingBatch, trunk: str | None) -> Arrays:
    """Log-probabilities, entropies and last hidden states by plain forwards without padding."""
    model = base.model.get_base_model()
    shape = batch.completion_mask_RT.shape
    width = model.config.hidden_size
    out = {
        "logps": np.zeros(shape),
        "entropy": np.zeros(shape),
        "hidden": np.zeros((*shape, width)),
    }
    for row in range(len(batch.prompt_ids_RP)):
        prompt = batch.prompt_ids_RP[row][batch.prompt_mask_RP[row]]
        reply = batch.completion_ids_RT[row][batch.completion_mask_RT[row]]
        ids = torch.from_numpy(np.concatenate([prompt, reply]))
        with torch.no_grad():
            log_p = model(ids[None]).logits[0].double().log_softmax(-1)
            if trunk is None:
                with base.reference():
                    hidden = model.base_model(ids[None]).last_hidden_state[0]
            else:
                with base.through(trunk):
                    hidden = model.base_model(ids[None]).last_hidden_state[0]
        span = slice(len(prompt) - 1, len(ids) - 1)
        here = (row, slice(0, len(reply)))
        out["logps"][here] = log_p[span].gather(1, ids[len(prompt) :, None])[:, 0]
        out["entropy"][here] = -(log_p[span].exp() * log_p[span]).sum(-1)
        out["hidden"][here] = hidden[span]
    return out


def linear_values(agent: PPOLearner, hidden: np.ndarray) -> np.ndarray:
    centred = hidden - hidden.mean(-1, keepdims=True)
    even = centred / np.sqrt(hidden.var(-1, keepdims=True) + 1e-5)
    weight = agent._extras["head.layers.0.weight"].detach().double().numpy()[0]
    return even @ weight + agent._extras["head.layers.0.bias"].item()


@pytest.mark.parametrize("critic", CRITICS)
def test_losses_are_those_of_numpy(base: BaseModel, sample: Any, critic: Any) -> None:
    agent = learner(
        base,
        critic=critic,
        entropy_coef=0.03,
        kl_coef=0.1,
        clip_low=0.1,
        clip_high=0.3,
        micro_batch_rows=3,
    )
    disturb(base, "alice", agent)
    batch = judged_batch(sample(base, "alice"))
    got = agent.compute_gradients(batch)

    trunk = {"base": None, "adapter": "alice@critic"}.get(critic, "alice")
    base.activate("alice")
    now = one_row_at_a_time(base, batch, trunk)
    with base.reference():
        frozen = one_row_at_a_time(base, batch, None)
    mask = batch.completion_mask_RT
    ratio = np.exp(now["logps"] - batch.logprobs_RT)
    surrogate = np.minimum(
        ratio * batch.advantages_RT, np.clip(ratio, 0.9, 1.3) * batch.advantages_RT
    )
    gap = frozen["logps"] - now["logps"]
    kl = (np.exp(gap) - gap - 1) * ratio
    values = linear_values(agent, now["hidden"])
    missed = (values - batch.returns_RT) ** 2
    near = batch.values_RT + np.clip(values - batch.values_RT, -VALUE_CLIP, VALUE_CLIP)
    assert (np.abs(values - batch.values_RT) > VALUE_CLIP)[mask].any()
    missed = np.maximum(missed, (near - batch.returns_RT) ** 2)
    assert got["value/loss"] == pytest.approx(0.5 * missed[mask].mean(), rel=1e-4)
    assert got["entropy"] == pytest.approx(now["entropy"][mask].mean(), rel=1e-5)
    expected = (
        -surrogate[mask].mean()
        + 0.1 * kl[mask].mean()
        - 0.03 * now["entropy"][mask].mean()
        + VALUE_COEF * 0.5 * missed[mask].mean()
    )
    assert got["loss"] == pytest.approx(expected, abs=2e-5)
    assert agent.values(batch)[mask] == pytest.approx(values[mask], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("critic", CRITICS)
def test_micro_batches_give_the_gradient_of_the_whole(
    base: BaseModel, sample: Any, critic: Any
) -> None:
    settings = {"critic": critic, "entropy_coef": 0.05, "kl_coef": 0.1}
    whole = learner(base, "alice", micro_batch_rows=99, **settings)
    parts = learner(base, "bob", micro_batch_rows=2, **settings)
    for name, agent in (("alice", whole), ("bob", parts)):
        disturb(base, name, agent)
    base.set_adapter_tensors("bob", base.adapter_tensors("alice"))
    batch = judged_batch(sample(base, "alice"))
    expected = whole.compute_gradients(batch)
    gradients = {k: g.clone() for k, g in whole.gradients.items()}
    own = {k: p.grad.clone() for k, p in whole._extras.items() if p.grad is not None}
    assert own.keys() == whole._extras.keys()
    got = parts.compute_gradients(replace(batch, learner="bob"))
    assert got == pytest.approx(expected, abs=1e-5, rel=1e-4)
    for key, gradient in parts.gradients.items():
        torch.testing.assert_close(gradient, gradients[key], atol=1e-5, rtol=1e-4)
    for key, parameter in parts._extras.items():
        torch.testing.assert_close(parameter.grad, own[key], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("critic", CRITICS)
def test_only_a_shared_critic_moves_the_policy(base: BaseModel, sample: Any, critic: Any) -> None:
    """With advantages 0 the policy's loss has no gradient; what is left is the critic's."""
    agent = learner(base, critic=critic)
    disturb(base, "alice", agent)
    batch = judged_batch(sample(base, "alice"))
    batch = replace(batch, advantages_RT=np.zeros_like(batch.advantages_RT))
    agent.compute_gradients(batch)
    moved = any(bool(g.any()) for g in agent.gradients.values())
    assert moved == (critic == "shared")
    assert all(bool(p.grad.any()) for p in agent._extras.values() if p.grad is not None)
    assert all(p.grad is not None for p in agent._extras.values())


@pytest.mark.slow
@pytest.mark.parametrize("critic", CRITICS)
def test_a_step_moves_its_own_adapter_and_critic_alone(
    base: BaseModel, sample: Any, critic: Any
) -> None:
    alice, bob = learner(base, "alice", critic=critic), learner(base, "bob", critic=critic)
    before = {n: p.detach().clone() for n, p in base.model.named_parameters()}
    heads = {n: p.detach().clone() for n, p in bob._value_head.named_parameters()}
    alice.update(judged_batch(sample(base, "alice")))
    moved = {n for n, p in base.model.named_parameters() if not torch.equal(p, before[n])}
    owners = {"alice", "alice@critic"} if critic == "adapter" else {"alice"}
    assert {
        next(o for o in ("alice@critic", "alice", "") if f".{o}." in n) for n in moved
    } == owners
    assert all(torch.equal(p, heads[n]) for n, p in bob._value_head.named_parameters())
    assert all(p.grad is None for p in (*base.trainable_parameters("bob").values(),))
    assert bob.version == 0
    assert alice.version == 4


@pytest.mark.slow
def test_a_critic_does_not_change_what_the_policy_learns(base: BaseModel, sample: Any) -> None:
    """Apart from their own gradient, critics leave no trace: clipping and moments are apart."""
    weights = []
    for name, critic in (("one", "detached"), ("two", "base"), ("three", "adapter")):
        agent = learner(base, name, critic=critic, max_grad_norm=0.01)
        batch = judged_batch(replace(sample(base, name), learner=name))
        agent.update(batch)
        weights.append(base.adapter_tensors(name))
    for other in weights[1:]:
        assert all(torch.equal(other[k], v) for k, v in weights[0].items())


def test_divergence_is_measured_from_the_named_reference(base: BaseModel, sample: Any) -> None:
    base.add_adapter("alice", 1)
    disturb(base, "alice")  # a warm start
    batch = judged_batch(sample(base, "alice"))
    from_start = learner(base, kl_coef=0.5, reference="start")
    assert from_start.compute_gradients(batch)["kl"] == pytest.approx(0.0, abs=1e-9)
    assert learner(base, kl_coef=0.5).compute_gradients(batch)["kl"] > 0.01


@pytest.mark.parametrize("critic", CRITICS)
def test_policy_and_critic_are_each_scaled_down_to_the_norm(
    base: BaseModel, sample: Any, critic: Any
) -> None:
    """A plain step is as long as the clipped gradient times the rate."""
    agent = learner(
        base,
        critic=critic,
        optimizer="sgd",
        learning_rate=0.5,
        critic_learning_rate=2.0,
        max_grad_norm=0.01,
    )
    disturb(base, "alice", agent)
    agent.compute_gradients(judged_batch(sample(base, "alice")))

    def flat(parameters: Any) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in parameters.values()])

    policy, critics = base.trainable_parameters("alice"), agent._extras
    before = flat(policy), flat(critics)
    agent.apply_gradients()
    assert float((flat(policy) - before[0]).norm()) == pytest.approx(0.5 * 0.01, rel=1e-3)
    assert float((flat(critics) - before[1]).norm()) == pytest.approx(2.0 * 0.01, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("critic", CRITICS)
def test_gradients_of_another_process_make_the_same_step(
    base: BaseModel, model_folder: Path, sample: Any, critic: Any
) -> None:
    """The critic's too, and nothing that lay there before."""
    here = learner(base, critic=critic)
    there = learner(BaseModel.load(model_folder, lora_rank=4, device="cpu"), critic=critic)
    batch = judged_batch(sample(base, "alice"))
    there.compute_gradients(judged_batch(batch, seed=1))
    here.compute_gradients(batch)
    gradients = {key: gradient.clone() for key, gradient in here.exported_gradients().items()}
    there.import_gradients(gradients)
    before = {key: parameter.detach().clone() for key, parameter in here._extras.items()}
    for agent in (here, there):
        agent.apply_gradients()
    assert any(not torch.equal(p, before[key]) for key, p in here._extras.items())
    assert all(torch.equal(p, here._extras[key]) for key, p in there._extras.items())
    own = base.adapter_tensors("alice")
    other = there.base.adapter_tensors("alice")
    assert all(torch.equal(tensor, own[key]) for key, tensor in other.items())


def test_steps_cover_every_row_once_per_pass(base: BaseModel, sample: Any) -> None:
    agent = learner(base, iterations=3, minibatches=2)
    batch = judged_batch(sample(base, "alice", rows=7))
    steps = agent.steps(batch)
    assert [step.rows for step in steps] == [4, 3] * 3
    for start in (0, 2, 4):
        both = np.concatenate([s.values_RT[:, 0] for s in steps[start : start + 2]])
        assert sorted(both) == sorted(batch.values_RT[:, 0])
    orders = {tuple(step.values_RT[:, 0]) for step in steps}
    assert len(orders) == 6
    again = [tuple(step.values_RT[:, 0]) for step in agent.steps(batch)]
    assert again == [tuple(step.values_RT[:, 0]) for step in steps]
    assert [s.rows for s in agent.steps(batch.take(np.array([0])))] == [1, 1, 1]


def test_every_update_and_every_learner_has_its_own_order(base: BaseModel, sample: Any) -> None:
    agent = learner(base, seed=1, iterations=1)
    batch = judged_batch(sample(base, "alice"))

    def order(of: PPOLearner) -> list[float]:
        return [value for step in of.steps(batch) for value in step.values_RT[:, 0]]

    first = order(agent)
    agent.version += 1
    assert sorted(order(agent)) == sorted(first)
    assert order(agent) != first != order(learner(base, "bob", seed=2, iterations=1))


@pytest.mark.slow
@pytest.mark.parametrize("critic", CRITICS)
def test_a_value_head_learns(base: BaseModel, sample: Any, critic: Any) -> None:
    """Fewer tokens than features: a linear head on any trunk can tell them apart."""
    rate = 1e-2 if critic == "adapter" else 3e-2
    agent = learner(base, critic=critic, critic_learning_rate=rate, learning_rate=1e-6)
    batch = judged_batch(sample(base, "alice", rows=6))
    mask = batch.completion_mask_RT

    def explained() -> float:
        now = replace(batch, values_RT=agent.values(batch))
        return explained_variance(now)

    assert explained() == pytest.approx(0.0, abs=1e-6)
    for _ in range(15):  # values are clipped around those before the update
        agent.update(replace(batch, values_RT=agent.values(batch)))
    assert mask.sum() > 20
    assert explained() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "critic"), [("adamw_torch", "detached"), ("adamw_8bit", "adapter")]
)
def test_resumed_equals_undisturbed_bit_for_bit(
    tmp_path: Path, sample: Any, optimizer: str, critic: Any
) -> None:
    folder = random_model.build(tmp_path, hidden=128, layers=1)
    settings = {
        "optimizer": optimizer,
        "critic": critic,
        "schedule": "linear",
        "total_updates": 40,
    }

    def fresh() -> tuple[BaseModel, PPOLearner]:
        base = BaseModel.load(folder, lora_rank=8, device="cpu")
        return base, learner(base, **settings)

    base, agent = fresh()
    batches = [judged_batch(sample(base, "alice", seed=i), seed=i) for i in range(4)]
    for batch in batches[:2]:
        agent.update(batch)
    adapter = base.adapter_tensors("alice")
    tensors, values = agent.state()
    kept = {key: tensor.clone() for key, tensor in tensors.items()}
    values = json.loads(json.dumps(values))
    undisturbed = [agent.update(batch) for batch in batches[2:]]
    assert all(torch.equal(tensors[k], kept[k]) for k in kept), "state must be a copy"

    torch.manual_seed(99)
    other_base, other = fresh()
    other.update(batches[3])  # whatever it did before must not matter
    other_base.set_adapter_tensors("alice", adapter)
    other.load_state(tensors, values)
    assert [other.update(batch) for batch in batches[2:]] == undisturbed
    expected = base.adapter_tensors("alice")
    assert all(torch.equal(v, expected[k]) for k, v in other_base.adapter_tensors("alice").items())
    assert all(torch.equal(p, agent._extras[k]) for k, p in other._extras.items())
    assert np.array_equal(other.values(batches[0]), agent.values(batches[0]))


def test_a_checkpoint_of_another_critic_is_refused(base: BaseModel, sample: Any) -> None:
    agent = learner(base)
    agent.update(judged_batch(sample(base, "alice")))
    tensors, values = agent.state()
    (place,) = [key for key in tensors if key.endswith("head.layers.0.bias")]
    tensors[place] = torch.zeros(3)
    with pytest.raises(CheckpointError, match=r"head\.layers\.0\.bias"):
        learner(base, "bob").load_state(tensors, values)


def test_merged_weights_reset_the_policys_moments_and_leave_the_critics(
    base: BaseModel, sample: Any
) -> None:
    agent = learner(base)
    agent.update(judged_batch(sample(base, "alice")))
    agent.replace_weights(base.adapter_tensors("alice"), reset_moments=True)
    owners = {id(p) for p in agent._optimizer.state}
    assert owners == {id(p) for p in agent._extras.values()}


def test_a_diverging_critic_is_named(base: BaseModel, sample: Any) -> None:
    agent = learner(base)
    batch = judged_batch(sample(base, "alice"))
    with pytest.raises(ModelError, match="alice"):
        agent.compute_gradients(replace(batch, returns_RT=batch.returns_RT + np.inf))


def test_value_loss_by_hand() -> None:
    """Moved from 0 to 1 with target 3: unclipped error 4, clipped at 0.5 error 6.25."""
    values, returns, before = torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([0.0])
    assert value_loss(values, returns, before, None).tolist() == [2.0]
    assert value_loss(values, returns, before, 0.5).tolist() == [3.125]
    values.requires_grad_(True)
    value_loss(values, returns, before, 0.5).sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [0.0]  # moved far enough for this update


def test_a_new_value_head_says_nothing_and_leaves_the_global_generator_alone() -> None:
    state = torch.random.get_rng_state()
    head = ValueHead(8)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not head(torch.randn(2, 3, 8)).any()


def test_the_factory_makes_the_learner_of_the_settings(base: BaseModel) -> None:
    made = PPOSettings().make_learner("alice", base, temperature=1.0, seed=0)
    assert isinstance(made, PPOLearner)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"critic": "own"}, "detached"),
        ({"minibatches": 0}, "minibatches"),
        ({"discount": 1.5}, "discount"),
        ({"trace": -0.1}, "trace"),
        ({"critic": "adapter", "gradient_checkpointing": True}, "recomputed"),
    ],
)
def test_mistakes_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PPOSettings(**settings)
