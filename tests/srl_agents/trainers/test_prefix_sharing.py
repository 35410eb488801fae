"""``share_prefixes: auto`` is on where a model allows it; plan and learner decide alike and say why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.cli.plan.run import plan_of
from srl_agents.memory.devices import target_of
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.sharing.demonstrations import Demonstration, DemonstrationBatch
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.passes.shared_prefixes import worth_sharing
from srl_agents.trainers.policy_gradient import RowTrainer
from srl_agents.trainers.ppo import PPOLearner
from srl_agents.trainers.ppo_settings import PPOSettings
from srl_agents.trainers.prefix_sharing import mixing_saves, prefix_sharing
from srl_agents.trainers.supervised.sft import SFTLearner
from srl_agents.trainers.supervised.sft_settings import SFTSettings
from srl_envs.errors import ConfigError
from tests.srl_agents.trainers.test_shared_prefixes import grouped

ON = "on (auto: attention takes a mask per token)"


@pytest.mark.parametrize(
    ("setting", "where", "decision"),
    [
        ("auto", {"attention": "sdpa"}, ON),
        ("auto", {"attention": "eager", "layers": ("sliding_attention", "full_attention")}, ON),
        (True, {"attention": "sdpa"}, "on (set in the recipe)"),
        (False, {"attention": "sdpa"}, "off (set in the recipe)"),
        ("auto", {"attention": "sdpa", "packs": True}, "off (auto: pack_rows lays rows out)"),
        (
            "auto",
            {"attention": "flash_attention_2"},
            "off (auto: attention 'flash_attention_2' takes no mask per token)",
        ),
        (
            "auto",
            {"attention": "sdpa", "layers": ("full_attention", "conv", "conv")},
            "off (auto: layers of type conv take no mask per token)",
        ),
    ],
)
def test_the_rule(setting: Any, where: dict[str, Any], decision: str) -> None:
    assert str(prefix_sharing(setting, **where)) == decision


def test_mixing_beside_shared_prefixes_must_save_three_quarters() -> None:
    assert mixing_saves(2, 1, shares=False)
    assert not mixing_saves(1, 1, shares=False)
    assert mixing_saves(5, 1, shares=True)
    assert not mixing_saves(4, 1, shares=True)


def test_plan_and_learner_decide_alike() -> None:
    plan = plan_of("quickstart-tiny", target_of("16GB"))
    learner = GRPOLearner("a", BaseModel.load("tiny", device="cpu"), GRPOSettings(), 1.0, seed=0)
    assert plan.description.sharing == str(learner.sharing) == ON
    assert plan.numbers()["bases"]["tiny"]["sharing"] == ON
    assert plan.description.shared_by == 8
    off = plan_of("quickstart-tiny", target_of("16GB"), ("training.share_prefixes=false",))
    assert (off.description.sharing, off.description.shared_by) == ("off (set in the recipe)", 1)


def test_a_plan_that_mixes_learners_shares_no_prefixes() -> None:
    """Twelve learners of 6 rows in one pass, instead of 12 passes."""
    many = (
        f"learners=[{','.join(f'l{n}' for n in range(12))}]",
        "rollout.start_states=1",
        "rollout.group_size=2",
        "training.micro_batch_rows=512",
    )
    described = plan_of("quickstart-tiny", target_of("16GB"), many).description
    assert (described.mixes, described.shared_by) == (True, 1)


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("bloom", {}, r"off \(auto: .*\(bloom\) cannot read an attention mask per token: .*\)"),
        (
            "lfm2",
            {"layer_types": ["conv", "full_attention"]},
            r"off \(auto: layers of type conv take no mask per token\)",
        ),
    ],
)
def test_a_model_that_cannot_share_learns_all_the_same(
    tmp_path: Path, sample: Any, kind: str, options: dict[str, Any], reason: str
) -> None:
    folder = random_model.build(tmp_path, kind=kind, **options)
    base = BaseModel.load(folder, lora_rank=4, device="cpu")
    agent = GRPOLearner("alice", base, GRPOSettings(), 1.0, seed=1)
    assert re.fullmatch(reason, str(agent.sharing))
    assert not agent.trainer.share
    assert PPOLearner("bob", base, PPOSettings(), 1.0, seed=1).sharing == agent.sharing
    imitator = SFTLearner("carol", base, SFTSettings(), seed=1)
    assert imitator.sharing == agent.sharing
    row = Demonstration(prompt_ids=(5, 6, 7), reply_ids=(8, 9), by="bot:middle")
    batch = DemonstrationBatch(learner="carol", demonstrations=(row,))
    assert imitator.compute_gradients(batch)["grad_norm"] > 0


def test_rows_that_share_little_are_read_one_by_one(
    base: BaseModel, sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    whole = RowTrainer._over_shared_prefixes

    def counted(self: RowTrainer, *given: Any) -> Any:
        taken.append(1)
        return whole(self, *given)

    monkeypatch.setattr(RowTrainer, "_over_shared_prefixes", counted)
    agent = GRPOLearner("alice", base, GRPOSettings(micro_batch_rows=4), 1.0, seed=1)
    batch = sample(base, "alice", rows=8)
    agent.compute_gradients(batch.take(np.array([0])))
    assert taken == []
    agent.compute_gradients(grouped(batch))
    assert taken == [1, 1]


tokens = st.lists(st.integers(1, 3), min_size=1, max_size=6)


@given(st.lists(st.tuples(tokens, tokens), min_size=1, max_size=8), st.integers(2, 6))
def test_a_layout_is_made_where_a_tenth_of_the_places_is_saved(
    rows: list[tuple[list[int], list[int]]], copies: int
) -> None:
    prompts, replies = ([np.array(row[part]) for row in rows] for part in (0, 1))
    assert not worth_sharing(prompts[:1], replies[:1], width=64)
    long = [np.concatenate([np.arange(60), prompt]) for prompt in prompts] * copies
    assert worth_sharing(long, replies * copies, width=10**6)


@pytest.mark.parametrize("settings", [GRPOSettings, PPOSettings, SFTSettings])
def test_another_value_is_refused_with_the_valid_ones(settings: Any) -> None:
    with pytest.raises(ConfigError, match=r"share_prefixes='yes'.*\['False', 'True', 'auto'\]"):
        settings(share_prefixes="yes")
