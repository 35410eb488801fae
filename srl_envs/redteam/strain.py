"""Slowdown on a machine whose processors other processes keep busy."""

from __future__ import annotations

import time

_SAMPLE_S = 0.05


def strain() -> float:
    """Seconds of the clock per second of processor time, for one busy thread; 1 on a quiet machine."""
    clock, cpu = time.monotonic(), time.thread_time()
    while time.thread_time() - cpu < _SAMPLE_S:
        pass
    return max(1.0, (time.monotonic() - clock) / (time.thread_time() - cpu))


def unstrained(seconds: float, *samples: float) -> float:
    """What ``seconds`` of the clock would have been on a quiet machine, at the worst of the samples."""
    return seconds / max(1.0, *samples)
