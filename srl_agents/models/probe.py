"""Log-probabilities of a fixed text under a model, by which two processes compare their weights.

Log-probabilities of some dozen tokens are a short fingerprint of weights, tokenizer and template. Equal
models agree to the rounding of their number types; a base with noise on its weights, another base, or another
adapter does not. `benchmarks.speed.handshake` measures both sides.

Array axes: ``T`` tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from srl_agents.models.base_model import BaseModel
from srl_agents.models.chat import ChatTokenizer

PROBE_TEXT = (
    "The harbour of Oslo froze on 17 January 1709, and 243 ships stayed until spring. Rules: each player "
    "names one number from 1 to 9; <action>4</action> is legal, 'four' is not. def area(w, h): return w * h  "
    "# 12 x 5 = 60. Wer zuerst kommt, malt zuerst; ¿quién sabe? She looked up, smiled, and said nothing."
)
"""Prose, numbers, code, a move and other languages, so that a change of any of them moves some token."""
TOKENS = 64
"""Of the probe, the template's included; a shorter context has no room for a game."""
BOUND, ROUGH_BOUND, QUANTIZED_BOUND = 0.02, 0.12, 1.0
"""Mean absolute difference of log-probabilities (nats per token) up to which two sides hold one model: where
both compute in float32, where either may round to 16 bits, and where the trainer has 4-bit weights.
docs/design/engines.md has the measurements behind them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """Log-probabilities with which a server is compared before it plays."""

    tokens: tuple[int, ...]
    """The fixed text under the chat template."""
    logprobs: tuple[float, ...]
    """Of all tokens but the first, under the base without adapter, in the trainer's process."""
    bound: float
    """Largest honest mean absolute difference, nats per token."""


def probe_of(base: BaseModel, served_dtype: str = "") -> Probe:
    """The probe of a base in this process: one forward pass.

    Args:
        base: that the learners are adapters of.
        served_dtype: of the other side's weights, as torch spells it; empty: unknown.
    """
    tokens = probe_tokens(base.chat)
    return Probe(
        tokens=tokens,
        logprobs=logprobs_under(base, None, tokens),
        bound=_bound(base.model.get_base_model(), served_dtype),
    )


def probe_tokens(chat: ChatTokenizer) -> tuple[int, ...]:
    """The last tokens of the fixed text under a tokenizer and its template."""
    return chat.encode_prompt(PROBE_TEXT)[-TOKENS:]


def _bound(model: Any, served_dtype: str) -> float:
    if getattr(model, "is_quantized", False):
        return QUANTIZED_BOUND
    return (
        BOUND if (str(model.dtype), served_dtype) == ("torch.float32", "float32") else ROUGH_BOUND
    )


@torch.no_grad()
def logprobs_under(
    base: BaseModel, adapter: str | None, tokens: Sequence[int]
) -> tuple[float, ...]:
    """Log-probability of each token but the first, given those before it.

    Args:
        base: has the weights.
        adapter: or frozen version on it; None is the base itself.
        tokens: at least two.

    Returns:
        One number fewer than there are tokens, in nats; NaN where the model's own are.
    """
    training = base.model.training
    base.model.eval()
    ids = torch.tensor([list(tokens)], device=base.device)
    acts = torch.ones(ids.shape, dtype=torch.bool, device=base.device)
    try:
        with base.whole(), base.through(adapter), base.acting(acts):
            model: Any = base.model.get_base_model()
            logits = model(input_ids=ids, use_cache=False).logits[0, :-1].float()
    finally:
        base.model.train(training)
    found = logits.log_softmax(dim=-1).gather(1, ids[0, 1:, None]).squeeze(1)
    return tuple(found.tolist())


def distance(found: Sequence[float], expected: Sequence[float]) -> float:
    """Mean absolute difference in nats per token; infinite where a number is not finite or one is missing."""
    if len(found) != len(expected) or not found:
        return float("inf")
    difference_T: NDArray[np.float64] = np.abs(np.subtract(found, expected))
    return float(difference_T.mean()) if np.isfinite(difference_T).all() else float("inf")
