"""Keys and values in 8 bits: one scale per token, head and layer, beside the numbers that it belongs to.

Array axes as in `row_attention`: ``K`` key-value heads, ``S`` tokens, ``D`` head width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from srl_agents.models.playing_model import PlayingModel

_MOST = 127
_SCALE_BYTES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class EightBits:
    """Keys and values in 8 bits while no row reads them, unpacked to their own type when one does.

    The largest number of a token and head becomes 127, and each is rounded to the next of 255 steps. What
    was unpacked and is packed again under the same scale gives the same values.
    """

    dtype: torch.dtype
    """Type of the keys and values that are read."""
    whole_bytes_per_token: int
    """Bytes of a token's keys and values in that type, in all layers."""
    bytes_per_token: int
    """Bytes of a token's keys and values in 8 bits, with the scales."""

    @classmethod
    def of(cls, model: PlayingModel) -> EightBits:
        """The form of a model's keys and values in 8 bits."""
        return cls(
            dtype=model.dtype,
            whole_bytes_per_token=model.bytes_per_token,
            bytes_per_token=2 * model.layers * model.kv_heads * (model.head_width + _SCALE_BYTES),
        )

    @property
    def share(self) -> float:
        """Packed bytes as a share of those of the keys and values when they are read."""
        return self.bytes_per_token / self.whole_bytes_per_token

    @staticmethod
    def packed_width(head_width: int) -> int:
        """Numbers of 8 bits that a token's key or value of one head takes."""
        return head_width + _SCALE_BYTES

    def pack(self, kv: torch.Tensor) -> torch.Tensor:
        """(layers, 2, K, S, D + 4) int8 of (layers, 2, K, S, D): the numbers, then their scale's bytes."""
        wide = kv.float()
        scale = wide.abs().amax(dim=-1, keepdim=True) / _MOST
        steps = wide / torch.where(scale == 0, 1.0, scale)
        return torch.cat((steps.round_().to(torch.int8), scale.view(torch.int8)), dim=-1)

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        """(layers, 2, K, S, D) of what `pack` made."""
        scale = packed[..., -_SCALE_BYTES:].clone(memory_format=torch.contiguous_format)
        return (packed[..., :-_SCALE_BYTES] * scale.view(torch.float32)).to(self.dtype)
