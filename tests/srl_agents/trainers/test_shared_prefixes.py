"""Prefixes read once give what prefixes read once per row give."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.models.base_model import BaseModel
from srl_agents.records import CriticBatch, TrainingBatch
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.passes.shared_prefixes import SharedPrefixes, share_prefixes
from srl_agents.trainers.policy_gradient import micro_batches
from srl_agents.trainers.ppo import PPOLearner
from srl_agents.trainers.ppo_settings import CRITICS, PPOSettings


def grouped(batch: TrainingBatch) -> TrainingBatch:
    """Rows 0, 2, 4, ... begin like row 0, rows 1, 3, 5 like row 1; the last keeps its own prompt."""
    source = np.array([row % 2 for row in range(batch.rows - 1)] + [batch.rows - 1])
    return replace(
        batch,
        prompt_ids_RP=batch.prompt_ids_RP[source],
        prompt_mask_RP=batch.prompt_mask_RP[source],
    )


def disturb(base: BaseModel, name: str) -> None:
    generator = torch.Generator().manual_seed(3)
    tensors = base.adapter_tensors(name)
    base.set_adapter_tensors(
        name, {k: v + 0.05 * torch.randn(v.shape, generator=generator) for k, v in tensors.items()}
    )


def assert_same_gradients(padded: Any, shared: Any, batch: Any) -> None:
    shared.base.set_adapter_tensors(shared.name, padded.base.adapter_tensors(padded.name))
    expected = padded.compute_gradients(batch)
    kept = {key: gradient.clone() for key, gradient in padded.gradients.items()}
    got = shared.compute_gradients(replace(batch, learner=shared.name))
    assert expected["grad_norm"] > 1e-2
    assert got == pytest.approx(expected, abs=1e-5, rel=1e-5)
    largest = max(float(gradient.abs().max()) for gradient in kept.values())
    for key, gradient in shared.gradients.items():
        torch.testing.assert_close(gradient, kept[key], atol=1e-5 * max(1, largest), rtol=1e-5)


@pytest.mark.parametrize("variant", ["dapo", "gspo", "rloo"])
def test_grpo_gradients(base: BaseModel, sample: Any, variant: Any) -> None:
    kl = 0.0 if variant == "rloo" else 0.1
    padded, shared = (
        GRPOLearner(
            name,
            base,
            GRPOSettings(variant=variant, kl_coef=kl, micro_batch_rows=4, share_prefixes=share),
            temperature=1.0,
            seed=1,
        )
        for name, share in (("alice", False), ("bob", True))
    )
    disturb(base, "alice")
    batch = grouped(sample(base, "alice"))
    assert_same_gradients(padded, shared, batch)
    both = [agent.token_logprobs(batch, "alice") for agent in (padded, shared)]
    assert both[1] == pytest.approx(both[0], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("critic", CRITICS)
def test_ppo_gradients_and_values(base: BaseModel, sample: Any, critic: Any) -> None:
    padded, shared = (
        PPOLearner(
            name,
            base,
            PPOSettings(critic=critic, kl_coef=0.1, entropy_coef=0.02, share_prefixes=share),
            temperature=1.0,
            seed=1,
        )
        for name, share in (("alice", False), ("bob", True))
    )
    disturb(base, "alice")
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for key, parameter in padded._extras.items():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
            other = shared._extras[key.replace("alice", "bob")]
            other.copy_(parameter)
    plain = grouped(sample(base, "alice"))
    rng = np.random.default_rng(0)
    noise = rng.normal(size=plain.completion_mask_RT.shape).astype(np.float32)
    arrays = {name: getattr(plain, name) for name in TrainingBatch.__dataclass_fields__}
    batch = CriticBatch(**arrays, values_RT=np.float32(0.1) * noise, returns_RT=noise)
    assert_same_gradients(padded, shared, batch)
    for key, parameter in padded._extras.items():
        other = shared._extras[key.replace("alice", "bob")]
        torch.testing.assert_close(other.grad, parameter.grad, atol=1e-5, rtol=1e-4)
    assert shared.values(batch) == pytest.approx(padded.values(batch), abs=1e-5)


CPU = torch.device("cpu")


def laid_out(rows: Sequence[tuple[list[int], list[int]]], width: int) -> SharedPrefixes:
    prompts, replies = ([np.array(row[part]) for row in rows] for part in (0, 1))
    return share_prefixes(prompts, replies, width=width, device=CPU)


def test_layout_by_hand() -> None:
    """Two replies to the prompt 5 6 7, one to 5 6 8 9, one to 4; a long sequence costs nothing."""
    rows = [([5, 6, 7], [10, 11]), ([5, 6, 8, 9], [12]), ([5, 6, 7], [13]), ([4], [14])]
    layout = laid_out(rows, width=10**6)
    assert layout.input_ids_GL.tolist() == [[4, 5, 6, 7, 10, 7, 8, 9]]
    assert layout.position_ids_GL.tolist() == [[0, 0, 1, 2, 3, 2, 2, 3]]
    assert layout.labels_GL.tolist() == [[14, -100, -100, 10, 11, 13, -100, 12]]
    assert layout.visible_GLL[0].int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0, 0, 0],
        [0, 1, 1, 0, 0, 0, 0, 0],
        [0, 1, 1, 1, 0, 0, 0, 0],
        [0, 1, 1, 1, 1, 0, 0, 0],
        [0, 1, 1, 0, 0, 1, 0, 0],
        [0, 1, 1, 0, 0, 0, 1, 0],
        [0, 1, 1, 0, 0, 0, 1, 1],
    ]
    assert layout.rows(torch.arange(8)[None]).tolist() == [[3, 4], [7, 0], [5, 0], [0, 0]]


tokens = st.lists(st.integers(1, 3), min_size=1, max_size=6)


@given(st.lists(st.tuples(tokens, tokens), min_size=1, max_size=12), st.sampled_from([1, 2, 10**6]))
def test_every_token_sees_its_own_row_and_nothing_else(
    rows: list[tuple[list[int], list[int]]], width: int
) -> None:
    layout = laid_out(rows, width)
    length = layout.input_ids_GL.shape[1]
    for number, (prompt, reply) in enumerate(rows):
        for at, token in enumerate(reply):
            g, place = divmod(int(layout.place_RT[number, at]), length)
            assert layout.labels_GL[g, place] == token
            seen = layout.visible_GLL[g, place].nonzero().flatten()
            seen = seen[layout.position_ids_GL[g, seen].argsort()]
            assert layout.input_ids_GL[g, seen].tolist() == prompt + reply[:at]
            assert layout.position_ids_GL[g, seen].tolist() == list(range(len(prompt) + at))
    assert (layout.labels_GL >= 0).sum() == sum(len(reply) for _, reply in rows)
    assert layout.visible_GLL.any(dim=2).all()


@given(st.lists(st.tuples(tokens, tokens), min_size=1, max_size=12))
def test_never_more_places_than_padded_rows_and_one_sequence_is_the_prefix_tree(
    rows: list[tuple[list[int], list[int]]],
) -> None:
    layout = laid_out(rows, width=10**6)
    sequences, length = layout.input_ids_GL.shape
    assert sequences * length <= len(rows) * max(len(p) + len(r) - 1 for p, r in rows)
    if sequences == 1:
        beginnings = {tuple(prompt[:end]) for prompt, _ in rows for end in range(1, len(prompt))}
        assert length == len(beginnings) + sum(len(reply) for _, reply in rows)


def test_rows_that_share_nothing_stay_apart() -> None:
    """Sixteen rows of 200 tokens each: one sequence would look at sixteen times as many pairs."""
    apart = [(list(range(200 * row, 200 * row + 200)), [1]) for row in range(16)]
    assert laid_out(apart, width=64).input_ids_GL.shape == (16, 200)
    alike = [(list(range(180)) + prompt[180:], reply) for prompt, reply in apart]
    assert laid_out(alike, width=10**6).input_ids_GL.shape == (1, 180 + 16 * 20)
    assert laid_out(alike, width=1).input_ids_GL.shape[0] == 2


def test_rows_that_begin_alike_stand_together(base: BaseModel, sample: Any) -> None:
    base.add_adapter("alice", 0)
    batch = grouped(sample(base, "alice", rows=9))
    parts = list(micro_batches(batch, 4, base.device, share=True))
    assert sorted(row for rows, _ in parts for row in rows) == list(range(9))
    order = [int(row) for rows, _ in parts for row in rows]
    kinds = [0 if row == 8 else 1 + row % 2 for row in order]
    assert sum(a != b for a, b in pairwise(kinds)) == 2
