"""The system calls that Python's library lacks, through ctypes; each raises OSError on failure."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Sequence

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
NEW_NAMESPACES = 0x7E020080
"""Every CLONE_NEW* flag, cgroup and time included."""
CLONE_THREAD = 0x00010000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND = 1, 2, 4, 0x1000
MS_REC, MS_PRIVATE = 0x4000, 0x40000

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_SET_NO_NEW_PRIVS = 1, 4, 8, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAP_KILL, _CAP_SETUID, _CAP_SYS_ADMIN = 5, 7, 21
_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV = 1, 2, 4
_SECCOMP_SET_MODE_FILTER = 1
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


# System call numbers that are the same on every machine since Linux 5.1, and the older ones.
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_CLOSE_RANGE, _MOUNT_SETATTR = 436, 442
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_MACHINE = os.uname().machine


class _Call:
    """A system call with its arguments, so that a process that makes it writes to little memory."""

    def __init__(self, number: int | None, what: str, *arguments: object) -> None:
        if number is None:
            raise OSError(38, f"{what}: no system call table for {_MACHINE}")
        words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
        self._words = (ctypes.c_long(number), *words)
        self._what = what

    def __call__(self) -> int:
        return _checked(_libc.syscall(*self._words), self._what)


def _call(number: int | None, what: str, *arguments: object) -> int:
    return _Call(number, what, *arguments)()


_fork_only = ctypes.PyDLL(None, use_errno=True).fork


def fork() -> int:
    """fork(2) without Python's own preparations, for a process without other threads.

    They reset locks that are not held, and what they touch would be copied for every program: a
    third of the pages that a child needs before it does anything.
    """
    return _checked(_fork_only(), "fork")


def unshare(flags: int) -> None:
    """Leave the given namespaces for new ones."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def join_namespace(descriptor: int, kind: int) -> None:
    """Enter an existing namespace."""
    _checked(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), "setns")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2)."""
    words = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    done = _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    _checked(done, f"mount {target}")


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root; the old one appears under `old`."""
    _call(_PIVOT_ROOT.get(_MACHINE), "pivot_root", os.fsencode(new), os.fsencode(old))


def unmount(target: str) -> None:
    """Detach a mount and everything below it."""
    _checked(_libc.umount2(os.fsencode(target), ctypes.c_int(_MNT_DETACH)), f"umount {target}")


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def seal_mount(target: str, *, devices: bool = False) -> None:
    """Make a mount and those below it read-only, without set-user-id; without devices by default."""
    flags = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | (0 if devices else _MOUNT_ATTR_NODEV)
    attr = _MountAttr(flags, 0, 0, 0)
    path = os.fsencode(target)
    size = ctypes.sizeof(attr)
    args = (_AT_FDCWD, path, _AT_RECURSIVE, ctypes.byref(attr), size)
    _call(_MOUNT_SETATTR, f"mount_setattr {target}", *args)


def die_with_parent() -> None:
    """Ask for SIGKILL when the parent dies. A later change of user id would cancel it."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl(PDEATHSIG)")


def no_new_privileges() -> None:
    """No program executed from here on gains anything from set-user-id bits."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(NO_NEW_PRIVS)")


def dumpable(yes: bool) -> None:
    """Whether a process of the same user may trace this one and open its memory."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, int(yes), 0, 0, 0), "prctl(DUMPABLE)")


def name_host(name: str) -> None:
    """Set the name of the host and of its domain, as this namespace shows them."""
    for call in (_libc.sethostname, _libc.setdomainname):
        _checked(call(name.encode(), ctypes.c_size_t(len(name))), call.__name__)


def keep_to_serve() -> None:
    """Of all capabilities keep, also over execve, those to mount and to manage other users' runs."""
    kept = _CAP_KILL, _CAP_SETUID, _CAP_SYS_ADMIN
    bits = sum(1 << capability for capability in kept)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(bits, bits, bits)  # effective, permitted, inheritable; low halves
    _call(_CAPSET.get(_MACHINE), "capset", ctypes.byref(header), ctypes.byref(sets))
    for capability in kept:
        raised = _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0)
        _checked(raised, "prctl(CAP_AMBIENT)")


def keep_capabilities() -> None:
    """Let a change from root to another user leave the capabilities."""
    _checked(_libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0), "prctl(KEEPCAPS)")


def open_files_as(uid: int) -> None:
    """Let the kernel check files against this user; signals and tracing still go by the user id.

    Raises:
        OSError: the kernel refuses.
    """
    _libc.setfsuid(ctypes.c_uint(uid))
    if _libc.setfsuid(ctypes.c_int(-1)) != uid:  # an unchanged answer is the only sign of failure
        raise OSError(errno.EPERM, "setfsuid")


class Dropping:
    """Empties all capability sets.

    Args:
        but_users: keep the rights to become another user and to end processes of others.
    """

    def __init__(self, *, but_users: bool = False) -> None:
        kept = (1 << _CAP_KILL | 1 << _CAP_SETUID) if but_users else 0
        self._header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        self._sets = (ctypes.c_uint32 * 6)(kept, kept)  # effective, permitted
        words = ctypes.byref(self._header), ctypes.byref(self._sets)
        self._call = _Call(_CAPSET.get(_MACHINE), "capset", *words)

    def __call__(self) -> None:
        """Drop the capabilities."""
        self._call()


class Closing:
    """Closes every descriptor from `first` on."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._call = _Call(_CLOSE_RANGE, "close_range", first, 0xFFFFFFFF, 0)

    def __call__(self) -> None:
        """Close the descriptors."""
        try:
            if sys.platform != "linux":
                raise OSError
            self._call()
        except OSError:
            os.closerange(self._first, 4096)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class Filter:
    """A seccomp filter, ready to be installed by a process that should write to little memory.

    Args:
        instructions: of the filter.
        holes: where, in bytes, `install` puts a number.
    """

    def __init__(self, instructions: bytes, holes: Sequence[int] = ()) -> None:
        self.code = ctypes.create_string_buffer(instructions, len(instructions))
        self._holes = holes
        self._program = _Program(len(instructions) // 8, ctypes.addressof(self.code))
        args = (_SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(self._program))
        self._call = _Call(_SECCOMP.get(_MACHINE), "seccomp", *args)

    def install(self, number: int = 0) -> None:
        """Add the filter to this process; it cannot be removed, and later ones only take more."""
        self.fill(number)
        self._call()

    def fill(self, number: int) -> None:
        """Put a number into the holes."""
        for at in self._holes:
            _NUMBER.pack_into(self.code, at, number)


_NUMBER = struct.Struct("<I")


# Landlock: rights over files by ABI version. Source: the kernel's userspace-api/landlock.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_FILES_OF_ABI = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}
_FILES_SINCE_5 = 0xFFFF
_NET = 3  # bind and connect over TCP, since ABI 4
_SCOPES = 3  # abstract unix sockets and signals, since ABI 6
_MAKE_SPECIAL = 0x40 | 0x200 | 0x400 | 0x800 | 0x8000  # device nodes, sockets, fifos; ioctl


class _Ruleset(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("files", "net", "scoped")]


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # what `_pack_` implies; Python 3.14 wants it said
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


READ = _EXECUTE | _READ_FILE | _READ_DIR
LIST = _READ_DIR
READ_WRITE_FILE = _READ_FILE | _WRITE_FILE
SCRATCH = 0xFFFF & ~(_MAKE_SPECIAL | _EXECUTE)


def landlock_ruleset(rights: dict[str, int]) -> tuple[int, int]:
    """A ruleset that denies everything but `rights` (path -> bits), and the kernel's ABI version.

    Paths that do not exist are left out. The caller owns the descriptor.
    """
    abi = _call(_LANDLOCK_CREATE, "landlock", None, 0, 1)
    files = _FILES_OF_ABI.get(abi, _FILES_SINCE_5)
    attr = _Ruleset(files, _NET if abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    try:
        ruleset = _call(_LANDLOCK_CREATE, "landlock", ctypes.byref(attr), size, 0)
    except OSError:  # some vendors report an ABI without all of its scopes
        size = 8
        ruleset = _call(_LANDLOCK_CREATE, "landlock", ctypes.byref(attr), size, 0)
    for path, allowed in rights.items():
        _allow(ruleset, path, allowed & files)
    return ruleset, abi


def _allow(ruleset: int, path: str, allowed: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            allowed &= _EXECUTE | _WRITE_FILE | _READ_FILE
        rule = _PathRule(allowed, parent)
        _call(_LANDLOCK_ADD, f"landlock {path}", ruleset, 1, ctypes.byref(rule), 0)
    finally:
        os.close(parent)


def landlock_restrict(ruleset: int) -> None:
    """Put this process and its descendants under the ruleset, for good."""
    _call(_LANDLOCK_RESTRICT, "landlock", ruleset, 0)
