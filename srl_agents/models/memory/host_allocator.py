"""Settings of the C library's allocator for memory that torch frees on a CPU."""

from __future__ import annotations

import ctypes
import os
import sys

LARGE_BLOCK = 2**20
"""Bytes from which a block is the system's again as soon as it is freed."""
_M_MMAP_THRESHOLD = -3
"""Of glibc's mallopt(3)."""
PRIMITIVES = 64
"""Kernels that oneDNN keeps ready, one for each shape of a product; its own limit is 1,024. The embedded
engine's passes have many lengths: in `quickstart-tiny` kernels grew by 45 MB per update, to .3 GB. With 64 of
them five updates take no more processor time (41.5 s and 42.0 s)."""


def keep_few_kernels() -> None:
    """Limit oneDNN's cache of kernels, unless the user has set ``ONEDNN_PRIMITIVE_CACHE_CAPACITY``.

    oneDNN reads the limit at its first product.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRIMITIVES))


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
