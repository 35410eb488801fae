"""Our games and public collections as tasks of Inspect (``inspect_ai``), and our agents as its models.

How the concepts map:

=========================  =======================================================================
Inspect                    here
=========================  =======================================================================
task ``game``              one environment; a sample is one seed and the seat that is evaluated
task ``collection``        a collection of `srl_envs.api.questions`; a sample is one row
solver of a game           one episode: every turn is one call of the model with what its seat sees
score                      the outcome of the seat, in [-1, 1]; of a row, what its rule pays, in [0, 1]
model ``srl_agent/NAME``   an agent that ``srl eval`` serves to this process
=========================  =======================================================================

With Inspect only::

    inspect eval srl_envs/game -T env_id=nim-v0 -T opponents=strong --model openai/...
    inspect eval srl_envs/collection -T name=gsm8k -T data=data/gsm8k/test.jsonl --model ...

An observation is complete by itself, so a turn is asked without the turns before it. A sandbox that fails
voids the sample: Inspect records an error, never a score.

Source: inspect_ai 0.3.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from srl_envs.api import questions
from srl_envs.api.making import count_seats, make_single
from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError, SandboxError
from srl_envs.registry import spec
from srl_envs.rewards import Rubric

try:
    import httpx
    import inspect_ai
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageUser,
        GenerateConfig,
        ModelAPI,
        ModelOutput,
        ModelUsage,
        get_model,
        modelapi,
    )
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, generate, solver
    from inspect_ai.tool import ToolChoice, ToolInfo
except ImportError as error:
    raise ConfigError(f"inspect_ai is needed: {install_command('inspect')} ({error}).") from None

ADDRESS, SECRET = "SRL_EVAL_ADDRESS", "SRL_EVAL_SECRET"
"""Environment variables: the address of the served agent, and the secret that it requires."""
_TIMEOUT_S = 600.0
_OUTCOME = "srl_outcome"


@inspect_ai.task
def collection(name: str, data: str, limit: int = 0, held_out: bool = False) -> inspect_ai.Task:
    """The rows of a collection, each asked once and judged by its rule.

    Args:
        name: of `srl_envs.api.questions.COLLECTIONS`.
        data: its JSONL file.
        limit: most rows, from the first; 0 takes all.
        held_out: only rows that no game trains on.
    """
    asked, _ = questions.read_questions(name, Path(data), held_out=held_out)
    samples = [
        Sample(id=question.id, input=question.text, metadata=dict(question.fields))
        for question in (asked[:limit] if limit else asked)
    ]
    return inspect_ai.Task(
        dataset=MemoryDataset(samples, name=name),
        solver=generate(),
        scorer=by_rule(name),
        name=name,
    )


@inspect_ai.task
def game(
    env_id: str, opponents: str = "", seeds: int = 10, first_seed: int = 0, split: str = "eval"
) -> inspect_ai.Task:
    """Episodes of an environment, one per seed and seat.

    Args:
        env_id: registered id.
        opponents: bot in all other seats; empty for random legal moves.
        seeds: start states; each is played from every seat.
        first_seed: of them.
        split: "eval" or "train".
    """
    known = spec(env_id)
    samples = [
        Sample(
            id=f"{seed}/{seat}",
            input=f"{known.id}, seed {seed}, seat {seat}",
            metadata={"seed": seed, "seat": seat, "split": split},
        )
        for seed in range(first_seed, first_seed + seeds)
        for seat in range(count_seats(known.id))
    ]
    return inspect_ai.Task(
        dataset=MemoryDataset(samples, name=known.id),
        solver=play(known.id, opponents),
        scorer=outcome(),
        name=known.id,
    )


@solver
def play(env_id: str, opponents: str) -> Solver:
    """One episode; the model answers every turn of its seat."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - Inspect's form
        asked = state.metadata
        env = make_single(
            env_id, seat=asked["seat"], opponents=opponents or None, split=asked["split"]
        )
        try:
            observation, _ = await asyncio.to_thread(lambda: env.reset(seed=asked["seed"]))
            ended = False
            while not ended:
                text = observation["text"]
                output = await get_model().generate([ChatMessageUser(content=text)])
                state.messages += [
                    ChatMessageUser(content=text),
                    ChatMessageAssistant(content=output.completion),
                ]
                state.output = output
                observation, _, terminated, truncated, _ = await asyncio.to_thread(
                    env.step, output.completion
                )
                ended = terminated or truncated
            state.metadata[_OUTCOME] = float(env.env.paid[asked["seat"]])
        finally:
            env.close()
        return state

    return solve


@scorer(metrics=[mean(), stderr()])
def outcome() -> Scorer:
    """What the rules paid the seat at the end of the episode."""

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - Inspect's form
        return Score(value=state.metadata[_OUTCOME])

    return score


@scorer(metrics=[mean(), stderr()])
def by_rule(name: str) -> Scorer:
    """The rule of a collection."""
    rubric = Rubric.from_config(dict(questions.collection(name).rubric), place=name)

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - Inspect's form
        judged = await rubric.score_async(state.output.completion, dict(state.metadata))
        if judged.reward is None:
            raise SandboxError(f"{name} {state.sample_id}: the sandbox failed; nothing was judged.")
        reasons = {part: score.reason for part, score in judged.components.items() if score}
        return Score(value=judged.reward, explanation=", ".join(reasons.values()))

    return score


@modelapi(name="srl_agent")
class ServedAgent(ModelAPI):
    """An agent in another process, asked for one reply at a time; see `srl_agents.exports`."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 - Inspect's form
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config)
        address = os.environ.get(ADDRESS, "")
        if not address:
            raise ConfigError(f"{ADDRESS} is not set: `srl eval` starts this process and sets it.")
        headers = {"authorization": f"Bearer {os.environ.get(SECRET, '')}"}
        self._client = httpx.AsyncClient(base_url=address, headers=headers, timeout=_TIMEOUT_S)

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """The reply to the last message."""
        answer = await self._client.post("/reply", json={"text": input[-1].text})
        if answer.status_code != httpx.codes.OK:
            raise SandboxError(f"the agent gave no reply: {answer.text[:300]}")
        answered = answer.json()
        output = ModelOutput.from_content(
            self.model_name,
            answered["text"],
            stop_reason="max_tokens" if answered["finish"] == "length" else "stop",
        )
        output.usage = ModelUsage(
            input_tokens=answered["prompt_tokens"],
            output_tokens=answered["reply_tokens"],
            total_tokens=answered["prompt_tokens"] + answered["reply_tokens"],
        )
        return output

    def max_connections(self) -> int:
        """Requests at once; the engine batches them."""
        return 64


def run(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Evaluate tasks with the served agent.

    Args:
        plan: ``model``, ``log_dir``, ``tasks``: a list of ``{"task": "game" | "collection", ...}`` with
            the arguments of that task.

    Returns:
        Per task: name, status, error, and (id, score, reason) of the samples.
    """
    makers = {"game": game, "collection": collection}
    tasks = [makers[task.pop("task")](**task) for task in plan["tasks"]]
    logs = inspect_ai.eval(
        tasks,
        model=f"srl_agent/{plan['model']}",
        log_dir=plan["log_dir"],
        log_format="json",
        display="none",
        score_display=False,
        max_samples=64,
        fail_on_error=False,
    )
    return [_told(log) for log in logs]


def _told(log: Any) -> dict[str, Any]:
    samples = log.samples or []
    scored = [(s, next(iter(s.scores.values()))) for s in samples if s.scores and not s.error]
    return {
        "task": log.eval.task,
        "status": log.status,
        "error": log.error.message if log.error else "",
        "log": log.location,
        "void": [s.error.message for s in samples if s.error],
        "samples": [
            [str(s.id), float(score.value), score.explanation or ""] for s, score in scored
        ],
    }
