"""Memory that a process lends to others of its machine: exported once, opened by a handle, never copied here.

Two kinds. `CudaMemory` lends GPU memory by the handles that torch makes for CUDA's inter-process
communication; it was never run. `HostPages` lends files in memory that have no name, whose descriptor travels
with the offer: they test the rest of a transport on machines without a GPU.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch

from srl_agents.transports.protocol import Tensors
from srl_envs.errors import ConfigError, ModelError

_storages: Any = torch.UntypedStorage
"""torch's storages, whose functions for sharing have no types."""
_MEMORY_HANDLE, _EVENT_HANDLE = 64, 64
"""Bytes of CUDA's own handles. Source: CUDA_IPC_HANDLE_SIZE of the CUDA runtime."""
_PLAIN = b"c"
"""Marks handles of memory from cudaMalloc. Source: ShareableHandleType in torch's CUDACachingAllocator."""
_NOBODY_COUNTS = b"/srl-no-counter"
"""Where readers should count down, and nothing is: see `CudaMemory.opened`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """What another process needs to open lent memory, as it travels: fixed fields of fixed types."""

    memory: str
    """Kind of memory: `LentMemory.kind`."""
    size: int
    """Size in bytes."""
    device: str = ""
    """UUID of the GPU, which processes may number differently."""
    start: int = 0
    """Byte of the allocation at which the memory begins."""
    handle: bytes = b""
    """Handle of the allocation."""
    event: bytes = b""
    """Handle of the event after which the memory is written."""
    waits: bool = False
    """Whether there is such an event."""

    def plain(self) -> dict[str, Any]:
        """The offer as JSON values: bytes become hex digits."""
        return {
            key: value.hex() if isinstance(value, bytes) else value
            for key, value in asdict(self).items()
        }

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Offer:
        """The inverse of `plain`.

        Raises:
            ValueError: a field is missing, unknown or of another type.
        """
        fields = {"memory": str, "size": int, "device": str, "start": int, "waits": bool}
        coded = ("handle", "event")
        if plain.keys() != {*fields, *coded}:
            raise ValueError(f"the offer has the fields {', '.join(sorted(map(str, plain)))[:200]}")
        for key, kind in (*fields.items(), *((key, str) for key in coded)):
            if type(plain[key]) is not kind:  # True is not accepted as a number
                raise ValueError(f"the offer's {key} is {type(plain[key]).__name__}")
        if plain["size"] < 1 or plain["start"] < 0:
            raise ValueError(f"the offer is {plain['size']} bytes from byte {plain['start']}")
        return cls(**{**plain, **{key: bytes.fromhex(plain[key]) for key in coded}})


@dataclass(frozen=True, slots=True)
class Lent:
    """Memory while it is lent: freed when nothing names it any more."""

    flat: torch.Tensor
    """uint8, on one device; is not written to while it is lent."""
    offer: Offer
    files: tuple[int, ...] = ()
    """Descriptors that go with the offer; they are the memory's own."""


class LentMemory(Protocol):
    """Interface of a kind of memory that can be lent to another process."""

    kind: str
    """Name of this kind of memory in offers."""

    def take(self, size: int, tensors: Tensors) -> torch.Tensor:
        """Fresh uint8 memory of so many bytes, where these tensors should be copied to."""

    def lend(self, flat: torch.Tensor) -> Lent:
        """Export memory that was taken and written.

        Raises:
            ModelError: it cannot be exported.
        """

    def opened(self, offer: Offer, files: Sequence[int]) -> torch.Tensor:
        """Another process's memory, uint8, to read only; let it go before that process frees it.

        Args:
            offer: from the process that lends.
            files: that came with it; they stay the caller's to close.

        Raises:
            ValueError: the offer is none of this memory.
            RuntimeError: torch cannot open it.
        """

    def wait(self, flat: torch.Tensor) -> None:
        """Wait until the device has finished its work on this memory."""


class HostPages:
    """Pages of the host in a file in memory, by torch's file descriptors."""

    kind = "host"

    def take(self, size: int, tensors: Tensors) -> torch.Tensor:
        """See `LentMemory`."""
        file = os.memfd_create("srl-lent")  # without a name, so nothing stays of who is killed
        try:
            os.truncate(file, size)
            return _flat(_storages._new_shared_fd_cpu(file, size), size)  # which has a copy of it
        finally:
            os.close(file)

    def lend(self, flat: torch.Tensor) -> Lent:
        """See `LentMemory`."""
        storage: Any = flat.untyped_storage()
        try:
            file, size = storage._share_fd_cpu_()
        except RuntimeError as error:
            raise ModelError(
                f"{flat.nbytes / 2**20:,.1f} MiB cannot be lent: {_first(error)}."
            ) from error
        return Lent(flat, Offer(memory=self.kind, size=size), (file,))

    def opened(self, offer: Offer, files: Sequence[int]) -> torch.Tensor:
        """See `LentMemory`."""
        if offer.memory != self.kind or len(files) != 1:
            raise ValueError(f"the offer is of {offer.memory} memory with {len(files)} files")
        found = os.fstat(files[0])
        # torch would make a file that is too short longer, and one that ends inside a page kills who reads it
        if not stat.S_ISREG(found.st_mode) or found.st_size != offer.size:
            raise ValueError(f"the file holds {found.st_size} bytes and should hold {offer.size}")
        return _flat(_storages._new_shared_fd_cpu(files[0], offer.size), offer.size)

    def wait(self, flat: torch.Tensor) -> None:
        """See `LentMemory`; nothing runs beside the process."""


class CudaMemory:
    """Memory of a GPU, by the handles that torch makes of its allocations.

    Source: `torch.multiprocessing.reductions`, from which only what `UntypedStorage` does is used.
    """

    kind = "cuda"

    def take(self, size: int, tensors: Tensors) -> torch.Tensor:
        """See `LentMemory`; on the GPU of the tensors, or the current one where they are on none."""
        current = torch.device("cuda", torch.cuda.current_device())
        device = next((t.device for t in tensors.values() if t.is_cuda), current)
        return torch.empty(size, dtype=torch.uint8, device=device)

    def lend(self, flat: torch.Tensor) -> Lent:
        """See `LentMemory`.

        torch's count of readers is given back at once. Otherwise a reader that is killed while it reads would
        hold the memory for ever; how long it stays is decided by the holder of what is returned.
        """
        self.wait(flat)
        storage: Any = flat.untyped_storage()
        try:
            _, handle, size, start, counter, place, event, waits = storage._share_cuda_()
        except RuntimeError as error:
            raise ModelError(
                f"{flat.device} exports no handle of its memory: {_first(error)}."
            ) from error
        _storages._release_ipc_counter_cuda(counter, place)
        if not _plain_handle(handle):
            raise ModelError(
                f"{flat.device}: the memory is not a plain allocation, as with expandable_segments:True in "
                "PYTORCH_ALLOC_CONF. Leave that out, or use transport 'host_memory'."
            )
        uuid = str(torch.cuda.get_device_properties(flat.device).uuid)
        return Lent(
            flat,
            Offer(
                memory=self.kind, size=size, device=uuid, start=start, handle=handle, event=event,
                waits=waits,
            ),
        )  # fmt: skip

    def opened(self, offer: Offer, files: Sequence[int]) -> torch.Tensor:
        """See `LentMemory`; on the GPU that lends it, by this process's number.

        torch counts down when it lets the memory go. The lender has done that already, so this counter is
        named that does not exist: torch passes over it, as over one of a lender that has died.
        """
        if offer.memory != self.kind or files:
            raise ValueError(f"the offer is of {offer.memory} memory with {len(files)} files")
        if not _plain_handle(offer.handle) or len(offer.event) != _EVENT_HANDLE:
            raise ValueError("the offer's handles are not CUDA's")
        number = device_number(offer.device, uuids())
        storage = _storages._new_shared_cuda(
            number, offer.handle, offer.size, offer.start, _NOBODY_COUNTS, 0, offer.event, offer.waits
        )  # fmt: skip
        return _flat(storage, offer.size)

    def wait(self, flat: torch.Tensor) -> None:
        """See `LentMemory`."""
        torch.cuda.synchronize(flat.device)


def uuids() -> list[str]:
    """UUIDs of the GPUs that this process sees, by its own numbers."""
    return [
        str(torch.cuda.get_device_properties(number).uuid)
        for number in range(torch.cuda.device_count())
    ]


def device_number(uuid: str, seen: Sequence[str]) -> int:
    """This process's number of a GPU.

    Raises:
        ValueError: it does not see it.
    """
    if uuid not in seen:
        raise ValueError(
            f"this process does not see GPU {uuid}, on which the weights are; it sees "
            f"{', '.join(seen) or 'none'}. Set CUDA_VISIBLE_DEVICES alike, or use transport 'host_memory'"
        )
    return list(seen).index(uuid)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cards:
    """What torch reports of the GPUs of this process."""

    found: bool
    """Whether there is one."""
    rocm: bool = False
    allocator: str = "native"
    names: tuple[str, ...] = ()

    @classmethod
    def here(cls) -> Cards:
        """The GPUs of this process, as torch reports them."""
        if not torch.cuda.is_available():
            return cls(found=False)
        return cls(
            found=True,
            rocm=torch.version.hip is not None,
            allocator=torch.cuda.memory.get_allocator_backend(),
            names=tuple(torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())),
        )

    @property
    def fault(self) -> str:
        """Why none of them lends its memory; empty where one may."""
        if not self.found:
            return "torch finds no CUDA device in this process"
        if self.rocm:
            return "this torch is built for ROCm, where it was never tried"
        if self.allocator != "native":
            return f"the memory of torch's allocator {self.allocator!r} has no handles"
        part = next((name for name in self.names if "MIG " in name), "")
        return f"{part!r} is a part of a GPU (MIG), which lends no memory" if part else ""


def require_cuda_ipc(cards: Cards) -> None:
    """Refuse a process whose GPU lends no memory; tries one allocation.

    Raises:
        ConfigError: why, and what to use instead.
    """
    fault = cards.fault
    if not fault:
        memory = CudaMemory()
        try:
            memory.lend(memory.take(1, {}))
        except (ModelError, RuntimeError) as error:
            fault = _first(error)
    if fault:
        raise ConfigError(
            f"transport.kind='cuda_ipc': {fault.rstrip('.')}. Use 'host_memory' or 'files'."
        )


def _plain_handle(handle: bytes) -> bool:
    """Whether this is a handle of memory from cudaMalloc: torch's format, its kind, and CUDA's handle."""
    return len(handle) == 2 + _MEMORY_HANDLE and handle[1:2] == _PLAIN


def _flat(storage: Any, size: int) -> torch.Tensor:
    """A storage's bytes as a tensor."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, 0, (size,), (1,))


def _first(error: BaseException) -> str:
    """First line of an error, without its full stop."""
    return str(error).partition("\n")[0].strip().rstrip(".")
