"""User id or namespace of each run, so that its threads count against its own budget.

The kernel counts the threads of a user, not of a process (`RLIMIT_NPROC`). Where the server was
started by root, each run gets a user id of its own. Elsewhere each gets a user namespace of its own,
in which the kernel counts anew (since Linux 5.14). Where neither is granted, runs share a count.
"""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass

from . import kernel

with contextlib.suppress(ModuleNotFoundError):  # of Windows, where the sandbox refuses
    import resource

HALF = 18
"""Runs that the server, and besides it the porter, can have at once."""
SLOTS = 2 * HALF
_BLOCK = SLOTS + 1  # the server's own comes first
_PREFERRED = (0x7000_0000, 0x7FFF_FFFF)  # user ids that no convention assigns
_SMALL = (61_000, 64_999)  # where a container maps only the usual 65536


def free_block() -> int:
    """First of `SLOTS` + 1 user ids that are not in use, drawn at random."""
    low, high = _PREFERRED if _mapped(*_PREFERRED) else _SMALL
    blocks = (high - low + 1) // _BLOCK
    return low + int.from_bytes(os.urandom(8), "little") % blocks * _BLOCK


def _mapped(low: int, high: int) -> bool:
    """Whether this user namespace has these user ids."""
    try:
        with open("/proc/self/uid_map") as file:
            rows = [[int(word) for word in line.split()] for line in file]
    except OSError:
        return False
    return any(first <= low and high < first + count for first, _, count in rows)


@dataclass
class Identities:
    """What the runs of one server become; the first call that a run makes for itself."""

    first_uid: int = 0
    """User id of the first slot; 0 without."""
    files_as_root: bool = False
    """Whether the kernel checks the files that a run opens against root: only root may enter the
    folder of the interpreter."""
    namespaces: tuple[int, ...] = ()
    """Descriptors of user namespaces, one per slot; empty without."""

    @property
    def layer(self) -> str:
        """Name of the layer; empty where runs share a count."""
        if self.first_uid:
            return "own user per run"
        return "own user namespace per run" if self.namespaces else ""

    def counts_alone(self) -> bool:
        """Whether a process of the first slot counts by itself; for a process to throw away."""
        self.take(0)
        resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
        pid = os.fork()  # fails where the server and its parents count, too
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return True

    def take(self, slot: int) -> None:
        """Become the one of this slot, with capabilities that the caller drops."""
        if self.first_uid:
            uid = self.first_uid + slot
            os.setresuid(uid, uid, uid)
            if self.files_as_root:
                kernel.open_files_as(0)
        elif self.namespaces:
            kernel.join_namespace(self.namespaces[slot], kernel.CLONE_NEWUSER)


def by_namespace() -> Identities:
    """Identities that are user namespaces.

    Raises:
        OSError: the kernel grants none.
    """
    made = namespaces()
    if not made:
        raise OSError("no further user namespaces")
    return Identities(namespaces=made)


def namespaces() -> tuple[int, ...]:
    """Descriptors of user namespaces, one per slot, owned by this process's user; empty where the
    kernel grants none."""
    made: list[int] = []
    for _ in range(SLOTS):
        namespace = _new_namespace()
        if namespace is None:
            return ()
        made.append(namespace)
    return tuple(made)


def _new_namespace() -> int | None:
    """Descriptor of a user namespace that was made by a process that is gone."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        pid = os.fork()
        if pid == 0:
            try:
                kernel.unshare(kernel.CLONE_NEWUSER)
                namespace = os.open("/proc/self/ns/user", os.O_RDONLY)
                socket.send_fds(theirs, [b"x"], [namespace])
            finally:
                os._exit(0)
        theirs.close()
        data, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        os.waitpid(pid, 0)
    return descriptors[0] if data and descriptors else None
