"""Shared prefixes are right where layers look back a limited way, and refused where they cannot be."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.records import TrainingBatch, WeightVersion
from srl_agents.sharing.demonstrations import Demonstration, DemonstrationBatch
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.trainers.passes.attention_reach import AttentionReach, attention_reach, check_reach
from srl_agents.trainers.ppo import PPOLearner
from srl_agents.trainers.ppo_settings import PPOSettings
from srl_agents.trainers.supervised.sft import SFTLearner
from srl_agents.trainers.supervised.sft_settings import SFTSettings
from srl_envs.errors import ConfigError

WINDOW = 8
MIXED = {"full_attention": None, "sliding_attention": WINDOW}
SLIDING: list[tuple[str, dict[str, Any], dict[str, int | None]]] = [
    ("qwen2", {"use_sliding_window": True, "max_window_layers": 1}, MIXED),
    ("gemma2", {}, MIXED),
    ("mistral", {}, {"sliding_attention": WINDOW}),
]
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("lfm2", {"layer_types": ["conv", "full_attention"]}, r"lfm2.* has layers of type conv"),
    ("bloom", {}, "bloom.* cannot read an attention mask per token"),
]


def loaded(folder: Path, kind: str, **options: Any) -> BaseModel:
    return BaseModel.load(
        random_model.build(folder, kind=kind, **options), lora_rank=4, device="cpu"
    )


def long_group(rows: int = 4) -> TrainingBatch:
    """Attempts at one prompt of three windows."""
    rng = np.random.default_rng(0)
    prompt = rng.integers(3, 300, size=3 * WINDOW)
    replies_RT = rng.integers(3, 300, size=(rows, 5))
    return TrainingBatch(
        learner="alice",
        versions=(WeightVersion("alice", 0, "0" * 16),) * rows,
        prompt_ids_RP=np.tile(prompt, (rows, 1)),
        prompt_mask_RP=np.ones((rows, len(prompt)), dtype=bool),
        completion_ids_RT=replies_RT,
        completion_mask_RT=np.ones(replies_RT.shape, dtype=bool),
        learned_RT=np.ones(replies_RT.shape, dtype=bool),
        logprobs_RT=np.full(replies_RT.shape, -3.0, dtype=np.float32),
        advantages_RT=np.repeat(rng.normal(size=(rows, 1)), 5, axis=1).astype(np.float32),
    )


def gradients(agent: AdapterLearner[Any], batch: Any) -> dict[str, torch.Tensor]:
    agent.compute_gradients(replace(batch, learner=agent.name))
    return {key: gradient.clone() for key, gradient in agent.gradients.items()}


def assert_same(padded: dict[str, torch.Tensor], shared: dict[str, torch.Tensor]) -> None:
    largest = max(float(gradient.abs().max()) for gradient in padded.values())
    assert largest > 1e-4
    for key, gradient in padded.items():
        torch.testing.assert_close(shared[key], gradient, atol=1e-5 * max(1, largest), rtol=1e-4)


@pytest.mark.parametrize(("kind", "options", "windows"), SLIDING)
def test_gradients_beyond_a_sliding_window(
    tmp_path: Path, kind: str, options: dict[str, Any], windows: dict[str, int | None]
) -> None:
    base = loaded(tmp_path, kind, sliding_window=WINDOW, **options)
    assert attention_reach(base).windows == windows
    found = []
    for name, share in (("alice", False), ("bob", True)):
        settings = GRPOSettings(micro_batch_rows=4, share_prefixes=share)
        agent = GRPOLearner(name, base, settings, temperature=1.0, seed=1)
        found.append(gradients(agent, long_group()))
    assert_same(*found)


def test_imitation_beyond_a_sliding_window(tmp_path: Path) -> None:
    base = loaded(tmp_path, "gemma2", sliding_window=WINDOW)
    prompt = tuple(range(3, 3 + 3 * WINDOW))
    some = tuple(
        Demonstration(prompt_ids=prompt, reply_ids=(reply, 50, 60), by="bot:middle")
        for reply in (7, 8, 9)
    )
    found = []
    for name, share in (("alice", False), ("bob", True)):
        agent = SFTLearner(name, base, SFTSettings(share_prefixes=share), seed=1)
        found.append(gradients(agent, DemonstrationBatch(learner=name, demonstrations=some)))
    assert_same(*found)


def test_a_critic_reads_what_the_policy_reads(tmp_path: Path) -> None:
    base = loaded(tmp_path, "gemma2", sliding_window=WINDOW)
    values = []
    for name, share in (("alice", False), ("bob", True)):
        settings = PPOSettings(critic="base", share_prefixes=share)
        agent = PPOLearner(name, base, settings, temperature=1.0, seed=1)
        last = agent._value_head.layers[-1]
        assert isinstance(last, torch.nn.Linear)
        torch.nn.init.normal_(last.weight, generator=torch.Generator().manual_seed(1))
        values.append(agent.values(long_group()))
    assert np.abs(values[0]).max() > 0.01
    assert values[1] == pytest.approx(values[0], abs=1e-5)


@pytest.mark.parametrize(("kind", "options", "message"), REFUSED)
def test_a_model_that_cannot_share_is_refused_by_name(
    tmp_path: Path, kind: str, options: dict[str, Any], message: str
) -> None:
    base = loaded(tmp_path, kind, **options)
    with pytest.raises(ConfigError, match=message):
        GRPOLearner("alice", base, GRPOSettings(share_prefixes=True), temperature=1.0, seed=1)
    with pytest.raises(ConfigError, match="Set share_prefixes to false"):
        SFTLearner("alice", base, SFTSettings(share_prefixes=True), seed=1)


@pytest.mark.parametrize("window", [None, 2])
def test_a_window_that_a_configuration_tells_wrongly_is_found(
    tmp_path: Path, window: int | None
) -> None:
    base = loaded(tmp_path, "mistral", sliding_window=WINDOW)
    check_reach(base, AttentionReach({"sliding_attention": WINDOW}))
    with pytest.raises(ConfigError, match=r"mistral.* hidden states differ by \d+%"):
        check_reach(base, AttentionReach({"sliding_attention": window}))
