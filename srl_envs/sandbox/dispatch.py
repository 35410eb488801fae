"""Gets runs through the fork server: starts it, keeps it busy, replaces it, retries what it lost.

Any number of threads may ask at once. The dispatcher starts no thread: one of the callers leads, and
serves the runs of all, until its own are finished; then another one that still waits takes over.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from srl_envs.errors import SandboxError
from srl_envs.sandbox import capacity
from srl_envs.sandbox.inside import wire
from srl_envs.sandbox.inside.confinement import identities
from srl_envs.sandbox.inside.exchange import codec
from srl_envs.sandbox.inside.languages import LANGUAGES
from srl_envs.sandbox.jobs import Batch, Job, Run
from srl_envs.sandbox.limits import Limits
from srl_envs.sandbox.server_process import ServerGone, ServerHangs, ServerProcess, memory_file

_UNANSWERED_S = 30.0  # beyond the wall limit: the server itself hangs
_STARTS = 5
"""Servers that may fail to start, one after the other, before we say so."""
_START_PAUSE_S = 0.05  # before the second of them, then twice as long each time
_TRIES = 2
"""Attempts of a job whose processes could not start."""
_KILLS = 2
"""Attempts that the host may kill, the last without other runs, before the program is charged."""
_DEATHS_BESIDE_OTHERS = 2
"""Servers that may end while a job and others run, before it runs without others."""
_DEATHS = 8
"""Servers that may end while a job runs, before that is its doing; one that hangs counts as half."""
_OWN_BYTES = 8 << 20  # of a process, besides its limits: page tables, stacks, pipes in the kernel
_SCRATCH_FOLDERS = 3


class Dispatcher:
    """Keeps one server at a time, and retries until every run has a report.

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
        self._failed_starts = 0
        self._holder: list[ServerProcess] = []
        self._finalizer = weakref.finalize(self, _close_all, self._holder)
        self._forget()
        self.layers: tuple[str, ...] = ()
        self.missing: dict[str, str] = {}
        self.tier = "none"
        self._connect()

    def _forget(self) -> None:
        """Start with nothing to do, also in a forked process, whose callers do not exist."""
        self._changed = threading.Condition()
        self._leading = False
        self._waiting: deque[Job] = deque()
        self._started: set[Job] = set()
        self._active: dict[int, tuple[Job, Run]] = {}

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
        """Context in which only this thread serves the fork server."""
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
        """The fork server, started if necessary."""
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
            self.missing = dict(server.greeting["missing"])
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
        """Run all, each in a process of its own; what our side lost is run again."""
        self._complete([(run,) for run in runs])

    def execute_pair(self, candidate: Run, tester: Run) -> None:
        """Run a program and its tests with pipes between them; run again like `execute`."""
        self._complete([(candidate, tester)])

    def _complete(self, groups: Sequence[tuple[Run, ...]]) -> None:
        """Wait until all have ended; lead if no other thread does."""
        self._check_owner()
        batch = Batch(len(groups))
        jobs = [Job(runs, batch) for runs in groups]
        try:
            with self._changed:
                self._waiting.extend(jobs)
                self._wake()  # a leader may be waiting for reports only
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

    def _wake(self) -> None:
        """Let the leader look for work; called with the lock held."""
        for server in self._holder:
            server.wake()

    def _room(self) -> None:
        """The process has room for more runs, perhaps for ours."""
        with self._changed:
            self._wake()

    def _lead(self, batch: Batch) -> None:
        """Serve all callers until ``batch`` has ended."""
        try:
            while batch.left:
                server = self._started_server()
                if server is None:
                    continue
                try:
                    self._start_waiting(server)
                    if self._active or self._waiting:
                        wait_s = self._limits.wall_s + _UNANSWERED_S if self._active else None
                        for report in server.collect(wait_s):
                            self._take(server, report)
                except (ServerGone, SandboxError, OSError) as error:
                    deaths = _DEATHS // 2 if isinstance(error, ServerHangs) else 1
                    self._lose(f"{type(error).__name__}: {error}", deaths)
        finally:
            capacity.SHARED.withdraw(self)

    def _started_server(self) -> ServerProcess | None:
        """The server; None after an attempt to start one that failed."""
        try:
            server = self._connect()
        except (SandboxError, OSError) as error:
            self._failed_starts += 1
            if self._failed_starts < _STARTS:
                time.sleep(_START_PAUSE_S * 2 ** (self._failed_starts - 1))
                return None
            self._failed_starts = 0
            self._abandon(f"{type(error).__name__}: {error}")
            return None
        self._failed_starts = 0
        return server

    def _abandon(self, fault: str) -> None:
        """No server starts: nothing that waits can run."""
        with self._changed:
            jobs, self._waiting = list(self._waiting), deque()
        for job in jobs:
            for run in job.runs:
                run.fault = fault
            self._done(job)

    def _start_waiting(self, server: ServerProcess) -> None:
        """Start what there is room for, in the order of arrival."""
        while True:
            with self._changed:
                if not self._waiting:
                    return
                job = self._waiting[0]
                if len(job.runs) > self._in_flight - len(self._active) and self._active:
                    return
                cost = sum(self._cost(run) for run in job.runs)
                if not capacity.SHARED.take(job, cost, self, self._room, exclusive=job.exclusive):
                    return
                self._started.add(self._waiting.popleft())
            if not job.begin(self._limits.wall_s):
                self._started.discard(job)
                self._done(job)
                continue
            for run in job.runs:
                self._active[self._next_number(run)] = (job, run)
            if len(job.runs) == 1:
                self._submit(server, job.runs[0])
            else:
                self._submit_pair(server, *job.runs)

    def _cost(self, run: Run) -> int:
        """Bytes that a run can take at most."""
        limits = self._limits
        scratch = 4 * _SCRATCH_FOLDERS if self._flags(run) & wire.SCRATCH else 0
        files = (limits.output_kib << 10) * (2 + scratch)
        memory = (limits.memory_mib + LANGUAGES[self._language].base_mib) << 20
        return limits.processes * (memory + _OWN_BYTES) + files

    def _take(self, server: ServerProcess, report: wire.Report) -> None:
        """Record the end of one run."""
        job, run = self._active.pop(report.run, (None, None))
        if job is None or run is None:
            return
        self._finish(run, report)
        if run.budget is not None:
            run.budget.end(run.begun_s, report.cpu_s)
        job.left -= 1
        if not job.left:
            self._started.discard(job)
            self._settle(job)
        elif run is job.runs[-1]:  # the tests are over
            server.submit(
                wire.Request(wire.STOP, job.runs[0].number, flags=self._flags(job.runs[0]))
            )

    def _settle(self, job: Job) -> None:
        """A job's runs have all ended: it is done, or runs once more without others."""
        killed = [run for run in job.runs if self._killed_by_host(run)]
        if any(run.fault for run in job.runs):
            job.faults += 1
            again = job.faults < _TRIES
        else:
            job.kills += bool(killed)
            again = bool(killed) and (job.kills < _KILLS or not job.exclusive)
        if again:
            job.exclusive = True
            self._requeue([job])
            return
        for run in killed:
            peak_mib = run.report.peak_kib >> 10 if run.report else 0
            run.doing = (
                "memory",
                f"killed by the host with no other run beside it, {peak_mib} MiB resident",
            )
        self._done(job)

    def _killed_by_host(self, run: Run) -> bool:
        """Whether a SIGKILL came from outside: the program's filter lets none send itself one.

        The kernel's own limit of processor time ends in one too, but not before that time is used.
        """
        report = run.report
        if run.fault or report is None or report.reason != wire.BY_ITSELF or self.tier == "none":
            return False
        killed = os.WIFSIGNALED(report.wait_status) and os.WTERMSIG(report.wait_status) == 9
        return killed and report.cpu_s < math.ceil(self._limits.cpu_s)

    def _requeue(self, jobs: Sequence[Job]) -> None:
        """Run jobs again: first those that run beside others, so that a suspect delays no other job."""
        for job in jobs:
            capacity.SHARED.give(job)
        with self._changed:
            self._waiting.extendleft(job for job in reversed(jobs) if not job.exclusive)
            self._waiting.extend(job for job in jobs if job.exclusive)

    def _done(self, job: Job) -> None:
        capacity.SHARED.give(job)
        with self._changed:
            job.batch.left -= 1
            if not job.batch.left:
                self._changed.notify_all()

    def _lose(self, fault: str, deaths: int = 0) -> None:
        """The server is gone, and with it all that it was running; what waits has lost nothing.

        Args:
            fault: why.
            deaths: how heavily that weighs against what it ran; 0 where we ended it ourselves.
        """
        self._disconnect()
        jobs, self._started = list(self._started), set()
        for _, run in self._active.values():
            if run.budget is not None:
                run.budget.end(run.begun_s)
        self._active.clear()
        for job in jobs:
            for run in job.runs:
                run.close()
            job.deaths += deaths
            job.exclusive = job.exclusive or job.deaths >= _DEATHS_BESIDE_OTHERS
        self._requeue([job for job in jobs if job.deaths < _DEATHS])
        for job in jobs:
            if job.deaths >= _DEATHS:
                self._convict(job, fault)

    def _convict(self, job: Job, fault: str) -> None:
        """Say what it means that no server survived a job: its doing, if one survives a control."""
        capacity.SHARED.give(job)
        why = f"no server outlived it ({fault})"
        guilty = self._survives_control()
        for run in job.runs:
            if guilty:
                run.doing = "crashed", why
            else:
                run.fault = f"{why}, and one more with an empty program"
        self._done(job)

    def _survives_control(self) -> bool:
        """Whether a server starts, runs an empty program and is still there."""
        control = Run(codec.dumps({"mode": "script", "program": ""}), wall_s=self._limits.wall_s)
        self._next_number(control)
        try:
            server = self._connect()
            self._submit(server, control)
            while control.report is None:
                for report in server.collect(control.wall_s + _UNANSWERED_S):
                    self._finish(control, report)
        except (ServerGone, SandboxError, OSError):
            control.close()
            self._disconnect()
            return False
        return not control.fault

    def _disconnect(self) -> None:
        with self._changed:  # no thread wakes a server while it closes
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
            wall_s=run.wall_s,
            cpu_s=limits.cpu_s,
            memory_bytes=limits.memory_mib << 20,
            file_bytes=(limits.output_kib << 10) + 1,
            processes=limits.processes,
            threads=limits.threads,
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


_NO_TIER = (
    "no isolation is available here ({why}), so programs could read and change this machine. "
    "Run on Linux 3.17 or later with seccomp, or pass allow_unsafe=True for programs you trust."
)


def _close_all(holder: list[ServerProcess]) -> None:
    while holder:
        with contextlib.suppress(OSError):
            holder.pop().close()


def _in_flight(limits: Limits) -> int:
    """Runs at once: enough that no processor waits for the server, and half of the processes."""
    by_cpu = 2 * (os.cpu_count() or 1) + 1
    by_processes = capacity.process_limit() // 2 // (limits.threads + limits.processes)
    return max(1, min(by_cpu, identities.HALF - 2, by_processes))


def _read(descriptor: int, cap: int) -> bytes:
    data = b""
    while len(data) < cap and (part := os.pread(descriptor, cap - len(data), len(data))):
        data += part
    return data
