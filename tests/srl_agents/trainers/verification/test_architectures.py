"""No false alarm over architectures: rotary and learned positions, windows, caps, scaled logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.verification.cases import all_cases, chosen_cases
from srl_agents.trainers.verification.layouts import LAYOUTS, AdapterForm
from srl_agents.trainers.verification.verify import LEAST_CLIPPED, Result, Verification, verify
from srl_envs.errors import ConfigError
from tests.commit_cases import nightly_but

pytestmark = pytest.mark.filterwarnings("ignore:fan_in_fan_out")  # PEFT's, of GPT-2's layers
WINDOW = {"sliding_window": 8}
NO_DROPOUT = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 1},
    "qwen2": {},
    "qwen3": {},
    "gemma2": {"query_pre_attn_scalar": 16, "final_logit_softcapping": 5.0, **WINDOW},
    "gemma3_text": {"query_pre_attn_scalar": 16, **WINDOW},
    "mistral": WINDOW,
    "phi3": {},
    "gpt_neox": {},
    "olmo2": {},
    "smollm3": {},
    "granite": {"logits_scaling": 3.0, "residual_multiplier": 0.5},
    "gpt2": NO_DROPOUT,
    "opt": {"dropout": 0.0, "attention_dropout": 0.0},
    "bloom": {},
}
REFUSED = {
    "granite": {"chunked logits", "chunked logits, shared prefixes"},
    "opt": {"packed rows", "mixed adapters"},
    "bloom": {"packed rows", *(one.name for one in LAYOUTS if "shared" in one.name)},
}
"""Layouts that a model cannot have; each is refused by name, and none is computed wrongly."""
SOME = ("grpo gspo", "grpo default with divergence", "ppo shared", "dpo sigmoid")


def verified(tmp_path: Path, kind: str, names: tuple[str, ...], **form: Any) -> list[Result]:
    folder = random_model.build(tmp_path, kind=kind, **ARCHITECTURES[kind])
    return verify(Verification(folder, AdapterForm(**form)), chosen_cases(names), LAYOUTS)


def assert_equal(results: list[Result], kind: str) -> None:
    assert {one.layout for one in results if one.refused} == REFUSED.get(kind, set())
    assert {one.layout for one in results} == {one.name for one in LAYOUTS}
    assert [one for one in results if not one.equal] == []
    clipped = [one.clipped for one in results if one.clipped is not None and not one.refused]
    assert min(clipped) >= LEAST_CLIPPED


@pytest.mark.slow
@pytest.mark.parametrize("kind", nightly_but(("qwen3", "gemma2", "gpt2"), ARCHITECTURES))
def test_layouts_of_an_architecture(tmp_path: Path, kind: str) -> None:
    assert_equal(verified(tmp_path, kind, SOME), kind)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_loss_of_an_architecture(tmp_path: Path, kind: str) -> None:
    results = verified(tmp_path, kind, ())
    assert_equal(results, kind)
    assert {one.case for one in results} == {case.name for case in all_cases()}


@pytest.mark.slow
def test_adapters_that_act_from_the_reply_on(tmp_path: Path) -> None:
    results = verified(tmp_path, "qwen3", ("grpo dapo",), activation="reply")
    assert [one for one in results if not one.equal] == []
    assert sum(not one.refused for one in results) >= 7


def test_a_model_that_lets_packed_rows_see_each_other_is_refused(tmp_path: Path) -> None:
    base = BaseModel.load(random_model.build(tmp_path, kind="opt"), lora_rank=4, device="cpu")
    with pytest.raises(ConfigError, match=r"pack_rows: .* lets packed rows see each other"):
        GRPOLearner("alice", base, GRPOSettings(pack_rows=True), 1.0, seed=0)
