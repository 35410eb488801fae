# ruff: noqa: E501 - the programs try many calls, one beside the other
"""What the tiers say that they keep apart, tried in each of them, and without its rule.

A probe answers ``kept`` or ``through``. It must agree with the tier: a property that a tier does
not claim must come through, or the claim would be too small. Then the rule is taken out of a copy of
the server's code, and the probe must find the hole.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from srl_envs.sandbox import PROPERTIES, CodeExecutor, Limits, separation
from srl_envs.sandbox.separation import SEVERAL
from tests.srl_envs.sandbox.tiers import executor_of

LIMITS = Limits(cpu_s=2.0, wall_s=20.0, memory_mib=256, output_kib=64)
TIERS = ("namespaces", "landlock", "seccomp")
PLACES = (*TIERS, SEVERAL)

CALLS = """
import ctypes, os, platform, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
def call(numbers, *words):
    "A system call by its numbers on x86_64 and aarch64; None where it fails."
    number = numbers if isinstance(numbers, int) else numbers[0 if x86 else 1]
    words = [ctypes.c_long(w) if isinstance(w, int) else w for w in words]
    done = libc.syscall(ctypes.c_long(number), *words)
    return None if done < 0 else done
def works(attempt):
    try: return attempt() is not None
    except (OSError, AttributeError, ValueError, ImportError): return False
page = ctypes.cast(libc.getpid, ctypes.c_void_p).value & -4096  # of a library that all runs map
buffer = ctypes.create_string_buffer(4096)
def report(found): print("through " + repr(found) if found else "kept")
"""


def said(executor: CodeExecutor, program: str) -> str:
    (outcome,) = executor.run_stdin(CALLS + program, [""])
    assert outcome.status == "ok", outcome
    return outcome.stdout.strip()


def said_beside(executor: CodeExecutor, other: str, program: str) -> str:
    """A program's output while another one runs."""
    with ThreadPoolExecutor(1) as threads:
        beside = threads.submit(executor.run_stdin, CALLS + other, [""])
        answer = said(executor, program)
        (outcome,) = beside.result()
    assert outcome.status == "ok", outcome
    return answer


def messages(executor: CodeExecutor, folder: Path) -> str:
    path = folder / "socket"
    program = f"""
import array, socket
for name in ({str(path)!r}, "\\0" + {path.name!r} + "{os.getpid()}"):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW, socket.SOCK_DGRAM | 0x80000):
        try: ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        except OSError: continue
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))]
        sendmsg = super(socket.socket, ours).sendmsg  # the system call
        for send in (lambda: ours.sendto(b"x", name), lambda: sendmsg([b"x"], [], 0, name),
                     lambda: sendmsg([b"x"], rights, 0, name), lambda: ours.connect(name) or ours.send(b"x")):
            try: send()
            except OSError: pass
ours, theirs = socket.socketpair()
report([n for n, send in (("to", lambda: ours.sendto(b"x", {str(path)!r})),
        ("msg", lambda: super(socket.socket, ours).sendmsg([b"x"]))) if works(send)])
"""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as named,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract,
    ):
        named.bind(str(path))
        path.chmod(0o777)
        abstract.bind(f"\0{path.name}{os.getpid()}")
        answer = said(executor, program)
        for receiver in (named, abstract):
            receiver.setblocking(False)
            try:
                return f"through {receiver.recvmsg(9, 99)}"
            except BlockingIOError:
                continue
    return answer


PROCESSES = """
other = os.getppid()
clock = lambda pid, which: (~pid << 3) | which
report([name for name, attempt in {
    "clock": lambda: time.clock_gettime(clock(other, 2)), "thread clock": lambda: time.clock_gettime(clock(other, 6)),
    "resolution": lambda: time.clock_getres(clock(other, 2)),
    "sleep": lambda: call((230, 115), clock(other, 2), 1, ctypes.byref((ctypes.c_long * 2)()), None),
    "group": lambda: os.getpgid(other), "session": lambda: os.getsid(other),
    "priority": lambda: os.getpriority(os.PRIO_PROCESS, other), "group's": lambda: os.getpriority(os.PRIO_PGRP, 0),
    "user's": lambda: os.getpriority(os.PRIO_USER, os.getuid()), "affinity": lambda: os.sched_getaffinity(other),
    "scheduler": lambda: os.sched_getscheduler(other), "param": lambda: os.sched_getparam(other),
    "interval": lambda: os.sched_rr_get_interval(other), "exists": lambda: os.kill(other, 0) or 1,
    "limits": lambda: call((302, 261), other, 7, None, buffer), "capget": lambda: call((125, 90), struct.pack("Ii", 0x20080522, other), buffer),
    "attr": lambda: call((315, 275), other, buffer, 48, 0), "robust list": lambda: call((274, 100), other, buffer, buffer),
    "pidfd": lambda: call(434, other, 0), "io priority": lambda: call((252, 31), 1, other),
    "kcmp": lambda: call((312, 272), other, os.getpid(), 2, 0, 0), "advise": lambda: call(440, 0, buffer, 1, 4, 0),
    "timer": lambda: call((222, 107), clock(other, 2), None, buffer),
}.items() if works(attempt)])
"""


def processes(executor: CodeExecutor, folder: Path) -> str:
    """With several processes the namespace holds only the program's, and it may ask for those."""
    if executor.limits.processes == 1:
        return said(executor, PROCESSES)
    others = "[pid for pid in range(2, 500) if pid != os.getpid() and works(lambda: os.kill(pid, 0) or 1)]"
    return said_beside(executor, "time.sleep(1)", f"report({others})")


def page_cache(executor: CodeExecutor, folder: Path) -> str:
    return said(
        executor,
        """
try: file = os.open(os.__file__, os.O_RDONLY)
except OSError: file = 0
import resource
report([name for name, attempt in {
    "mincore": lambda: call((27, 232), page, 4096, buffer),
    "nowait": lambda: os.preadv(file, [bytearray(9)], 0, 8), "dontcache": lambda: os.preadv(file, [bytearray(9)], 0, 0x80),
    "cachestat": lambda: call(451, file, struct.pack("QQ", 0, 4096), buffer, 0),
    "readahead": lambda: call((187, 213), file, 0, 4096), "populate": lambda: call((28, 233), page, 4096, 22),
    "collapse": lambda: call((28, 233), page, 4096, 25), "merge": lambda: call((28, 233), page, 4096, 12),
    "faults": lambda: resource.getrusage(resource.RUSAGE_SELF), "of children": lambda: resource.getrusage(-1),
    "of threads": lambda: resource.getrusage(1), "splice": lambda: call((275, 76), file, None, 1, None, 1, 2),
    "wait4": lambda: call((61, 260), -1, None, 1, buffer),
    "advice": lambda: file and (os.posix_fadvise(file, 0, 0, 4), os.preadv(file, [bytearray(9)], 0, 8)) or None,
}.items() if works(attempt)])
""",
    )


def file_locks(executor: CodeExecutor, folder: Path) -> str:
    """Another run tries to lock a file that all have open."""
    kinds = """
import fcntl
whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
kinds = {"flock": lambda: fcntl.flock(2, fcntl.LOCK_EX | fcntl.LOCK_NB),
         "lockf": lambda: fcntl.lockf(2, fcntl.LOCK_EX | fcntl.LOCK_NB), "open file": lambda: fcntl.fcntl(2, 37, whole),
         "lease": lambda: fcntl.fcntl(2, 1024, 1), "notify": lambda: fcntl.fcntl(2, 1026, 1), "hint": lambda: fcntl.fcntl(2, 1036, whole)}
"""
    locking = """
until = time.monotonic() + 1.5
while time.monotonic() < until:
    for take in kinds.values(): works(take)
    time.sleep(0.02)
"""
    looking = """
def seen(kind): return struct.unpack("hhqqi4x", fcntl.fcntl(2, kind, whole))[0] != fcntl.F_UNLCK or None
found, until = [], time.monotonic() + 1
while not found and time.monotonic() < until:
    found = [name for name, take in kinds.items() if name != "lockf" and works(lambda: take() or 1)]
    found += [kind for kind in (fcntl.F_GETLK, 36) if works(lambda: seen(kind))]
    time.sleep(0.02)
report(found)
"""
    return said_beside(executor, kinds + locking, kinds + looking)


def futexes(executor: CodeExecutor, folder: Path) -> str:
    waiting = """
until = time.monotonic() + 1.5
second = ctypes.byref((ctypes.c_long * 2)(0, 200_000_000))
value = ctypes.c_uint32.from_address(page).value
while time.monotonic() < until:
    if call((202, 98), page, 0, value, second, None, 0) == 0: time.sleep(0.01)
"""
    waking = """
until, woken = time.monotonic() + 1, 0
while time.monotonic() < until and not woken:
    woken = call((202, 98), page, 1, 99, None, None, 0) or 0
    time.sleep(0.01)
report([woken] * (woken > 0))
"""
    return said_beside(executor, waiting, waking)


def open_files(executor: CodeExecutor, folder: Path) -> str:
    look = "import fcntl\nreport([fd for fd in (0, 1, 2) if fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_APPEND | os.O_NONBLOCK)])"
    change = """
import fcntl
for fd in (0, 1, 2): fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND | os.O_NONBLOCK)
"""
    assert said(executor, change) == ""
    return said(executor, look)


def machine_state(executor: CodeExecutor, folder: Path) -> str:
    return said(
        executor,
        """
report([name for name, attempt in {
    "sysinfo": lambda: call((99, 179), buffer), "statfs": lambda: os.statvfs("/"),
    "fstatfs": lambda: os.fstatvfs(2), "load": os.getloadavg,
    "meminfo": lambda: open("/proc/meminfo").read(), "syslog": lambda: call((103, 116), 10, None, 0),
    "quota": lambda: call((179, 60), 0x80000700, None, 0, buffer), "adjtime": lambda: call((159, 171), buffer),
    "sysfs": lambda: os.listdir("/sys"),
}.items() if works(attempt)])
""",
    )


def user_counts(executor: CodeExecutor, folder: Path) -> str:
    queueing = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 64))
try:
    for _ in range(100): os.kill(os.getpid(), 40)
except OSError: pass
time.sleep(1.5)
"""
    looking = """
import array, signal, socket
def lost():
    signal.pthread_sigmask(signal.SIG_BLOCK, {41})
    until = time.monotonic() + 1
    while time.monotonic() < until:
        os.kill(os.getpid(), 41)
        if signal.sigwaitinfo({41}).si_pid != os.getpid(): return True  # the queue was full
        time.sleep(0.02)
def on_their_way():
    ours, theirs = socket.socketpair()
    return super(socket.socket, ours).sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
report([name for name, attempt in {
    "signals": lost, "descriptors": on_their_way,
    "locked": lambda: call((149, 228), page, 4096), "keys": lambda: call((250, 219), 0, -3, 0),
    "watches": lambda: call((294, 26), 0), "queues": lambda: call((240, 180), b"q", 0o102, 0o600, None),
    "shared memory": lambda: call((29, 194), 0, 4096, 0o600), "cookie": lambda: socket.socketpair()[0].getsockopt(1, 57, 8),
}.items() if works(attempt)])
"""
    return said_beside(executor, queueing, looking)


def host_name(executor: CodeExecutor, folder: Path) -> str:
    name = said(executor, "import socket\nprint(os.uname().nodename, socket.gethostname())")
    return f"through {name}" if socket.gethostname() in name.split() else "kept"


HOST_PATHS = """
import gc
secrets = [bytes.fromhex(word).decode() for word in NEEDLES.split()]
texts = [*sys.argv, *sys.orig_argv, sys.executable, sys.prefix, os.getcwd(), *sys.path, *os.environ.values()]
texts += [str(value) for module in list(sys.modules.values()) for value in vars(module).values() if isinstance(value, str)]
texts += [thing.co_filename for f in gc.get_objects() for thing in [getattr(f, "__code__", None)] if hasattr(thing, "co_filename")]
start = ctypes.cast(ctypes.c_void_p.in_dll(libc, "environ").value, ctypes.POINTER(ctypes.c_void_p))[0]
end = (start | 4095) + 1  # of the stack: command line, environment, name of the executable
texts.append(ctypes.string_at(start - 300, end - start + 300).decode("latin-1"))
report(sorted({secret[:3] for secret in secrets for text in texts if secret in text}))
"""


def host_paths(executor: CodeExecutor, folder: Path) -> str:
    """Paths of this package, of the installed ones, and of an interpreter outside of /usr."""
    needles = [
        os.path.dirname(separation.__file__),
        os.path.dirname(os.path.dirname(pytest.__file__)),
    ]
    needles += [sys.base_prefix] if not sys.base_prefix.startswith("/usr") else []
    coded = " ".join(needle.encode().hex() for needle in needles)
    return said(executor, HOST_PATHS.replace("NEEDLES", repr(coded)))


def file_metadata(executor: CodeExecutor, folder: Path) -> str:
    (folder / "file").write_text("x" * 77)
    paths = [str(folder / "file"), "/etc/passwd", "/proc/1", "/home"]
    return said(executor, f"report([path for path in {paths} if works(lambda: os.stat(path))])")


def file_contents(executor: CodeExecutor, folder: Path) -> str:
    (folder / "file").write_text("x" * 77)
    (folder / "file").chmod(0o666)
    paths = [
        str(folder / "file"),
        "/etc/passwd",
        "/etc/hostname",
        "/proc/self/maps",
        "/proc/1/stat",
    ]
    return said(
        executor, f"report([path for path in {paths} if works(lambda: open(path).read(1))])"
    )


PROBES: dict[str, Callable[[CodeExecutor, Path], str]] = {
    probe.__name__: probe
    for probe in (
        *(messages, processes, page_cache, file_locks, futexes, open_files, machine_state),
        *(user_counts, host_name, host_paths, file_metadata, file_contents),
    )
}


class Rule(NamedTuple):
    """Where a property comes from: edits (file, text, replacement) that take it away."""

    edits: tuple[tuple[str, str, str], ...]
    tier: str = "landlock"


def numbered(name: str, x86_64: int, aarch64: int) -> tuple[tuple[str, str, str], ...]:
    """Edits that allow a call."""
    return (
        ("confinement/syscalls.py", "X86_64 = {\n", f'X86_64 = {{\n    "{name}": {x86_64},\n'),
        ("confinement/syscalls.py", "AARCH64 = {\n", f'AARCH64 = {{\n    "{name}": {aarch64},\n'),
        ("confinement/filters.py", "\nread write ", f"\n{name} read write "),
    )


RULES = {
    "messages": Rule(
        (
            ("confinement/filters.py", "masked(1, ~_SOCK_FLAGS, _SOCK_STREAM)", "masked(1, 0, 0)"),
            ("confinement/filters.py", '    rules["sendto"] = ', '    rules["-"] = '),
        )
    ),
    "processes": Rule((("confinement/filters.py", "below(0, _CLOCKS)", "masked(0, 0, 0)"),), "namespaces"),
    "page_cache": Rule((("confinement/filters.py", '"preadv2": allow_if(one_of(5, (0,))', '"preadv2": allow_if(masked(5, 0, 0)'),)),
    "file_locks": Rule((("confinement/filters.py", "error(_NOTHING)), otherwise=allow())", "allow()), otherwise=allow())"),)),
    "futexes": Rule((("confinement/filters.py", '    rules["futex"] = _own_futexes()\n', ""),), "seccomp"),
    "open_files": Rule((("confinement/layers.py", "null = os.open(os.devnull, os.O_RDWR)\n        for", "null = os.dup(2)\n        for"),)),
    "machine_state": Rule(numbered("sysinfo", 99, 179)),
    "user_counts": Rule((("confinement/filters.py", "_SIGNALS = 32", "_SIGNALS = 65"), ("confinement/layers.py", "        _leave_root(confinement, uid, [os.__file__, *found.values()])\n", "        pass\n"))),
    "host_name": Rule((("confinement/jail.py", "    kernel.name_host(_HOST_NAME)\n", ""),), "namespaces"),
    "host_paths": Rule((("confinement/paths.py", "return PYTHON + path[len(prefix) :]", "return path"),), "namespaces"),
    "file_metadata": Rule((("confinement/jail.py", "    kernel.unmount(_OLD)\n    os.rmdir(_OLD)\n", "    kernel.mount(_OLD + '/etc', '/etc', None, kernel.MS_BIND)\n"),), "namespaces"),
    "file_contents": Rule((("confinement/layers.py", "            kernel.landlock_restrict(ruleset)\n", "            pass\n"),)),
}  # fmt: skip


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest) -> Iterator[CodeExecutor]:
    """An executor of each tier, and one for several processes."""
    if request.param == SEVERAL:
        limits = Limits(cpu_s=2.0, wall_s=20.0, memory_mib=256, output_kib=64, processes=2)
        with executor_of("namespaces", limits) as executor:
            yield executor
    else:
        with executor_of(request.param, LIMITS) as executor:
            yield executor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that everybody may enter."""
    for path in (tmp_path, *tmp_path.parents):
        if str(path).startswith("/tmp/") and path.stat().st_uid == os.getuid():
            path.chmod(0o755)
    return tmp_path


def test_every_property_has_a_probe_and_a_rule() -> None:
    assert PROPERTIES.keys() == PROBES.keys() == RULES.keys()


def test_the_page_shows_the_properties_as_they_are() -> None:
    page = Path(separation.__file__).parents[2] / "docs/design/sandbox.md"
    if not page.exists():
        pytest.skip("installed without the documentation")
    rows = [row for row in page.read_text().splitlines() if row.startswith("|")]
    for name, kept in PROPERTIES.items():
        lost = [place in kept.lost for place in ("namespaces", SEVERAL, "landlock", "seccomp")]
        cells = " | ".join("no" if gone else "yes" for gone in lost)
        assert f"| {kept.text} | `{name}` | {cells} |" in rows


@pytest.mark.slow
@pytest.mark.parametrize("name", PROPERTIES)
def test_each_tier_keeps_apart_what_it_says_and_no_more(
    place: CodeExecutor, folder: Path, name: str
) -> None:
    expected = "kept" if name in place.kept_apart else "through"
    assert PROBES[name](place, folder).split()[0] == expected, PROBES[name](place, folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROPERTIES)
def test_without_its_rule_a_property_is_lost(
    name: str, folder: Path, without: Callable[..., None]
) -> None:
    if name == "host_paths" and sys.base_prefix.startswith("/usr"):
        pytest.skip("an interpreter in /usr has the same path on every host")
    rule = RULES[name]
    without(*rule.edits)
    with executor_of(rule.tier, LIMITS) as executor:
        tries = (PROBES[name](executor, folder) for _ in range(3))  # two runs may miss each other
        assert any(answer.startswith("through") for answer in tries)
