"""`srl_agents.minimal` computes the episodes, advantages, gradients and weights of the production loop."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from srl_agents import minimal
from srl_agents.agents.players import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.batches import training_batch
from srl_agents.credit.settings import CreditSettings
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.records import Episode
from srl_agents.rollouts import Rollouts
from srl_agents.trainers.grpo_settings import GRPOSettings

ROUNDING = 5e-5
"""Between one row at a time and padded batches, in log-probabilities and relative to the largest gradient.
Processors round other shapes differently: 1.4e-5 was seen."""
GAMES = {"nim-v0": {}, "kuhn_poker-v0": {"hands": 2}}


def loaded() -> BaseModel:
    base = BaseModel.load("tiny", device="cpu")
    base.add_adapter("alice", 0)
    base.activate("alice")
    # A new adapter's second factor is 0, so that half of the gradient would be 0 whatever is computed.
    tensors = base.adapter_tensors("alice")
    noise = torch.Generator().manual_seed(1)
    base.set_adapter_tensors(
        "alice", {k: t + 0.02 * torch.randn(t.shape, generator=noise) for k, t in tensors.items()}
    )
    return base


def without_logprobs(episode: Episode) -> Episode:
    trajectories = tuple(
        replace(own, turns=tuple(replace(turn, logprobs=()) for turn in own.turns))
        for own in episode.trajectories
    )
    return replace(episode, trajectories=trajectories)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", GAMES)
def test_one_update_equals_that_of_the_production_loop(env_id: str) -> None:
    settings = minimal.Settings(
        env=env_id, env_options=GAMES[env_id], start_states=2, group_size=4, seed=3
    )
    base, other = loaded(), loaded()
    version = base.freeze_adapter("alice")
    assert other.freeze_adapter("alice") == version
    specs = minimal.schedule(settings, 0, version)
    own = [minimal.play(base, version, spec, settings) for spec in specs]

    sampling = SamplingSettings(max_new_tokens=settings.max_new_tokens)
    policies: dict[str, Policy] = {
        str(version): ModelPolicy(TransformersEngine(other, sampling), version),
        "bot:random": ScriptedPolicy("random"),
    }
    with Rollouts(policies, root_seed=settings.seed) as rollouts:
        played = rollouts.play(specs)
    assert [without_logprobs(e) for e in own] == [without_logprobs(e) for e in played]
    pairs = [
        (ours.logprobs, theirs.logprobs)
        for mine, yours in zip(own, played, strict=True)
        for a, b in zip(mine.trajectories, yours.trajectories, strict=True)
        for ours, theirs in zip(a.turns, b.turns, strict=True)
    ]
    assert any(ours for ours, _ in pairs)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, atol=ROUNDING)

    rows = minimal.advantages(own)
    credited, _ = CreditAssigner(CreditSettings()).assign(played, "alice", str(version))
    assert [(t.turn_index, t.reply, a) for t, a in rows] == [
        (t.turn_index, t.reply, a) for t, a in credited
    ]

    algorithm = GRPOSettings(learning_rate=settings.learning_rate, micro_batch_rows=5)
    learner = algorithm.make_learner("alice", other, temperature=1.0, seed=0)
    expected = learner.compute_gradients(
        training_batch("alice", credited, other.tokenizer.pad_token_id)
    )
    assert minimal.backward(base, rows, settings.clip) == pytest.approx(
        expected["loss"], abs=ROUNDING
    )
    parameters = base.trainable_parameters("alice")
    gradients = {key: parameter.grad for key, parameter in parameters.items()}
    assert gradients.keys() == learner.gradients.keys()
    largest = max(float(gradient.abs().max()) for gradient in learner.gradients.values())
    assert largest > 0
    for key, gradient in learner.gradients.items():
        torch.testing.assert_close(gradients[key], gradient, atol=ROUNDING * largest, rtol=0)

    before = {key: parameter.detach().clone() for key, parameter in parameters.items()}
    optimizer = torch.optim.AdamW(parameters.values(), lr=settings.learning_rate, weight_decay=0.0)
    torch.nn.utils.clip_grad_norm_(list(parameters.values()), settings.max_grad_norm)
    optimizer.step()
    learner.apply_gradients()
    after = other.trainable_parameters("alice")
    # Adam divides a gradient by its own size, so where it is all rounding the step has no sign: few such.
    steps = torch.cat([(p.detach() - before[k]).flatten() for k, p in parameters.items()])
    expected_steps = torch.cat([(after[k].detach() - before[k]).flatten() for k in parameters])
    assert (
        float(((steps - expected_steps).abs() > 0.01 * settings.learning_rate).float().mean())
        < 0.01
    )


def test_it_imports_nothing_of_srl_agents_but_records_and_model_loading() -> None:
    tree = ast.parse(Path(minimal.__file__).read_text())
    imported = {
        node.module for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("srl_agents")
    }  # fmt: skip
    assert imported == {"srl_agents.records", "srl_agents.models.base_model"}
    assert len(Path(minimal.__file__).read_text().splitlines()) <= 300


@pytest.mark.slow
def test_equal_settings_give_equal_updates() -> None:
    settings = minimal.Settings(env="nim-v0", start_states=1, group_size=3)
    metrics = []
    for _ in range(2):
        base = loaded()
        optimizer = torch.optim.AdamW(base.trainable_parameters("alice").values(), lr=1e-3)
        metrics.append(minimal.update(base, optimizer, settings, 0))
    assert metrics[0] == metrics[1]
    assert metrics[0]["rows"] > 0
