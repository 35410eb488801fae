"""What a learner keeps, saves and leaves alone: optimizer, checkpoints, memory, the shared model."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import bitsandbytes
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_envs.errors import (
    CheckpointError,
    ConfigError,
    MemoryLimitError,
    ModelError,
)
from tests.srl_agents.trainers.small_learners import learner

Tensors = dict[str, torch.Tensor]


def test_adamw_8bit_is_that_of_bitsandbytes(tmp_path: Path, sample: Any) -> None:
    folder = random_model.build(tmp_path, hidden=512, layers=1)
    base = BaseModel.load(folder, lora_rank=8, device="cpu")
    agent = learner(base, optimizer="adamw_8bit")
    agent.update(sample(base, "alice"))
    assert isinstance(agent._optimizer, bitsandbytes.optim.AdamW)
    assert agent._optimizer.args.optim_bits == 8
    kinds = {s["state1"].dtype for s in agent._optimizer.state.values() if "state1" in s}
    assert torch.uint8 in kinds


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw_torch", "adamw_8bit"])
def test_resumed_equals_undisturbed_bit_for_bit(
    tmp_path: Path, sample: Any, optimizer: str
) -> None:
    """Width 512 so that some tensors have 8-bit state and some 32-bit."""
    folder = random_model.build(tmp_path, hidden=512, layers=1)
    settings: dict[str, Any] = {
        "optimizer": optimizer,
        "schedule": "linear",
        "warmup_updates": 2,
        "total_updates": 9,
        "weight_decay": 0.1,
    }

    def fresh() -> tuple[BaseModel, GRPOLearner]:
        base = BaseModel.load(folder, lora_rank=8, device="cpu")
        return base, learner(base, **settings)

    base, agent = fresh()
    batches = [sample(base, "alice", seed=i) for i in range(5)]
    for batch in batches[:2]:
        agent.update(batch)
    adapter = base.adapter_tensors("alice")
    tensors, values = agent.state()
    kept: Tensors = {key: tensor.clone() for key, tensor in tensors.items()}
    values = json.loads(json.dumps(values))
    undisturbed = [agent.update(batch) for batch in batches[2:]]
    assert all(torch.equal(tensors[k], kept[k]) for k in kept), "state must be a copy"

    torch.manual_seed(99)
    other_base, other = fresh()
    other.update(batches[4])  # whatever it did before must not matter
    other_base.set_adapter_tensors("alice", adapter)
    other.load_state(tensors, values)
    resumed = [other.update(batch) for batch in batches[2:]]

    assert resumed == undisturbed
    assert other.version == agent.version == 5
    expected = base.adapter_tensors("alice")
    assert all(torch.equal(v, expected[k]) for k, v in other_base.adapter_tensors("alice").items())
    assert all(torch.equal(tensors[k], kept[k]) for k in kept), "loading must copy"


def test_a_checkpoint_of_another_optimizer_is_refused(base: BaseModel, sample: Any) -> None:
    agent = learner(base)
    agent.update(sample(base, "alice"))
    tensors, values = agent.state()
    with pytest.raises(CheckpointError, match="adamw_8bit"):
        learner(base, "bob", optimizer="adamw_8bit").load_state(tensors, values)


def test_saving_writes_this_adapter_only(base: BaseModel, tmp_path: Path) -> None:
    agent = learner(base, "alice")
    learner(base, "bob")
    agent._trainer.save_model(str(tmp_path))
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert files == {"adapter_model.safetensors", "adapter_config.json"}
    saved = load_file(tmp_path / "adapter_model.safetensors")
    own = base.adapter_tensors("alice")
    assert all(torch.equal(saved[key], own[key]) for key in own)


def test_learners_of_one_base_share_a_temperature(base: BaseModel) -> None:
    learner(base, "alice")
    with pytest.raises(ConfigError, match="share one"):
        GRPOLearner("bob", base, GRPOSettings(), temperature=0.5, seed=1)
    with pytest.raises(ConfigError, match="greedy"):
        GRPOLearner("bob", base, GRPOSettings(), temperature=0.0, seed=1)


def test_many_learners_patch_the_model_once(base: BaseModel) -> None:
    inner = base.model.get_base_model()
    learner(base, "a1")
    patched = inner.forward
    learner(base, "a2")
    assert inner.forward is patched


def test_global_generators_are_left_alone(base: BaseModel, sample: Any) -> None:
    def states() -> list[Any]:
        numpy = str(np.random.get_state(legacy=False))  # noqa: NPY002
        return [random.getstate(), numpy, torch.random.get_rng_state().tolist()]

    batch = sample(learner(base).base, "alice")
    before = states()
    learner(base, "bob").update(replace(batch, learner="bob"))
    assert states() == before


def fills_memory(*_args: Any, **_kwargs: Any) -> None:
    torch.empty(2**50)


def test_an_update_that_does_not_fit_into_memory_says_what_to_lower(
    base: BaseModel, sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = learner(base, micro_batch_rows=5)
    batch = sample(base, "alice")
    monkeypatch.setattr(base.model.get_base_model().base_model, "forward", fills_memory)
    for work, named in (
        (lambda: agent.compute_gradients(batch), "update on 7 rows"),
        (lambda: agent.token_logprobs(batch, "alice"), "probabilities of 7 rows"),
    ):
        said = rf"learner 'alice', {named}, on cpu: out of memory .*Lower micro_batch_rows, here 5"
        with pytest.raises(MemoryLimitError, match=said):
            work()


def test_an_optimizer_that_does_not_fit_into_memory_is_named(
    base: BaseModel, sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = learner(base)
    agent.compute_gradients(sample(base, "alice"))
    monkeypatch.setattr(agent._optimizer, "step", fills_memory)
    with pytest.raises(MemoryLimitError, match="'alice', step of optimizer adamw_torch"):
        agent.apply_gradients()
    assert agent.version == 0


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1e7])
def test_merged_weights_that_are_no_numbers_change_nothing(base: BaseModel, wrong: float) -> None:
    agent = learner(base)
    before = base.adapter_tensors("alice")
    merged = {key: tensor.clone() for key, tensor in before.items()}
    next(iter(merged.values()))[0, 0] = wrong
    with pytest.raises(ModelError, match=r"learner 'alice', version 0: .* after the merge"):
        agent.replace_weights(merged, reset_moments=True)
    assert all(torch.equal(t, before[key]) for key, t in base.adapter_tensors("alice").items())
    assert agent.version == 0


@pytest.mark.slow
@pytest.mark.parametrize("rank", [4, 64])
def test_the_size_of_the_optimizers_state_is_the_real_one(
    model_folder: Path, sample: Any, rank: int
) -> None:
    """Factors of 64 x 4 entries have 32-bit state whatever the optimizer is called."""
    base = BaseModel.load(model_folder, lora_rank=rank, device="cpu")
    sizes = {}
    for optimizer in ("adamw_torch", "adamw_8bit"):
        agent = learner(base, optimizer.replace("_", ""), optimizer=optimizer)
        batch = sample(base, agent.name)
        assert agent.compute_gradients(batch)["optimizer_mb"] == 0
        agent.apply_gradients()
        sizes[optimizer] = agent.compute_gradients(batch)["optimizer_mb"]
        agent.load_state(*agent.state())
        assert agent.compute_gradients(batch)["optimizer_mb"] == sizes[optimizer]
    weights = sum(p.numel() for p in base.trainable_parameters("adamwtorch").values())
    assert sizes["adamw_torch"] == pytest.approx(8 * weights / 1e6, rel=1e-2)
    ratio = sizes["adamw_8bit"] / sizes["adamw_torch"]
    assert ratio == pytest.approx(1, abs=0.01) if rank == 4 else ratio < 0.5
