"""Residency of each role in each phase of an update, under a measured and enforced budget.

A role is a group of tensors with a name: the base, adapters, optimizer state, the reward model. A phase names
the roles that it touches. Entering a phase lets all other roles leave memory: to a file from a CPU, to pinned
host memory from a GPU. What a move brought is measured, not assumed, and a phase
that took more than the budget ends the run with the names of what was there.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from srl_agents.metrics.sinks import add_lines
from srl_envs.errors import MemoryLimitError

TRACE = "memory.jsonl"
"""Within a run's folder."""
_GIB = 2**30


class Role(Protocol):
    """Something that can leave memory and come back."""

    def leave(self) -> None:
        """Give memory back; leaving twice does nothing."""

    def come(self) -> None:
        """Be there, or on the way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseMemory:
    """Bytes of one phase, as measured."""

    update: int
    phase: str
    entered: int
    """When the roles had moved and the phase began."""
    peak: int
    """Most during the phase."""
    left: int
    """When it was over."""
    freed: int
    """Less than before, by what roles gave back on entering; negative where more came."""
    roles: tuple[str, ...]
    """Roles that were meant to be there."""


@dataclass(kw_only=True, slots=True)
class _Open:
    """A phase that is open."""

    name: str
    entered: int
    freed: int
    highest: int
    """Most bytes so far."""
    traced: bool
    """Whether it still gets a line."""


class Gauge(Protocol):
    """Measures memory in use, and its peak since `restart`."""

    def now(self) -> int:
        """Bytes."""

    def peak(self) -> int:
        """Bytes."""

    def restart(self) -> None:
        """Let the peak begin at what is in use now."""


class HostGauge:
    """Resident memory of this process, by the kernel's account."""

    def now(self) -> int:
        """See `Gauge`."""
        return _status("VmRSS")

    def peak(self) -> int:
        """See `Gauge`."""
        return _status("VmHWM")

    def restart(self) -> None:
        """See `Gauge`; where the kernel does not allow it, the peak is that of the process's life."""
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


class PhaseManager:
    """Moves roles between phases and writes down what memory did.

    Args:
        roles: by name.
        needs: phase -> roles that it touches; a phase that is absent moves nothing. The others begin without
            what the C library keeps of freed memory: a sixth of a small run's peak.
        gauge: measures.
        budget: bytes that no phase may exceed; None refuses nothing.
        trace: gets one line of JSON per phase; None keeps none.
    """

    def __init__(
        self,
        roles: Mapping[str, Role],
        needs: Mapping[str, frozenset[str]],
        gauge: Gauge,
        *,
        budget: int | None = None,
        trace: Path | None = None,
    ) -> None:
        self._roles, self._needs, self._gauge = roles, needs, gauge
        self._budget, self._trace = budget, trace
        self._present = frozenset(roles)
        self._open: list[_Open] = []
        """Outermost first."""
        self.update = 0
        """Number of the update that is made."""
        self.peaks: dict[str, int] = {}
        """Phase -> most bytes in the last update that had it."""

    @contextmanager
    def phase(self, name: str, *, traced: bool = True) -> Iterator[None]:
        """Inside, the roles of a phase are there; phases may lie in phases, which end with the inner.

        Args:
            name: of the phase.
            traced: whether it gets a line in the trace.

        Raises:
            MemoryLimitError: the phase took more than the budget.
        """
        before = self._gauge.now()
        self._look()
        self._move(name)
        self._gauge.restart()
        entered = self._gauge.now()
        own = _Open(
            name=name, entered=entered, freed=before - entered, highest=entered, traced=traced
        )
        self._open.append(own)
        try:
            yield
        finally:
            self._look()
            self._open.pop()
        memory = self._write(own)
        self.peaks[name] = memory.peak
        if self._budget is not None and memory.peak > self._budget:
            raise MemoryLimitError(
                f"phase {name!r} of update {self.update} took {memory.peak / _GIB:.2f} GiB, more than "
                f"memory.budget_gib={self._budget / _GIB:.2f}, with {', '.join(memory.roles) or 'nothing'} "
                f"in memory ({entered / _GIB:.2f} GiB as it began). Lower training.micro_batch_rows, "
                "rollout.batch_rows or rollout.max_new_tokens, or raise the budget."
            )

    def write_down(self) -> None:
        """Write the line of the innermost open phase now, because the run may go on from what follows."""
        if self._open:
            self._look()
            self._write(self._open[-1])

    def _write(self, phase: _Open) -> PhaseMemory:
        """Measure a phase as far as it is, and give it its line if it still gets one."""
        memory = PhaseMemory(
            update=self.update,
            phase=phase.name,
            entered=phase.entered,
            peak=phase.highest,
            left=self._gauge.now(),
            freed=phase.freed,
            roles=tuple(sorted(self._present)),
        )
        if self._trace is not None and phase.traced:
            add_lines(self._trace, json.dumps(asdict(memory)) + "\n")
            phase.traced = False
        return memory

    def _look(self) -> None:
        """Let the peak so far count for all open phases, and begin a new one."""
        peak = self._gauge.peak()
        for phase in self._open:
            phase.highest = max(phase.highest, peak)
        self._gauge.restart()

    def _move(self, phase: str) -> None:
        if phase not in self._needs:
            return
        wanted = self._needs[phase] & frozenset(self._roles)
        for name in sorted(frozenset(self._roles) - wanted):
            self._roles[name].leave()
        give_back_free_memory()
        for name in sorted(wanted - self._present):
            self._roles[name].come()
        self._present = wanted


def phase_on(phase: str, base: str) -> str:
    """Name of a phase in which one base has its turn; ``base`` is empty where it is the only one."""
    return f"{phase}: {base}" if base else phase


def give_back_free_memory() -> None:
    """Let the C library return what was freed to the system; it keeps blocks below 32 MiB else."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii")
    return int(lines.partition(f"{field}:")[2].split()[0]) * 1024
