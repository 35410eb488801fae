"""Looking at the processes of a server, and ending them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def descendants(pid: int) -> set[int]:
    """Processes below `pid`, itself included, as far as they are alive."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name_free = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if name_free[0] != "Z":
            children.setdefault(int(name_free[1]), []).append(int(stat.parent.name))
    found, todo = set(), [pid]
    while todo:
        one = todo.pop()
        if Path(f"/proc/{one}").exists():
            found.add(one)
        todo += children.get(one, [])
    return found


def send(pids: set[int], signal_number: int) -> None:
    """Signal all of them; one that ended with another of them (or by itself) is not a failure."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal_number)
