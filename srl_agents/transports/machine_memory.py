"""The memory of this machine that processes share by name."""

from __future__ import annotations

import os
from pathlib import Path

MEMORY = Path("/dev/shm")
"""Where Linux keeps POSIX shared memory."""
_ROOM = 2**30
"""Bytes that are free there before it is taken unasked; containers begin with 64 MiB."""


def memory_available() -> bool:
    """Whether it is there, and more than a little of it."""
    if not os.access(MEMORY, os.W_OK):
        return False
    found = os.statvfs(MEMORY)
    return found.f_bavail * found.f_frsize >= _ROOM
