"""The memory of this machine that processes share by name."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from srl_agents.own_folders import is_mine, may_live, owner

MEMORY = Path("/dev/shm")
"""Where Linux keeps POSIX shared memory."""
_ROOM = 2**30
"""Bytes that are free there before it is taken unasked; containers begin with 64 MiB."""
_OWNER = ".owner-"
"""File beside the versions; its name goes on with who published them."""


def memory_available() -> bool:
    """Whether it is there, and more than a little of it."""
    if not os.access(MEMORY, os.W_OK):
        return False
    found = os.statvfs(MEMORY)
    return found.f_bavail * found.f_frsize >= _ROOM


def take_folder(folder: Path) -> None:
    """Make a folder there and be its owner; it may hold what an owner that died has published.

    Raises:
        OSError: nothing can be written there.
    """
    while True:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(folder, wait=True) as ours:
            if not ours:
                continue  # it was removed before we had the lock
            for mark in folder.glob(f"{_OWNER}*"):
                if not may_live(mark.name.removeprefix(_OWNER)):
                    mark.unlink(missing_ok=True)
            (folder / f"{_OWNER}{owner()}").touch()
            return


def remove_left_memory(memory: Path = MEMORY) -> None:
    """Remove what dead runs of this user published there."""
    for folder in memory.glob(f"srl-{os.getuid()}-*"):
        if not is_mine(folder):
            continue
        with _alone(folder, wait=False) as ours:
            owners = [mark.name.removeprefix(_OWNER) for mark in folder.glob(f"{_OWNER}*")]
            if ours and owners and not any(map(may_live, owners)):
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _alone(folder: Path, *, wait: bool) -> Iterator[bool]:
    """Whether the folder is locked for this process, and is still there under its name."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _locked(folder, opened, wait)
    finally:
        os.close(opened)


def _locked(folder: Path, opened: int, wait: bool) -> bool:
    """Whether the lock is ours, and the name still leads to what was opened."""
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return os.path.samestat(folder.lstat(), os.fstat(opened))
    except (BlockingIOError, FileNotFoundError):
        return False
