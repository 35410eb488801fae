"""LoRA factors of many adapters in one layer: a few products for all of them instead of several for each.

Neighbours with equally many rows are one batch of matrix products over their stacked factors. Two products
per adapter and layer would be thousands of small ones, whose calls cost more than their arithmetic.

A layer's inputs go through `lowered` and its outputs through `raised`. On the way back the frozen layer
has then made a tensor of the slopes of its inputs by the time the factors' part is known, and that part is
added to it where it lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

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


def lowered(
    inputs: torch.Tensor,
    some: Sequence[Stretch],
    downs: Sequence[torch.Tensor],
    *,
    scaling: float,
    places: torch.Tensor | None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """What the frozen layer is to read, and scaling * A inputs^T with each row's own A.

    Args:
        inputs: (R, L, inputs) of the layer, a linear one.
        some: which rows are whose.
        downs: (rank, inputs) A of each adapter, in the order of the stretches.
        scaling: of the update.
        places: (R, L, 1) or (1, L, 1) where adapters act; everywhere if None.

    Returns:
        The inputs themselves, and (n, rank, rows of each * L) of each stretch.
    """
    how = _How(tuple(some), scaling, places)
    if inputs.requires_grad:
        read, *lows = _Lowered.apply(inputs, how, *downs)  # type: ignore[no-untyped-call]
        return read, tuple(lows)
    # as an output of the function they would get gradients that are not needed
    _, *lows = _Lowered.apply(inputs, how, *downs)  # type: ignore[no-untyped-call]
    return inputs, tuple(lows)


def raised(
    output: torch.Tensor,
    lows: Sequence[torch.Tensor],
    some: Sequence[Stretch],
    ups: Sequence[torch.Tensor],
) -> torch.Tensor:
    """(R, L, outputs) outputs of a layer, plus what adapters add to them.

    Args:
        output: (R, L, outputs) of the frozen layer; may be overwritten.
        lows: from `lowered`.
        some: which rows are whose.
        ups: (outputs, rank) B of each adapter, in the order of the stretches.
    """
    raised: torch.Tensor = _Raised.apply(output, tuple(some), *lows, *ups)  # type: ignore[no-untyped-call]
    return raised


@dataclass(frozen=True, slots=True)
class _How:
    """Arguments that no gradient flows to."""

    some: tuple[Stretch, ...]
    scaling: float
    places: torch.Tensor | None

    def scale(self, one: Stretch, low: torch.Tensor, rows: int) -> torch.Tensor:
        """(n, rank, rows of each * L) in place: times the scaling, and 0 where no adapter acts.

        Args:
            one: the stretch.
            low: to change.
            rows: of the batch.
        """
        low *= self.scaling
        if self.places is not None:
            low *= one.of(self.places.expand(rows, -1, -1)).mT
        return low


class _Lowered(torch.autograd.Function):
    """Keeps the inputs; factors are stacked again in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, inputs: torch.Tensor, how: _How, *downs: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        kind = inputs.device.type
        fast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        ctx.how, ctx.dtype = how, fast or downs[0].dtype
        lows = []
        with torch.autocast(kind, enabled=False):
            for one, down in _stacked(how.some, downs, ctx.dtype):
                # inputs as the right factor: the other order reads them twice as slowly on a CPU
                low = torch.bmm(down, one.of(inputs).to(ctx.dtype).mT)
                lows.append(how.scale(one, low, len(inputs)))
        ctx.save_for_backward(inputs, *downs)
        return inputs, *lows

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (back, *withins), (inputs, *saved), how = slopes, ctx.saved_tensors, ctx.how
        gradients: list[torch.Tensor] = []
        reads = ctx.needs_input_grad[0]
        if reads and not back.is_contiguous():
            back = back.contiguous()
        stacked = _stacked(how.some, saved, ctx.dtype)
        for within, (one, down) in zip(withins, stacked, strict=True):
            how.scale(one, within, len(inputs))
            below = one.of(inputs).to(ctx.dtype)
            gradients += torch.bmm(within, below).to(saved[0].dtype)
            if reads:
                # a linear layer's gradient of its inputs is a product that no other code reads
                _add_product(one.of(back), within.mT, down)
        return back if reads else None, None, *gradients


class _Raised(torch.autograd.Function):
    """Keeps what `_Lowered` said; factors are stacked again in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        output: torch.Tensor,
        some: tuple[Stretch, ...],
        *factors: torch.Tensor,
    ) -> torch.Tensor:
        lows, ups = factors[: len(some)], factors[len(some) :]
        if output.is_contiguous() and not output._is_view():
            raised = output  # no linear layer reads its output on the way back
            ctx.mark_dirty(output)
        else:
            raised = output.clone(memory_format=torch.contiguous_format)
        with torch.autocast(output.device.type, enabled=False):
            for low, (one, up) in zip(lows, _stacked(some, ups, lows[0].dtype), strict=True):
                _add_product(one.of(raised), low.mT, up.mT)
        ctx.some = some
        ctx.save_for_backward(*factors)
        return raised

    @staticmethod
    def backward(ctx: Any, *incoming: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (slope,), some, saved = incoming, ctx.some, ctx.saved_tensors
        lows, ups = saved[: len(some)], saved[len(some) :]
        withins: list[torch.Tensor] = []
        gradients: list[torch.Tensor] = []
        for low, (one, up) in zip(lows, _stacked(some, ups, lows[0].dtype), strict=True):
            above = one.of(slope).to(low.dtype)
            withins.append(torch.bmm(up.mT, above.mT))
            gradients += torch.bmm(low, above).mT.to(ups[0].dtype).contiguous()
        return slope, None, *withins, *gradients


def _add_product(rows: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Add left @ right, computed in their own type, to rows."""
    if rows.dtype == left.dtype:
        rows.baddbmm_(left, right)
    else:
        rows += torch.bmm(left, right).to(rows.dtype)


def _stacked(
    some: Sequence[Stretch], factors: Sequence[torch.Tensor], dtype: torch.dtype
) -> Iterator[tuple[Stretch, torch.Tensor]]:
    """Each stretch with the factors of its adapters."""
    start = 0
    for one in some:
        stop = start + len(one.names)
        yield one, torch.stack(tuple(factors[start:stop])).to(dtype)
        start = stop
