"""Rubrics as rewards of TRL and verifiers."""

from __future__ import annotations

import asyncio
import logging
import math
from types import SimpleNamespace
from typing import Any

import pytest

from srl_envs.errors import ConfigError, SandboxError
from srl_envs.rewards import Rubric, Score
from srl_envs.rewards.adapters import trl_reward, verifiers_reward
from srl_envs.rewards.rubric.weighing import Part

RUBRIC = Rubric.from_config({"parts": {"answer": {"kind": "answer", "weight": 2.0}}})


class Fails:
    slow = False
    fields: tuple[str, ...] = ()

    def score(self, reply: str, row: Any) -> Score | None:
        return None if reply == "?" else Score(float(len(reply)), "length")

    def to_config(self) -> dict[str, Any]:
        return {}


def test_trl_passes_columns_and_completions_of_both_kinds() -> None:
    logged: dict[str, float] = {}
    reward = trl_reward(RUBRIC)
    chats = [[{"role": "assistant", "content": "\\boxed{4}"}], [{"role": "tool", "content": "4"}]]
    found = reward(
        prompts=["a", "b"],
        completions=chats,
        answer=["4", "4"],
        completion_ids=[[1], [2]],
        log_metric=logged.__setitem__,
    )
    assert found == [2.0, 0.0]
    assert logged == {"rubric/answer": 0.5}
    assert reward(prompts=["a"], completions=["\\boxed{4}"], answer=["4"]) == [2.0]
    with pytest.raises(ConfigError, match="no column 'answer'"):
        reward(prompts=["a"], completions=["4"])


def test_what_could_not_be_judged_gets_the_mean_of_its_prompt() -> None:
    reward = trl_reward(Rubric({"length": Part(scorer=Fails())}))
    found = reward(prompts=["a", "a", "a", "b"], completions=["x", "?", "xyz", "?"])
    assert found == [1.0, 2.0, 3.0, 0.0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_trl_trains_with_a_rubric(tmp_path: Any) -> None:
    pytest.importorskip("trl", reason="trl is not installed")
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from benchmarks.tiny_model.build import FOLDER

    logging.getLogger("transformers").setLevel(logging.ERROR)
    data = Dataset.from_dict({"prompt": ["1 + 1", "2 + 2"] * 2, "answer": ["2", "4"] * 2})
    trainer = GRPOTrainer(
        model=str(FOLDER),
        reward_funcs=trl_reward(RUBRIC),
        args=GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=4,
            num_generations=2,
            max_completion_length=8,
            max_steps=1,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_steps=1,
        ),
        train_dataset=data,
    )
    trainer.train()
    (log,) = (entry for entry in trainer.state.log_history if "rewards/rubric/mean" in entry)
    assert math.isfinite(log["rewards/rubric/mean"])
    assert "rubric/answer" in log


def test_verifiers_records_each_part() -> None:
    pytest.importorskip("verifiers.v1", reason="verifiers is not installed")
    import verifiers.v1 as vf

    class Data(vf.TaskData):
        answer: str

    class Task(vf.Task[Data]):
        score_rubric = verifiers_reward(RUBRIC)

    class Recorder(SimpleNamespace):
        def record_reward(self, key: str, value: float, weight: float) -> None:
            self.recorded[key] = value * weight

        def record_metric(self, key: str, value: float) -> None: ...

    trace = Recorder(last_reply="\\boxed{4}", rewards={}, metrics={}, recorded={})
    asyncio.run(Task(Data(answer="4")).score(trace))
    assert trace.recorded == {"answer": 2.0}


def test_verifiers_hears_of_our_faults() -> None:
    pytest.importorskip("verifiers.v1", reason="verifiers is not installed")
    score = verifiers_reward(Rubric({"length": Part(scorer=Fails())}))
    task, trace = SimpleNamespace(model_dump=dict), SimpleNamespace(last_reply="?")
    with pytest.raises(SandboxError, match="could not be judged"):
        asyncio.run(score(None, task, trace))


def test_an_absent_verifiers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "verifiers.v1", None)
    with pytest.raises(ConfigError, match=r"verifiers 0\.4"):
        verifiers_reward(RUBRIC)
