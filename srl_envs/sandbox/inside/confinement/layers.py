"""The layers around a program: probed and entered by the server, completed by each program's process.

Order matters: namespaces before Landlock (mounting needs what Landlock denies), limits before the
last filter (it forbids raising them), the filter last.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .. import wire
from ..languages import TASK, Interpreter
from ..program import execution as programs
from ..program import preload, source
from . import entrance, filters, identities, jail, kernel, memory_pressure, packages, paths
from .syscalls import MACHINES

with contextlib.suppress(ModuleNotFoundError):  # of Windows, where the sandbox refuses
    import resource

SETUP_FAILED = 121
_ANNOUNCEMENT = 4  # descriptor on which a program's process announces its start
TIERS = ("namespaces", "landlock", "seccomp", "none")
"""Strongest first. Each has the layers of those after it too, where the kernel grants them."""
_ROOT_ALONE = "only root may read the interpreter or a package, so files are checked against root"
_UNKNOWN_BYTES = 256 << 20
_NO_LIMITS = wire.Request(wire.RUN, 0, 1e9, 1e9, 1 << 62, 1 << 62, 1 << 30, 1 << 30, 1 << 30)
_NO_DESCRIPTOR = 1 << 30  # none is so high
_STACK_BYTES = 256 << 20
_THREAD_STACK_BYTES = 8 << 20  # where an interpreter gives each of its threads as much
_SHARED_THREADS = 4096  # where all of the user's processes count
_SCRATCH_FILES = 1000
_ZERO_LIMITS = ("RLIMIT_CORE", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE")


@dataclass
class Confinement:
    """What is in force, and how a program's process takes its share of it."""

    layers: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Layer -> why the kernel refused it."""
    tier: str = "none"
    identities: identities.Identities = field(default_factory=identities.Identities)
    """User ids or namespaces of the runs."""
    processes: int = -1
    """Descriptor of /proc."""
    rights: dict[str, int] = field(default_factory=dict)
    """Path -> what Landlock leaves of it; empty without Landlock."""
    filters: dict[tuple[bool, bool], kernel.Filter] = field(default_factory=dict)
    """(scratch, spawning) -> filter of a program's process."""
    interpreter: Interpreter | None = None
    """What takes the place of a program's process; None where the process itself is Python."""

    base_bytes: int = 0
    """Address space of the server, which a program's own limit comes on top of."""
    statm: int = -1
    """Descriptor for `measure`."""
    entered: bool = False
    """This process took already what is the same for all programs."""
    _started: int = -1
    _server: int = 0
    _close: kernel.Closing = field(init=False)
    _drop: kernel.Dropping | None = None

    def measure(self) -> None:
        """Set `base_bytes` to what is mapped now."""
        self.base_bytes = _UNKNOWN_BYTES
        if self.statm >= 0:
            pages = int(os.pread(self.statm, 100, 0).split()[0])
            self.base_bytes = pages * resource.getpagesize()

    def enter(self) -> None:
        """Take what is the same for all programs, for this process and all that it will start."""
        self._take_constant()
        self._drop_capabilities(but_users=bool(self.identities.first_uid))
        self.entered = True

    def park(self, started: int) -> None:
        """Keep what programs' processes need, besides what arrives with a request.

        Args:
            started: where to announce that a program begins.
        """
        self._started = os.dup(started)
        self._server = os.getpid()
        if sys.platform == "linux":
            self._drop = kernel.Dropping()

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
            read_all(TASK)
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

    def run(self, request: wire.Request, descriptors: Sequence[int], slot: int) -> None:
        """Complete the confinement of this process and run the program; does not return.

        Args:
            request: the limits.
            descriptors: as listed in `wire.SLOTS`.
            slot: of `identities`, in which no other run is.
        """
        self._place(descriptors)
        payload = read_all(TASK)
        scratch = bool(request.flags & wire.SCRATCH) and self.tier == "namespaces"
        if scratch:
            jail.mount_scratch(4 * request.file_bytes, _SCRATCH_FILES)
            source.keep_in(jail.SCRATCH_FOLDERS[-1])
        if request.processes > 1 and self.tier == "namespaces":
            jail.enter_process_namespace()
        self.identities.take(slot)
        self._close()
        self._limit(request)
        if not self.entered:
            self._take_constant(scratch)
        if self._drop is not None:
            self._drop()
        if self.tier != "namespaces":
            self._end_with_server()
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
        for target, given in enumerate((stdin, stdout, null, result, self._started, payload)):
            os.dup2(given, target)
        os.close(null)

    def _announce(self, request: wire.Request) -> None:
        os.write(_ANNOUNCEMENT, request.run.to_bytes(4, "little"))
        os.close(_ANNOUNCEMENT)

    def _end_with_server(self) -> None:
        """Where no process namespace sees to it."""
        if sys.platform == "linux":
            kernel.die_with_parent()
            if os.getppid() != self._server:
                os._exit(SETUP_FAILED)

    def _drop_capabilities(self, *, but_users: bool) -> None:
        if sys.platform == "linux":
            kernel.Dropping(but_users=but_users)()

    def _take_constant(self, scratch: bool = False) -> None:
        """Landlock, and the limits that are the same for all programs."""
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

    def _limit(self, request: wire.Request) -> None:
        own = request.threads + request.processes
        threads = own if self.identities.layer else _SHARED_THREADS
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


def read_all(descriptor: int) -> bytes:
    """What a regular file holds, from its start."""
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


def strongest(settings: dict[str, Any]) -> Confinement:
    """Enter the strongest tier that this kernel grants and `settings` ask for.

    Returns in the process that shall serve: with namespaces, that is another one, in which the
    server was executed anew with settings that say so.
    """
    inside = "view" in settings
    executable = settings["interpreter"]
    confinement = Confinement()
    wanted = TIERS[TIERS.index(settings["tier"]) :]
    if inside:
        found, view = settings["found"], entrance.View(*settings["view"])
        confinement.tier = "namespaces"
        confinement.layers += ["namespaces", "private root"]
    else:
        found = packages.locate(settings["packages"], settings["search"])
        view = entrance.View.of_host(executable, found)
        if sys.platform == "linux" and "namespaces" in wanted:
            refusal = entrance.start_inside(settings, view, found)
            confinement.missing["namespaces"] = refusal
    if executable:
        confinement.interpreter = Interpreter(settings["language"], executable)
    packages.importable(found)
    preload.load([*preload.COMMON, *settings["preload"]])
    confinement.statm = settings.get("statm", -1) if inside else entrance.open_statm()
    confinement.processes = settings["processes"] if inside else memory_pressure.open_processes()
    confinement.measure()
    for name in ("LD_BIND_NOW", "LD_LIBRARY_PATH"):
        os.environ.pop(name, None)
    if sys.platform != "linux":
        confinement.missing["seccomp"] = f"{sys.platform} has none of the layers"
        return confinement
    if "landlock" in wanted:
        _prepare_landlock(confinement, view)
    _take_identities(confinement, settings, found)
    kernel.dumpable(False)
    kernel.no_new_privileges()
    if confinement.tier == "namespaces":
        kernel.die_with_parent()
    else:
        sys.executable = ""  # the host's, which no program can start
    confinement.layers.append("no capabilities")
    if "seccomp" in wanted:
        _install_seccomp(confinement, found)
    confinement.layers.append("rlimits")
    if confinement.identities.layer:
        confinement.layers.append(confinement.identities.layer)
    return confinement


def _take_identities(
    confinement: Confinement, settings: dict[str, Any], found: dict[str, str]
) -> None:
    """Find out who the runs can be; from root, leave for another user."""
    if confinement.tier == "namespaces":
        first_uid, namespaces = settings["identities"]
        made = identities.Identities(first_uid, namespaces=tuple(namespaces))
        _use_identities(confinement, lambda: made)
    elif os.getuid() == 0:
        uid = identities.free_block()
        _leave_root(confinement, uid, [os.__file__, *found.values()])
    else:
        _use_identities(confinement, identities.by_namespace)


def _use_identities(confinement: Confinement, make: Callable[[], identities.Identities]) -> None:
    """Give each run its own, unless the kernel does not count by them."""
    try:
        made = make()
    except OSError as error:
        confinement.missing["own threads"] = str(error)
        return
    refusal = entrance.rehearsal(made.counts_alone)
    if refusal:
        confinement.missing["own threads"] = refusal
        return
    confinement.identities = made


def _prepare_landlock(confinement: Confinement, view: entrance.View) -> None:
    rights = {
        path: kernel.READ if whole else kernel.LIST
        for path, whole in paths.carve(view.readable.values(), view.hidden.values())
    }
    rights |= dict.fromkeys(view.packages.values(), kernel.READ)
    rights |= dict.fromkeys(paths.DEVICES, kernel.READ_WRITE_FILE)

    def rehearse() -> bool:
        kernel.no_new_privileges()
        kernel.landlock_restrict(kernel.landlock_ruleset(rights)[0])
        return not os.access("/", os.R_OK) or _refused("/")

    refusal = entrance.rehearsal(rehearse)
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


def _leave_root(confinement: Confinement, uid: int, needed: Sequence[str]) -> None:
    """Become a user without rights.

    Where that user may not read the interpreter, as below a home of root, the kernel goes on to check
    files against root: Landlock, where present, decides which of them can be read.

    Args:
        confinement: gets the layer, or why it is missing.
        uid: the user.
        needed: files and folders that programs read.
    """
    for files_as_root in (False, True):
        refusal = entrance.rehearsal(partial(_leave, uid, needed, files_as_root))
        if not refusal:
            break
    else:
        confinement.missing["own user"] = refusal
        return
    _leave(uid, needed, files_as_root)
    confinement.layers.append("own user")
    if files_as_root:
        confinement.missing["own files"] = _ROOT_ALONE
    made = identities.Identities(uid + 1, files_as_root)
    _use_identities(confinement, lambda: made)


def _leave(uid: int, needed: Sequence[str], files_as_root: bool) -> bool:
    kernel.keep_capabilities()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kernel.Dropping(but_users=True)()
    if files_as_root:
        kernel.open_files_as(0)
    for (
        path
    ) in needed:  # not `os.access`, which does not ask for the user that files are checked by
        os.close(os.open(path, os.O_RDONLY))
    return True


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

    refusal = entrance.rehearsal(rehearse)
    if refusal:
        confinement.missing["seccomp"] = refusal
        confinement.tier = "none"
        return
    if confinement.tier == "none":
        if confinement.interpreter is not None:
            confinement.missing["seccomp"] = (
                "by itself it opens no file, and so no other interpreter"
            )
            return
        confinement.tier = "seccomp"
        packages.load(found)  # no file can be opened later
        preload.load(preload.RARE)
        confinement.measure()
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
