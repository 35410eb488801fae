"""The fork server: confines itself, then starts one process per run and watches it from outside.

It reads requests and reports ends (`wire`); programs, inputs and outputs never pass through it.

What takes time is copying pages: every page that a program's process writes to, and every page that
the server writes to after a fork, is copied by the kernel. So whatever is the same for all programs
the server does once, to itself, before it serves: Landlock, capabilities, constant limits. Runs that
need more on their way in (a scratch directory is a mount) start from a second process, the porter,
which keeps those rights.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found,unused-ignore]
import array
import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from . import wire
from .confinement import identities, kernel, memory_pressure
from .confinement import layers as confine
from .program import execution as programs

_POLL_S = 0.005  # shortest pause between two looks at a program's processor time
_GRACE_S = 1.0  # after a kill, before the next one
_SLOTS_BYTES = socket.CMSG_SPACE(len(wire.SLOTS) * array.array("i").itemsize)


@dataclass(slots=True)
class _Live:
    """A program that is running."""

    request: wire.Request
    started: float
    look_at: float
    slot: int
    """Slot of the run's identity."""
    reason: int = wire.BY_ITSELF


def main(settings_file: int) -> None:
    """Serve until the trusted side goes away.

    Args:
        settings_file: descriptor; a command line would be in sight of every program.
    """
    settings = json.loads(confine.read_all(settings_file))
    confine.occupy()
    control = socket.socket(fileno=os.dup(settings["control"]))
    for taken in (settings_file, settings["control"]):
        os.dup2(os.open(os.devnull, os.O_RDWR), taken)
    confinement = confine.strongest(settings | {"control": control.fileno()})
    porter = None
    if confinement.tier == "namespaces":
        porter = _start_porter(control, confinement)
    badness = memory_pressure.Badness(confinement.processes)
    confinement.enter()
    greeting = {
        "tier": confinement.tier,
        "layers": confinement.layers,
        "missing": confinement.missing,
    }
    hello = json.dumps(greeting).encode()
    control.sendall(len(hello).to_bytes(4, "little") + hello)
    _serve(control, control, confinement, (badness, 0), porter)


def _start_porter(control: socket.socket, confinement: confine.Confinement) -> socket.socket:
    """Fork the process that starts the runs with a scratch directory; where to send those."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.fork() == 0:
        ours.close()
        badness = memory_pressure.Badness(confinement.processes)
        _serve(theirs, control, confinement, (badness, identities.HALF), None)
    theirs.close()
    return ours


def _serve(
    requests: socket.socket,
    reports: socket.socket,
    confinement: confine.Confinement,
    share: tuple[memory_pressure.Badness, int],
    porter: socket.socket | None,
) -> NoReturn:
    server = Server(requests, reports, confinement, share, porter)
    confinement.rehearse()
    programs.rehearse()
    gc.collect()
    gc.freeze()
    gc.disable()
    server.serve()
    os._exit(0)


class Server:
    """Forks, watches and reports; single-threaded.

    Args:
        requests: where they come from; the server ends when it closes.
        reports: where they go.
        confinement: of the programs.
        share: this process's badness, and the first of its `identities.HALF` slots.
        porter: takes the runs that cannot start from this process.
    """

    def __init__(
        self,
        requests: socket.socket,
        reports: socket.socket,
        confinement: confine.Confinement,
        share: tuple[memory_pressure.Badness, int],
        porter: socket.socket | None,
    ) -> None:
        self._requests = requests
        self._reports = reports
        self._confinement = confinement
        self._badness, first = share
        self._slots = deque(range(first, first + identities.HALF))
        self._porter = porter
        self._live: dict[int, _Live] = {}
        self._confined: set[int] = set()
        self._started_read, started_write = os.pipe()
        confinement.park(started_write)
        os.close(started_write)
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._started_read, self._wake_read, self._wake_write):
            os.set_blocking(end, False)

    def serve(self) -> None:
        """Handle requests until the control socket closes."""
        for _ in range(programs.REHEARSALS):
            _reset_signals()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._requests, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        if self._porter is not None:
            poll.register(self._porter, 0)  # only its end
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(self._pause_ms())}
            if self._porter is not None and self._porter.fileno() in ready:
                os._exit(confine.SETUP_FAILED)
            if self._wake_read in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            if self._requests.fileno() in ready:
                self._take_requests()
            self._reap()
            self._enforce()

    def _pause_ms(self) -> float | None:
        if not self._live:
            return None
        wait_s = min(live.look_at for live in self._live.values()) - time.monotonic()
        return max(wait_s * 1000, 0) + 1

    def _take_requests(self) -> None:
        """Start all runs that are asked for by now, one right after the other.

        Between two forks as little as possible is written to, as each page would be copied again.
        """
        starts = []
        for request, descriptors in _receive_all(self._requests):
            if self._porter is not None and request.flags & wire.SCRATCH:
                socket.send_fds(self._porter, [request.pack()], descriptors)
                _close(descriptors)
            elif request.operation == wire.STOP:
                self._stop(request.run)
            else:
                starts.append((request, descriptors))
        if not starts:
            return
        begun = []
        self._badness.of_runs()
        for request, descriptors in starts:
            slot = self._slots.popleft()
            try:
                pid = kernel.fork()
            except OSError as error:
                pid = -(error.errno or 1)
            if pid == 0:
                self._become_program(request, descriptors, slot)
            begun.append((pid, slot))
        self._badness.of_server()
        now = time.monotonic()
        for (pid, slot), (request, descriptors) in zip(begun, starts, strict=True):
            _close(descriptors)
            if pid > 0:
                look_at = now + min(request.wall_s, request.cpu_s)
                self._live[pid] = _Live(request, now, look_at, slot)
            else:
                self._slots.append(slot)
                self._report(wire.Report(request.run, -pid, wire.NO_FORK, 0, 0.0, 0))

    def _stop(self, run: int) -> None:
        for pid, live in self._live.items():
            if live.request.run == run:
                self._kill(pid, live, wire.STOPPED)

    def _become_program(self, request: wire.Request, descriptors: Sequence[int], slot: int) -> None:
        try:
            _reset_signals()
            self._confinement.run(request, descriptors, slot)
        finally:
            os._exit(confine.SETUP_FAILED)

    def _reap(self) -> None:
        while self._live:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            live = self._live.pop(pid, None)
            if live is None:
                continue
            self._slots.append(live.slot)
            self._read_started()
            run, reason = live.request.run, live.reason
            confined = run in self._confined
            self._confined.discard(run)
            cpu_s = usage.ru_utime + usage.ru_stime
            self._report(wire.Report(run, status, reason, confined, cpu_s, usage.ru_maxrss))

    def _read_started(self) -> None:
        """Each run writes its number here right before its program starts, which has no way back to it."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._started_read, 4096):
                self._confined.update(array.array("I", data))

    def _enforce(self) -> None:
        now = time.monotonic()
        for pid, live in self._live.items():
            if now < live.look_at:
                continue
            used = _cpu_s(pid)
            request = live.request
            if used >= request.cpu_s:
                self._kill(pid, live, wire.CPU)
            elif now - live.started >= request.wall_s:
                self._kill(pid, live, wire.WALL)
            else:
                rest_s = max(request.cpu_s - used, _POLL_S)
                live.look_at = min(now + rest_s, live.started + request.wall_s)

    def _kill(self, pid: int, live: _Live, reason: int) -> None:
        live.reason = live.reason or reason
        live.look_at = time.monotonic() + _GRACE_S
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)

    def _report(self, report: wire.Report) -> None:
        try:
            self._reports.sendall(report.pack())
        except OSError:  # the trusted side is gone
            os._exit(0)


def _receive_all(requests: socket.socket) -> Iterator[tuple[wire.Request, list[int]]]:
    """The requests that are there, with their descriptors; ends the process when none will come."""
    wait = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            yield _receive(requests, wait)
            wait = socket.MSG_DONTWAIT


def _receive(requests: socket.socket, wait: int) -> tuple[wire.Request, list[int]]:
    data, descriptors = b"", array.array("i")
    while len(data) < wire.REQUEST_BYTES:
        rest = wire.REQUEST_BYTES - len(data)
        try:
            part, ancillary, _, _ = requests.recvmsg(rest, _SLOTS_BYTES, 0 if data else wait)
        except BlockingIOError:
            raise
        except OSError:
            part, ancillary = b"", []
        if not part:
            os._exit(0)  # and with it, as process 1, everything in its namespace
        data += part
        for _, _, body in ancillary:
            descriptors.frombytes(body[: len(body) - len(body) % descriptors.itemsize])
    return wire.Request.unpack(data), list(descriptors)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _cpu_s(pid: int) -> float:
    """Processor seconds of another process, without /proc; see clock_getcpuclockid(3)."""
    if sys.platform != "linux":
        return 0.0  # only RLIMIT_CPU
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _reset_signals() -> None:
    """Reset signal handlers without `signal`, whose enumerations touch a hundred pages."""
    _signal.set_wakeup_fd(-1)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def _ignore(*_: Any) -> None:
    """A handler, so that the signal wakes the poll."""
