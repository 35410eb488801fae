"""Batched sampling with transformers' `generate`: exact tokens, their log-probabilities, any
mixture of adapters in one batch. The embedded default engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from transformers import GenerationConfig

from srl_agents.engines.prompt_cache import Prompts, prefill
from srl_agents.engines.token_choice import ReplyEnd, StopTexts, TokenChoice, uniforms
from srl_agents.models.base_model import BaseModel
from srl_agents.models.device_memory import memory_limit
from srl_envs.errors import ConfigError, ModelError

_LESS = "rollout.batch_rows or rollout.max_new_tokens, or set dtype to bfloat16"
_CALL_COST = 32
"""What one more decoding step costs in a call of its own, in padding tokens that it could save."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingSettings:
    """How replies are sampled. The trainer of the same base must use the same temperature."""

    temperature: float = 1.0
    """Logits are divided by it. 0 is greedy, with log-probabilities at temperature 1."""
    max_new_tokens: int = 64
    """Most tokens per reply; a request may ask for fewer."""
    stop: tuple[str, ...] = ("</action>",)
    """Texts that end a reply; they stay in it."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ConfigError(f"temperature={self.temperature}: use 0 (greedy) or more.")
        if self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens={self.max_new_tokens}: use 1 or more.")
        if not isinstance(self.stop, tuple) or not all(self.stop):
            raise ConfigError(f"stop={self.stop!r}: use a tuple of texts, none of them empty.")


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationRequest:
    """One reply to sample."""

    prompt_ids: tuple[int, ...]
    adapter: str | None
    """Adapter on the engine's base; None is the base itself."""
    key: tuple[int, ...]
    """What the reply is for; equal keys get equal random numbers."""
    max_new_tokens: int | None = None
    """None: the engine's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """One sampled reply."""

    token_ids: tuple[int, ...]
    """Includes the end token where there is one."""
    logprobs: tuple[float, ...]
    """Of each token, under the distribution that it was drawn from."""
    finish: Literal["stop", "length"]


class TransformersEngine:
    """Samples replies from a `BaseModel`."""

    def __init__(
        self,
        base: BaseModel,
        sampling: SamplingSettings,
        *,
        max_batch_rows: int = 64,
        max_batch_tokens: int = 32768,
    ) -> None:
        """Bind to a base model.

        Args:
            base: model and adapters; shared with the trainers.
            sampling: the same for all requests.
            max_batch_rows: most replies in one `generate` call.
            max_batch_tokens: most cached tokens in one call, padding included.
        """
        if max_batch_rows < 1 or max_batch_tokens < 1:
            raise ConfigError("max_batch_rows and max_batch_tokens: use 1 or more.")
        self.base = base
        self.sampling = sampling
        self._max_rows = max_batch_rows
        self._max_tokens = max_batch_tokens
        self._stops = StopTexts(base.tokenizer, sampling.stop)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Sample one reply per request, in their order.

        Raises:
            ModelError: a prompt leaves no room for its reply in the model's context, or weights
                give probabilities that are not numbers.
            UnknownPolicyError: a request names an adapter that the base does not have.
            MemoryLimitError: replies that are sampled together do not fit into memory.
        """
        self._check(requests)
        replies: dict[int, Generation] = {}
        for chunk in self._chunks(requests):
            doing = (
                f"generation of {len(chunk)} replies with {self.base.name} on {self.base.device}"
            )
            with memory_limit(doing, _LESS):
                generated = self._generate_chunk([requests[i] for i in chunk])
            replies.update(zip(chunk, generated, strict=True))
        return [replies[i] for i in range(len(requests))]

    def _limit(self, request: GenerationRequest) -> int:
        most = self.sampling.max_new_tokens
        return most if request.max_new_tokens is None else min(most, request.max_new_tokens)

    def _check(self, requests: Sequence[GenerationRequest]) -> None:
        context = self.base.context_length
        for request in requests:
            length, limit = len(request.prompt_ids), self._limit(request)
            if not length or limit < 1 or length + limit > context:
                raise ModelError(
                    f"a prompt of {length} tokens and a reply of up to {limit} do not fit "
                    f"{self.base.name} (1 to {context} tokens together)."
                )
        for adapter in {r.adapter for r in requests if r.adapter is not None}:
            self.base.require_playable(adapter)

    def _chunks(self, requests: Sequence[GenerationRequest]) -> list[list[int]]:
        """Indices per `generate` call; prompts of like length together, adapters in runs."""
        parts = self.base.batches([request.adapter for request in requests])
        return [chunk for part in parts for chunk in self._chunks_of(part, requests)]

    def _chunks_of(self, part: list[int], requests: Sequence[GenerationRequest]) -> list[list[int]]:
        """The same for those requests whose adapters may be in one call."""
        lengths = [len(request.prompt_ids) for request in requests]
        order = sorted(part, key=lambda i: (-lengths[i], i))
        chunks: list[list[int]] = []
        width = 0
        for place, i in enumerate(order):
            room = width + self.sampling.max_new_tokens
            padding = (width - lengths[i]) * (len(order) - place)
            if (
                not chunks
                or len(chunks[-1]) >= self._max_rows
                or (len(chunks[-1]) + 1) * room > self._max_tokens
                or padding > _CALL_COST * self.sampling.max_new_tokens
            ):
                chunks.append([])
                width = lengths[i]
            chunks[-1].append(i)
        return [sorted(chunk, key=lambda i: (requests[i].adapter or "", i)) for chunk in chunks]

    @torch.no_grad()
    def _generate_chunk(self, requests: list[GenerationRequest]) -> list[Generation]:
        limits = [self._limit(request) for request in requests]
        longest = max(limits)
        uniforms_RT = np.stack([uniforms(request.key, longest) for request in requests])
        choice = TokenChoice(
            torch.from_numpy(uniforms_RT.astype(np.float32)).to(self.base.device),
            self.sampling.temperature,
            [request.adapter or self.base.name for request in requests],
        )
        end = ReplyEnd(choice, limits, self.base.eos_token_ids, self._stops)
        self.base.model.eval()
        adapters = [request.adapter for request in requests]
        prompts = prefill(self.base, adapters, [request.prompt_ids for request in requests])
        with self.base.mixture(adapters):
            self._sample(prompts, longest, choice, end)
        logprobs_RT = torch.stack(choice.logprobs, dim=1).tolist()
        return [
            Generation(
                token_ids=tuple(reply),
                logprobs=tuple(logprobs[: len(reply)]),
                finish="stop" if stopped else "length",
            )
            for reply, logprobs, stopped in zip(end.rows, logprobs_RT, end.stopped, strict=True)
        ]

    def _sample(self, prompts: Prompts, longest: int, choice: TokenChoice, end: ReplyEnd) -> None:
        self.base.model.generate(
            input_ids=prompts.ids_RP,
            attention_mask=prompts.mask_RP,
            past_key_values=prompts.cache,
            generation_config=GenerationConfig(
                max_new_tokens=longest,
                do_sample=False,
                use_cache=True,
                pad_token_id=self.base.tokenizer.pad_token_id,
            ),
            logits_processor=[choice],
            stopping_criteria=[end],
        )
