"""Each isolation layer does its own part: these fail when only that layer is taken away."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

import pytest

from srl_envs.sandbox import CodeExecutor
from srl_envs.sandbox.inside.confinement import filters, kernel, paths, syscalls
from tests.srl_envs.sandbox.tiers import executor_of


def printed(executor: CodeExecutor, program: str) -> str:
    (outcome,) = executor.run_stdin(program, [""])
    assert outcome.status == "ok", outcome
    return outcome.stdout.strip()


def require(executor: CodeExecutor, layer: str) -> None:
    if not any(name.startswith(layer) for name in executor.layers):
        pytest.skip(f"this kernel does not grant {layer}")


def test_layers_are_recorded_in_every_outcome(each_tier: CodeExecutor) -> None:
    outcomes = each_tier.run_stdin("print(1)", ["", ""])
    outcomes += each_tier.run("def f(): pass", [{"function": "f"}])
    outcomes.append(each_tier.run_asserts("def f(): return 1", "assert f() == 1"))
    assert {outcome.isolation for outcome in outcomes} == {each_tier.layers}
    assert "rlimits" in each_tier.layers


def test_the_root_is_private(executor: CodeExecutor) -> None:
    require(executor, "private root")
    hidden = (
        "/proc/1",
        "/etc/passwd",
        "/home",
        os.path.expanduser("~/.profile"),
        "/sys",
        "/usr/sbin",
    )
    program = f"import os\nprint([path for path in {hidden} if os.path.exists(path)])"
    assert printed(executor, program) == "[]"


def test_processes_are_numbered_anew(executor: CodeExecutor) -> None:
    require(executor, "namespaces")
    assert printed(executor, "import os\nprint(os.getppid())") == "1"
    assert "srl" not in printed(executor, "import os\nprint(os.uname().sysname, os.getuid())")
    assert int(printed(executor, "import os\nprint(os.getuid())")) >= 65534


def test_installed_packages_are_covered(each_tier: CodeExecutor) -> None:
    """They may hold the answers of the very tasks that programs are paid for."""
    program = """
import os, sysconfig
folder = sysconfig.get_path("purelib")
names, readable = [], []
try: names = os.listdir(folder)
except OSError: pass
for name in names:
    for path in (name, name + "/__init__.py", name + "/METADATA"):
        try: open(os.path.join(folder, path)).close(); readable.append(path)
        except OSError: pass
print(len(readable))
"""
    assert printed(each_tier, program) == "0"


def test_landlock_alone_keeps_files_unread() -> None:
    with executor_of("landlock") as executor:
        program = """
for path in ("/etc/passwd", "/etc/hostname", "/proc/self/environ"):
    try: print(open(path).read())
    except PermissionError: pass
import colorsys; print(colorsys.__name__)
"""
        assert printed(executor, program) == "colorsys"


def test_without_landlock_no_file_opens_at_all() -> None:
    with executor_of("seccomp") as executor:
        program = "import json\ntry: open(json.__file__)\nexcept PermissionError: print('no')"
        assert printed(executor, program) == "no"


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("import socket\ntry: socket.socket()\nexcept PermissionError: print('no')", "no"),
        ("import os\ntry: os.fork()\nexcept PermissionError: print('no')", "no"),
        ("import os\ntry: os.memfd_create('x')\nexcept PermissionError: print('no')", "no"),
        ("import os\ntry: os.kill(os.getppid(), 0)\nexcept PermissionError: print('no')", "no"),
        ("import os\ntry: os.nice(1)\nexcept PermissionError: print('no')", "no"),
        (
            "import os, signal\nsignal.signal(10, lambda *_: print('self'))\nos.kill(os.getpid(), 10)",
            "self",
        ),
        (
            "import threading\nt = threading.Thread(target=print, args=('thread',)); t.start()",
            "thread",
        ),
        ("import socket\na, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))", "b'x'"),
    ],
)
def test_seccomp_decides_single_calls(each_tier: CodeExecutor, program: str, answer: str) -> None:
    assert printed(each_tier, program) == answer


def test_limits_are_hard(each_tier: CodeExecutor) -> None:
    program = """
import resource
for name in ("AS", "FSIZE", "NOFILE", "CORE", "CPU", "NPROC", "MEMLOCK"):
    soft, hard = resource.getrlimit(getattr(resource, "RLIMIT_" + name))
    assert soft == hard != resource.RLIM_INFINITY, name
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
    assert printed(each_tier, program) == str(each_tier.limits.files)


def test_scratch_files_vanish_with_the_run(executor: CodeExecutor) -> None:
    require(executor, "private root")
    program = """
import os, tempfile
print(os.listdir("/tmp"), os.listdir("."))
with tempfile.NamedTemporaryFile("w+", delete=False) as f: f.write("x"); f.flush(); f.seek(0); print(f.read())
open("kept", "w").write("y")
"""
    assert [o.stdout for o in executor.run_stdin(program, [""] * 3)] == [
        "[] ['solution.py']\nx\n"
    ] * 3


def test_scratch_space_is_bounded(executor: CodeExecutor) -> None:
    require(executor, "private root")
    program = """
total = 0
try:
    for n in range(100):
        with open(f"/tmp/{n}", "wb", buffering=0) as f:
            while True: total += f.write(b"x" * 10000)
except OSError: pass
for n in range(100, 200):
    try:
        with open(f"/tmp/{n}", "wb", buffering=0) as f: total += f.write(b"x" * 100000)
    except OSError: pass
print(total <= 4 * 1024 * 1024)
"""
    assert printed(executor, program) == "True"


@pytest.mark.parametrize(
    ("header", "table"),
    [
        ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", syscalls.X86_64),
        ("/usr/include/asm-generic/unistd.h", syscalls.AARCH64),
    ],
)
def test_call_numbers_are_the_kernels(header: str, table: dict[str, int]) -> None:
    if not Path(header).exists():
        pytest.skip(f"no {header}")
    text = Path(header).read_text()
    numbers = {n: int(v) for n, v in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    numbers.setdefault("newfstatat", numbers.get("fstatat", -1))
    wrong = {n: v for n, v in table.items() if n in numbers and numbers[n] != v}
    assert not wrong
    assert len(table) > 150


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_every_named_call_has_a_number(machine: str) -> None:
    _, table = syscalls.MACHINES[machine]
    named = {*filters.ALLOWED, *filters.WRITING, *filters.SERVER_ONLY, *filters.SPAWNING}
    named |= {*filters.CONDITIONAL, "kill", "tgkill", "tkill", "clone", "prctl", "prlimit64"}
    old = set(syscalls.X86_64) - set(syscalls.AARCH64)  # calls that newer machines never had
    assert named - set(table) <= (old if machine == "aarch64" else set())


def decide(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """Run a filter as the kernel would."""
    data = struct.pack("<IIQ6Q", number, audit, 0, *(list(arguments) + [0] * 6)[:6])
    steps = list(struct.iter_unpack("<HBBI", program))
    at = accumulator = 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, operand)[0]
        elif code == 0x54:
            accumulator &= operand
        elif code == 0x05:
            at += operand
        elif code == 0x15:
            at += if_true if accumulator == operand else if_false
        elif code == 0x35:
            at += if_true if accumulator >= operand else if_false
        else:
            assert code == 0x06
            return operand


ALLOW, KILL = 0x7FFF0000, 0x80000000


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_the_base_filter_is_an_allowlist(machine: str) -> None:
    audit, table = syscalls.MACHINES[machine]
    program = filters.base_filter(machine)
    conditional = {*filters.CONDITIONAL, "socket", "clone3", "openat2"}
    free = {*filters.ALLOWED, *filters.WRITING, *filters.SERVER_ONLY, *filters.SPAWNING}
    free |= {"kill", "tgkill", "tkill", "clone", "prctl", "setrlimit", "prlimit64"}
    names = {number: name for name, number in table.items()}
    for number in range(600):
        name = names.get(number, "")
        allowed = decide(program, audit, number) == ALLOW
        if name not in conditional - free:
            assert allowed == (name in free), (number, name)
    assert decide(program, audit ^ 1, table["read"]) == KILL
    assert decide(program, audit, table["read"] | syscalls.X32_BIT) == KILL


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_the_program_filter_looks_at_arguments(machine: str) -> None:
    audit, table = syscalls.MACHINES[machine]
    me = 4242

    def for_me(*, sealed: bool) -> bytes:
        template = filters.program_filter(machine, sealed=sealed, scratch=False, spawning=False)
        prepared = kernel.Filter(template, filters.holes(template))
        prepared.fill(me)
        return prepared.code.raw

    program = for_me(sealed=False)

    def allowed(name: str, *arguments: int) -> bool:
        return decide(program, audit, table[name], *arguments) == ALLOW

    thread, vm = 0x10000, 0x100
    assert allowed("clone", thread | vm)
    assert not allowed("clone", vm)
    assert not allowed("clone", thread | 0x10000000)
    assert allowed("kill", me, 15)
    assert not allowed("kill", me, 9)
    assert not allowed("kill", me + 1, 15)
    assert not allowed("kill", 2**32 - 1, 15)
    assert allowed("tgkill", me, 77, 6)
    assert not allowed("tgkill", me, 77, 9)
    assert allowed("openat", 0, 0, os.O_RDONLY | os.O_CLOEXEC)
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_APPEND):
        assert not allowed("openat", 0, 0, flags)
    assert allowed("prlimit64", 0, 0, 0)
    assert allowed("prlimit64", me, 3, 1)
    assert not allowed("prlimit64", 0, 0, 1)
    assert not allowed("prlimit64", 0, 0, 1 << 32)
    assert not allowed("prlimit64", me + 1, 3, 0)
    assert not allowed("setrlimit", 0)
    assert allowed("setrlimit", 3)
    for name in ("unshare", "mount", "seccomp", "setresuid", "execve", "capset"):
        assert not allowed(name)
    assert decide(for_me(sealed=True), audit, table["openat"]) != ALLOW


NOTHING = 0x00050000
"""The answer of a call that is not made and seems to succeed."""
HIGH = 1 << 32


@pytest.mark.parametrize("machine", syscalls.MACHINES)
@pytest.mark.parametrize("spawning", [False, True])
def test_arguments_that_lead_to_others_are_refused(machine: str, spawning: bool) -> None:
    """Each call with arguments that are the program's own affair, then with some that are not."""
    audit, table = syscalls.MACHINES[machine]
    me, other = 4242, 4243
    template = filters.program_filter(machine, sealed=False, scratch=True, spawning=spawning)
    prepared = kernel.Filter(template, filters.holes(template))
    prepared.fill(me)
    stack = (filters.base_filter(machine), prepared.code.raw)

    def answer(name: str, *arguments: int) -> int:
        answers = {decide(program, audit, table[name], *arguments) for program in stack}
        return next(iter(answers - {ALLOW}), ALLOW)

    own: dict[str, list[tuple[int, ...]]] = {
        "socketpair": [(1, 1), (1, 1 | 0x800 | 0x80000)],
        "sendto": [(3, 1 << 40, 9)],
        "getsockopt": [(3, 1, 3)],
        "clock_gettime": [(0,), (2,), (3,), (11,)],
        "clock_nanosleep": [(1, 1)],
        "madvise": [(0, 4096, 4), (0, 4096, 14)],
        "preadv2": [(3, 1 << 40, 1, 7)],
        "mmap": [(0, 4096, 3, 0x22), (0, 4096, 1, 0x8001)],
        "wait4": [((1 << 64) - 1, 1 << 40, 1)],
        "futex": [(1 << 40, 128), (1 << 40, 128 | 256 | 9)],
        "fcntl": [(3, 1030), (3, 4, 0x800), (3, 5)],
        "kill": [(me, 15)],
        "getpriority": [(0, 0), (0, me)],
        "getpgid": [(0,), (me,)],
    }
    foreign: dict[str, list[tuple[int, ...]]] = {
        "socketpair": [
            (1, 2),
            (1, 2 | 0x80000),
            (1, 3),
            (1, 5),
            (1, 1 | HIGH >> 1),
            (2, 1),
            (16, 3),
        ],
        "sendto": [(3, 0, 9, 0, 1 << 40, 110), (3, 0, 9, 0, 1, 110), (3, 0, 9, 0, HIGH)],
        "sendmsg": [(3, 1 << 40)],
        "getsockopt": [(3, 1, 57), (3, 1, 17), (3, 0, 3)],
        "setsockopt": [(3, 1, 16), (3, 1, 26), (3, 41, 2)],
        "clock_gettime": [((~other << 3 | which) & 0xFFFFFFFF,) for which in (0, 1, 2, 3, 6)],
        "clock_getres": [((~other << 3 | 2) & (HIGH * HIGH - 1),)],
        "clock_nanosleep": [((~other << 3 | 2) & 0xFFFFFFFF,)],
        "madvise": [(0, 4096, advice) for advice in (9, 12, 13, 22, 23, 25, 100, 101, 1 << 31)],
        "preadv2": [(3, 0, 1, 0, 0, 8), (3, 0, 1, 0, 0, 0x80)],
        "pwritev2": [(3, 0, 1, 0, 0, 8)],
        "mmap": [(0, 4096, 3, 0x40022), (0, 4096, 3, 0x2022)],
        "wait4": [(1, 0, 1, 1 << 40)],
        "waitid": [(0, 0, 0, 4, HIGH)],
        "fcntl": [(3, command) for command in (8, 10, 36, 37, 38, 1024, 1025, 1026, 1031, 1036)],
        "kill": [(me, 34), (me, 64)],
        "getpriority": [(1, 0), (2, 0)],
    }
    if not spawning:
        foreign["getpriority"].append((0, other))
        foreign |= {name: [(other,)] for name in ("getpgid", "getsid", "sched_getaffinity")}
        foreign["futex"] = [(1 << 40, 3), (1 << 40, 6), (1 << 40, 8), (1 << 40, 13)]
    assert {
        name: [a for a in cases if answer(name, *a) != ALLOW] for name, cases in own.items()
    } == {name: [] for name in own}
    let = {name: [a for a in cases if answer(name, *a) == ALLOW] for name, cases in foreign.items()}
    assert let == {name: [] for name in foreign}
    without_effect = [("fadvise64", (3, 0, 0, 4)), ("madvise", (0, 4096, 21))]
    if not spawning:
        without_effect += [("fcntl", (3, command)) for command in (6, 7)]
        without_effect += [("futex", (1 << 40, operation)) for operation in (0, 1, 9, 10, 265)]
    for name, arguments in without_effect:
        assert answer(name, *arguments) == NOTHING, (name, arguments)


def test_carving_leaves_holes_unreadable(tmp_path: Path) -> None:
    for name in ("lib/a", "lib/site/numpy", "lib/b/c", "other"):
        (tmp_path / name).mkdir(parents=True)
    root, hole = str(tmp_path / "lib"), str(tmp_path / "lib/site")
    covered = dict(paths.carve([root, str(tmp_path / "other")], [hole]))
    assert covered == {
        root: False,
        str(tmp_path / "lib/a"): True,
        str(tmp_path / "lib/b"): True,
        str(tmp_path / "other"): True,
    }
