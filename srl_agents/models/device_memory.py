"""How much memory a process holds where its model lives."""

from __future__ import annotations

import os
from pathlib import Path

import torch

_BYTES_PER_GB = 1e9


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
