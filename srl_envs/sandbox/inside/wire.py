"""Fixed-size messages between the trusted process and the fork server. Nothing else is exchanged.

A request carries its file descriptors beside it (`SCM_RIGHTS`), in the order of `SLOTS`. The server
reads none of them: program, inputs and outputs pass it by.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

SLOTS = ("payload", "stdin", "stdout", "result")

# what a request asks for
RUN = 1
STOP = 2

# flags of a request
SCRATCH = 1
"""A private, size-limited /tmp that disappears with the run."""

# why the server ended a run
BY_ITSELF = 0
WALL = 1
CPU = 2
STOPPED = 3
NO_FORK = 4

_REQUEST = struct.Struct("<IIddQQIIII")
_REPORT = struct.Struct("<IiIIdQ")
REQUEST_BYTES = _REQUEST.size
REPORT_BYTES = _REPORT.size


class Request(NamedTuple):
    """One run to start, or to stop."""

    operation: int
    run: int
    """Number of the run, chosen by the trusted side."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    memory_bytes: int = 0
    file_bytes: int = 0
    processes: int = 1
    threads: int = 128
    files: int = 64
    flags: int = 0

    def pack(self) -> bytes:
        """The request as `REQUEST_BYTES` bytes."""
        return _REQUEST.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> Request:
        """Inverse of `pack`."""
        return cls(*_REQUEST.unpack(data))


class Report(NamedTuple):
    """How one run ended, as measured from outside it."""

    run: int
    wait_status: int
    """As from `os.wait4`; an errno where the reason is `NO_FORK`."""
    reason: int
    confined: int
    """1 once every layer was in place and the program could start; a 0 is never its fault."""
    cpu_s: float
    peak_kib: int

    def pack(self) -> bytes:
        """The report as `REPORT_BYTES` bytes."""
        return _REPORT.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> Report:
        """Inverse of `pack`."""
        return cls(*_REPORT.unpack(data))
