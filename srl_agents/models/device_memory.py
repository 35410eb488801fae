"""How much memory a process holds where its model lives, and what is said when there is none left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from srl_envs.errors import MemoryLimitError

_BYTES_PER_GB = 1e9
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
        told = str(error)
        if isinstance(error, RuntimeError) and not any(text in told for text in _OUT_OF_MEMORY):
            raise
        first = told.partition("\n")[0].strip()
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
