"""What a caller hands over: runs, the jobs they form, and the wall time that a program has in all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from srl_envs.errors import ConfigError
from srl_envs.sandbox.inside import wire
from srl_envs.sandbox.outcome import Status

Doing: TypeAlias = tuple[Status, str]
"""How a run ended, and why."""


class Budget:
    """Wall time that all runs of one program share: it passes while any of them is running.

    Time in a queue is free, so that a program does not pay for its neighbours. What is not yet
    running when the time is used up is not run. Give it to calls of one executor, one by one.

    Args:
        total_s: seconds.
        clock: seconds.

    Raises:
        ConfigError: the time is not above 0.
    """

    def __init__(self, total_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        if not total_s > 0:
            raise ConfigError(f"total_s={total_s!r}: give seconds above 0.")
        self.total_s = total_s
        self._clock = clock
        self._spent_s = 0.0
        self._running = 0
        self._since = 0.0

    @property
    def left_s(self) -> float:
        """Seconds, at least 0."""
        passing = self._clock() - self._since if self._running else 0.0
        return max(self.total_s - self._spent_s - passing, 0.0)

    def begin(self) -> None:
        """A run starts."""
        if not self._running:
            self._since = self._clock()
        self._running += 1

    def end(self) -> None:
        """A run has ended."""
        self._running -= 1
        if not self._running:
            self._spent_s += self._clock() - self._since


@dataclass(slots=True)
class Run:
    """One process to start, and what came back."""

    payload: bytes
    """What the process shall do, for `inside.programs`."""
    stdin: bytes | None = None
    writes: bool = False
    """The program seems to write files, so it gets a scratch directory."""
    budget: Budget | None = None
    """Wall time that it shares with other runs; None for the limit of a run alone."""
    wall_s: float = 0.0
    """Seconds that it was granted."""
    number: int = 0
    descriptors: list[int] = field(default_factory=list)
    report: wire.Report | None = None
    stdout: bytes = b""
    result: bytes = b""
    doing: Doing | None = None
    """What the program did, where that is known without a report."""
    fault: str = ""
    """Why we, not the program, failed; empty where it ran."""

    def close(self) -> None:
        """Close the descriptors that are still open."""
        while self.descriptors:
            os.close(self.descriptors.pop())


@dataclass(slots=True, eq=False)
class Batch:
    """What one caller waits for."""

    left: int
    """Jobs without a result."""


@dataclass(slots=True, eq=False)
class Job:
    """Runs that start together: one, or a program and its tests with pipes between them."""

    runs: tuple[Run, ...]
    batch: Batch
    alone: bool = False
    """Nothing else may run beside it: it was there when something went wrong."""
    faults: int = 0
    """Attempts in which one of its processes could not start."""
    kills: int = 0
    """Attempts in which the host killed one of its processes."""
    deaths: int = 0
    """Servers that ended while it was running."""
    left: int = 0
    """Runs that have not ended."""

    def begin(self, most_s: float) -> bool:
        """Grant each run its wall time; False, with an outcome, where a budget is used up.

        Args:
            most_s: seconds, the limit of one run.
        """
        for run in self.runs:
            run.fault, run.doing, run.report, run.wall_s = "", None, None, most_s
            if run.budget is not None:
                run.wall_s = min(most_s, run.budget.left_s)
        for run in self.runs:
            if run.budget is not None and run.wall_s <= 0:
                whole = f"{run.budget.total_s:g} s of wall time in all are used up"
                run.doing = "timeout", f"not run: the program's {whole}"
                return False
        self.left = len(self.runs)
        for run in self.runs:
            if run.budget is not None:
                run.budget.begin()
        return True
