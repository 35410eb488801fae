"""Score replies that were sampled earlier: one forward pass, no sampling.

For each token: its log-probability, and whether it is the token that its random number selects. Used to
audit records; the engine's batches, caches and padding play no part in it.

Array axes: ``N`` tokens of all replies of a batch, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.token_choice import (
    LARGEST_UNIFORM,
    StopTexts,
    distribution,
    uniforms,
)
from srl_envs.errors import ModelError

_MOST_TOKENS = 8192
"""Padded tokens in one forward pass."""
_HEAD_ROWS = 512
"""Positions whose logits are in memory at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledReply:
    """A reply that was sampled earlier, with its prompt."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    """Tokens of the reply, at least one; see `Rescorer.fault` for what else they must be."""
    adapter: str | None
    """Name of the adapter or frozen version on the base; None is the base itself."""
    key: tuple[int, ...]
    """Key of its random numbers; see `GenerationRequest`."""


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Scores of the tokens of one reply under the model."""

    logprobs: tuple[float, ...]
    misses: tuple[float, ...]
    """How far each random number lies outside the part of the cumulative distribution that belongs to
    the token; 0 where it selects the token. Greedy replies: how far the token's log-probability lies
    below the best one's."""


class Rescorer:
    """Scores replies of one engine's base, adapters and sampling settings."""

    def __init__(self, engine: TransformersEngine) -> None:
        self._base, self._sampling = engine.base, engine.sampling
        self._stops = StopTexts(engine.base.tokenizer, engine.sampling.stop)
        self._vocabulary = int(engine.base.model.config.get_text_config().vocab_size)

    def fits(self, prompt_ids: Sequence[int]) -> bool:
        """Whether the engine would have asked the model at all; see `Generation.text`."""
        return len(prompt_ids) <= self._base.context_length - self._sampling.max_new_tokens

    def fault(self, token_ids: Sequence[int]) -> str:
        """Why no reply of this engine has these tokens, whatever the weights; empty if one may."""
        most = self._sampling.max_new_tokens
        if not 1 <= len(token_ids) <= most:
            return f"a reply has 1 to {most} tokens, this one {len(token_ids)}"
        if not all(0 <= token < self._vocabulary for token in token_ids):
            return f"a token is outside the vocabulary of {self._vocabulary}"
        ends = self._base.eos_token_ids
        for place in range(len(token_ids)):
            if token_ids[place] in ends or self._stops.ended(list(token_ids[: place + 1])):
                if place + 1 == len(token_ids):
                    return ""
                return f"the reply goes on after it ended at token {place}"
        if len(token_ids) < most:
            return "the reply was cut short: no end token and no stop text"
        return ""

    def score(self, replies: Sequence[SampledReply]) -> list[TokenScores]:
        """Scores in the order of the replies.

        Raises:
            ModelError: prompt and reply are longer than the model's context.
        """
        found: dict[int, TokenScores] = {}
        for batch in self._batches(replies):
            with self._base.through(replies[batch[0]].adapter):
                scored = self._score_batch([replies[i] for i in batch])
            found |= dict(zip(batch, scored, strict=True))
        return [found[i] for i in range(len(replies))]

    def _batches(self, replies: Sequence[SampledReply]) -> Iterator[list[int]]:
        """Places of replies of one adapter, and among them of like length."""
        lengths = [len(reply.prompt_ids) + len(reply.token_ids) for reply in replies]
        if lengths and max(lengths) > self._base.context_length:
            raise ModelError(
                f"prompt and reply have {max(lengths)} tokens; {self._base.name} reads "
                f"{self._base.context_length}."
            )
        by_adapter: dict[str | None, list[int]] = {}
        for i in sorted(range(len(replies)), key=lambda i: -lengths[i]):
            by_adapter.setdefault(replies[i].adapter, []).append(i)
        for places in by_adapter.values():
            batch: list[int] = []
            for i in places:
                if batch and (len(batch) + 1) * lengths[batch[0]] > _MOST_TOKENS:
                    yield batch
                    batch = []
                batch.append(i)
            yield batch

    @torch.no_grad()
    def _score_batch(self, replies: list[SampledReply]) -> list[TokenScores]:
        """Scores by the version that forwards pass through now."""
        base = self._base
        rows = [(*reply.prompt_ids, *reply.token_ids) for reply in replies]
        width = max(map(len, rows))
        ids = np.full((len(rows), width), base.tokenizer.pad_token_id, dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=np.int64)
        for k, row in enumerate(rows):
            ids[k, : len(row)], mask[k, : len(row)] = row, 1
        model: Any = base.model.get_base_model()
        base.model.eval()
        begins = np.array([[len(reply.prompt_ids) - base.activated_tokens] for reply in replies])
        places = torch.from_numpy(np.arange(width) >= begins).to(base.device)
        with base.acting(places):
            hidden = model.base_model(
                input_ids=torch.from_numpy(ids).to(base.device),
                attention_mask=torch.from_numpy(mask).to(base.device),
                use_cache=False,
            ).last_hidden_state
        row_N = np.repeat(np.arange(len(rows)), [len(reply.token_ids) for reply in replies])
        place_N = np.concatenate(
            [len(reply.prompt_ids) - 1 + np.arange(len(reply.token_ids)) for reply in replies]
        )  # the state before a token predicts it
        token_N = np.concatenate([reply.token_ids for reply in replies]).astype(np.int64)
        uniform_N = np.concatenate([uniforms(r.key, len(r.token_ids)) for r in replies])
        logprobs, misses = [], []
        for start in range(0, row_N.size, _HEAD_ROWS):
            part = slice(start, start + _HEAD_ROWS)
            states = hidden[torch.from_numpy(row_N[part]), torch.from_numpy(place_N[part])]
            logits_NV = model.get_output_embeddings()(states)
            scored = self._score_tokens(
                logits_NV,
                torch.from_numpy(token_N[part]).to(base.device),
                torch.from_numpy(uniform_N[part].astype(np.float32)).to(base.device),
            )
            logprobs += scored[0].tolist()
            misses += scored[1].tolist()
        ends = np.cumsum([len(reply.token_ids) for reply in replies]).tolist()
        return [
            TokenScores(tuple(logprobs[start:end]), tuple(misses[start:end]))
            for start, end in zip([0, *ends], ends, strict=False)
        ]

    def _score_tokens(
        self, logits_NV: torch.Tensor, token_N: torch.Tensor, uniform_N: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(N,) log-probabilities and (N,) misses, by the arithmetic of `token_choice`."""
        logprobs_NV = distribution(logits_NV, self._sampling)
        logprob_N = logprobs_NV.gather(1, token_N[:, None]).squeeze(1)
        if self._sampling.temperature == 0.0:
            return logprob_N, logprobs_NV.max(dim=1).values - logprob_N
        cdf_NV = logprobs_NV.exp().cumsum(dim=1)
        top_N = cdf_NV.gather(1, token_N[:, None]).squeeze(1)
        bottom_N = top_N - logprob_N.exp()
        target_N = uniform_N.clamp(max=LARGEST_UNIFORM) * cdf_NV[:, -1]
        return logprob_N, torch.maximum(bottom_N - target_N, target_N - top_N).clamp(min=0.0)
