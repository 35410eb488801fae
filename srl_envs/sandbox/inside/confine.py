"""The layers around a program: probed and entered by the server, completed by each program's process.

Order matters: namespaces before Landlock (mounting needs what Landlock denies), limits before the
last filter (it forbids raising them), the filter last.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from . import filters, jail, kernel, packages, paths, preload, programs, wire
from .languages import TASK, Interpreter
from .syscalls import MACHINES

SETUP_FAILED = 121
_ANNOUNCEMENT = 4  # descriptor on which a program's process says that it begins
TIERS = ("namespaces", "landlock", "seccomp", "none")
"""Strongest first. Each has the layers of those after it too, where the kernel grants them."""
_UNPRIVILEGED = 61_000  # first of the user ids that servers of root take
_UIDS = 4_000
_NO_LIMITS = wire.Request(wire.RUN, 0, 1e9, 1e9, 1 << 62, 1 << 62, 1 << 30, 1 << 30)
_NO_DESCRIPTOR = 1 << 30  # none is so high
_STACK_BYTES = 256 << 20
_THREAD_STACK_BYTES = 8 << 20  # where an interpreter gives each of its threads as much
_THREADS = 64
_SHARED_UID_THREADS = 4096  # where the user's other processes count too
_SCRATCH_FILES = 1000
_ZERO_LIMITS = ("RLIMIT_CORE", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE")


@dataclass
class Confinement:
    """What is in force, and how a program's process takes its share of it."""

    layers: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Layer -> why the kernel refused it."""
    tier: str = "none"
    own_uid: bool = False
    """No other process of the host has this user id."""
    rights: dict[str, int] = field(default_factory=dict)
    """Path -> what Landlock leaves of it; empty without Landlock."""
    filters: dict[tuple[bool, bool], kernel.Filter] = field(default_factory=dict)
    """(scratch, spawning) -> filter of a program's process."""
    interpreter: Interpreter | None = None
    """What takes the place of a program's process; None where the process itself is Python."""

    base_bytes: int = 0
    """Address space of the server, which a program's own limit comes on top of."""
    entered: bool = False
    """This process took already what is the same for all programs."""
    _started: int = -1
    _close: kernel.Closing = field(init=False)

    def enter(self) -> None:
        """Take what is the same for all programs, for this process and all that it will start."""
        self._take_constant()
        self.entered = True

    def park(self, started: int) -> None:
        """Keep what programs' processes need, besides what arrives with a request.

        Args:
            started: where to announce that a program begins.
        """
        self._started = os.dup(started)

    def rehearse(self) -> None:
        """Do what every program's process will do, as far as that leaves no trace here.

        The interpreter adapts code that runs often, and remembers where it found attributes. A
        child that did it would pay with copies of pages.
        """
        started, null = self._started, os.open(os.devnull, os.O_RDWR)
        self._started = null
        self._close = kernel.Closing(_NO_DESCRIPTOR)
        for _ in range(programs.REHEARSALS):
            self._place((null,) * len(wire.SLOTS))
            _read_all(TASK)
            self._close()
            self._limit(_NO_LIMITS)
            self._announce(_NO_LIMITS)
            os.dup2(null, _ANNOUNCEMENT)  # which must stay taken
            for prepared in self.filters.values():
                prepared.fill(os.getpid())
        self._place((null,) * len(wire.SLOTS))
        os.close(null)
        self._started = started
        self._close = kernel.Closing(TASK + (self.interpreter is not None))

    def run(self, request: wire.Request, descriptors: Sequence[int]) -> None:
        """Complete the confinement of this process and run the program; does not return.

        Args:
            request: the limits.
            descriptors: as listed in `wire.SLOTS`.
        """
        self._place(descriptors)
        payload = _read_all(TASK)
        scratch = bool(request.flags & wire.SCRATCH) and self.tier == "namespaces"
        if scratch:
            jail.mount_scratch(4 * request.file_bytes, _SCRATCH_FILES)
        if request.processes > 1 and self.tier == "namespaces":
            jail.enter_process_namespace()
        self._close()
        self._limit(request)
        if not self.entered:
            self._take_constant(scratch)
        if self.filters:
            self.filters[scratch, request.processes > 1].install(os.getpid())
        self._announce(request)
        if self.interpreter is not None:
            self.interpreter.start(request.memory_bytes)
        programs.run(payload)

    def _place(self, descriptors: Sequence[int]) -> None:
        """Put stdin, stdout, stderr, the result, the announcement and the payload at 0 to 5."""
        payload, stdin, stdout, result = descriptors
        # An open file of its own: its flags would tell the next program what this one set.
        null = os.open(os.devnull, os.O_RDWR)
        for target, source in enumerate((stdin, stdout, null, result, self._started, payload)):
            os.dup2(source, target)
        os.close(null)

    def _announce(self, request: wire.Request) -> None:
        os.write(_ANNOUNCEMENT, request.run.to_bytes(4, "little"))
        os.close(_ANNOUNCEMENT)

    def _take_constant(self, scratch: bool = False) -> None:
        """Landlock, no capabilities, and the limits that are the same for all programs."""
        for name in _ZERO_LIMITS:
            _limit(name, 0)
        _limit("RLIMIT_SIGPENDING", 64, required=False)
        with contextlib.suppress(ValueError, OSError):  # honest programs raise it themselves
            hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
            stack = _STACK_BYTES if self.interpreter is None else _THREAD_STACK_BYTES
            resource.setrlimit(resource.RLIMIT_STACK, (_at_most(stack, hard), hard))
        if self.rights:
            extra = dict.fromkeys(jail.SCRATCH_FOLDERS, kernel.SCRATCH) if scratch else {}
            ruleset, _ = kernel.landlock_ruleset(self.rights | extra)
            kernel.landlock_restrict(ruleset)
            os.close(ruleset)
        if sys.platform == "linux":
            kernel.drop_capabilities()

    def _limit(self, request: wire.Request) -> None:
        threads = _THREADS + request.processes if self.own_uid else _SHARED_UID_THREADS
        # The kernel's backstop; the server looks more closely, but not at a program's children.
        cpu_s = math.ceil(request.cpu_s) + (2 if request.processes == 1 else 0)
        _limit("RLIMIT_NPROC", threads)
        _limit("RLIMIT_NOFILE", request.files)
        _limit("RLIMIT_FSIZE", request.file_bytes, required=True)
        _limit("RLIMIT_CPU", cpu_s, required=True)
        if self.interpreter is None:
            _limit("RLIMIT_AS", self.base_bytes + request.memory_bytes, required=True)
        else:  # such interpreters reserve far more addresses than they use
            bound = self.interpreter.base_bytes + request.memory_bytes
            _limit("RLIMIT_DATA", bound, required=True)


def occupy() -> None:
    """Take the descriptors that a program gets, so that all later ones lie above them."""
    while os.open(os.devnull, os.O_RDWR) <= TASK:
        pass


def _read_all(descriptor: int) -> bytes:
    size = os.lseek(descriptor, 0, os.SEEK_END)
    os.lseek(descriptor, 0, os.SEEK_SET)
    data = b""
    while part := os.pread(descriptor, size - len(data), len(data)):
        data += part
    return data


def _limit(name: str, value: int, *, required: bool = False) -> None:
    kind = getattr(resource, name, None)
    if kind is None:
        return
    try:
        bound = _at_most(value, resource.getrlimit(kind)[1])
        resource.setrlimit(kind, (bound, bound))
    except (ValueError, OSError):
        if required:  # some kernels lack the others
            raise


def _at_most(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def _mapped_bytes() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 256 << 20


def strongest(settings: dict[str, Any], control: int) -> Confinement:
    """Enter the strongest tier that this kernel grants and `settings` ask for.

    Returns in the process that shall serve: with namespaces, that is a child of the caller's.
    """
    found = packages.locate(settings["packages"], settings["search"])
    preload.load(settings["preload"])
    confinement = Confinement(base_bytes=_mapped_bytes())
    executable = settings["interpreter"]
    if executable:
        confinement.interpreter = Interpreter(settings["language"], executable)
    if sys.platform != "linux":
        confinement.missing["seccomp"] = f"{sys.platform} has none of the layers"
        return confinement
    wanted = TIERS[TIERS.index(settings["tier"]) :]
    _volunteer_for_oom()
    readable = paths.readable([executable] if executable else [])
    view = _View(readable, paths.hidden(), packages.folders(found))
    uid = os.getuid() or _UNPRIVILEGED + os.getpid() % _UIDS
    if "namespaces" in wanted:
        _enter_namespaces(confinement, view, uid, control)
    if "landlock" in wanted:
        _prepare_landlock(confinement, view)
    if os.getuid() == 0:
        _leave_root(confinement, uid)
    kernel.not_dumpable()
    kernel.no_new_privileges()
    if confinement.tier == "namespaces":
        kernel.die_with_parent()
    else:
        kernel.drop_capabilities()
    confinement.layers.append("no capabilities")
    if "seccomp" in wanted:
        _install_seccomp(confinement, found)
    confinement.layers.append("rlimits")
    return confinement


class _View(NamedTuple):
    """Parts of the host's file system that stay in sight."""

    readable: list[str]
    hidden: list[str]
    packages: list[str]


def _volunteer_for_oom() -> None:
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("800")


def _enter_namespaces(confinement: Confinement, view: _View, uid: int, control: int) -> None:
    def enter() -> jail.View:
        jail.enter_namespaces(uid, uid if os.getuid() == 0 else os.getgid())
        opened = jail.open_view(*view)
        jail.take_inside_id()
        return opened

    def rehearse() -> bool:
        jail.build_root(enter())
        return not os.path.exists("/proc/self") and not os.path.exists("/etc/passwd")

    refusal = _rehearsal(rehearse)
    if refusal:
        confinement.missing["namespaces"] = refusal
        return
    opened = enter()
    pid = os.fork()
    if pid:
        os.close(control)
        _wait_and_exit(pid)
    kernel.die_with_parent()
    jail.build_root(opened)
    confinement.tier = "namespaces"
    confinement.own_uid = True
    confinement.layers += ["namespaces", "private root"]


def _wait_and_exit(pid: int) -> None:
    """What is left of the process outside: it holds process 1 of the namespace as its child."""
    while True:
        with contextlib.suppress(InterruptedError):
            os.waitpid(pid, 0)
            os._exit(0)


def _prepare_landlock(confinement: Confinement, view: _View) -> None:
    rights = {
        path: kernel.READ if whole else kernel.LIST
        for path, whole in paths.carve(view.readable, view.hidden)
    }
    rights |= dict.fromkeys(view.packages, kernel.READ)
    rights |= dict.fromkeys(paths.DEVICES, kernel.READ_WRITE_FILE)

    def rehearse() -> bool:
        kernel.no_new_privileges()
        kernel.landlock_restrict(kernel.landlock_ruleset(rights)[0])
        return not os.access("/", os.R_OK) or _refused("/")

    refusal = _rehearsal(rehearse)
    if refusal:
        confinement.missing["landlock"] = refusal
        return
    ruleset, abi = kernel.landlock_ruleset(rights)
    os.close(ruleset)
    confinement.rights = rights
    confinement.layers.append(f"landlock {abi}")
    if confinement.tier == "none":
        confinement.tier = "landlock"


def _refused(folder: str) -> bool:
    try:
        os.listdir(folder)
    except OSError:
        return True
    return False


def _leave_root(confinement: Confinement, uid: int) -> None:
    """Become a user without rights, unless that user could not read the interpreter any more."""

    def leave() -> bool:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        with open(os.__file__, "rb"):
            return True

    refusal = _rehearsal(leave)
    if refusal:
        confinement.missing["own user"] = refusal
        return
    leave()
    confinement.own_uid = True
    confinement.layers.append("own user")


def _install_seccomp(confinement: Confinement, found: dict[str, str]) -> None:
    machine = os.uname().machine
    if machine not in MACHINES:
        confinement.missing["seccomp"] = f"no system call table for {machine}"
        confinement.tier = "none"
        return
    base = kernel.Filter(filters.base_filter(machine))

    def rehearse() -> bool:
        base.install()
        return _no_socket()

    refusal = _rehearsal(rehearse)
    if refusal:
        confinement.missing["seccomp"] = refusal
        confinement.tier = "none"
        return
    if confinement.tier == "none":
        if confinement.interpreter is not None:
            confinement.missing["seccomp"] = "alone it opens no file, and so no other interpreter"
            return
        confinement.tier = "seccomp"
        packages.load(found)  # no file can be opened later
        preload.load(preload.RARE)
        confinement.base_bytes = _mapped_bytes()
    base.install()
    sealed = confinement.tier == "seccomp"
    confinement.filters = {
        (scratch, spawning): _program_filter(
            sealed=sealed,
            scratch=scratch,
            spawning=spawning,
            replacing=confinement.interpreter is not None,
        )
        for scratch in (False, True)
        for spawning in (False, True)
    }
    confinement.layers.append("seccomp, no files" if sealed else "seccomp")


def _program_filter(**rules: bool) -> kernel.Filter:
    template = filters.program_filter(os.uname().machine, **rules)
    return kernel.Filter(template, filters.holes(template))


def _no_socket() -> bool:
    import socket  # noqa: PLC0415 - loaded already; named here because only the rehearsal uses it

    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    except PermissionError:
        return True
    return False


def _rehearsal(attempt: Callable[[], bool]) -> str:
    """Why `attempt` fails, tried in a process that is thrown away; empty where it works.

    Trying is the only reliable probe: version numbers and settings promise what policies refuse.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = "" if attempt() else "granted, but without effect"
        except Exception as error:  # noqa: BLE001 - the reason goes to the caller
            answer = f"{type(error).__name__}: {error}"[:200] or "unknown"
        try:
            os.write(write_end, b"+" if not answer else answer.encode("utf-8", "replace"))
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        answer_bytes = pipe.read()
    os.waitpid(pid, 0)
    if answer_bytes == b"+":
        return ""
    return answer_bytes.decode("utf-8", "replace") or "the attempt was killed"
