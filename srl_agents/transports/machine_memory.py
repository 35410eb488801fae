"""The memory of this machine that processes share by name."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from srl_agents import file_lock
from srl_agents.own_folders import is_mine, may_live, owner

MEMORY = Path("/dev/shm")
"""Folder in which Linux keeps POSIX shared memory."""
_ROOM = 2**30
"""Bytes that are free there before it is taken unasked; containers begin with 64 MiB."""
_OWNER = ".owner-"
"""File beside the versions; its name goes on with who published them, and with a number of that process."""
_NUMBERS = itertools.count()


def memory_available() -> bool:
    """Whether it is there, and more than a little of it."""
    if not os.access(MEMORY, os.W_OK):
        return False
    found = os.statvfs(MEMORY)
    return found.f_bavail * found.f_frsize >= _ROOM


def take_folder(folder: Path) -> Path:
    """Make a folder there and be an owner of it; it may hold what an owner that died has published.

    Returns:
        The mark of ownership, for `leave_folder`.

    Raises:
        OSError: the folder cannot be written, or it exists and other users may write to it.
    """
    while True:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_private(folder)
        with _alone(folder, wait=True) as ours:
            if not ours:
                continue  # it was removed before we had the lock
            for mark in _marks(folder):
                if not _may_own(mark):
                    mark.unlink(missing_ok=True)
            own = folder / f"{_OWNER}{owner()}.{next(_NUMBERS)}"
            own.touch()
            return own


def leave_folder(mark: Path) -> None:
    """Own a folder no longer; the last owner that may live takes it away."""
    folder = mark.parent
    with contextlib.suppress(OSError), _alone(folder, wait=True) as ours:
        if ours:
            mark.unlink(missing_ok=True)
            if not any(map(_may_own, _marks(folder))):
                shutil.rmtree(folder, ignore_errors=True)


def require_private(folder: Path) -> None:
    """Refuse a folder in which another user could put something.

    Raises:
        OSError: it is not there, not this user's, or others may open it.
    """
    if not is_mine(folder):
        raise OSError(f"{folder} is not there, or no folder of this user")
    mode = stat.S_IMODE(folder.lstat().st_mode)
    if mode & 0o077:
        raise OSError(f"{folder} is open to other users (mode {mode:o}); delete it")


def remove_left_memory(memory: Path = MEMORY) -> None:
    """Remove what dead runs of this user published there."""
    for folder in memory.glob(f"srl-{os.getuid()}-*"):
        if not is_mine(folder):
            continue
        with _alone(folder, wait=False) as ours:
            marks = _marks(folder)
            if ours and marks and not any(map(_may_own, marks)):
                shutil.rmtree(folder, ignore_errors=True)


def _marks(folder: Path) -> list[Path]:
    return list(folder.glob(f"{_OWNER}*"))


def _may_own(mark: Path) -> bool:
    """Whether who made a mark may live."""
    return may_live(mark.name.removeprefix(_OWNER).partition(".")[0])


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
        file_lock.lock(opened, wait=wait)
        return os.path.samestat(folder.lstat(), os.fstat(opened))
    except (BlockingIOError, FileNotFoundError):
        return False
