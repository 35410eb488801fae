"""Rubrics as rewards of other trainers, one line each. None of those is imported before its use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError, SandboxError
from srl_envs.rewards.rubric.weighing import Rubric, RubricScore, summary


def trl_reward(rubric: Rubric, *, name: str = "rubric") -> Callable[..., list[float]]:
    """A reward function for TRL: ``GRPOTrainer(reward_funcs=trl_reward(rubric), ...)``.

    The dataset's columns are the fields of the rows. Plain and conversational completions both work
    (of the latter, the last assistant message is the reply). Each part is logged as
    ``name/PART``. A reply that could not be judged by our own fault gets the mean of the others of
    its prompt, so that its advantage is about 0: TRL counts a missing reward as 0.

    Args:
        rubric: what to score with.
        name: of the reward in TRL's metrics.

    Source: the reward function protocol of TRL 1.16.
    """

    def reward(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
        for field in rubric.fields:
            if field not in columns:
                raise ConfigError(f"the dataset has no column {field!r}, which the rubric reads.")
        rows = [{field: columns[field][i] for field in rubric.fields} for i in range(len(prompts))]
        scores = rubric.score_many([_text(completion) for completion in completions], rows)
        log = columns.get("log_metric")
        if log is not None:
            for part, found in summary(scores)["parts"].items():
                if found["value"] is not None:
                    log(f"{name}/{part}", found["value"])
        return _without_gaps(prompts, scores)

    reward.__name__ = name
    return reward


def verifiers_reward(rubric: Rubric) -> Callable[..., Any]:
    """A reward of a `verifiers.v1` task; name it in the body of your ``Task`` class.

    ``class MyTask(vf.Task[MyData]): score_rubric = verifiers_reward(rubric)``. Each part is recorded
    as a reward of its name, already weighted. The fields of the task's data are those of the row.
    Where the sandbox fails, scoring raises, which verifiers records as an error, not as 0.

    Source: `verifiers.v1.reward` of verifiers 0.4.

    Raises:
        ConfigError: verifiers is not installed, or older than 0.4.
    """
    try:
        import verifiers.v1 as vf  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ConfigError(
            f"verifiers 0.4 or newer is needed: {install_command('verifiers')} ({error})."
        ) from None

    async def score_rubric(_self: Any, task: Any, trace: Any) -> dict[str, float]:
        row = task.model_dump()
        scores = await rubric.score_async(
            trace.last_reply, {field: row[field] for field in rubric.fields if field in row}
        )
        if scores.reward is None:
            raise SandboxError(
                "a part of the rubric could not be judged; the reply is not at fault."
            )
        return {
            part: rubric.parts[part].weight * score.value
            for part, score in scores.components.items()
            if score is not None
        }

    decorated: Callable[..., Any] = vf.reward(score_rubric)
    return decorated


def _text(completion: Any) -> str:
    if isinstance(completion, str):
        return completion
    said = [message for message in completion if message.get("role") == "assistant"]
    return str(said[-1].get("content") or "") if said else ""


def _without_gaps(prompts: Sequence[Any], scores: Sequence[RubricScore]) -> list[float]:
    rewards = [score.reward for score in scores]
    if None not in rewards:
        return [reward for reward in rewards if reward is not None]
    groups: dict[str, list[float]] = {}
    for prompt, reward in zip(prompts, rewards, strict=True):
        if reward is not None:
            groups.setdefault(repr(prompt), []).append(reward)
    means = {prompt: math.fsum(found) / len(found) for prompt, found in groups.items()}
    return [
        means.get(repr(prompt), 0.0) if reward is None else reward
        for prompt, reward in zip(prompts, rewards, strict=True)
    ]
