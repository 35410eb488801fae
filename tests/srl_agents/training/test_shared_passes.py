"""Memory that runs out in a pass that learners share is reported by name, and halves their rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.recipes.sections.fault_policy import SurvivalSettings
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.mixed_gradients import mixed_gradients
from srl_agents.training.faults.survival import EVENTS, Survival
from srl_agents.training.loop import step
from srl_agents.training.loop.step import Steps
from srl_envs.errors import MemoryLimitError
from tests.srl_agents.trainers.conftest import sample_batch

ROWS = {"alice": 2, "bob": 3}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> BaseModel:
    folder = random_model.build(tmp_path_factory.mktemp("model") / "qwen3")
    return BaseModel.load(folder, lora_rank=4, device="cpu")


def steps_in(folder: Path, base: BaseModel, settings: SurvivalSettings) -> Steps:
    learners: dict[str, Any] = {
        name: GRPOLearner(
            name, base, GRPOSettings(micro_batch_rows=16, share_prefixes=False), 1.0, seed=0
        )
        for name in ROWS
    }
    unused: Any = None
    return Steps(
        learners=learners,
        bases=(),
        coordinator=unused,
        exchange=None,
        learned_reward=None,
        survival=Survival(settings, learners, folder, say=lambda line: None),
        memory=unused,
        view=unused,
        shared=None,
        halves=settings.policy("out_of_memory") == "halve_micro_batch",
    )


def run_out_above(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    whole = mixed_gradients

    def limited(learners: Any, batches: Any) -> Any:
        if min(learner.micro_batch_rows for learner in learners.values()) > rows:
            raise MemoryLimitError("update of 2 learners: out of memory")
        return whole(learners, batches)

    monkeypatch.setattr(step, "mixed_gradients", limited)


def test_a_shared_pass_that_does_not_fit_is_found_and_made_with_fewer_rows(
    base: BaseModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_out_above(monkeypatch, 8)
    steps = steps_in(tmp_path, base, SurvivalSettings())
    batches = {name: sample_batch(base, name, rows=rows) for name, rows in ROWS.items()}

    assert steps._together(batches).keys() == ROWS.keys()

    (event,) = [json.loads(line) for line in (tmp_path / EVENTS).read_text().splitlines()]
    assert (event["fault"], event["policy"]) == ("out_of_memory", "halve_micro_batch")
    assert "2 learners" in event["told"]
    assert {learner.micro_batch_rows for learner in steps.learners.values()} == {8}
    assert all(learner.gradients for learner in steps.learners.values())


def test_a_shared_pass_that_does_not_fit_ends_a_run_whose_policy_is_stop(
    base: BaseModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_out_above(monkeypatch, 8)
    steps = steps_in(tmp_path, base, SurvivalSettings(policies={"out_of_memory": "stop"}))
    batches = {name: sample_batch(base, name, rows=rows) for name, rows in ROWS.items()}

    with pytest.raises(MemoryLimitError, match="2 learners"):
        steps._together(batches)
