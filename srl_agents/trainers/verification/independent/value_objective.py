"""The critic's part of PPO: values from hidden states, and their clipped squared error.

Source: arXiv:1707.06347 eq. 9 for the sum of both losses; the clipped error is arXiv:2005.12729 section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """The learned tokens of one row, as the critic sees them."""

    hidden_TH: Tensor
    """State before each token."""
    before_T: Tensor
    """Values before the update."""
    returns_T: Tensor


def values(hidden_TH: Tensor, layers: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """(T,) values of states: normalised, then linear layers with tanh between them.

    Args:
        hidden_TH: states.
        layers: weight and bias of each linear layer; the last has one output.
    """
    states = hidden_TH.double()
    centred = states - states.mean(-1, keepdim=True)
    states = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    for number, (weight, bias) in enumerate(layers):
        states = states @ weight.double().T + bias.double()
        if number < len(layers) - 1:
            states = states.tanh()
    return states[:, 0]


def value_loss(
    rows: Sequence[JudgedRow], layers: Sequence[tuple[Tensor, Tensor]], clip: float | None
) -> tuple[Tensor, float | None]:
    """Half the mean squared error over tokens, and the share of values that the clip holds.

    Args:
        rows: of the batch.
        layers: as for `values`.
        clip: largest move of a value that may still pay; None clips nothing.
    """
    now = torch.cat([values(row.hidden_TH, layers) for row in rows])
    before, returns = (
        torch.cat([getattr(row, n) for row in rows]) for n in ("before_T", "returns_T")
    )
    error = (now - returns) ** 2
    if clip is None:
        return error.mean() / 2, None
    held = before + (now - before).clamp(-clip, clip)
    worse = torch.maximum(error, (held - returns) ** 2)
    return worse.mean() / 2, float((worse > error).double().mean())
