"""A lock on a file, which the kernel drops when its process dies (flock(2)); Windows has none."""

from __future__ import annotations

from typing import IO, Any

from srl_envs.errors import ConfigError

try:
    import fcntl
except ModuleNotFoundError:  # commands that lock nothing work without
    fcntl = None  # type: ignore[assignment]


def lock(file: IO[Any] | int, *, wait: bool = True) -> None:
    """Lock an open file for this process.

    Args:
        file: or its descriptor. The lock ends when it is closed.
        wait: for another process that has it.

    Raises:
        BlockingIOError: another process has it, and `wait` is off.
        ConfigError: the system has no such locks.
    """
    if fcntl is None:
        raise ConfigError(
            "this needs locks of files as Linux and macOS have them; on Windows use WSL."
        )
    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def unlock(file: IO[Any] | int) -> None:
    """Give a lock back before the file is closed."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_UN)
