"""Functions that cannot run on tensors without numbers, or are one kernel on a card, and their stand-ins.

A stand-in allocates what the kernel on a card allocates, and nothing else. The list may only shrink:
tests/srl_agents/training/rehearsal holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from srl_agents.trainers.passes.shared_prefixes import SharedPrefixes, share_prefixes, worth_sharing
from srl_agents.training.rehearsal.data_sites import assumed
from srl_agents.training.rehearsal.device import CARD

_tensor = torch.tensor
ATTENTION = (
    "one fused kernel (memory-efficient under a mask, flash without one): no scores in memory"
)
"""What is assumed of attention, for the reader."""


@dataclass(frozen=True, slots=True)
class Seam:
    """A function that a device without numbers cannot run, and its replacement."""

    place: str
    """Place of the function: ``module:path.of.attribute``."""
    why: str
    stand_in: Any


def tensor(data: Any, *, device: Any = None, **options: Any) -> torch.Tensor:
    """An empty tensor on the card, with the shape and type that `torch.tensor` gives."""
    made = _tensor(data, device="cpu", **options)
    on_card = device is not None and torch.device(device).type == CARD
    return torch.empty(made.shape, dtype=made.dtype, device=device) if on_card else made


def apply(module: Any, change: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
    """`Module._apply` that makes new parameters instead of swapping tensors in place."""
    for child in module.children() if recurse else ():
        child._apply(change)
    for key, own in module._parameters.items():
        with torch.no_grad():
            moved = None if own is None else change(own)
        if moved is not None and moved is not own:
            module._parameters[key] = torch.nn.Parameter(moved, own.requires_grad)
    for key, own in module._buffers.items():
        module._buffers[key] = None if own is None else change(own)
    return module


def dynamic_map(*_: Any, **__: Any) -> torch.Tensor:
    """Zeros in the shape of the code book of 8-bit optimizer states."""
    return torch.zeros(256)


def nothing(*_: Any, **__: Any) -> None:
    """Replaces kernels that only write in place: does nothing."""


class Launched:
    """Replaces a Triton kernel: a launch does nothing, the grid is still computed."""

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return nothing

    @staticmethod
    def cdiv(one: int, other: int) -> int:
        """Quotient, rounded up."""
        return -(-one // other)


def layout(
    trainer: Any, input_ids: torch.Tensor, _mask: torch.Tensor, replies: int
) -> SharedPrefixes | None:
    """`RowTrainer._layout` over the rows that the rehearsal made."""
    if trainer._reach is None or trainer._scored is not None:
        return None
    rows = len(input_ids)
    prompts = list(assumed.prompts[:rows])
    written = [np.ones(replies, dtype=np.int64)] * rows
    width = trainer.base.model.config.get_text_config().hidden_size
    last = trainer.base.activated_tokens
    if not worth_sharing(prompts, written, width=width, activated_tokens=last):
        return None
    return share_prefixes(
        prompts, written, width=width, device=input_ids.device, activated_tokens=last
    )


def add_product(total: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> None:
    """``total += one @ other`` in float32, of matrices in bfloat16: a card copies neither."""
    torch.mm(one, other, out=total.view(one.dtype)[:, : total.shape[1]])


def attention(  # noqa: PLR0917 - torch's order
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """The kernel that torch takes on a card in half precision or, under a mask, in any."""
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    needed = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    out: torch.Tensor = torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, needed, dropout_p, is_causal, scale=scale
    )[0]
    return out


def state_buffer(
    _: Any, parameter: torch.Tensor, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """States of paged optimizers, which the driver may move to the host: planned and counted on the card."""
    return torch.zeros_like(parameter, dtype=dtype)


SEAMS = (
    Seam("transformers.training_args:TrainingArguments.device", "it looks for CUDA",
         property(lambda own: own._setup_devices and torch.device(CARD))),
    Seam("accelerate.accelerator:Accelerator.device", "it looks for CUDA",
         property(lambda _: torch.device(CARD))),
    Seam("torch:tensor", "torch makes it on the device without asking a mode", tensor),
    Seam("torch.nn:Module._apply", "torch swaps tensors without numbers, which storages hold", apply),
    Seam("torch.nn.functional:scaled_dot_product_attention", "one kernel on a card", attention),
    Seam("srl_agents.engines.embedded.row_attention:scaled_dot_product_attention",
         "one kernel on a card", attention),
    Seam("srl_agents.trainers.policy_gradient:RowTrainer._layout", "reads the rows' tokens", layout),
    Seam("trl.kernels.chunked_logprob:_use_triton", "a card has Triton", lambda _: True),
    Seam("trl.trainer.utils:_use_triton", "a card has Triton", lambda _: True),
    Seam("trl.kernels.chunked_logprob:_forward_kernel", "Triton, in place", Launched()),
    Seam("trl.kernels.chunked_logprob:_backward_kernel", "Triton, in place", Launched()),
    Seam("trl.kernels.chunked_logprob:triton", "sizes of Triton's grid", Launched()),
    Seam("trl.kernels.chunked_logprob:_addmm_fp32", "cuBLAS adds in float32 on a card", add_product),
    Seam("bitsandbytes.functional:create_dynamic_map", "reads numbers", dynamic_map),
    Seam("bitsandbytes.optim.optimizer:Optimizer8bit.get_state_buffer", "asks the driver for pages",
         state_buffer),
    Seam("bitsandbytes.functional:optimizer_update_8bit_blockwise", "a CUDA kernel, in place", nothing),
)  # fmt: skip


@contextmanager
def standing_in() -> Iterator[None]:
    """Replace every function of `SEAMS` within this context."""
    with ExitStack() as stack:
        for seam in SEAMS:
            module, _, path = seam.place.partition(":")
            *owners, name = path.split(".")
            owner = import_module(module)
            for part in owners:
                owner = getattr(owner, part)
            stack.enter_context(patch.object(owner, name, seam.stand_in, create=name == "triton"))
        yield
