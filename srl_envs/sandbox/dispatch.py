"""Gets runs through the fork server: starts it, keeps it busy, replaces it, retries what it lost.

Any number of threads may ask at once. There is no thread of our own: one of the callers leads, and
serves the runs of all, until its own are finished; then another one that still waits takes over.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from srl_envs.errors import SandboxError
from srl_envs.sandbox.inside import wire
from srl_envs.sandbox.limits import Limits
from srl_envs.sandbox.server_process import ServerGone, ServerProcess, memory_file

_UNANSWERED_S = 30.0  # beyond the wall limit: the server itself hangs
_WRITES = re.compile(
    r"\bopen\s*\((?!\s*0\s*[,)])|tempfile|mkdir|makedirs|mkstemp|touch|write_text|write_bytes"
    r"|sqlite3|shelve|dbm|devnull|FileIO|zipfile|tarfile|shutil|savetxt|np\.save"
)


@dataclass(slots=True)
class Run:
    """One process to start, and what came back."""

    payload: bytes
    """What the process shall do, for `inside.programs`."""
    stdin: bytes | None = None
    writes: bool = False
    """The program seems to write files, so it gets a scratch directory."""
    number: int = 0
    descriptors: list[int] = field(default_factory=list)
    report: wire.Report | None = None
    stdout: bytes = b""
    result: bytes = b""
    fault: str = ""
    """Why we, not the program, failed; empty where it ran."""

    def close(self) -> None:
        """Close the descriptors that are still open."""
        while self.descriptors:
            os.close(self.descriptors.pop())


_TRIES = 2


@dataclass(slots=True, eq=False)
class _Batch:
    """What one caller waits for."""

    left: int
    """Jobs without a result."""


@dataclass(slots=True, eq=False)
class _Job:
    """Runs that start together: one, or a program and its tests with pipes between them."""

    runs: tuple[Run, ...]
    batch: _Batch
    tries: int = 0
    left: int = 0
    """Runs that have not ended."""


class Dispatcher:
    """One server at a time, and whatever it takes to get every run a report.

    Args:
        limits: of each run.
        isolation: tier to insist on, or ``"strongest"``.
        allow_unsafe: accept a server without isolation.
        packages: third-party packages that programs may import, and modules of them to import now.
        language: of the programs, as in `inside.languages`.

    Raises:
        SandboxError: the server does not start, or offers less than was asked for.
    """

    def __init__(
        self,
        limits: Limits,
        isolation: str,
        allow_unsafe: bool,
        packages: tuple[Sequence[str], Sequence[str]],
        language: str,
    ) -> None:
        self._limits = limits
        self._isolation = isolation
        self._allow_unsafe = allow_unsafe
        self._packages = packages
        self._language = language
        self._owner = os.getpid()
        self._numbers = 0
        self._in_flight = _in_flight(limits)
        self._holder: list[ServerProcess] = []
        self._finalizer = weakref.finalize(self, _close_all, self._holder)
        self._forget()
        self.layers: tuple[str, ...] = ()
        self.tier = "none"
        self._connect()

    def _forget(self) -> None:
        """Start with nothing to do, also in a forked process, whose callers do not exist."""
        self._changed = threading.Condition()
        self._leading = False
        self._waiting: deque[_Job] = deque()
        self._started: set[_Job] = set()
        self._active: dict[int, tuple[_Job, Run]] = {}

    def close(self) -> None:
        """End the server; the next run starts another one."""
        self._check_owner()
        with self._leadership():
            self._disconnect()
            if self._started:  # of callers that still wait, or were interrupted
                self._lose("the executor was closed")

    @property
    def server_pid(self) -> int:
        """Process id of the server, as the host sees it."""
        return self._holder[0].pid

    def _check_owner(self) -> None:
        if self._owner != os.getpid():
            self._owner = os.getpid()
            for _, run in self._active.values():
                run.close()
            self._forget()

    @contextlib.contextmanager
    def _leadership(self) -> Iterator[None]:
        """Be the one that talks to the server."""
        with self._changed:
            self._changed.wait_for(lambda: not self._leading)
            self._leading = True
        try:
            yield
        finally:
            self._step_down()

    def _step_down(self) -> None:
        with self._changed:
            self._leading = False
            self._changed.notify_all()

    def _connect(self) -> ServerProcess:
        """The server, started if there is none."""
        if self._holder and self._holder[0].closed:  # closed, or inherited over a fork
            self._holder.clear()
        if not self._holder:
            if sys.platform == "win32":
                raise SandboxError("no sandbox on Windows: run under Linux, or WSL 2.")
            if sys.platform != "linux" and not self._allow_unsafe:
                raise SandboxError(_NO_TIER.format(why=f"{sys.platform} has none of them"))
            tier = "namespaces" if self._isolation == "strongest" else self._isolation
            server = ServerProcess(tier, *self._packages, self._language)
            with self._changed:
                self._holder.append(server)
            self.layers = tuple(server.greeting["layers"])
            self.tier = str(server.greeting["tier"])
            try:
                self._accept(server.greeting)
            except SandboxError:
                self._disconnect()
                raise
        return self._holder[0]

    def _accept(self, greeting: Mapping[str, Any]) -> None:
        """Refuse a server whose isolation is less than what was asked for."""
        missing = "; ".join(f"{name}: {why}" for name, why in greeting["missing"].items())
        tier = greeting["tier"]
        if tier == "none" and not self._allow_unsafe:
            raise SandboxError(_NO_TIER.format(why=missing or "isolation='none' was asked for"))
        if self._limits.processes > 1 and tier != "namespaces":
            raise SandboxError(
                f"processes={self._limits.processes} needs namespaces, which this host does not "
                f"grant ({missing}); use processes=1."
            )
        if self._isolation not in ("strongest", tier):
            raise SandboxError(
                f"isolation={self._isolation!r} is not available here ({missing}); "
                f"isolation='strongest' would give {tier!r}."
            )

    def execute(self, runs: Sequence[Run]) -> None:
        """Run all; what fails through no fault of the program is tried a second time."""
        self._complete([(run,) for run in runs])

    def execute_pair(self, candidate: Run, tester: Run) -> None:
        """Run a program and its tests with pipes between them; tried twice like `execute`."""
        self._complete([(candidate, tester)])

    def _complete(self, groups: Sequence[tuple[Run, ...]]) -> None:
        """Wait until all have ended; lead where nobody does."""
        self._check_owner()
        batch = _Batch(len(groups))
        jobs = [_Job(runs, batch) for runs in groups]
        try:
            with self._changed:
                self._waiting.extend(jobs)
                for server in self._holder:
                    server.wake()  # a leader may be waiting for reports only
            while batch.left:
                with self._changed:
                    self._changed.wait_for(lambda: not (batch.left and self._leading))
                    if not batch.left:
                        return
                    self._leading = True
                try:
                    self._lead(batch)
                except BaseException:  # interrupted at an unknown place: start over for the others
                    self._lose("the leading caller was interrupted")
                    raise
                finally:
                    self._step_down()
        except BaseException:  # interrupted: what has not started need not start
            with self._changed:
                self._waiting = deque(job for job in self._waiting if job.batch is not batch)
            raise

    def _lead(self, batch: _Batch) -> None:
        """Serve all callers until ``batch`` has ended."""
        while batch.left:
            try:
                server = self._connect()
                self._start_waiting(server)
                for report in server.collect(self._limits.wall_s + _UNANSWERED_S):
                    self._take(server, report)
            except (ServerGone, SandboxError, OSError) as error:
                self._lose(f"{type(error).__name__}: {error}")

    def _start_waiting(self, server: ServerProcess) -> None:
        while True:
            with self._changed:
                room = self._in_flight - len(self._active)
                if not self._waiting or (len(self._waiting[0].runs) > room and self._active):
                    return
                job = self._waiting.popleft()
                self._started.add(job)
                job.left = len(job.runs)
                for run in job.runs:
                    run.fault = ""
                    self._active[self._next_number(run)] = (job, run)
            if len(job.runs) == 1:
                self._submit(server, job.runs[0])
            else:
                self._submit_pair(server, *job.runs)

    def _take(self, server: ServerProcess, report: wire.Report) -> None:
        """Book the end of one run."""
        job, run = self._active.pop(report.run, (None, None))
        if job is None or run is None:
            return
        self._finish(run, report)
        job.left -= 1
        if not job.left:
            self._settle(job)
        elif run is job.runs[-1]:  # the tests are over
            server.submit(
                wire.Request(wire.STOP, job.runs[0].number, flags=self._flags(job.runs[0]))
            )

    def _settle(self, job: _Job) -> None:
        """A job's runs have all ended: it is done, or, where the fault is ours, due once more."""
        job.tries += 1
        with self._changed:
            self._started.discard(job)
            if job.tries < _TRIES and any(run.fault for run in job.runs):
                self._waiting.append(job)
                return
            job.batch.left -= 1
            if not job.batch.left:
                self._changed.notify_all()

    def _lose(self, fault: str) -> None:
        """The server is gone, and with it all that it was running, or nothing could start."""
        self._disconnect()
        jobs = list(self._started)
        self._active.clear()
        if not jobs:
            with self._changed:
                jobs = list(self._waiting)
                self._waiting.clear()
        for job in jobs:
            for run in job.runs:
                run.fault = fault
                run.close()
            self._settle(job)

    def _disconnect(self) -> None:
        with self._changed:  # nobody wakes a server while it closes
            _close_all(self._holder)

    def _submit_pair(self, server: ServerProcess, candidate: Run, tester: Run) -> None:
        """Start a program and its tests with a pipe in each direction."""
        asked: tuple[int, ...] = os.pipe()
        answered: tuple[int, ...] = os.pipe()
        try:
            self._submit(server, candidate, stdin=asked[0], result=answered[1])
            self._submit(server, tester, stdin=answered[0], result=asked[1])
        finally:
            for end in (*asked, *answered):
                os.close(end)  # so that each side notices when the other has ended

    def _next_number(self, run: Run) -> int:
        self._numbers = run.number = (self._numbers + 1) & 0xFFFFFFFF
        return run.number

    def _submit(
        self, server: ServerProcess, run: Run, stdin: int | None = None, result: int | None = None
    ) -> None:
        limits = self._limits
        run.descriptors.append(memory_file(run.payload))
        if stdin is not None:
            run.descriptors.append(os.dup(stdin))
        elif run.stdin is None:
            run.descriptors.append(os.open(os.devnull, os.O_RDONLY))
        else:
            run.descriptors.append(memory_file(run.stdin))
        run.descriptors.append(memory_file())
        run.descriptors.append(memory_file() if result is None else os.dup(result))
        request = wire.Request(
            operation=wire.RUN,
            run=run.number,
            wall_s=limits.wall_s,
            cpu_s=limits.cpu_s,
            memory_bytes=limits.memory_mib << 20,
            file_bytes=(limits.output_kib << 10) + 1,
            processes=limits.processes,
            files=limits.files,
            flags=self._flags(run),
        )
        server.submit(request, run.descriptors)
        outputs = run.descriptors[2:] if result is None else run.descriptors[2:3]
        for descriptor in set(run.descriptors).difference(outputs):
            os.close(descriptor)
        run.descriptors[:] = outputs  # read at the end

    def _flags(self, run: Run) -> int:
        return wire.SCRATCH if run.writes or self._limits.processes > 1 else 0

    def _finish(self, run: Run, report: wire.Report) -> None:
        run.report = report
        cap = (self._limits.output_kib << 10) + 1
        outputs = [_read(descriptor, cap) for descriptor in run.descriptors]
        run.stdout, run.result = outputs if len(outputs) == 2 else (outputs[0], b"")
        run.close()
        if report.reason == wire.NO_FORK:
            run.fault = f"no new process: {os.strerror(report.wait_status)}"
        elif not report.confined:
            run.fault = "the program's process could not be confined"
        elif report.reason == wire.BY_ITSELF and self.tier != "none" and _killed_by_host(report):
            run.fault = "the host killed the process, probably short of memory"


_NO_TIER = (
    "no isolation is available here ({why}), so programs could read and change this machine. "
    "Run on Linux 3.17 or later with seccomp, or pass allow_unsafe=True for programs you trust."
)


def _close_all(holder: list[ServerProcess]) -> None:
    while holder:
        with contextlib.suppress(OSError):
            holder.pop().close()


def _in_flight(limits: Limits) -> int:
    """Runs at once: enough that no processor waits for the server, and at most half of the memory."""
    by_cpu = 2 * (os.cpu_count() or 1) + 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(
        1, min(by_cpu, 16, int(memory // 2) // ((limits.memory_mib << 20) * limits.processes))
    )


def seems_to_write(program: str) -> bool:
    """Whether a program's text mentions writing files; one that hides it finds them read-only."""
    return bool(_WRITES.search(program))


def _read(descriptor: int, cap: int) -> bytes:
    data = b""
    while len(data) < cap and (part := os.pread(descriptor, cap - len(data), len(data))):
        data += part
    return data


def _killed_by_host(report: wire.Report) -> bool:
    """Whether a SIGKILL came from outside: its own filter lets no program send itself one.

    The kernel's own limit of processor time ends in one too, but only after a while.
    """
    killed = os.WIFSIGNALED(report.wait_status) and os.WTERMSIG(report.wait_status) == 9
    return killed and report.cpu_s < 0.9
