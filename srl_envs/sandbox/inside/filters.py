"""Seccomp filters: which system calls the fork server and the programs may make.

Two filters stack, and the stricter answer wins. The base filter goes in once, in the server: an
allowlist of what a Python program needs plus what the server needs to confine it. Each program adds
a small filter that takes the second part away again.

A filter is assembled from a table call -> rule as a binary tree over the call numbers, so that it
costs about nine comparisons instead of one per known call.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping

from .kernel import CLONE_THREAD, NEW_NAMESPACES
from .syscalls import MACHINES, X32_BIT

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
Rule = list[Instruction]

_LOAD, _AND, _JUMP, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
_NUMBER, _MACHINE = 0, 4  # offsets in struct seccomp_data
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

ALLOWED = """
read write close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask
rt_sigreturn pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore
madvise dup dup2 pause nanosleep getitimer alarm setitimer getpid sendfile sendto recvfrom sendmsg
recvmsg shutdown getsockname getpeername setsockopt getsockopt exit wait4 uname flock fsync
fdatasync ftruncate getdents getcwd chdir fchdir readlink umask gettimeofday getrlimit getrusage
sysinfo times getuid getgid geteuid getegid getppid getpgrp getgroups getresuid getresgid getpgid
getsid capget rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack statfs fstatfs getpriority
sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min
sched_rr_get_interval mlock munlock arch_prctl gettid time futex sched_getaffinity getdents64
set_tid_address restart_syscall fadvise64 clock_gettime clock_getres clock_nanosleep exit_group
epoll_wait epoll_ctl waitid newfstatat readlinkat faccessat faccessat2 pselect6 ppoll
set_robust_list get_robust_list epoll_pwait epoll_pwait2 epoll_create epoll_create1 eventfd
eventfd2 dup3 pipe2 preadv pwritev preadv2 pwritev2 getcpu getrandom membarrier statx rseq
close_range futex_waitv timerfd_create timerfd_settime timerfd_gettime
""".split()  # noqa: SIM905 - a word list reads better than 150 quotes
"""What any program may call, whatever the arguments. Not here, so refused: sockets, tracing, other
processes' memory, io_uring, bpf, perf, userfaultfd, keys, memfd, System V and POSIX IPC, file
handles, personality, scheduling, splice, and POSIX timers (one could send its own process SIGKILL,
which we take for the host's)."""

WRITING = """
open openat creat mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 symlink symlinkat
link linkat truncate fallocate utimensat utime utimes chmod fchmod fchmodat copy_file_range
""".split()  # noqa: SIM905 - a word list reads better than 150 quotes
"""Changes to files: only with a scratch directory."""

SERVER_ONLY = """
seccomp capset landlock_create_ruleset landlock_add_rule landlock_restrict_self unshare setns
mount umount2 mount_setattr pivot_root chroot setresuid setresgid setgroups
""".split()  # noqa: SIM905 - a word list reads better than 150 quotes
"""What only the way into confinement needs."""

SPAWNING = ["fork", "vfork", "execve", "setpgid", "setsid"]
"""More processes."""

_TERMINAL_QUERIES = (0x5401, 0x5451, 0x5450, 0x541B, 0x5421, 0x5413)
_HARMLESS_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 1030, 1032)  # no owner, signal, lease or pipe size
_PRCTL_NAMES = (15, 16, 0x53564D41)
_OPEN_TO_WRITE = 0o3 | 0o100 | 0o1000 | 0o2000  # access mode, create, truncate, append
_AF_UNIX = 1
_SIGKILL = 9
_RLIMIT_CPU = 0


def base_filter(machine: str) -> bytes:
    """Installed once in the server and inherited by every program."""
    rules = dict.fromkeys(ALLOWED + WRITING + SERVER_ONLY + SPAWNING, _allow())
    for name in ["kill", "tgkill", "tkill", "clone", "prctl", "setrlimit", "prlimit64"]:
        rules[name] = _allow()
    rules["clone3"] = rules["openat2"] = _refuse(
        errno.ENOSYS
    )  # callers fall back to the older call
    rules["ioctl"] = _one_of(1, _TERMINAL_QUERIES, errno.ENOTTY)
    rules["fcntl"] = _one_of(1, _HARMLESS_FCNTL, errno.EINVAL)
    rules["socketpair"] = _one_of(0, (_AF_UNIX,), errno.EACCES)
    rules["socket"] = _refuse(errno.EACCES)
    return assemble(machine, rules, default=_refuse(errno.EPERM))


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
    rules = dict.fromkeys(SERVER_ONLY, _refuse(errno.EPERM))
    if not scratch:
        rules |= dict.fromkeys(WRITING, _refuse(errno.EROFS))
        rules["openat"] = _without(2, _OPEN_TO_WRITE, errno.EROFS)
        rules["open"] = _without(1, _OPEN_TO_WRITE, errno.EROFS)
    if sealed:
        rules["open"] = rules["openat"] = _refuse(errno.EACCES)
    if spawning:
        rules["clone"] = _without(0, NEW_NAMESPACES, errno.EPERM)
    else:
        rules |= dict.fromkeys(SPAWNING, _refuse(errno.EPERM))
        rules["clone"] = _masked(0, NEW_NAMESPACES | CLONE_THREAD, CLONE_THREAD, errno.EPERM)
        rules["kill"] = _signal_self(1)
        rules["tgkill"] = _signal_self(2)
        rules["tkill"] = _signal_self(1)
        rules["prlimit64"] = _own_limits()
        rules["setrlimit"] = _one_of(0, tuple(range(1, 16)), errno.EPERM)
    if replacing:
        rules.pop("execve", None)
    rules["prctl"] = _one_of(0, _PRCTL_NAMES, errno.EINVAL)
    return assemble(machine, rules, default=_allow())


def _allow() -> Rule:
    return [(_RETURN, 0, 0, _ALLOW)]


def _refuse(code: int) -> Rule:
    return [(_RETURN, 0, 0, _ERRNO | code)]


def _argument(index: int) -> Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index)  # low half; these arguments are 32 bits wide


def _one_of(index: int, values: tuple[int, ...], code: int) -> Rule:
    """Allow where the argument is one of the values."""
    tests = [(_IF_EQUAL, len(values) - n, 0, value) for n, value in enumerate(values)]
    return [_argument(index), *tests, *_refuse(code), *_allow()]


def _masked(index: int, mask: int, wanted: int, code: int) -> Rule:
    """Allow where the argument's masked bits are the wanted ones."""
    test = [(_AND, 0, 0, mask), (_IF_EQUAL, 0, 1, wanted)]
    return [_argument(index), *test, *_allow(), *_refuse(code)]


def _without(index: int, mask: int, code: int) -> Rule:
    """Allow where the argument has none of the bits."""
    return _masked(index, mask, 0, code)


def _signal_self(signal_index: int) -> Rule:
    """Allow signals to the process itself, but no SIGKILL, which could pass for the host's."""
    to_self = [_argument(0), (_IF_EQUAL, 1, 0, _PID), *_refuse(errno.EPERM)]
    not_kill = [_argument(signal_index), (_IF_EQUAL, 0, 1, _SIGKILL), *_refuse(errno.EPERM)]
    return [*to_self, *not_kill, *_allow()]


def _own_limits() -> Rule:
    """Allow a process to read and lower its own limits, except to set that of processor time.

    At that limit the kernel sends SIGKILL, again one that could pass for the host's.
    """
    refuse, high = _refuse(errno.EPERM), 4
    own = [_argument(0), (_IF_EQUAL, 2, 0, 0), (_IF_EQUAL, 1, 0, _PID), *refuse]
    cpu = [_argument(1), (_IF_EQUAL, 1, 0, _RLIMIT_CPU), *_allow()]
    new = _argument(2)
    reading = [new, (_IF_EQUAL, 1, 0, 0), *refuse, (*new[:3], new[3] + high), (_IF_EQUAL, 1, 0, 0)]
    return [*own, *cpu, *reading, *refuse, *_allow()]


def assemble(machine: str, rules: Mapping[str, Rule], *, default: Rule) -> bytes:
    """The filter as machine instructions; calls that this machine lacks are left out."""
    audit, numbers = MACHINES[machine]
    by_number = {numbers[name]: rule for name, rule in rules.items() if name in numbers}
    head: Rule = [
        (_LOAD, 0, 0, _MACHINE),
        (_IF_EQUAL, 1, 0, audit),  # a 32-bit call on a 64-bit kernel has another number space
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, X32_BIT),
        (_RETURN, 0, 0, _KILL),
    ]
    tree = _tree(sorted(_ranges(by_number, default)))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in head + tree)


def _ranges(by_number: Mapping[int, Rule], default: Rule) -> list[tuple[int, Rule]]:
    """(first number, rule) of each run of neighbouring calls with one rule."""
    starts: list[tuple[int, Rule]] = [(0, by_number.get(0, default))]
    for number in range(1, max(by_number) + 2):
        rule = by_number.get(number, default)
        if rule != starts[-1][1]:
            starts.append((number, rule))
    return starts


def _tree(starts: list[tuple[int, Rule]]) -> Rule:
    if len(starts) == 1:
        return starts[0][1]
    middle = len(starts) // 2
    low, high = _tree(starts[:middle]), _tree(starts[middle:])
    first_high = starts[middle][0]
    if len(low) < 256:
        return [(_IF_AT_LEAST, len(low), 0, first_high), *low, *high]
    far = [(_IF_AT_LEAST, 0, 1, first_high), (_JUMP, 0, 0, len(low))]
    return [*far, *low, *high]
