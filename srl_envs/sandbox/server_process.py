"""The trusted end of the fork server: start it, hand it runs, collect what it measured."""

from __future__ import annotations

import compileall
import contextlib
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from typing import Any

from srl_envs.errors import SandboxError
from srl_envs.sandbox.inside.languages import LANGUAGES
from srl_envs.sandbox.inside.wire import REPORT_BYTES, Report, Request

_INSIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside")
_START_S = 60.0
_STOP_S = 2.0
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/box",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",  # the same program prints its sets in the same order every time
    "PYTHONDONTWRITEBYTECODE": "1",
    "LD_BIND_NOW": "1",  # else every program would look up the C library's functions anew
    "MALLOC_ARENA_MAX": "1",  # each further one would take 128 MiB of address space
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

_inherited: weakref.WeakSet[ServerProcess] = weakref.WeakSet()


class ServerGone(Exception):
    """The fork server is gone."""


class ServerHangs(ServerGone):
    """The fork server stopped answering."""


class ServerProcess:
    """One running fork server. Not thread-safe; the executor holds a lock around its use.

    Args:
        tier: strongest tier to try, as in `inside.confine.TIERS`.
        packages: names of installed packages that programs may import.
        preload: modules of these packages to import now.
        language: of the programs, as in `inside.languages`.

    Raises:
        SandboxError: the server cannot be started, or the language's interpreter is not installed.
    """

    def __init__(
        self,
        tier: str,
        packages: Sequence[str],
        preload: Sequence[str] = (),
        language: str = "python",
    ) -> None:
        _compile_inside()
        interpreter = _interpreter(language)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        settings = {
            "control": theirs.fileno(),
            "tier": tier,
            "packages": list(packages),
            "preload": list(preload),
            "search": [path for path in sys.path if path],
            "language": language,
            "interpreter": interpreter,
        }
        python = getattr(sys, "_base_executable", None) or sys.executable
        errors, settings_file = memory_file(), memory_file(json.dumps(settings).encode())
        try:
            self._process = subprocess.Popen(
                [python, "-s", "-S", "-B", _INSIDE, str(settings_file)],
                env=_ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=[theirs.fileno(), settings_file],
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(errors)
            raise SandboxError(f"cannot start {python}: {error}") from error
        finally:
            theirs.close()
            os.close(settings_file)
        self._control = ours
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        self._pending = b""
        self.closed = False
        _inherited.add(self)
        try:
            self.greeting = self._greeting()
        except (OSError, ValueError) as error:
            self.close()
            detail = os.pread(errors, 2000, 0).decode("utf-8", "replace").strip()
            reason = detail.splitlines()[-1] if detail else str(error)
            raise SandboxError(f"the sandbox server did not start: {reason}") from error
        finally:
            os.close(errors)

    @property
    def pid(self) -> int:
        """Process id, as the host sees it."""
        return self._process.pid

    def _greeting(self) -> dict[str, Any]:
        self._control.settimeout(_START_S)
        size = int.from_bytes(self._exactly(4), "little")
        greeting: dict[str, Any] = json.loads(self._exactly(size))
        self._control.settimeout(None)
        return greeting

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._control.recv(count - len(data))
            if not part:
                raise OSError("it ended")
            data += part
        return data

    def submit(self, request: Request, descriptors: Sequence[int] = ()) -> None:
        """Send a request; the descriptors stay the caller's to close.

        Raises:
            ServerGone: the server is gone.
        """
        data = request.pack()
        try:
            sent = socket.send_fds(self._control, [data], descriptors)
            if sent < len(data):
                self._control.sendall(data[sent:])
        except OSError as error:
            raise ServerGone(str(error)) from error

    def wake(self) -> None:
        """Let a `collect` in another thread return at once."""
        if not self.closed:
            with contextlib.suppress(BlockingIOError):  # full: it is awake
                os.write(self._wake_write, b"x")

    def collect(self, timeout_s: float | None) -> list[Report]:
        """Reports that have arrived; waits for the first of them, or for `wake`.

        Args:
            timeout_s: None to wait without end.

        Raises:
            ServerGone: it ended.
            ServerHangs: nothing came in time.
        """
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        ready = {
            descriptor
            for descriptor, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)
        }
        if not ready:
            raise ServerHangs(f"no report within {timeout_s:.0f} s")
        if self._wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_read, 4096)
        if self._control.fileno() not in ready:
            return []
        try:
            data = self._control.recv(64 * REPORT_BYTES)
        except OSError as error:
            raise ServerGone(str(error)) from error
        if not data:
            raise ServerGone("it ended")
        self._pending += data
        whole = len(self._pending) - len(self._pending) % REPORT_BYTES
        data, self._pending = self._pending[:whole], self._pending[whole:]
        return [Report.unpack(data[at : at + REPORT_BYTES]) for at in range(0, whole, REPORT_BYTES)]

    def close(self) -> None:
        """End the server and everything it started; waits until it is gone."""
        if self.closed:
            return
        self._let_go()  # the closed socket is its sign to leave
        deadline = time.monotonic() + _STOP_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def forget(self) -> None:
        """In a forked copy of the trusted process: let go without touching the parent's server."""
        self._let_go()
        self._process.returncode = 0  # no child of this process

    def _let_go(self) -> None:
        if not self.closed:
            self.closed = True
            self._control.close()
            os.close(self._wake_read)
            os.close(self._wake_write)


@functools.cache
def _compile_inside() -> None:
    """Compile the modules of the server where that is allowed: it writes no files itself.

    Without compiled files each start takes twice the time of the processor.
    """
    if not sys.dont_write_bytecode:
        compileall.compile_dir(_INSIDE, quiet=2, optimize=0)


def _interpreter(language: str) -> str:
    """Path of the executable that runs programs of a language; empty for Python."""
    command = LANGUAGES[language].command
    if not command:
        return ""
    found = shutil.which(command[0])
    if found is None:
        raise SandboxError(
            f"{language} programs need {command[0]!r}, which is not on the PATH; install it."
        )
    return os.path.realpath(found)


def memory_file(data: bytes = b"") -> int:
    """Descriptor of an anonymous file, positioned at its start; the caller closes it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("sandbox")
    else:
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)
    at = 0
    while at < len(data):
        at += os.pwrite(descriptor, data[at:], at)
    return descriptor


def _forget_all() -> None:
    for server in list(_inherited):
        server.forget()


if hasattr(os, "register_at_fork"):
    # A copy of the control socket would keep the server alive after its owner.
    os.register_at_fork(after_in_child=_forget_all)
