"""Policy-gradient losses over rows of tokens, each from its paper's equation.

In all of them ratio = exp(log-probability now - log-probability when sampled), A is the advantage, and
only learned tokens count.

| loss | per token (rloo: per row) | summed as | source |
|---|---|---|---|
| grpo | -min(ratio A, clip(ratio) A) | mean over rows of means over tokens | arXiv:2402.03300 eq. 3 |
| dr_grpo | same | sum / (rows * constant) | arXiv:2503.20783 section 3.2 |
| dapo, bnpo | same | mean over all tokens | arXiv:2503.14476 eq. 8 |
| luspo | same | mean over rows of sums over tokens | arXiv:2602.05261 |
| cispo | -min(ratio, cap) A log p, ratio constant | mean over all tokens | arXiv:2506.13585 eq. 4 |
| sapo | -4 / t sigmoid(t (ratio - 1)) A | mean over rows of means over tokens | arXiv:2511.20347 |
| vespo | -w^k exp(l (1 - w)) A log p, w constant | mean over all tokens | arXiv:2602.10693 |
| rloo | -min(w A, clip(w) A) | mean over rows | arXiv:2402.14740 |

w is the ratio of a row's whole text. With level ``sequence`` the ratio of a token is its row's, exp of
the mean log-ratio (arXiv:2507.18071 eq. 7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

Tensor = torch.Tensor
_SAPO_UP, _SAPO_DOWN = 1.0, 1.05
"""Temperatures of sapo's gate for positive and other advantages."""
_VESPO_UP, _VESPO_DOWN = (2.0, 3.0), (3.0, 2.0)
"""Exponent k and slope l of vespo's weight for advantages from 0 on, and below."""
_LEAST_RATIO, _MOST_LOG_RATIO = 1e-8, 20.0
"""Limits of a row's ratio in vespo."""


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """The learned tokens of one row; ``T`` of them, or none."""

    logps_T: Tensor
    entropies_T: Tensor
    sampled_T: Tensor
    """Log-probabilities when the row was sampled."""
    advantages_T: Tensor
    reference_T: Tensor | None = None
    """Log-probabilities under the reference; None without divergence."""

    @property
    def log_ratios_T(self) -> Tensor:
        """Difference of log-probabilities now and when sampled."""
        return self.logps_T - self.sampled_T


@dataclass(frozen=True, kw_only=True, slots=True)
class RowObjective:
    """One loss with its numbers."""

    kind: str
    level: str = "token"
    clip_low: float
    clip_high: float
    """Ratios above 1 + clip_high are clipped; in cispo they are cut at clip_high itself."""
    kl_coef: float = 0.0
    kl_corrected: bool = False
    """Whether a token's divergence is multiplied by its ratio."""
    entropy_coef: float = 0.0
    constant_tokens: int = 64
    """Divisor of dr_grpo."""

    def loss(self, rows: Sequence[ScoredRow]) -> Tensor:
        """Loss of a batch, with its graph."""
        entropy = torch.cat([row.entropies_T for row in rows]).mean()
        return self._summed([self._of_row(row) for row in rows], rows) - self.entropy_coef * entropy

    def size(self, rows: Sequence[ScoredRow]) -> float:
        """Sum of the terms' sizes: rounding of the loss is in proportion to it, and not to the loss."""
        return float(self._summed([self._of_row(row).detach().abs() for row in rows], rows))

    def _summed(self, parts: Sequence[Tensor], rows: Sequence[ScoredRow]) -> Tensor:
        """The terms of all rows as one number, in the way of the table above."""
        sums = torch.stack([part.sum() for part in parts])
        if self.kind in ("grpo", "sapo"):
            return (sums / torch.tensor([max(1, len(part)) for part in parts])).mean()
        if self.kind in ("luspo", "rloo"):
            return sums.mean()
        if self.kind == "dr_grpo":
            return sums.mean() / self.constant_tokens
        return sums.sum() / sum(len(row.logps_T) for row in rows)

    def clipped(self, rows: Sequence[ScoredRow]) -> float | None:
        """Share of learned tokens whose gradient clipping changes; None where the loss clips nothing."""
        if self.kind in ("sapo", "vespo"):
            return None
        found = torch.cat([self._clipped_T(row) for row in rows])
        return float(found.double().mean())

    def _clipped_T(self, row: ScoredRow) -> Tensor:
        log_ratios_T = row.log_ratios_T.detach()
        if self.kind == "rloo":
            log_ratios_T = log_ratios_T.sum().expand_as(log_ratios_T)
        ratios_T = self._levelled(log_ratios_T).exp()
        if self.kind == "cispo":
            return ratios_T > self.clip_high
        above_T = (ratios_T > 1 + self.clip_high) & (row.advantages_T > 0)
        return above_T | ((ratios_T < 1 - self.clip_low) & (row.advantages_T < 0))

    def _levelled(self, log_ratios_T: Tensor) -> Tensor:
        if self.level == "token" or not len(log_ratios_T):
            return log_ratios_T
        return log_ratios_T.mean().expand_as(log_ratios_T)

    def _of_row(self, row: ScoredRow) -> Tensor:
        """(T,) the terms that are summed, or one term for rloo; divergence included."""
        advantages_T, logps_T = row.advantages_T, row.logps_T
        if not len(logps_T):
            return logps_T
        if self.kind == "rloo":
            whole = row.log_ratios_T.sum().exp()
            return self._clipped_gain(whole, advantages_T[0])[None]
        ratios_T = self._levelled(row.log_ratios_T).exp()
        if self.kind == "cispo":
            terms_T = -ratios_T.clamp(max=self.clip_high).detach() * advantages_T * logps_T
        elif self.kind == "sapo":
            heat_T = torch.where(advantages_T > 0, _SAPO_UP, _SAPO_DOWN)
            terms_T = -4 / heat_T * torch.sigmoid(heat_T * (ratios_T - 1)) * advantages_T
        elif self.kind == "vespo":
            terms_T = -_vespo_weight(row) * advantages_T * logps_T
        else:
            terms_T = self._clipped_gain(ratios_T, advantages_T)
        if row.reference_T is None:
            return terms_T
        return terms_T + self.kl_coef * self._divergence(row.reference_T - logps_T, ratios_T)

    def _clipped_gain(self, ratios: Tensor, advantages: Tensor) -> Tensor:
        near = ratios.clamp(1 - self.clip_low, 1 + self.clip_high)
        return -torch.minimum(ratios * advantages, near * advantages)

    def _divergence(self, above_T: Tensor, ratios_T: Tensor) -> Tensor:
        """Estimate exp(x) - x - 1 of the divergence, where x is log(reference / policy)."""
        estimate_T = above_T.exp() - above_T - 1
        return estimate_T * ratios_T if self.kl_corrected else estimate_T


def _vespo_weight(row: ScoredRow) -> Tensor:
    log_ratio = row.log_ratios_T.detach().sum()
    log_ratio = log_ratio.clamp(math.log(_LEAST_RATIO), _MOST_LOG_RATIO)
    power_T, slope_T = (
        torch.where(row.advantages_T >= 0, up, down)
        for up, down in zip(_VESPO_UP, _VESPO_DOWN, strict=True)
    )
    return (power_T * log_ratio + slope_T * (1 - log_ratio.exp())).exp()
