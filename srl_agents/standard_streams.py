"""Standard output whose errors name it, and standard error whose errors change nothing.

A full device or a closed reader raises wherever text is written. The name separates such an error from one of
a file. Text that standard error cannot take is dropped: the exit status still shows how the command ended.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any

OUTPUT = "standard output"
"""Name of the file in errors of writing to it."""


@contextlib.contextmanager
def named_streams() -> Iterator[None]:
    """Replace this process's own streams inside; streams that a caller has put there stay."""
    before = sys.stdout, sys.stderr
    if sys.stdout is sys.__stdout__:
        sys.stdout = _over(sys.stdout, _Output)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _over(sys.stderr, _Messages)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):  # the caller has met it, or closed it
            sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def discard_output() -> None:
    """Let what is still buffered, and all that follows, go nowhere: it would raise again."""
    with contextlib.suppress(OSError, ValueError):  # a caller's stream without a descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, OUTPUT) from None


class _Messages(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _over(stream: Any, kind: type[io.FileIO]) -> io.TextIOWrapper:
    """A stream of this kind on the same descriptor."""
    with contextlib.suppress(OSError):
        stream.flush()
    raw = kind(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
