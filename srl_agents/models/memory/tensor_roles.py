"""Tensors that leave memory between phases, and the measure of how much memory there is.

See `srl_agents.memory.phase_manager` for who moves them when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from srl_agents.memory.phase_manager import Gauge, HostGauge, Role
from srl_agents.models.memory.mapped_tensors import MappedTensors

Tensors = Callable[[], Iterable[torch.Tensor]]
_SMALL = 16 * 1024
"""Bytes below which a tensor stays where it is."""


def tensor_role(tensors: Tensors, device: torch.device, folder: Path) -> Role:
    """A role of these tensors, on their device.

    Args:
        tensors: those of the role at any moment.
        device: theirs while they are needed.
        folder: of files, where they leave a CPU.
    """
    return DeviceRole(tensors, device) if device.type == "cuda" else HostRole(tensors, folder)


def gauge_of(device: torch.device) -> Gauge:
    """The gauge of the memory in which a model lives."""
    return DeviceGauge(device) if device.type == "cuda" else HostGauge()


class HostRole:
    """Tensors on the CPU, which leave to files.

    Args:
        tensors: those of the role now; others may come later, such as the state of an optimizer.
        folder: of the files.
    """

    def __init__(self, tensors: Tensors, folder: Path) -> None:
        self._tensors, self._folder = tensors, folder
        self._files: list[MappedTensors] = []

    def leave(self) -> None:
        """See `Role`."""
        now = {t.data_ptr(): t for t in self._tensors() if _size(t) >= _SMALL}
        self._files = [f for f in self._files if any(f.holds(t) for t in now.values())]
        new = [t for t in now.values() if not any(f.holds(t) for f in self._files)]
        if new:
            self._files.append(MappedTensors(new, self._folder))
        for file in self._files:
            file.leave_memory()

    def come(self) -> None:
        """See `Role`; pages are read ahead while the phase begins."""
        for file in self._files:
            file.come_soon()


class DeviceRole:
    """Tensors on a GPU, which leave to pinned memory of the host on a stream of their own.

    Args:
        tensors: those of the role now.
        device: theirs.
    """

    def __init__(self, tensors: Tensors, device: torch.device) -> None:
        self._tensors, self._device = tensors, device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def leave(self) -> None:
        """See `Role`; waits for the copies, as the memory is free only then."""
        moved = [t for t in self._tensors() if t.device.type == "cuda" and _size(t) >= _SMALL]
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        copies = []
        with torch.cuda.stream(self._stream):
            for tensor in moved:
                copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
                copies.append(copy.copy_(tensor.detach(), non_blocking=True))
        self._stream.synchronize()
        for tensor, copy in zip(moved, copies, strict=True):
            tensor.data = copy

    def come(self) -> None:
        """See `Role`; work that is queued later waits for the copies, the host does not."""
        with torch.cuda.stream(self._stream):
            for tensor in self._tensors():
                if tensor.device.type == "cpu" and tensor.is_pinned():
                    tensor.data = tensor.detach().to(self._device, non_blocking=True)
        torch.cuda.current_stream(self._device).wait_stream(self._stream)


class DeviceGauge:
    """Memory that torch has allocated on a GPU.

    Args:
        device: the GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def now(self) -> int:
        """See `Gauge`."""
        return torch.cuda.memory_allocated(self._device)

    def peak(self) -> int:
        """See `Gauge`."""
        return torch.cuda.max_memory_allocated(self._device)

    def restart(self) -> None:
        """See `Gauge`."""
        torch.cuda.reset_peak_memory_stats(self._device)


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
