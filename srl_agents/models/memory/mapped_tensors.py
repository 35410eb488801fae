"""Tensors whose bytes lie in a file: resident while they are touched, gone from memory on request.

The file is mapped shared. Letting go of its pages costs no copy and loses nothing, and the next touch brings
them back, so no result depends on what is resident. The file has no name: whatever ends the process, nothing
stays.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

_ALIGNED = 4096
"""Bytes; tensors begin on pages."""


class MappedTensors:
    """Tensors on the CPU that are moved into one file, in place: references to them stay valid.

    Args:
        tensors: keep shape, type and numbers; their memory is freed.
        folder: of the file; as large as the tensors.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], folder: Path) -> None:
        starts, self.bytes = [], 0
        for tensor in tensors:
            starts.append(self.bytes)
            size = tensor.numel() * tensor.element_size()
            self.bytes += -(-size // _ALIGNED) * _ALIGNED
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(self.bytes)
            self._map = mmap.mmap(file.fileno(), self.bytes)
        for tensor, start in zip(tensors, starts, strict=True):
            if not tensor.numel():
                continue
            place = torch.frombuffer(
                self._map, dtype=tensor.dtype, count=tensor.numel(), offset=start
            ).view(tensor.shape)
            place.copy_(tensor.detach())
            tensor.data = place
        whole = torch.frombuffer(self._map, dtype=torch.uint8)
        self._first = whole.data_ptr()

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's numbers lie here."""
        return self._first <= tensor.data_ptr() < self._first + self.bytes

    def leave_memory(self) -> None:
        """Let go of all pages; what was written is in the file's cache or on its disk."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def come_soon(self) -> None:
        """Ask the system to read pages ahead, while other work goes on."""
        self._map.madvise(mmap.MADV_WILLNEED)
