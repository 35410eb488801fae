"""LoRA factors of many adapters in one layer: a few products for all of them instead of several for each.

Neighbours with equally many rows are one batch of matrix products over their stacked factors. Two products
per adapter and layer would be thousands of small ones, whose calls cost more than their arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import torch


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring rows of adapters that have equally many each."""

    names: tuple[str, ...]
    first: int
    """Row."""
    stop: int
    """Row behind the last."""

    def of(self, rows: torch.Tensor) -> torch.Tensor:
        """(n, rows of each * L, width) the stretch's part of (R, L, width), by adapter."""
        return rows[self.first : self.stop].reshape(len(self.names), -1, rows.shape[-1])


def stretches(names: Sequence[str]) -> tuple[Stretch, ...]:
    """Stretches of a batch.

    Args:
        names: adapter of each row.
    """
    found, start = [], 0
    for each, group in groupby(_runs(names), key=lambda run: run[1]):
        own = tuple(name for name, _ in group)
        found.append(Stretch(own, start, start + each * len(own)))
        start += each * len(own)
    return tuple(found)


def _runs(names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """(name, rows) of each run of rows with one name."""
    for name, rows in groupby(names):
        yield name, len(list(rows))


def with_factors(
    output: torch.Tensor,
    inputs: torch.Tensor,
    some: Sequence[Stretch],
    downs: Sequence[torch.Tensor],
    ups: Sequence[torch.Tensor],
    *,
    scaling: float,
    places: torch.Tensor | None,
) -> torch.Tensor:
    """(R, L, outputs) what a layer says, plus scaling * inputs A^T B^T with each row's own A and B.

    Args:
        output: (R, L, outputs) of the frozen layer, a linear one; may be overwritten.
        inputs: (R, L, inputs) of the layer.
        some: which rows are whose.
        downs: (rank, inputs) A of each adapter, in the order of the stretches.
        ups: (outputs, rank) B.
        scaling: of the update.
        places: (R, L, 1) or (1, L, 1) where adapters act; everywhere if None.
    """
    how = _How(tuple(some), scaling, places)
    told: torch.Tensor = _Factors.apply(output, inputs, how, *downs, *ups)  # type: ignore[no-untyped-call]
    return told


class _How(NamedTuple):
    """What no gradient flows to."""

    some: tuple[Stretch, ...]
    scaling: float
    places: torch.Tensor | None


class _Factors(torch.autograd.Function):
    """Keeps the inputs and (R, L, rank); factors are stacked again in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        output: torch.Tensor,
        inputs: torch.Tensor,
        how: _How,
        *factors: torch.Tensor,
    ) -> torch.Tensor:
        kind = inputs.device.type
        fast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        ctx.how, ctx.dtype, lows = how, fast or factors[0].dtype, []
        if output.is_contiguous() and not output._is_view():  # type: ignore[no-untyped-call]
            told = output  # no linear layer needs what it said on the way back
            ctx.mark_dirty(output)
        else:
            told = output.clone(memory_format=torch.contiguous_format)
        with torch.autocast(kind, enabled=False):
            for one, down, up in _stacked(how.some, factors, ctx.dtype):
                low = torch.bmm(one.of(inputs).to(ctx.dtype), down.mT)
                if how.places is not None:
                    low *= _of_places(one, how.places, inputs)
                lows.append(low)
                if told.dtype == ctx.dtype:
                    one.of(told).baddbmm_(low, up.mT, alpha=how.scaling)
                else:
                    part = torch.bmm(low, up.mT).to(told.dtype)
                    one.of(told).add_(part, alpha=how.scaling)
        ctx.save_for_backward(inputs, *lows, *factors)
        return told

    @staticmethod
    def backward(ctx: Any, *incoming: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (slope,), (inputs, *saved), how = incoming, ctx.saved_tensors, ctx.how
        lows, factors = saved[: len(how.some)], saved[len(how.some) :]
        downs: list[torch.Tensor] = []
        ups: list[torch.Tensor] = []
        back = None
        if ctx.needs_input_grad[1]:
            back = torch.empty_like(inputs, memory_format=torch.contiguous_format)
        stacked = _stacked(how.some, factors, ctx.dtype)
        for low, (one, down, up) in zip(lows, stacked, strict=True):
            above = one.of(slope).to(ctx.dtype)
            # slopes as the right factor: the other order reads them two to three times as slowly on a CPU
            within = torch.bmm(up.mT, above.mT).mT * how.scaling
            if how.places is not None:
                within *= _of_places(one, how.places, inputs)
            below = one.of(inputs).to(ctx.dtype)
            ups += torch.bmm((low * how.scaling).mT, above).mT.to(factors[0].dtype).contiguous()
            downs += torch.bmm(within.mT, below).to(factors[0].dtype)
            if back is not None:
                one.of(back).copy_(torch.bmm(within, down))
        return slope, back, None, *downs, *ups


def _stacked(
    some: Sequence[Stretch],
    factors: list[torch.Tensor] | tuple[torch.Tensor, ...],
    dtype: torch.dtype,
) -> Iterator[tuple[Stretch, torch.Tensor, torch.Tensor]]:
    """Each stretch with its (n, rank, inputs) and (n, outputs, rank)."""
    downs, ups = factors[: len(factors) // 2], factors[len(factors) // 2 :]
    start = 0
    for one in some:
        own = slice(start, start + len(one.names))
        yield one, torch.stack(downs[own]).to(dtype), torch.stack(ups[own]).to(dtype)
        start = own.stop


def _of_places(one: Stretch, places: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """(n, rows of each * L, 1) where the stretch's adapters act."""
    return one.of(places.expand(len(inputs), -1, -1))
