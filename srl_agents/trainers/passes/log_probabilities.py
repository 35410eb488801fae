"""Log-probabilities of tokens from hidden states, without logits and without a second look at them.

The vocabulary is read in tiles, as attention reads keys: of each token a running maximum and running sums
are kept. One of the sums is the probability-weighted mean of the head's rows, which is all that the gradient
of a log-probability needs: grad log p(t) = W[t] - sum_j p_j W[j]. So the backward pass multiplies a vector
and reads no tile again: two products with the head in all, where recomputing takes three.
Source: the running sums are those of arXiv:2205.14135 section 3.1, with keys and values both the head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

_ROWS = 512
"""Tokens of one tile."""
_TILE_BYTES = {"cpu": 8 * 2**20, "cuda": 128 * 2**20}
"""Bytes of one tile of logits in float32; two of them exist at a time."""
_LOWEST = -1e30
"""Below every logit, and finite, so that differences to it are numbers."""


@dataclass(frozen=True, slots=True)
class LogitForm:
    """Operations between hidden state times head and softmax."""

    temperature: float = 1.0
    """Logits are divided by it, after the cap."""
    softcap: float | None = None
    """Logits become softcap * tanh(logit / softcap)."""


@dataclass(frozen=True, slots=True)
class _Head:
    weight: torch.Tensor
    bias: torch.Tensor | None
    form: LogitForm


def token_log_probabilities(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    form: LogitForm,
    *,
    bias: torch.Tensor | None = None,
    entropy_gradient: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(N,) log-probabilities of tokens and (N,) entropies, in float32, or in float64 where states are.

    Args:
        hidden: (N, H) states; gradients flow only to them.
        weight: (V, H) of the output head, frozen.
        targets: (N,) tokens.
        form: of the logits.
        bias: (V,) of the output head, frozen.
        entropy_gradient: whether a gradient may come back through the entropies.
    """
    head = _Head(weight, bias, form)
    return _Statistics.apply(hidden, targets, head, entropy_gradient)  # type: ignore[no-any-return, no-untyped-call]


class _Statistics(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, targets: torch.Tensor, head: _Head, entropy_gradient: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        kind = hidden.device.type
        fast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        slopes = 0 if not ctx.needs_input_grad[0] else 2 if entropy_gradient else 1
        with torch.autocast(kind, enabled=False):
            parts = [
                _of_rows(rows.to(fast), some, head, slopes)
                for rows, some in zip(
                    torch.split(hidden, _ROWS), torch.split(targets, _ROWS), strict=True
                )
            ]
        logps, entropies, *gradients = [torch.cat(column) for column in zip(*parts, strict=True)]
        ctx.dtype = hidden.dtype
        ctx.save_for_backward(*gradients)
        if not entropy_gradient:
            ctx.mark_non_differentiable(entropies)
        return logps, entropies

    @staticmethod
    def backward(ctx: Any, *incoming: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        total: torch.Tensor | None = None
        for each_NH, weight_N in zip(ctx.saved_tensors, incoming, strict=False):
            if weight_N is not None:
                term = each_NH * weight_N[:, None].to(each_NH.dtype)
                total = term if total is None else total.add_(term)
        return None if total is None else total.to(ctx.dtype), None, None, None


def _of_rows(
    hidden: torch.Tensor, targets: torch.Tensor, head: _Head, slopes: int
) -> tuple[torch.Tensor, ...]:
    """Log-probabilities, entropies, and as many of their gradients by the hidden states as asked for."""
    n, device = len(hidden), hidden.device
    exact = torch.promote_types(hidden.dtype, torch.float32)
    width = max(256, _TILE_BYTES.get(device.type, _TILE_BYTES["cuda"]) // (4 * max(n, 1)))
    highest = torch.full((n,), _LOWEST, device=device, dtype=exact)
    mass, spread, wanted = (torch.zeros_like(highest) for _ in range(3))
    sums = [torch.zeros(hidden.shape, device=device, dtype=exact) for _ in range(slopes)]
    for start in range(0, head.weight.shape[0], width):
        rows_VH = head.weight[start : start + width].to(hidden.dtype)
        bias_V = None if head.bias is None else head.bias[start : start + width].to(exact)
        logits_NV, bent_NV = _tile(hidden, rows_VH, bias_V, head.form, bent=bool(slopes))
        local = targets - start
        inside = (local >= 0) & (local < len(rows_VH))
        own = logits_NV.gather(1, local.clamp(0, len(rows_VH) - 1)[:, None])[:, 0]
        wanted = torch.where(inside, own, wanted)
        before, highest = highest, torch.maximum(highest, logits_NV.amax(1))
        fallen, kept = before - highest, (before - highest).exp()
        below_NV = logits_NV.sub_(highest[:, None])
        likely_NV = below_NV.exp()
        # what was below the old maximum is below the new one by its rise more
        spread = kept * (spread + fallen * mass) + _dot(likely_NV, below_NV)
        mass = kept * mass + likely_NV.sum(1)
        if bent_NV is not None:
            likely_NV *= bent_NV
        if slopes == 2:
            sums[1].addcmul_(sums[0], fallen[:, None]).mul_(kept[:, None])
            _add_product(sums[1], below_NV.mul_(likely_NV), rows_VH)
        if slopes:
            _add_product(sums[0].mul_(kept[:, None]), likely_NV, rows_VH)
    return _finished(targets, head, (highest, mass, spread, wanted), sums)


def _finished(
    targets: torch.Tensor,
    head: _Head,
    running: tuple[torch.Tensor, ...],
    sums: list[torch.Tensor],
) -> tuple[torch.Tensor, ...]:
    """Results from the sums over all tiles."""
    highest, mass, spread, wanted = running
    logps, entropies = wanted - highest - mass.log(), mass.log() - spread / mass
    if not sums:
        return logps, entropies
    form = head.form
    cold = 1 / form.temperature
    mean_NH = sums[0] / mass[:, None]
    own_NH = head.weight[targets].to(mean_NH.dtype)
    if form.softcap is not None:
        own_NH = own_NH * _bend(wanted * form.temperature, form.softcap)[:, None]
    gradients = [(own_NH - mean_NH) * cold]
    if len(sums) == 2:
        crossed_NH = sums[1] / mass[:, None]
        gradients.append((mean_NH * (spread / mass)[:, None] - crossed_NH) * cold)
    return logps, entropies, *gradients


def _tile(
    hidden: torch.Tensor,
    rows_VH: torch.Tensor,
    bias_V: torch.Tensor | None,
    form: LogitForm,
    *,
    bent: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(n, v) logits in float32 or float64, and where a cap bends them, its derivative."""
    logits_NV = torch.mm(hidden, rows_VH.T)
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
    if bias_V is not None:
        logits_NV += bias_V
    slope_NV = None
    if form.softcap is not None:
        logits_NV.div_(form.softcap).tanh_().mul_(form.softcap)
        slope_NV = _bend(logits_NV, form.softcap) if bent else None
    if form.temperature != 1:
        logits_NV.div_(form.temperature)
    return logits_NV, slope_NV


def _bend(capped: torch.Tensor, softcap: float) -> torch.Tensor:
    """Derivative of softcap * tanh(x / softcap) where it has this value."""
    return 1 - (capped / softcap) ** 2


def _dot(one_NV: torch.Tensor, other_NV: torch.Tensor) -> torch.Tensor:
    """(n,) products of rows, without a tile of products."""
    return torch.bmm(one_NV[:, None], other_NV[:, :, None])[:, 0, 0]


def _add_product(total_NH: torch.Tensor, some_NV: torch.Tensor, rows_VH: torch.Tensor) -> None:
    """Add a product in the total's type: sums of products that were rounded to bfloat16 drift."""
    if rows_VH.dtype == total_NH.dtype:
        total_NH.addmm_(some_NV, rows_VH)
    elif total_NH.device.type == "cuda":
        some = some_NV.to(rows_VH.dtype)
        torch.addmm(total_NH, some, rows_VH, out_dtype=torch.float32, out=total_NH)
    else:
        total_NH.addmm_(some_NV, rows_VH.float())
