"""Work in a child process: its memory is freed with it, its output is kept, and its cost is measured."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Spent:
    """Time and memory that a child process took."""

    cpu_s: float
    wall_s: float


def in_child(work: Callable[[], int], log: Path) -> Spent | None:
    """Fork, work, and wait.

    Args:
        work: returns the child's exit code; a traceback is a failure too.
        log: gets what the child writes to its standard streams.

    Returns:
        Its cost; None if it failed, with the end of the log on the standard error stream.
    """
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = multiprocessing.get_context("fork").Process(target=_child, args=(work, log))
    process.start()
    process.join()
    if process.exitcode:
        print(f"{log.name} failed:\n{log.read_text()[-1500:]}", file=sys.stderr, flush=True)
        return None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(round(cpu_s, 1), round(time.monotonic() - started, 1))


def _child(work: Callable[[], int], log: Path) -> None:
    with log.open("w") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        sys.exit(work())


def commit() -> str:
    """Of the working tree, for a row of results."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True
    )
    return found.stdout.strip() or "unknown"
