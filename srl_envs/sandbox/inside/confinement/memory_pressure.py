"""OOM scores: when memory runs out, the kernel ends a run before the server, which reports the outcome."""

from __future__ import annotations

import contextlib
import os

from . import kernel

_SERVER, _RUN = 500, 1000
"""Badness per thousand of memory (`oom_score_adj`): a run before the server, and the server before
the process that started it."""
_FILE = "self/oom_score_adj"


def open_processes() -> int:
    """Descriptor of /proc, for processes that will not see it; -1 where there is none."""
    with contextlib.suppress(OSError):
        return os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return -1


class Badness:
    """The server's own badness, which its runs inherit at the fork.

    Args:
        processes: from `open_processes`; -1 changes nothing.
    """

    def __init__(self, processes: int) -> None:
        self._file = -1
        if processes < 0:
            return
        kernel.dumpable(True)  # else the file is root's
        with contextlib.suppress(OSError):
            self._file = os.open(_FILE, os.O_RDWR | os.O_CLOEXEC, dir_fd=processes)
        kernel.dumpable(False)
        if self._file >= 0:
            self._usual = max(_SERVER, int(os.pread(self._file, 20, 0)))
            self.of_server()

    def of_server(self) -> None:
        """Set the score of this process to that of a server."""
        self._set(self._usual)

    def of_runs(self) -> None:
        """Set the score for processes that are forked until `of_server`."""
        self._set(_RUN)

    def _set(self, value: int) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.pwrite(self._file, b"%d" % value, 0)

    _usual = _SERVER
