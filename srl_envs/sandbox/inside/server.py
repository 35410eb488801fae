"""The fork server: confines itself, then starts one process per run and watches it from outside.

It reads requests and reports ends (`wire`); programs, inputs and outputs never pass through it.
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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import confine, kernel, preload, programs, wire

_POLL_S = 0.005  # shortest pause between two looks at a program's processor time
_GRACE_S = 1.0  # after a kill, before the next one
_SLOTS_BYTES = socket.CMSG_SPACE(len(wire.SLOTS) * array.array("i").itemsize)


@dataclass(slots=True)
class _Live:
    """A program that is running."""

    request: wire.Request
    started: float
    look_at: float
    reason: int = wire.BY_ITSELF


def main(settings_json: str) -> None:
    """Serve until the trusted side goes away."""
    settings = json.loads(settings_json)
    control = socket.socket(fileno=settings["control"])
    preload.load(preload.COMMON)
    confinement = confine.strongest(settings, settings["control"])
    greeting = {
        "tier": confinement.tier,
        "layers": confinement.layers,
        "missing": confinement.missing,
    }
    hello = json.dumps(greeting).encode()
    control.sendall(len(hello).to_bytes(4, "little") + hello)
    programs.rehearse()
    gc.collect()
    gc.freeze()
    gc.disable()
    Server(control, confinement).serve()


class Server:
    """Forks, watches and reports; single-threaded."""

    def __init__(self, control: socket.socket, confinement: confine.Confinement) -> None:
        self._control = control
        self._confinement = confinement
        self._live: dict[int, _Live] = {}
        self._confined: set[int] = set()
        self._started_read, self._started_write = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._started_read, self._wake_read, self._wake_write):
            os.set_blocking(end, False)

    def serve(self) -> None:
        """Handle requests until the control socket closes."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(self._pause_ms())}
            if self._wake_read in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            if self._control.fileno() in ready:
                self._take_request()
            self._reap()
            self._enforce()

    def _pause_ms(self) -> float | None:
        if not self._live:
            return None
        wait_s = min(live.look_at for live in self._live.values()) - time.monotonic()
        return max(wait_s * 1000, 0) + 1

    def _take_request(self) -> None:
        request, descriptors = _receive(self._control)
        if request.operation == wire.STOP:
            for pid, live in self._live.items():
                if live.request.run == request.run:
                    self._kill(pid, live, wire.STOPPED)
            return
        try:
            pid = kernel.fork()
        except OSError as error:
            self._report(wire.Report(request.run, error.errno or 0, wire.NO_FORK, 0, 0.0, 0))
        else:
            if pid == 0:
                self._become_program(request, descriptors)
            now = time.monotonic()
            self._live[pid] = _Live(request, now, now + min(request.wall_s, request.cpu_s))
        for descriptor in descriptors:
            os.close(descriptor)

    def _become_program(self, request: wire.Request, descriptors: Sequence[int]) -> None:
        try:
            # not through `signal`, whose enumerations would touch a hundred pages
            _signal.set_wakeup_fd(-1)
            _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
            self._confinement.run(request, descriptors, self._started_write)
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
            self._control.sendall(report.pack())
        except OSError:  # the trusted side is gone
            os._exit(0)


def _receive(control: socket.socket) -> tuple[wire.Request, list[int]]:
    """The next request and its descriptors; ends the process when there will be none."""
    data, descriptors = b"", array.array("i")
    while len(data) < wire.REQUEST_BYTES:
        try:
            part, ancillary, _, _ = control.recvmsg(wire.REQUEST_BYTES - len(data), _SLOTS_BYTES)
        except OSError:
            part, ancillary = b"", []
        if not part:
            os._exit(0)  # and with it, as process 1, everything in its namespace
        data += part
        for _, _, body in ancillary:
            descriptors.frombytes(body[: len(body) - len(body) % descriptors.itemsize])
    return wire.Request.unpack(data), list(descriptors)


def _cpu_s(pid: int) -> float:
    """Processor seconds of another process, without /proc; see clock_getcpuclockid(3)."""
    if sys.platform != "linux":
        return 0.0  # RLIMIT_CPU alone
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _ignore(*_: Any) -> None:
    """A handler, so that the signal wakes the poll."""
