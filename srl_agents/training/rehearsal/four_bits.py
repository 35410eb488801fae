"""A base in 4 bits on the card: bitsandbytes' layers and products, with packed weights that hold no numbers.

`bitsandbytes.nn.Linear4bit` packs weights when they reach CUDA, and its parameters are a subclass of tensors
that no fake tensor can be. Here layers get plain parameters of the same bytes, with the state that packing
leaves: scales of 8 bits per 64 weights and one of 32 bits per 256 scales (arXiv:2305.14314 section 3).
Forward and backward passes are bitsandbytes' own.
"""

from __future__ import annotations

import math
from typing import Any

import bitsandbytes
import torch
from bitsandbytes.functional import QuantState
from torch import nn

from srl_agents.training.rehearsal.device import CARD

SCALED, NESTED = 64, 256
"""Weights per scale, and scales per scale of scales."""
FEW_ROWS = 4
"""Up to so many tokens a kernel of bitsandbytes reads packed weights on any card; beyond, it depends on card
and shape, and the rehearsal takes the other way, which unpacks them (bitsandbytes 0.50, backends/cuda)."""


def pack(model: nn.Module) -> None:
    """Replace the linear layers of the blocks by 4-bit ones; on the meta device, before weights exist.

    The head stays as it is, as transformers leaves it.
    """
    model.is_loaded_in_4bit = True  # type: ignore[assignment]
    for name, module in list(model.named_modules()):
        for key, child in list(module.named_children()):
            if type(child) is nn.Linear and f"{name}.{key}".strip(".") != "lm_head":
                setattr(module, key, _packed(child))


def _packed(linear: nn.Linear) -> bitsandbytes.nn.Linear4bit:
    layer: Any = bitsandbytes.nn.Linear4bit.__new__(bitsandbytes.nn.Linear4bit)
    nn.Module.__init__(layer)
    layer.in_features, layer.out_features = linear.in_features, linear.out_features
    layer.compute_dtype, layer.compute_type_is_set = linear.weight.dtype, True
    layer.support_avx512bf16_for_cpu, layer.quant_state = False, None
    packed = torch.empty((-(-linear.weight.numel() // 2), 1), dtype=torch.uint8, device="meta")
    layer.weight = nn.Parameter(packed, requires_grad=False)
    layer.bias = linear.bias
    return layer


def give_scales(model: nn.Module) -> None:
    """Give the layers, which are on the card now, what packing leaves beside the weights."""
    for layer in model.modules():
        if isinstance(layer, bitsandbytes.nn.Linear4bit):
            shape, dtype = torch.Size((layer.out_features, layer.in_features)), layer.compute_dtype
            scales = math.ceil(shape.numel() / SCALED)
            weight: Any = layer.weight
            weight.compress_statistics, weight.quant_type, weight.bnb_quantized = True, "nf4", True
            weight.quant_state = QuantState(
                absmax=torch.empty(scales, dtype=torch.uint8, device=CARD),
                shape=shape,
                code=torch.empty(16, device=CARD),
                blocksize=SCALED,
                quant_type="nf4",
                dtype=dtype,
                offset=torch.empty((), device=CARD),
                state2=QuantState(
                    absmax=torch.empty(math.ceil(scales / NESTED), device=CARD),
                    blocksize=NESTED,
                    code=torch.empty(256, device=CARD),
                    dtype=torch.float32,
                ),
            )


def product(  # noqa: PLR0917 - bitsandbytes' order
    rows: torch.Tensor,
    packed: torch.Tensor,
    shape: Any,
    absmax: torch.Tensor,
    blocksize: int,
    quant_type: str,
    bias: torch.Tensor | None = None,
    absmax_8bit: torch.Tensor | None = None,
    absmax_code: torch.Tensor | None = None,
    absmax_offset: torch.Tensor | None = None,
) -> torch.Tensor:
    """``bitsandbytes::gemm_4bit`` as it runs on a card: many rows meet a matrix that was unpacked."""
    flat = rows.reshape(-1, rows.shape[-1])
    if len(flat) <= FEW_ROWS:
        return rows.new_empty((*rows.shape[:-1], shape[0]))
    kernels = torch.ops.bitsandbytes
    if absmax_8bit is not None:
        scales = kernels.dequantize_blockwise(
            absmax_8bit, absmax, absmax_code, NESTED, torch.float32
        )
        absmax = scales + absmax_offset
    weights = kernels.dequantize_4bit(packed, absmax, blocksize, quant_type, shape, rows.dtype).t()
    out = torch.mm(flat, weights) if bias is None else torch.addmm(bias, flat, weights)
    return out.reshape(*rows.shape[:-1], shape[0])
