"""``socket.sendmsg`` without its system call, which is refused because it can pass descriptors.

From Python 3.12 on, asyncio writes to each stream by ``sendmsg``. What needs no such call goes by
``send``; the rest is refused as the kernel refuses it.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable
from typing import Any


def send_without_call() -> None:
    """Let sockets of this process send messages by ``send``."""
    socket.socket.sendmsg = _sendmsg  # type: ignore[method-assign, assignment]


def _sendmsg(
    self: socket.socket,
    buffers: Iterable[Any],
    ancdata: Iterable[Any] = (),
    flags: int = 0,
    address: Any = None,
    /,
) -> int:
    """sendmsg(buffers[, ancdata[, flags[, address]]]) -> count"""
    if address is not None or list(ancdata):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return self.send(b"".join(buffers), flags)
