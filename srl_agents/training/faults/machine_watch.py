"""Checks the machine before each update: host memory, disk, clock."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from srl_agents.models.memory.available import memory_of
from srl_agents.recipes.sections.fault_policy import (
    CLOCK_JUMP_S,
    MIN_FREE_MEMORY_MIB,
    SurvivalSettings,
)
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.folder.layout import CHECKPOINTS

_MIB = 2**20


class MachineWatch:
    """Compares with the recipe's limits.

    Args:
        settings: the limits.
        folder: of the run.
        clock: seconds of the system's clock.
        passed: seconds that passed since some moment, whatever the system's clock shows.
    """

    def __init__(
        self,
        settings: SurvivalSettings,
        folder: Path,
        clock: Callable[[], float] = time.time,
        passed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._folder = settings, folder
        self._clock, self._passed = clock, passed
        self._ahead = clock() - passed()

    def look(self) -> Iterator[Finding]:
        """Faults of the machine at this moment."""
        limits = self._settings
        ahead = self._clock() - self._passed()
        jump, self._ahead = ahead - self._ahead, ahead
        if abs(jump) > CLOCK_JUMP_S:
            message = f"the clock moved {jump:+,.0f} s against the time that passed"
            yield Finding(fault="clock_jumped", message=message)
        free = memory_of(torch.device("cpu")).free / _MIB
        if free < MIN_FREE_MEMORY_MIB:
            message = f"{math.floor(free):,} MiB are free, less than {MIN_FREE_MEMORY_MIB:g}"
            yield Finding(fault="host_memory_low", message=message)
        if limits.min_free_disk_mib:
            room = shutil.disk_usage(self._folder).free / _MIB
            needed = limits.min_free_disk_mib + 2 * self._checkpoint_mib()
            if room < needed:
                message = (
                    f"{math.floor(room):,} MiB are free in {self._folder}, less than {needed:,.0f}"
                )
                yield Finding(fault="disk_low", message=message)

    def _checkpoint_mib(self) -> float:
        """Size of the newest checkpoint; 0 before the first."""
        found = sorted((self._folder / CHECKPOINTS).glob("step-*"))
        files = found[-1].iterdir() if found else ()
        return sum(file.stat().st_size for file in files) / _MIB
