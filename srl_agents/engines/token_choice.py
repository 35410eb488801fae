"""How a token is drawn from logits, and which texts end a reply.

Each row has its own uniforms, keyed by what the row is for. So neither the order of requests nor the
company in a batch decides which uniform a token gets.

Array axes: ``R`` rows, ``V`` vocabulary.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from srl_agents.engines.protocol import SamplingSettings

LARGEST_UNIFORM = 1 - 2**-24
"""Largest float32 below 1: with it, u * total stays below the total of the probabilities."""


def uniforms(key: tuple[int, ...], count: int) -> NDArray[np.float64]:
    """The first `count` uniforms in [0, 1) of the stream that belongs to `key`."""
    text = ",".join(str(int(part)) for part in key)
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
    return np.random.Generator(np.random.Philox(key=seed)).random(count)


def distribution(logits_RV: torch.Tensor, sampling: SamplingSettings) -> torch.Tensor:
    """(R, V) float32 log-probabilities of what may be drawn; -inf for what the filters leave out.

    Greedy settings give the model's own log-probabilities. A row with a logit that is NaN is NaN
    everywhere.
    """
    logits_RV = logits_RV.float()
    if sampling.temperature == 0.0:
        return torch.log_softmax(logits_RV, dim=1)
    if sampling.temperature != 1.0:
        logits_RV = logits_RV / sampling.temperature
    logprobs_RV = torch.log_softmax(logits_RV, dim=1)
    if not filters(sampling):
        return logprobs_RV
    kept_RV = _kept(logprobs_RV, sampling)
    return torch.log_softmax(logprobs_RV.masked_fill(~kept_RV, float("-inf")), dim=1)


def filters(sampling: SamplingSettings) -> bool:
    """Whether some tokens cannot be drawn."""
    return sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0


def _kept(logprobs_RV: torch.Tensor, sampling: SamplingSettings) -> torch.Tensor:
    """(R, V) True for what top-k, top-p and min-p leave, in this order."""
    sorted_RV, order_RV = logprobs_RV.sort(dim=1, descending=True, stable=True)
    kept_RV = torch.ones_like(sorted_RV, dtype=torch.bool)
    if sampling.top_k:
        kept_RV[:, sampling.top_k :] = False
    if sampling.top_p < 1:
        probs_RV = sorted_RV.masked_fill(~kept_RV, float("-inf")).softmax(dim=1)
        before_RV = (
            probs_RV.cumsum(dim=1) - probs_RV
        )  # a token stays while those above it are too few
        kept_RV &= before_RV < sampling.top_p
    if sampling.min_p > 0:
        kept_RV &= sorted_RV >= sorted_RV[:, :1] + float(np.log(sampling.min_p))
    kept_RV[:, 0] = True
    return torch.zeros_like(kept_RV).scatter_(1, order_RV, kept_RV)


def inverse_cdf(logprobs_RV: torch.Tensor, uniforms_R: torch.Tensor) -> torch.Tensor:
    """(R,) token whose cumulative probability is the first above the row's uniform.

    Args:
        logprobs_RV: (R, V) float32 log-probabilities.
        uniforms_R: (R,) float32 in [0, 1).
    """
    cdf_RV = logprobs_RV.exp().cumsum(dim=1)
    target_R1 = uniforms_R.clamp(max=LARGEST_UNIFORM)[:, None] * cdf_RV[:, -1:]
    return torch.searchsorted(cdf_RV, target_R1, right=True).squeeze(1)


def draw(
    logits_RV: torch.Tensor, uniforms_R: torch.Tensor, sampling: SamplingSettings
) -> tuple[torch.Tensor, torch.Tensor]:
    """(R,) tokens and (R,) their log-probabilities, NaN where a row has a logit that is NaN."""
    logprobs_RV = distribution(logits_RV, sampling)
    if sampling.temperature == 0.0:
        token_R = logprobs_RV.argmax(dim=1)
    else:
        token_R = inverse_cdf(logprobs_RV, uniforms_R).clamp_(max=logprobs_RV.shape[1] - 1)
    return token_R, logprobs_RV.gather(1, token_R[:, None]).squeeze(1)


class StopTexts:
    """Finds a stop text that a reply's last token completes.

    A table lists the tokens that contain a stop's last character, so only few tokens cost a decode.
    """

    def __init__(self, tokenizer: Any, stops: tuple[str, ...]) -> None:
        """Build the table.

        Args:
            tokenizer: decodes single tokens.
            stops: texts, none empty.
        """
        self._tokenizer = tokenizer
        self._stops = stops
        self._window = max((len(stop.encode()) for stop in stops), default=0)
        last = {stop[-1] for stop in stops}
        texts = tokenizer.batch_decode([[i] for i in range(len(tokenizer))]) if stops else []
        # A character outside ASCII may be spread over tokens, none of which shows it.
        everywhere = any(not character.isascii() for character in last)
        self._candidates = {
            i for i, text in enumerate(texts) if everywhere or not last.isdisjoint(text)
        }

    def ended(self, reply: list[int]) -> bool:
        """Whether the last token of `reply` completes a stop text."""
        if not reply or reply[-1] not in self._candidates:
            return False
        text = self._tokenizer.decode(reply[-self._window :], clean_up_tokenization_spaces=False)
        return any(stop in text for stop in self._stops)
