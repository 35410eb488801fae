"""How much memory there is where a model lives, how much a process holds, and what is said when there is
none left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from srl_envs.errors import MemoryLimitError

_BYTES_PER_GB = 1e9
_GROUP = Path("/sys/fs/cgroup")
_UNKNOWN = 4 * 2**30
"""Bytes that are assumed where the system does not say."""
_OUT_OF_MEMORY = ("allocate memory", "out of memory", "ALLOC_FAILED")
"""Of these texts one is in every RuntimeError of torch's allocators and of CUDA's libraries."""


@contextmanager
def memory_limit(doing: str, lower: str) -> Iterator[None]:
    """Inside, running out of memory is an error that a user can act on.

    Args:
        doing: the work and its size, such as ``update of learner 'alice' on 64 rows``.
        lower: completes "Lower ", with the names of settings.

    Raises:
        MemoryLimitError: memory ran out inside.
    """
    try:
        yield
    except MemoryLimitError:
        raise
    except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is one of the second
        message = str(error)
        if isinstance(error, RuntimeError) and not any(text in message for text in _OUT_OF_MEMORY):
            raise
        first = message.partition("\n")[0].strip()
        raise MemoryLimitError(f"{doing}: out of memory ({first}). Lower {lower}.") from error


def allocated_gb(device: torch.device) -> float:
    """Gigabytes: on a GPU the most that torch had allocated since the last call, else what the
    process holds in memory now; NaN where the system does not say."""
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        return peak / _BYTES_PER_GB
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux
        return float("nan")
    return pages * os.sysconf("SC_PAGE_SIZE") / _BYTES_PER_GB


def empty_cache(device: torch.device) -> None:
    """Give back what torch holds of a GPU's memory and does not use."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a device."""

    total: int
    free: int


def memory_of(device: torch.device) -> Memory:
    """What a device has. A GPU is asked only where the device is one, so none is initialised."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return Memory(total, free)
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return Memory(_UNKNOWN, _UNKNOWN)
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    host = Memory(kib["MemTotal"] * 1024, kib["MemAvailable"] * 1024)
    limit, used = _group_bytes("memory.max"), _group_bytes("memory.current")
    if limit is None or used is None:
        return host
    return Memory(min(host.total, limit), max(0, min(host.free, limit - used)))


def _group_bytes(name: str) -> int | None:
    """A number that the container's control group states; None where it sets no limit."""
    try:
        text = (_GROUP / name).read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
