"""Losses over pairs of replies, each from its paper's equation.

x and y are the log-ratios log(policy / reference) of the chosen and the rejected reply, b the coefficient,
e the share of pairs thought to be the wrong way round, s the sigmoid.

| loss | per pair | source |
|---|---|---|
| sigmoid | -log s(b (x - y)) | arXiv:2305.18290 eq. 7 |
| sigmoid_norm | the same of mean log-ratios per token | arXiv:2405.14734 section 2 |
| hinge | max(0, 1 - b (x - y)) | arXiv:2305.10425 |
| ipo | (x - y - 1 / 2b)^2 of mean log-ratios per token | arXiv:2310.12036 eq. 17 |
| robust | (-(1 - e) log s(b (x - y)) + e log s(-b (x - y))) / (1 - 2 e) | arXiv:2403.00409 |
| exo_pair | divergence of (s(b (x - y)), s(-b (x - y))) from (1 - e, e) | arXiv:2402.00856 eq. 16 |
| nca_pair | -log s(b x) - log s(-b x) / 2 - log s(-b y) / 2 | arXiv:2402.05369 |
| bco_pair | -log s(b x) - log s(-b y) | arXiv:2404.04656 |
| sppo_hard | (x - 1 / 2b)^2 + (y + 1 / 2b)^2 | arXiv:2405.00675 eq. 4.7 |
| apo_zero | 1 - s(b x) + s(b y) | arXiv:2408.06266 eq. 7 |
| apo_down | s(b x) + 1 - s(b (x - y)) | arXiv:2408.06266 eq. 8 |
| discopop | (1 - m) -log s(d) + m exp(-d), d = b (x - y), m = s(d / .05) | arXiv:2406.08414 eq. 5 |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import logsigmoid

Tensor = torch.Tensor
_DISCOPOP_HEAT = 0.05


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Log-probabilities of the tokens of two replies, under policy and reference."""

    chosen_T: Tensor
    rejected_T: Tensor
    chosen_reference_T: Tensor
    rejected_reference_T: Tensor
    margin: float
    """Worth of the chosen reply minus that of the rejected one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairObjective:
    """One loss with its numbers."""

    kind: str
    coef: float
    smoothing: float = 0.0
    tail_weight: float = 1.0
    """Of tokens behind the length of the shorter reply (arXiv:2409.06411)."""
    offset: float = 0.0
    """Times the margin: by how much b (x - y) must be larger (arXiv:2402.10571)."""

    def loss(self, pairs: Sequence[ScoredPair]) -> Tensor:
        """Mean over pairs, with its graph."""
        return torch.stack([self._of_pair(pair) for pair in pairs]).mean()

    @property
    def holds_back(self) -> bool:
        """Whether the loss can hold a token back."""
        return self.tail_weight < 1 or self.kind == "hinge"

    def held(self, pairs: Sequence[ScoredPair]) -> float:
        """Share of tokens that the loss holds back: in a tail, or in a pair whose hinge is closed."""
        held, tokens = 0, 0
        for pair in pairs:
            lengths = len(pair.chosen_T), len(pair.rejected_T)
            tokens += sum(lengths)
            tail = max(lengths) - min(lengths) if self.tail_weight < 1 else 0
            closed = self.kind == "hinge" and not float(self._of_pair(pair).detach())
            held += sum(lengths) if closed else tail
        return held / tokens

    def _of_pair(self, pair: ScoredPair) -> Tensor:
        shorter = min(len(pair.chosen_T), len(pair.rejected_T))
        x = self._log_ratio(pair.chosen_T, pair.chosen_reference_T, shorter)
        y = self._log_ratio(pair.rejected_T, pair.rejected_reference_T, shorter)
        x = x - self.offset * pair.margin / self.coef
        if self.kind in ("ipo", "sigmoid_norm"):
            x, y = x / len(pair.chosen_T), y / len(pair.rejected_T)
        return self._loss(x, y)

    def _log_ratio(self, policy_T: Tensor, reference_T: Tensor, shorter: int) -> Tensor:
        differences_T = policy_T - reference_T
        return differences_T[:shorter].sum() + self.tail_weight * differences_T[shorter:].sum()

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        b, e, d = self.coef, self.smoothing, self.coef * (x - y)
        middle = 1 / (2 * b)
        if self.kind in ("sigmoid", "sigmoid_norm"):
            return -logsigmoid(d)
        if self.kind == "hinge":
            return torch.relu(1 - d)
        if self.kind == "ipo":
            return (x - y - middle) ** 2
        if self.kind == "robust":
            return (-(1 - e) * logsigmoid(d) + e * logsigmoid(-d)) / (1 - 2 * e)
        if self.kind == "exo_pair":
            first = d.sigmoid() * (logsigmoid(d) - math.log(1 - e))
            return first + (-d).sigmoid() * (logsigmoid(-d) - math.log(e))
        if self.kind == "nca_pair":
            return -logsigmoid(b * x) - (logsigmoid(-b * x) + logsigmoid(-b * y)) / 2
        if self.kind == "bco_pair":
            return -logsigmoid(b * x) - logsigmoid(-b * y)
        if self.kind == "sppo_hard":
            return (x - middle) ** 2 + (y + middle) ** 2
        if self.kind == "apo_zero":
            return 1 - (b * x).sigmoid() + (b * y).sigmoid()
        if self.kind == "apo_down":
            return (b * x).sigmoid() + 1 - d.sigmoid()
        if self.kind == "discopop":
            mixed = (d / _DISCOPOP_HEAT).sigmoid()
            return -logsigmoid(d) * (1 - mixed) + (-d).exp() * mixed
        raise ValueError(f"kind={self.kind!r}: no equation here.")
