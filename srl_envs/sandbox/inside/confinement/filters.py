"""Seccomp filters: which system calls the fork server and the programs may make.

Two filters stack, and the stricter answer wins. The base filter goes in once, in the server: an
allowlist of what a Python program needs plus what the server needs to confine it. Each program adds
a small filter that takes the second part away again.
"""

from __future__ import annotations

import errno
import struct

from .kernel import CLONE_THREAD, NEW_NAMESPACES
from .rules import (
    Rule,
    allow,
    allow_if,
    another_than,
    assemble,
    below,
    cases,
    error,
    masked,
    masked_one_of,
    one_of,
    without,
    zero,
)

ALLOWED = """
read write close stat fstat lstat poll lseek mprotect munmap brk rt_sigaction rt_sigprocmask
rt_sigreturn pread64 pwrite64 readv writev access pipe select sched_yield mremap msync dup dup2
pause nanosleep getitimer alarm setitimer getpid sendfile sendto recvfrom sendmsg recvmsg shutdown
getsockname getpeername exit wait4 uname fsync fdatasync ftruncate getdents getcwd chdir fchdir
readlink umask gettimeofday getrlimit times getuid getgid geteuid getegid getppid getpgrp getgroups
getresuid getresgid getpgid getsid rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack
getpriority sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min
sched_rr_get_interval arch_prctl gettid time futex sched_getaffinity getdents64 set_tid_address
restart_syscall clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl waitid
newfstatat readlinkat faccessat faccessat2 pselect6 ppoll set_robust_list epoll_pwait epoll_pwait2
epoll_create epoll_create1 eventfd eventfd2 dup3 pipe2 preadv pwritev getcpu getrandom membarrier
statx rseq close_range timerfd_create timerfd_settime timerfd_gettime
""".split()  # noqa: SIM905 - a word list reads better than 150 quotes
"""What the server may call, whatever the arguments. Not here, so refused to everybody:

- ways out: sockets, tracing, other processes' memory, io_uring, bpf, perf, userfaultfd, keys, memfd,
  System V and POSIX IPC, file handles, personality, scheduling, splice, and POSIX timers (one could
  send its own process SIGKILL, which we take for the host's);
- what answers for the whole host, or remembers for the next run: sysinfo, statfs, getrusage (page
  faults tell which pages of a shared file were in memory), mincore, cachestat, readahead, flock,
  inotify, futex_waitv, capget (its process number lies in memory, where no filter looks).
"""

WRITING = """
open openat creat mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 symlink symlinkat
link linkat truncate fallocate utimensat utime utimes chmod fchmod fchmodat copy_file_range
""".split()  # noqa: SIM905 - a word list reads better than 150 quotes
"""Changes to files: only with a scratch directory."""

SERVER_ONLY = """
seccomp capset landlock_create_ruleset landlock_add_rule landlock_restrict_self unshare setns
mount umount2 mount_setattr pivot_root chroot setresuid setresgid setgroups
setfsuid
""".split()  # noqa: SIM905 - a word list reads better than 150 quotes
"""What only the way into confinement needs."""

SPAWNING = ["fork", "vfork", "execve", "setpgid", "setsid"]
"""More processes."""

_TERMINAL_QUERIES = (0x5401, 0x5451, 0x5450, 0x541B, 0x5421, 0x5413)
_HARMLESS_FCNTL = (0, 1, 2, 3, 4, 1030)  # copies and flags: no owner, signal, lease, pipe size
_SEE_LOCK, _SET_LOCK = (5,), (6, 7)  # of byte ranges; programs set none, so they see none
_PRCTL_NAMES = (15, 16, 0x53564D41)
_OPEN_TO_WRITE = 0o3 | 0o100 | 0o1000 | 0o2000  # access mode, create, truncate, append
_AF_UNIX, _SOCK_STREAM, _SOCK_FLAGS = 1, 1, 0x800 | 0x80000
_SOL_SOCKET = 1
_SOCKET_OPTIONS = (2, 3, 4, 7, 8, 9, 13, 20, 21, 30, 38, 39)  # type, error, sizes, times
_MAP_LOCKED, _MAP_HUGETLB = 0x2000, 0x40000  # of pools that all users share
_ADVICE = (0, 1, 2, 4, 8, 10, 11, 14, 15, 16, 17, 18, 19, 102, 103)  # about the caller's own pages
_ADVICE_ON_CACHE = (3, 20, 21)  # will need, cold, page out
_FUTEX_PRIVATE, _FUTEX_SHARED_WAITS = 128, (0, 1, 9, 10)
_FUTEX_OPTIONS = 256  # which clock
_CLOCKS = 16  # the numbers from here on name clocks of processes and descriptors
_SIGNALS = 32  # from here on they queue, and the queue is counted per user
_SIGKILL = 9
_RLIMIT_CPU = 0
_NOTHING = 0  # as an error number: the call does nothing and reports success

_SIGNAL_ARGUMENT = {"kill": 1, "tkill": 1, "tgkill": 2}
_OF_A_PROCESS = [
    "getpgid",
    "getsid",
    "sched_getparam",
    "sched_getscheduler",
    "sched_rr_get_interval",
]


CONDITIONAL = {
    "ioctl": allow_if(one_of(1, _TERMINAL_QUERIES), errno.ENOTTY),
    "fcntl": allow_if(one_of(1, _HARMLESS_FCNTL + _SEE_LOCK + _SET_LOCK), errno.EINVAL),
    # Only streams: a datagram socket takes an address, and reaches every socket of the host.
    "socketpair": allow_if(
        one_of(0, (_AF_UNIX,)), errno.EACCES, masked(1, ~_SOCK_FLAGS, _SOCK_STREAM)
    ),
    "getsockopt": allow_if(
        one_of(1, (_SOL_SOCKET,)), errno.ENOPROTOOPT, one_of(2, _SOCKET_OPTIONS)
    ),
    "setsockopt": allow_if(
        one_of(1, (_SOL_SOCKET,)), errno.ENOPROTOOPT, one_of(2, _SOCKET_OPTIONS)
    ),
    "mmap": allow_if(without(3, _MAP_LOCKED | _MAP_HUGETLB), errno.ENOMEM),
    "madvise": cases(
        ([one_of(2, _ADVICE)], allow()),
        ([one_of(2, _ADVICE_ON_CACHE)], error(_NOTHING)),
        otherwise=error(errno.EINVAL),
    ),
    "fadvise64": error(_NOTHING),
    # Flags ask whether a page is in memory, or throw it out.
    "preadv2": allow_if(one_of(5, (0,)), errno.EOPNOTSUPP),
    "pwritev2": allow_if(one_of(5, (0,)), errno.EOPNOTSUPP),
}
"""Allowed for some arguments; of these also `program_filter` looks at more."""


def base_filter(machine: str) -> bytes:
    """Installed once in the server and inherited by every program."""
    rules = dict.fromkeys(ALLOWED + WRITING + SERVER_ONLY + SPAWNING, allow())
    for name in ["kill", "tgkill", "tkill", "clone", "prctl", "setrlimit", "prlimit64"]:
        rules[name] = allow()
    rules["clone3"] = rules["openat2"] = error(errno.ENOSYS)  # callers fall back to the older call
    rules["socket"] = error(errno.EACCES)
    return assemble(machine, rules | CONDITIONAL, default=error(errno.EPERM))


_PID = 0x7FFF_5A17
"""Stands for a program's own process in a filter assembled before it exists; no pid is so high."""


def holes(template: bytes) -> list[int]:
    """Where, in bytes, `program_filter` left room for the number of the program's own process."""
    return [at for at in range(4, len(template), 8) if template[at : at + 4] == _HOLE]


_HOLE = struct.pack("<I", _PID)


def program_filter(
    machine: str, *, sealed: bool, scratch: bool, spawning: bool, replacing: bool = False
) -> bytes:
    """Installed last in each program's process, once its number fills the `holes`.

    Args:
        machine: as in `os.uname`.
        sealed: no file can be opened at all (nothing else guards the file system).
        scratch: a private directory may be written.
        spawning: more processes are allowed; they live in a process namespace of their own.
        replacing: the process may become another interpreter.
    """
    rules = dict.fromkeys(SERVER_ONLY, error(errno.EPERM))
    if not scratch:
        rules |= dict.fromkeys(WRITING, error(errno.EROFS))
        rules["openat"] = allow_if(without(2, _OPEN_TO_WRITE), errno.EROFS)
        rules["open"] = allow_if(without(1, _OPEN_TO_WRITE), errno.EROFS)
    if sealed:
        rules["open"] = rules["openat"] = error(errno.EACCES)
    rules |= _alone() if not spawning else _with_children()
    if replacing:
        rules.pop("execve", None)
    rules["prctl"] = allow_if(one_of(0, _PRCTL_NAMES), errno.EINVAL)
    rules |= dict.fromkeys(("clock_gettime", "clock_getres", "clock_nanosleep"), _own_clocks())
    rules["wait4"] = allow_if(zero(3), errno.EINVAL)  # no page faults of children
    rules["waitid"] = allow_if(zero(4), errno.EINVAL)
    rules["sendto"] = allow_if(zero(4), errno.EACCES)  # no address: to the other end of a pair
    rules["sendmsg"] = error(errno.EACCES)  # its address and descriptors lie in memory
    return assemble(machine, rules, default=allow())


def _alone() -> dict[str, Rule]:
    """Rules of a program that is one process, among others that are not its own."""
    rules = dict.fromkeys(SPAWNING, error(errno.EPERM))
    threads_only = masked(0, NEW_NAMESPACES | CLONE_THREAD, CLONE_THREAD)
    rules["clone"] = allow_if(threads_only, errno.EPERM)
    for name, signal in _SIGNAL_ARGUMENT.items():
        conditions = another_than(signal, _SIGKILL), below(signal, _SIGNALS)
        rules[name] = allow_if(one_of(0, (_PID,)), errno.EPERM, *conditions)
    rules["prlimit64"] = _own_limits()
    rules["setrlimit"] = allow_if(one_of(0, tuple(range(1, 16))), errno.EPERM)
    itself = one_of(0, (0, _PID))
    rules |= dict.fromkeys(_OF_A_PROCESS, allow_if(itself, errno.ESRCH))
    rules["sched_getaffinity"] = allow_if(itself, errno.ENOSYS)  # the C library goes on without it
    rules["getpriority"] = allow_if(one_of(0, (0,)), errno.ESRCH, one_of(1, (0, _PID)))
    # Locks of one process never stand in its own way: the program needs none, and gets none.
    rules["fcntl"] = cases(([one_of(1, _SET_LOCK)], error(_NOTHING)), otherwise=allow())
    rules["futex"] = _own_futexes()
    return rules


def _with_children() -> dict[str, Rule]:
    """Rules of a program with several processes, in a process namespace of its own."""
    return {
        "clone": allow_if(without(0, NEW_NAMESPACES), errno.EPERM),
        "fcntl": cases(([one_of(1, _SET_LOCK)], error(errno.ENOLCK)), otherwise=allow()),
        "getpriority": allow_if(one_of(0, (0,)), errno.ESRCH),
    } | {
        name: allow_if(below(signal, _SIGNALS), errno.EPERM)
        for name, signal in _SIGNAL_ARGUMENT.items()
    }


def _own_clocks() -> Rule:
    """The clocks of the host and the caller's own; not those named by a process number."""
    return allow_if(below(0, _CLOCKS), errno.EINVAL)


def _own_futexes() -> Rule:
    """Allow futexes of the process.

    A shared one lies in a page, which may be one of a library that all runs map. There a wait ends at
    once, and a wake has no effect. The C library waits so for the end of a thread, and looks again.
    """
    shared = masked_one_of(1, ~_FUTEX_OPTIONS, _FUTEX_SHARED_WAITS)
    return cases(
        ([masked(1, _FUTEX_PRIVATE, _FUTEX_PRIVATE)], allow()),
        ([shared], error(_NOTHING)),
        otherwise=error(errno.ENOSYS),
    )


def _own_limits() -> Rule:
    """Allow a process to read and lower its own limits, except to set that of processor time.

    At that limit the kernel sends SIGKILL, one that could pass for the host's.
    """
    own = one_of(0, (0, _PID))
    return cases(
        ([own, another_than(1, _RLIMIT_CPU)], allow()),
        ([own, zero(2)], allow()),
        otherwise=error(errno.EPERM),
    )
