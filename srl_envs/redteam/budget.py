"""Budget of an attack: seconds of processor time, or an exact number of steps."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field


def cpu_s() -> float:
    """Processor time of this process and of its children that ended."""
    import resource  # noqa: PLC0415 - not on Windows

    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass(slots=True)
class Budget:
    """Counts down; probes ask their `Allowance` before every piece of work.

    With ``steps`` the same seed gives the same findings everywhere; seconds depend on the machine.
    """

    seconds: float = 60.0
    """Seconds of processor time. Programs in a live sandbox are not counted, so twice that of the clock
    ends the attack, too."""
    steps: int | None = None
    """Episodes or verdicts; None counts only seconds."""
    _started: tuple[float, float] = field(default_factory=lambda: (cpu_s(), time.monotonic()))
    _done: int = 0

    def spend(self, steps: int = 1) -> None:
        """Count one more episode or verdict."""
        self._done += steps

    @property
    def share(self) -> float:
        """What is spent of it, from 0 on; 1 is all."""
        if self.steps is not None:
            return self._done / self.steps
        cpu, clock = self._started
        load = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        return max((cpu_s() - cpu), (time.monotonic() - clock) / (2 * load)) / self.seconds

    def spent_s(self) -> float:
        """Processor time since the start."""
        return cpu_s() - self._started[0]

    def whole(self) -> Allowance:
        """The whole budget."""
        return Allowance(self, 1.0)


@dataclass(frozen=True, slots=True)
class Allowance:
    """A part of a budget: what one probe may spend."""

    budget: Budget
    until: float
    """Share of the budget at which this part ends."""

    def left(self) -> bool:
        """Whether there is time for more."""
        return self.budget.share < self.until

    def spend(self, steps: int = 1) -> None:
        """Count one more episode or verdict."""
        self.budget.spend(steps)

    def part(self, fraction: float) -> Allowance:
        """This fraction of what is left of it now."""
        now = self.budget.share
        return Allowance(self.budget, now + (self.until - now) * fraction)
