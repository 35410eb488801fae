"""Load from a GPU's driver is averaged between records; a driver that fails ends no run."""

from __future__ import annotations

import threading
from collections.abc import Callable

from srl_agents.training.gauges.gpu_load import GPULoad


def reader(percents: list[float]) -> tuple[Callable[[], float], threading.Event]:
    """Reads these one after another, then fails and sets the event."""
    left, failed = list(percents), threading.Event()

    def read() -> float:
        if left:
            return left.pop(0)
        failed.set()
        raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed")

    return read, failed


def test_readings_count_once_and_a_failure_ends_only_reading() -> None:
    read, failed = reader([10.0, 30.0, 80.0])
    load = GPULoad(read, every_s=0.001)
    assert failed.wait(20)
    load.close()
    assert load.take() == 0.4
    assert load.take() is None
    assert load.fault.startswith("ModuleNotFoundError: nvidia-ml-py")
