"""Bytes that are live on the card, the most of them by phase, and floating-point operations.

Storages are counted as operations return them and as Python or autograd lets go of them, in blocks of 512
bytes, as CUDA's allocator hands them out. No formula is shared with `srl_agents.memory`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from srl_agents.training.rehearsal.data_sites import answered
from srl_agents.training.rehearsal.device import CARD
from srl_agents.training.rehearsal.four_bits import product

_BLOCK = 512
"""Bytes that the smallest allocation of CUDA's caching allocator takes."""


class Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Looks at every operation; enter it inside of `FakeTensorMode`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = 0
        """Bytes on the card now."""
        self.peaks: dict[str, int] = {}
        """Phase -> most bytes on the card at once."""
        self.flops: dict[str, float] = {}
        """Phase -> operations of matrix products and attention."""
        self.wide_flops: dict[str, float] = {}
        """Phase -> those of them that read float32."""
        self.left: dict[str, int] = {}
        """Phase -> bytes that came to the card in it and stayed; below 0 where more went."""
        self._phase = ""
        self._known: set[int] = set()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Inside, peaks and operations belong to this phase; a phase may be entered again."""
        before, self._phase = self._phase, name
        self.peaks[name] = max(self.peaks.get(name, 0), self.live)
        self.flops.setdefault(name, 0.0)
        self.wide_flops.setdefault(name, 0.0)
        held = self.live
        try:
            yield
        finally:
            self._phase = before
            self.left[name] = self.left.get(name, 0) + self.live - held

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, or answer what no operation on tensors without numbers can."""
        given = kwargs or {}
        if func is torch.ops.bitsandbytes.gemm_4bit.default:
            with self:
                return product(*args, **given)
        out = answered(func, args)
        if out is NotImplemented:
            out = func(*args, **given)
        count = flop_registry.get(func._overloadpacket)
        if count is not None and self._phase:
            operations = count(*args, **given, out_val=out)
            self.flops[self._phase] += operations
            if any(t.dtype == torch.float32 for t in tree_leaves(args) if torch.is_tensor(t)):
                self.wide_flops[self._phase] += operations
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and leaf.device.type == CARD:
                self._note(leaf)
        return out

    def _note(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        self._known.add(key)
        size = -(-storage.nbytes() // _BLOCK) * _BLOCK
        self.live += size
        if self._phase:
            self.peaks[self._phase] = max(self.peaks[self._phase], self.live)
        weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size
