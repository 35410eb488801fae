"""Settings of the C library's allocator for memory that torch frees on a CPU."""

from __future__ import annotations

import ctypes
import sys

LARGE_BLOCK = 2**20
"""Bytes from which a block is the system's again as soon as it is freed."""
_M_MMAP_THRESHOLD = -3
"""Of glibc's mallopt(3)."""


def return_large_blocks() -> bool:
    """Map large blocks one by one for the rest of the process, so that freeing one gives it back.

    glibc raises its threshold to the size of blocks that were freed, up to 32 MiB, and keeps later
    blocks of that size in a heap with gaps. In one run of `benchmarks.memory.planned_peaks` (GRPO, LoRA,
    rows of 448 tokens) a quarter of the peak was such gaps: 4.22 GB instead of 3.13.

    Returns:
        Whether the C library has such a setting; others are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK))
    except AttributeError:  # musl
        return False
