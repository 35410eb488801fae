"""Runs, the jobs that they form, and the wall time that a program has in all."""

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
PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
"""Processors that this process may use."""


class Budget:
    """Time that all runs of one program share: it passes while any of them is running.

    It passes as on a machine of one's own: where others want the processors, too, a second counts for
    the program's share of it, so that a verdict does not depend on what else the machine does. What the
    program itself takes of the processors counts in full; until a run ends, it is taken to have used its
    share all the time, so that a program that spins in many runs gets no further ones meanwhile. Time in
    a queue is free. What is not yet running when the time is used up is not run. Give it to calls of one
    executor, one by one.

    Args:
        total_s: seconds.
        clock: seconds.
        crowding: processes that want a processor, divided by the processors; at least 1.

    Raises:
        ConfigError: the time is not above 0.
    """

    def __init__(
        self,
        total_s: float,
        clock: Callable[[], float] = time.monotonic,
        crowding: Callable[[], float] | None = None,
    ) -> None:
        if not total_s > 0:
            raise ConfigError(f"total_s={total_s!r}: give seconds above 0.")
        self.total_s = total_s
        self._clock = clock
        self._crowding = crowding or processor_crowding
        self._spent_s = 0.0
        self._cpu_s = 0.0
        self._running = 0
        self._begun_s = 0.0  # sum, over what is running, of the time spent when it began
        self._since = 0.0
        self._crowd = 1.0

    @property
    def left_s(self) -> float:
        """Seconds left, at least 0."""
        self._pass()
        taken_s = (self._cpu_s + self._running * self._spent_s - self._begun_s) / PROCESSORS
        return max(self.total_s - max(self._spent_s, taken_s), 0.0)

    def granted_s(self, most_s: float) -> float:
        """Wall time for the next run, as many seconds longer as the machine is crowded.

        Args:
            most_s: seconds that one run may take on a machine of its own.
        """
        return min(most_s, self.left_s) * self._crowding()

    def begin(self) -> float:
        """Start a run; returns what `end` needs: the time spent until now, in seconds."""
        self._pass()
        self._running += 1
        self._begun_s += self._spent_s
        return self._spent_s

    def end(self, begun_s: float, cpu_s: float = 0.0) -> None:
        """A run has ended.

        Args:
            begun_s: what `begin` returned, seconds.

            cpu_s: seconds of processor time that it took.
        """
        self._pass()
        self._running -= 1
        self._begun_s -= begun_s
        self._cpu_s += cpu_s

    def _pass(self) -> None:
        """Charge the time since the last call."""
        now, before, crowd = self._clock(), self._crowd, self._crowding()
        if self._running:
            self._spent_s += (now - self._since) / max(before, crowd)
        self._since, self._crowd = now, crowd


def processor_crowding() -> float:
    """Runnable threads of this machine per processor; 1 where the system does not report it.

    Two are left out: the one that looks, and the sandbox's server, which has just reported to it.

    Source: the fourth field of proc_loadavg(5), an instant's count.
    """
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            runnable = int(file.read(64).split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 1.0
    return max(1.0, (runnable - 2) / PROCESSORS)


@dataclass(slots=True)
class Run:
    """One process to start, and what came back."""

    payload: bytes
    """What the process shall do, for `inside.programs`."""
    stdin: bytes | None = None
    writes: bool = False
    """The program seems to write files, so it gets a scratch directory."""
    budget: Budget | None = None
    """Wall time that it shares with other runs; None for only the run's own limit."""
    begun_s: float = 0.0
    """Seconds of the budget that were spent when it started."""
    wall_s: float = 0.0
    """Wall seconds granted to the run."""
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
    """Jobs that one caller waits for."""

    left: int
    """Jobs without a result."""


@dataclass(slots=True, eq=False)
class Job:
    """Runs that start together: one, or a program and its tests with pipes between them."""

    runs: tuple[Run, ...]
    batch: Batch
    exclusive: bool = False
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
                run.wall_s = run.budget.granted_s(most_s)
        for run in self.runs:
            if run.budget is not None and run.wall_s <= 0:
                whole = f"{run.budget.total_s:g} s of wall time in all are used up"
                run.doing = "timeout", f"not run: the program's {whole}"
                return False
        self.left = len(self.runs)
        for run in self.runs:
            if run.budget is not None:
                run.begun_s = run.budget.begin()
        return True
