"""Load of a GPU from its driver, on average from one record to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable

_EVERY_S = 0.5
"""Seconds between two readings; NVIDIA's driver averages over a sixth of a second to one second."""


class GPULoad:
    """Reads in a thread until it is closed, or until reading fails: then it reports no more load.

    Args:
        read: percent of the time just passed in which the GPU computed, as `torch.cuda.utilization`.
        every_s: between two readings.
    """

    def __init__(self, read: Callable[[], float], every_s: float = _EVERY_S) -> None:
        self._read, self._every_s = read, every_s
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._percents: list[float] = []
        self.fault = ""
        """Why nothing is read any more: no driver, no nvidia-ml-py, a part of a GPU."""
        self._thread = threading.Thread(target=self._sample, name="gpu load", daemon=True)
        self._thread.start()

    def take(self) -> float | None:
        """Mean share of the time since the last call in which the GPU computed; None if nothing was read."""
        with self._lock:
            percents, self._percents = self._percents, []
        return sum(percents) / len(percents) / 100 if percents else None

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                percent = float(self._read())
            except Exception as error:  # noqa: BLE001 - the driver's library, with errors of its own
                self.fault = f"{type(error).__name__}: {error}"
                return
            with self._lock:
                self._percents.append(percent)
