"""The shares of a batch, computed apart and added, are the gradient and the metrics of the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.credit.preferences import Preference, PreferenceBatch
from srl_agents.models.base_model import BaseModel
from srl_agents.records import TrainingBatch, cut_evenly
from srl_agents.trainers.dpo import DPOLearner
from srl_agents.trainers.dpo_settings import DPOSettings
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.learner import AdapterLearner, DivisibleBatch, joined_shares
from tests.srl_agents.trainers.conftest import sample_batch
from tests.srl_agents.trainers.test_ppo import disturb, judged_batch
from tests.srl_agents.trainers.test_ppo import learner as ppo_learner

Gradients = dict[str, torch.Tensor]


def require_shares_add_up(
    learner: AdapterLearner[Any], batch: DivisibleBatch, parts: int, *, tolerance: float = 1e-6
) -> None:
    whole = learner.compute_gradients(batch)
    expected = learner.exported_gradients()
    added: Gradients = {}
    shares = []
    for part in range(parts):
        learner.begin(batch)
        if (share := batch.share(part, parts)) is not None:
            shares.append(learner.add_gradients(share))
        for key, gradient in learner.exported_gradients().items():
            added[key] = added.get(key, torch.zeros_like(gradient)) + gradient
    learner.import_gradients(added)
    found = learner.checked(*joined_shares(shares))
    assert found == pytest.approx(whole, rel=1e-4, abs=1e-6)
    assert added.keys() == expected.keys()
    for key, gradient in expected.items():
        torch.testing.assert_close(added[key], gradient, atol=tolerance, rtol=1e-4)
    assert any(gradient.abs().max() > 100 * tolerance for gradient in expected.values())


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 9))
def test_every_thing_belongs_to_one_part_and_parts_are_about_even(
    sizes: list[int], parts: int
) -> None:
    owners = cut_evenly(np.array(sizes), parts)
    assert (np.diff(owners) >= 0).all()
    assert set(owners) <= set(range(parts))
    sums = np.bincount(owners, weights=sizes, minlength=parts)
    assert sums.max() <= sum(sizes) / parts + max(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [2, 3, 9])
@pytest.mark.parametrize(
    "settings",
    [
        {"variant": "grpo", "kl_coef": 0.1},
        {"loss_type": "dapo", "entropy_coef": 0.1},
        {"variant": "rloo"},
        {"variant": "dr_grpo", "share_prefixes": True},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_shares_of_rows_add_up(base: BaseModel, settings: dict[str, Any], parts: int) -> None:
    learner = GRPOLearner("alice", base, GRPOSettings(micro_batch_rows=2, **settings), 1.0, 1)
    batch = sample_batch(base, "alice")
    unlearned = batch.learned_RT.copy()
    unlearned[3] = False  # a row that is only read
    batch = replace(
        batch,
        learned_RT=unlearned,
        logprobs_RT=np.where(unlearned, batch.logprobs_RT, 0),
        advantages_RT=np.where(unlearned, batch.advantages_RT, 0),
    )
    if "rloo" not in settings.values():
        disturb(base, "alice")
    require_shares_add_up(learner, batch, parts, tolerance=1e-5)


@pytest.mark.parametrize("critic", ["shared", "adapter"])
def test_shares_of_a_critics_rows_add_up(base: BaseModel, critic: str) -> None:
    learner = ppo_learner(base, critic=critic)
    disturb(base, "alice", learner)
    batch = judged_batch(sample_batch(base, "alice"))
    for minibatch in learner.steps(batch):
        require_shares_add_up(learner, minibatch, 3, tolerance=1e-5)


def test_shares_of_pairs_add_up(base: BaseModel) -> None:
    learner = DPOLearner("alice", base, DPOSettings(micro_batch_rows=4), 1.0, 1)
    disturb(base, "alice")
    rng = np.random.default_rng(0)

    def tokens(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.integers(3, 200, int(rng.integers(low, high))).tolist())

    pairs = tuple(
        Preference(
            start="",
            chosen_by=(),
            rejected_by=(),
            prompt_ids=tokens(2, 9),
            chosen_ids=tokens(1, 7),
            rejected_ids=tokens(1, 7),
            margin=1.0,
            source="rank",
        )
        for _ in range(5)
    )
    batch = PreferenceBatch(learner="alice", pairs=pairs)
    require_shares_add_up(learner, batch, 3, tolerance=1e-5)


def test_rows_that_begin_alike_stay_together(base: BaseModel) -> None:
    base.add_adapter("alice", seed=0)
    batch = sample_batch(base, "alice", rows=8)
    twice = batch.take(np.array([0, 1, 2, 3, 0, 1, 2, 3]))
    shares = [twice.share(part, 4) for part in range(4)]
    rows = [share for share in shares if share is not None]
    assert sum(share.rows for share in rows) == 8
    prompts = [{tuple(ids) for ids in share.prompt_ids_RP.tolist()} for share in rows]
    assert sum(map(len, prompts)) <= 6
    assert {share.extent for share in rows} == {twice.extent}
    assert isinstance(rows[0], TrainingBatch)
