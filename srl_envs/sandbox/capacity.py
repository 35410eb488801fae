"""Memory and processes that all executors of this process may give to runs.

What counts is the smallest limit on the way: the machine's, and that of every control group
(versions 1 and 2) that this process is in, as far as they can be seen.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_KEPT_S = 0.25  # seconds for which a look at the free memory counts
_UNLIMITED = 1 << 62  # version 1 writes a number of this size for no limit
_HELD_EXCLUSIVELY = 1 << 62


class Room(NamedTuple):
    """Room in bytes of memory."""

    limit: int
    """Smallest limit."""
    free: int
    """What could be used now; the page cache counts as free."""


def memory_room(root: Path = Path("/")) -> Room:
    """Limit and free bytes of the machine and of all control groups on the way.

    Args:
        root: where ``proc`` and the mount points are; tests pass a folder.
    """
    host = _keyed_numbers(root / "proc/meminfo")
    total = host.get("MemTotal:", 0) << 10 or _physical_bytes()
    room = Room(total, host.get("MemAvailable:", total >> 10) << 10)
    for folder in _groups("memory", root):
        limit = min(_limits(folder), default=_UNLIMITED)
        if limit >= _UNLIMITED:
            continue
        cache = _keyed_numbers(folder / "memory.stat")
        reclaimable = cache.get("inactive_file", 0) + cache.get("active_file", 0)
        used = _number(folder / "memory.current", folder / "memory.usage_in_bytes") or 0
        room = Room(min(room.limit, limit), min(room.free, limit - max(used - reclaimable, 0)))
    return Room(room.limit, max(room.free, 0))


def process_limit(root: Path = Path("/")) -> int:
    """Smallest number of processes and threads that a control group on the way allows."""
    found = (_number(folder / "pids.max") for folder in _groups("pids", root))
    return min((number for number in found if number is not None), default=_UNLIMITED)


def _limits(folder: Path) -> Iterator[int]:
    for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
        number = _number(folder / name)
        if number is not None:
            yield number
    seen_above = _keyed_numbers(folder / "memory.stat").get("hierarchical_memory_limit")
    if seen_above is not None:  # of groups that a container does not see
        yield seen_above


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Folders of this process's control groups and of those above them, innermost first."""
    places = _text(root / "proc/self/cgroup").splitlines()
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        seen, kind = before.split(), after.split()
        if len(seen) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        if kind[0] == "cgroup" and controller not in kind[2].split(","):
            continue
        mount = root / _unescaped(seen[4]).lstrip("/")
        for place in places:
            _, names, path = place.split(":", 2)
            if (controller in names.split(",")) if kind[0] == "cgroup" else (names == ""):
                folder = mount / _below(path, _unescaped(seen[3]))
                yield folder
                while folder != mount:
                    folder = folder.parent
                    yield folder


def _below(path: str, top: str) -> str:
    """A group's path seen from the group that is mounted; "" where it lies outside of it."""
    relative = os.path.relpath(path, top)
    return "" if relative == "." or relative.startswith("..") else relative


def _unescaped(path: str) -> str:
    return path.replace("\\040", " ")


def _keyed_numbers(path: Path) -> dict[str, int]:
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) >= 2 and row[1].isdigit()}


def _number(*paths: Path) -> int | None:
    """The number in the first of the files that holds one; "max" is none."""
    for path in paths:
        text = _text(path).strip()
        if text.isdigit():
            return int(text)
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _physical_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Capacity:
    """Memory that runs have been promised. Thread-safe; who finds no room is called when there may be.

    Runs are promised at most half of the limit, and together no more than is free besides what the
    running ones may still take. One run always fits: a host that cannot hold it will say so itself.

    Args:
        look: limit and free bytes.
        clock: seconds.
    """

    def __init__(
        self,
        look: Callable[[], Room] = memory_room,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Start over, in a forked process: what its parent runs is the parent's."""
        self._lock = threading.Lock()
        self._held: dict[object, int] = {}
        self._queue: dict[object, Callable[[], None]] = {}
        self._seen: tuple[float, int] | None = None

    def take(
        self,
        job: object,
        cost: int,
        who: object,
        wake: Callable[[], None],
        *,
        exclusive: bool = False,
    ) -> bool:
        """Promise memory to a job; False without room, or while another one waits longer.

        Args:
            job: key for `give`.
            cost: bytes.
            who: waits in line after a refusal, until it is served or calls `withdraw`.
            wake: called, from any thread, when there may be room.
            exclusive: only while nothing else runs, and nothing else may start until `give`.
        """
        with self._lock:
            first = next(iter(self._queue), who) is who
            free = not self._held
            if first and (free or (not exclusive and self._fits(cost))):
                self._queue.pop(who, None)
                self._held[job] = _HELD_EXCLUSIVELY if exclusive else cost
                return True
            self._queue[who] = wake
            return False

    def _fits(self, cost: int) -> bool:
        now = self._clock()
        if self._seen is None or now - self._seen[0] > _KEPT_S:
            room = self._look()
            self._seen = now, min(room.limit // 2, room.free)
        return sum(self._held.values()) + cost <= self._seen[1]

    def give(self, job: object) -> None:
        """Return the memory of a job that has ended."""
        with self._lock:
            self._held.pop(job, None)
            waiting = list(self._queue.values())
        for wake in waiting:
            wake()

    def withdraw(self, who: object) -> None:
        """Stop waiting for room."""
        with self._lock:
            self._queue.pop(who, None)
            waiting = list(self._queue.values())
        for wake in waiting:
            wake()


SHARED = Capacity()
"""Capacity of this process, shared by all executors."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SHARED.forget)
