"""What a language model that was trained in a game answers elsewhere: right answers against wrong ones.

A model of this size answers few word problems rightly, so shares of right replies say little. The measure is
finer: how much likelier, in nats, is the right answer than the mean of three wrong ones, each the right
answer of another problem? Problems are read through several prompts; each version takes the one that is
best for itself on problems of its own, so that an untrained model is not judged by a prompt that does not
suit it.

Array axes: ``A`` answers, the right one first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import srl_envs
from srl_agents.models.base_model import BaseModel
from srl_envs.api.questions import find_file, read_questions
from srl_envs.families.reasoning.math_duel_bots import strong_bot
from srl_envs.turns.grammar import parse_reply

DATA = "SRL_DATA"
"""Variable that names the folder with the rows of GSM8K; ``data`` if it is not set."""
PROMPTS = (
    "{problem}\nAnswer with the number only.",
    "Solve the problem and reply with the final number.\n\n{problem}",
    "Question: {problem}\nWhat is the answer?",
)
ASKED, CHOSEN_ON, WRONG = 40, 10, 3
"""Problems of a kind that are measured; others, by which a prompt is chosen; wrong answers to each."""
_SEEDS = range(3000, 4000)
_LONGEST = 400
"""Characters of a word problem: longer ones would take most of the time."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A question with its right answer and wrong ones."""

    text: str
    right: str
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preference:
    """How far a version prefers right answers to wrong ones."""

    margin: float
    """Mean of log p(right) minus the log of the mean p(wrong), in nats."""
    accuracy: float
    """Share of problems whose right answer is likelier than each wrong one; chance is 1 in 4."""


def problems() -> Mapping[str, Sequence[Problem]]:
    """Easy problems that no learner trained with, and word problems of GSM8K: `CHOSEN_ON`, then `ASKED`.

    Raises:
        ConfigError: the folder of data has no rows of GSM8K.
    """
    folder = Path(os.environ.get(DATA, "data"))
    asked, _ = read_questions("gsm8k", find_file("gsm8k", folder))
    words = [(one.asks, str(one.fields["answer"])) for one in asked if len(one.asks) <= _LONGEST]
    return MappingProxyType(
        {"easy": _with_wrong_answers(_easy()), "gsm8k": _with_wrong_answers(words)}
    )


def preference(
    base: BaseModel, adapter: str | None, asked: Sequence[Problem]
) -> tuple[Preference, int]:
    """What a version prefers under its best prompt, and which prompt that is.

    Args:
        base: has the weights.
        adapter: or frozen version on it; None is the base itself.
        asked: its prompt is chosen on the first `CHOSEN_ON`; the others are measured.
    """
    choices = [
        _margins(base, adapter, prompt, asked[:CHOSEN_ON]).mean(axis=0)[0] for prompt in PROMPTS
    ]
    best = int(np.argmax(choices))
    found = _margins(base, adapter, PROMPTS[best], asked[CHOSEN_ON:]).mean(axis=0)
    return Preference(margin=float(found[0]), accuracy=float(found[1])), best


def _easy() -> list[tuple[str, str]]:
    """Single problems of math duel's eval split, with their answers."""
    solve, found = strong_bot(np.random.default_rng(0)), []
    env = srl_envs.make(
        "math_duel-v0", players=1, problems=1, difficulty=2, families=["arithmetic"], split="eval"
    )
    for seed in _SEEDS[: 3 * (ASKED + CHOSEN_ON)]:
        observations, _ = env.reset(seed=seed)
        text = observations[env.possible_agents[0]]["text"]
        body, _ = parse_reply(solve(text), 100)
        (line,) = [line for line in text.splitlines() if line.startswith("Problem")]
        found.append((line.partition(": ")[2], str(body).partition(";")[0].strip()))
    return found


def _with_wrong_answers(asked: Sequence[tuple[str, str]]) -> list[Problem]:
    """The first problems that differ, each with answers of others that are as long as its own."""
    rng, found = np.random.default_rng(0), []
    for text, right in dict(asked).items():
        others = sorted({other for _, other in asked if len(other) == len(right)} - {right})
        if len(others) >= WRONG:
            drawn = rng.choice(others, size=WRONG, replace=False)
            found.append(Problem(text, right, tuple(map(str, drawn))))
    if len(found) < ASKED + CHOSEN_ON:
        raise ValueError(f"{len(found)} problems, {ASKED + CHOSEN_ON} are needed")
    return found[: ASKED + CHOSEN_ON]


def _margins(
    base: BaseModel, adapter: str | None, prompt: str, asked: Sequence[Problem]
) -> NDArray[np.float64]:
    """Margin, and 1 where the right answer is the likeliest, of each problem."""
    return np.array([_margin(base, adapter, prompt, one) for one in asked])


def _margin(base: BaseModel, adapter: str | None, prompt: str, one: Problem) -> tuple[float, float]:
    opening = base.chat.encode_prompt(prompt.format(problem=one.text))
    replies = [base.chat.encode_reply(answer) for answer in (one.right, *one.wrong)]
    logprobs_A = reply_logprobs(base, adapter, opening, replies)
    margin = logprobs_A[0] - np.log(np.mean(np.exp(logprobs_A[1:])))
    return float(margin), float(logprobs_A[0] > logprobs_A[1:].max())


@torch.no_grad()
def reply_logprobs(
    base: BaseModel,
    adapter: str | None,
    opening: Sequence[int],
    replies: Sequence[Sequence[int]],
) -> NDArray[np.float64]:
    """(A,) log-probabilities of whole replies to one prompt, which is read once."""
    longest, rows = max(map(len, replies)), len(replies)
    ids = torch.zeros(rows, longest, dtype=torch.long, device=base.device)
    seen = torch.zeros(rows, longest, dtype=torch.bool, device=base.device)
    for row, reply in enumerate(replies):
        ids[row, : len(reply)] = torch.tensor(reply)
        seen[row, : len(reply)] = True
    prompt = torch.tensor([list(opening)], device=base.device)
    everywhere = torch.ones_like(prompt, dtype=torch.bool)
    base.model.eval()
    with base.whole(), base.through(adapter):
        model: Any = base.model.get_base_model()
        with base.acting(everywhere):
            read = model(input_ids=prompt, use_cache=True)
        read.past_key_values.batch_repeat_interleave(rows)
        mask = torch.cat([everywhere.expand(rows, -1), seen], dim=1)
        with base.acting(seen):
            written = model(
                input_ids=ids, attention_mask=mask, past_key_values=read.past_key_values
            )
    before = torch.cat([read.logits[:, -1:].expand(rows, -1, -1), written.logits[:, :-1]], dim=1)
    found = before.float().log_softmax(dim=-1).gather(2, ids[..., None]).squeeze(2)
    return np.asarray((found * seen).sum(dim=1).double().cpu())
