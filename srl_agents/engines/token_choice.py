"""How `generate` picks tokens and when a row ends: the two hooks that transformers offers.

Each row has its own uniforms, keyed by what the row is for. So neither the order of requests
nor the company in a batch decides which uniform a token gets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LogitsProcessor, StoppingCriteria

from srl_envs.errors import ModelError

LARGEST_UNIFORM = 1 - 2**-24
"""Largest float32 below 1: with it, u * total stays below the total of the probabilities."""


def uniforms(key: tuple[int, ...], count: int) -> NDArray[np.float64]:
    """The first `count` uniforms in [0, 1) of the stream that belongs to `key`."""
    text = ",".join(str(int(part)) for part in key)
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
    return np.random.Generator(np.random.Philox(key=seed)).random(count)


def inverse_cdf(logprobs_RV: torch.Tensor, uniforms_R: torch.Tensor) -> torch.Tensor:
    """(R,) token whose cumulative probability is the first above the row's uniform.

    Args:
        logprobs_RV: (R, V) float32 log-probabilities.
        uniforms_R: (R,) float32 in [0, 1).
    """
    cdf_RV = logprobs_RV.exp().cumsum(dim=1)
    target_R1 = uniforms_R.clamp(max=LARGEST_UNIFORM)[:, None] * cdf_RV[:, -1:]
    return torch.searchsorted(cdf_RV, target_R1, right=True).squeeze(1)


class TokenChoice(LogitsProcessor):  # type: ignore[misc]
    """Samples every row's next token, remembers it, and forces it on greedy `generate`."""

    def __init__(
        self, uniforms_RT: torch.Tensor, temperature: float, writers: Sequence[str]
    ) -> None:
        """Prepare one `generate` call.

        Args:
            uniforms_RT: (R, T) float32, one uniform per row and position.
            temperature: 0 picks the most probable token and reports log-probabilities at
                temperature 1.
            writers: (R,) whose rows they are, for messages.
        """
        self._writers = writers
        self._uniforms_RT = uniforms_RT
        self._temperature = temperature
        self.tokens: list[torch.Tensor] = []
        """(R,) int64 for each position so far."""
        self.logprobs: list[torch.Tensor] = []
        """(R,) float32 for each position so far."""

    def __call__(
        self,
        input_ids: torch.Tensor,
        scores: torch.Tensor,
    ) -> torch.Tensor:
        """(R, V) scores whose maximum is the chosen token.

        Raises:
            ModelError: a row's probabilities are not numbers.
        """
        logits_RV = scores.float()
        if self._temperature not in (0.0, 1.0):
            logits_RV = logits_RV / self._temperature
        logprobs_RV = torch.log_softmax(logits_RV, dim=1)
        broken_R = logprobs_RV[:, 0].isnan()  # one logit that is none makes its whole row so
        if broken_R.any():
            names = sorted({self._writers[row] for row in broken_R.nonzero().flatten().tolist()})
            raise ModelError(
                f"{', '.join(names)}: the probabilities of the next token are not numbers, so the "
                "weights are broken. Train again with a lower learning rate."
            )
        if self._temperature == 0.0:
            token_R = logprobs_RV.argmax(dim=1)
        else:
            token_R = inverse_cdf(logprobs_RV, self._uniforms_RT[:, len(self.tokens)])
        self.tokens.append(token_R)
        self.logprobs.append(logprobs_RV.gather(1, token_R[:, None]).squeeze(1))
        return torch.zeros_like(scores).scatter_(1, token_R[:, None], 1.0)


class ReplyEnd(StoppingCriteria):  # type: ignore[misc]
    """Ends a row at an end token, at a stop text or at its own limit; remembers where."""

    def __init__(
        self, choice: TokenChoice, limits: list[int], ends: frozenset[int], stops: StopTexts
    ) -> None:
        """Prepare one `generate` call.

        Args:
            choice: the hook that picks the tokens of the same call.
            limits: most tokens per row.
            ends: ids that end a reply.
            stops: texts that end a reply.
        """
        self._choice = choice
        self._limits = limits
        self._ends = ends
        self._stops = stops
        self.rows: list[list[int]] = [[] for _ in limits]
        """Tokens of each row, none after its end."""
        self.stopped = [False] * len(limits)
        """True for rows that ended by token or text, not by their limit."""
        self._open = list(range(len(limits)))

    def __call__(
        self,
        input_ids: torch.Tensor,
        scores: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        """(R,) True for rows that are done."""
        tokens = self._choice.tokens[-1].tolist()
        for row in self._open:
            reply = self.rows[row]
            reply.append(tokens[row])
            self.stopped[row] = tokens[row] in self._ends or self._stops.ended(reply)
        self._open = [
            row
            for row in self._open
            if not self.stopped[row] and len(self.rows[row]) < self._limits[row]
        ]
        done_R = torch.ones(len(self.rows), dtype=torch.bool)
        done_R[self._open] = False
        return done_R.to(input_ids.device)


class StopTexts:
    """Finds a stop text that a reply's last token completes.

    A table says which tokens contain a stop's last character, so only few tokens cost a decode.
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
