"""Tokens are scored over tiles of the vocabulary as over all of it, gradients included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.records import TrainingBatch
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.passes import log_probabilities
from srl_agents.trainers.passes.log_probabilities import LogitForm, token_log_probabilities
from srl_envs.errors import ConfigError
from tests.srl_agents.trainers.conftest import sample_batch

Tensors = tuple[torch.Tensor, ...]


def whole(form: LogitForm, head: Tensors, hidden: torch.Tensor, grads: Tensors) -> Tensors:
    """Over all logits at once, in float64."""
    weight, bias, targets = head
    states = hidden.double().requires_grad_()
    logits = states @ weight.double().T + bias.double()
    if form.softcap:
        logits = form.softcap * torch.tanh(logits / form.softcap)
    logps = (logits / form.temperature).log_softmax(-1)
    entropy = -(logps.exp() * logps).sum(-1)
    own = logps.gather(1, targets[:, None])[:, 0]
    (own @ grads[0].double() + entropy @ grads[1].double()).backward()
    assert states.grad is not None
    return own.detach(), entropy.detach(), states.grad


@settings(max_examples=15, deadline=None)
@given(
    vocabulary=st.integers(2, 700),
    tokens=st.integers(1, 30),
    temperature=st.sampled_from([0.5, 1.0, 1.7]),
    softcap=st.sampled_from([None, 3.0]),
    scale=st.sampled_from([0.01, 1.0]),
    seed=st.integers(0, 99),
)
def test_tiles_give_what_all_logits_give(
    vocabulary: int, tokens: int, temperature: float, softcap: float | None, scale: float, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    hidden, weight = (
        torch.randn(tokens, 16, generator=draw),
        torch.randn(vocabulary, 16, generator=draw),
    )
    bias = torch.randn(vocabulary, generator=draw)
    targets = torch.randint(0, vocabulary, (tokens,), generator=draw)
    grads = torch.randn(tokens, generator=draw), torch.randn(tokens, generator=draw)
    form, weight = LogitForm(temperature, softcap), weight * scale
    expected = whole(form, (weight, bias, targets), hidden, grads)

    before = log_probabilities._ROWS, dict(log_probabilities._TILE_BYTES)
    log_probabilities._ROWS, log_probabilities._TILE_BYTES["cpu"] = 7, 0  # many small tiles
    try:
        states = hidden.clone().requires_grad_()
        logps, entropy = token_log_probabilities(
            states, weight, targets, form, bias=bias, entropy_gradient=True
        )
        (logps @ grads[0] + entropy @ grads[1]).backward()
    finally:
        log_probabilities._ROWS = before[0]
        log_probabilities._TILE_BYTES |= before[1]
    assert states.grad is not None
    for ours, exact in zip((logps, entropy, states.grad), expected, strict=True):
        size = exact.abs().max().clamp(min=1)
        torch.testing.assert_close(ours.double() / size, exact / size, rtol=0, atol=2e-6)


def test_no_tensor_is_as_large_as_the_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(log_probabilities._TILE_BYTES, "cpu", 2**16)
    hidden, weight = torch.randn(64, 8, requires_grad=True), torch.randn(8192, 8)
    largest, of_weight = 0, weight.untyped_storage().data_ptr()

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.untyped_storage().data_ptr() != of_weight:
                largest = max(largest, out.numel())
            return out

    with Sizes():
        logps, _ = token_log_probabilities(hidden, weight, torch.arange(64), LogitForm())
        logps.sum().backward()

    assert largest <= 64 * 256  # a tile; the logits are 64 * 8192


def gradients(
    folder: Path, head: str, batch: TrainingBatch | None, **more: Any
) -> tuple[Any, TrainingBatch]:
    base = BaseModel.load(folder, lora_rank=4, device="cpu")
    settings = GRPOSettings(log_probabilities=head, **more)  # type: ignore[arg-type]
    learner = GRPOLearner("alice", base, settings, 0.8, seed=1)
    with torch.no_grad():
        for key, parameter in base.trainable_parameters("alice").items():
            if "lora_B" in key:
                parameter.normal_(std=0.1, generator=torch.Generator().manual_seed(len(key)))
    batch = batch or sample_batch(base, "alice", temperature=0.8)
    metrics = learner.compute_gradients(batch)
    return (learner.gradients, metrics), batch


@pytest.mark.parametrize("share", [False, True])
def test_a_learner_with_tiles_has_the_gradients_of_one_with_trls_head(
    model_folder: Path, *, share: bool
) -> None:
    more = {"share_prefixes": share, "entropy_coef": 0.1}
    (expected, expected_metrics), batch = gradients(model_folder, "trl", None, **more)

    (ours, metrics), _ = gradients(model_folder, "chunked", batch, **more)

    for key, gradient in expected.items():
        torch.testing.assert_close(ours[key], gradient, rtol=1e-4, atol=1e-6)
    assert metrics == pytest.approx(expected_metrics, rel=1e-4, abs=1e-6)


def test_capped_logits_are_scored_as_the_model_caps_them(
    model_folder: Path, tmp_path: Path
) -> None:
    _, batch = gradients(model_folder, "trl", None)
    folder = random_model.build(
        tmp_path, kind="gemma2", final_logit_softcapping=2.0, query_pre_attn_scalar=16
    )
    (expected, _), _ = gradients(folder, "trl", batch)

    (ours, _), _ = gradients(folder, "chunked", batch)

    for key, gradient in expected.items():
        torch.testing.assert_close(ours[key], gradient, rtol=1e-4, atol=1e-6)


def test_a_model_that_scales_its_logits_is_refused_by_name(tmp_path: Path) -> None:
    folder = random_model.build(tmp_path, kind="granite", logits_scaling=3.0)

    with pytest.raises(
        ConfigError, match=r"log_probabilities='chunked'.*scales or shifts its logits"
    ):
        gradients(folder, "chunked", None)
