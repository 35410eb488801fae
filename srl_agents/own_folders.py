"""Folders that are removed when their process ends; those of killed processes are removed at the next start.

A name holds its owner: the machine since its start, the process id and when that process began. So an id
that is used again is another owner, and what another machine or container left in a shared folder stays.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OWNER = re.compile(r"([0-9a-f]{12})-(\d+)-(\d+)")
_OWNED = re.compile(r"srl-[a-z-]+-([0-9a-f]{12}-\d+-\d+)-[^/]*")
_BEGAN, _STATE = 19, 0
"""Fields of /proc/PID/stat behind the name. Source: proc(5)."""


def owner() -> str:
    """This process as a part of a name."""
    pid = os.getpid()
    return f"{_machine()}-{pid}-{_began(pid) or 0}"


def may_live(owner: str) -> bool:
    """Whether an owner lives or may live: owners of other machines or containers cannot be checked."""
    named = _OWNER.fullmatch(owner)
    return named is None or named[1] != _machine() or _began(int(named[2])) == int(named[3])


def is_mine(path: Path) -> bool:
    """Whether this is a folder of this user, and no link."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def new_folder(kind: str, parent: Path | None = None) -> Path:
    """An empty folder of this process; those in the same place whose owner is dead are removed.

    Args:
        kind: what it is for, such as ``adapters``.
        parent: where; None: the system's folder for temporary files.

    Raises:
        OSError: nothing can be written there.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    remove_left(parent)
    return Path(tempfile.mkdtemp(prefix=f"srl-{kind}-{owner()}-", dir=parent))


@contextmanager
def scratch(kind: str) -> Iterator[Path]:
    """A `new_folder` that is removed at the end."""
    folder = new_folder(kind)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_left(parent: Path | None = None) -> None:
    """Remove the folders of this user whose owner is dead; None: in the system's temporary folder."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    for path in parent.glob("srl-*"):
        named = _OWNED.fullmatch(path.name)
        if named is not None and is_mine(path) and not may_live(named[1]):
            shutil.rmtree(path, ignore_errors=True)


def rename_durably(work: Path, final: Path) -> None:
    """Give a finished folder its name, so that after a power cut it is whole or not there."""
    for path in work.rglob("*"):
        flush(path)
    flush(work)
    work.rename(final)
    flush(final.parent)


def flush(path: Path) -> None:
    """Make the kernel write a file or a folder's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _began(pid: int) -> int | None:
    """When a process began, in ticks since the machine did; None if it is dead, waited for or not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[_STATE] in "ZX" else int(fields[_BEGAN])


@functools.cache
def _machine() -> str:
    """This start of this machine, and the container."""
    try:
        booted = Path("/proc/sys/kernel/random/boot_id").read_text()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return uuid.uuid4().hex[:12]  # owners cannot be checked, so nothing is removed
    return hashlib.sha256(f"{booted} {space}".encode()).hexdigest()[:12]
