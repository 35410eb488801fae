"""The way into the namespaces: the interpreter starts anew inside the private root.

Anew, because its memory holds traces of where it was started: command line, module paths, shared
libraries. In the private root all of these have places that are the same on every host.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from . import identities, jail, kernel, memory_pressure, packages, paths

_STARTS = "import array, ctypes, json, socket, zlib"
"""What the interpreter must be able to do inside."""


class View(NamedTuple):
    """Parts of the host's file system that stay in sight: place in the private root -> path here."""

    readable: dict[str, str]
    hidden: dict[str, str]
    packages: dict[str, str]

    @classmethod
    def of_host(cls, executable: str, found: Mapping[str, str]) -> View:
        """What programs need: an interpreter other than Python, if any, and packages."""
        readable = paths.readable([executable] if executable else [])
        return cls(_placed(readable), _placed(paths.hidden()), packages.folders(found))

    def moved(self) -> View:
        """The same, seen from inside the private root."""
        return View(*({place: place for place in part} for part in self))


def _placed(of_host: Iterable[str]) -> dict[str, str]:
    return {paths.place(path): path for path in of_host}


def start_inside(settings: Mapping[str, Any], view: View, found: Mapping[str, str]) -> str:
    """Execute the server once more, as process 1 of new namespaces, with a private root.

    Args:
        settings: of the server; the settings inside are the same with other paths.
        view: what the private root shows.
        found: folders of the packages that programs may import.

    Returns:
        Why the kernel refused. Where it does not, the caller's process ends here.
    """
    root = os.getuid() == 0
    uid = identities.free_block() if root else os.getuid()
    python = os.path.realpath(sys.executable)
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ours = {paths.place(python): python, paths.CODE: folder}

    def enter() -> jail.View:
        further = identities.SLOTS if root else 0
        jail.enter_namespaces(uid, uid if root else os.getgid(), further)
        opened = jail.open_view(view.readable | ours, view.hidden, view.packages)
        jail.take_inside_id()
        return opened

    def starts_inside() -> bool:
        _build_root(enter())
        if os.path.exists("/proc/self") or os.path.exists("/etc/passwd"):
            return False
        pid = os.fork()
        if pid == 0:
            _execute(paths.place(python), "-c", _STARTS)
        if os.waitpid(pid, 0)[1]:
            raise OSError("the interpreter does not start in a private root")
        return True

    refusal = rehearsal(starts_inside)
    if refusal:
        return refusal
    opened = enter()
    pid = os.fork()
    if pid:
        os.close(settings["control"])
        _wait_and_exit(pid)
    kernel.die_with_parent()
    statm, processes = open_statm(), memory_pressure.open_processes()
    first_uid, namespaces = (jail.INSIDE_FURTHER_ID, ()) if root else (0, identities.namespaces())
    _build_root(opened)
    executable = settings["interpreter"]
    inside = {
        "statm": statm,
        "processes": processes,
        "identities": [first_uid, namespaces],
        "found": {name: f"{paths.PACKAGES}/{name}" for name in found},
        "view": view.moved(),
        "interpreter": executable and paths.place(executable),
    }
    settings_fd = os.memfd_create("settings", 0)
    os.write(settings_fd, json.dumps({**settings, **inside}).encode())
    for kept in (settings["control"], statm, processes, *namespaces):
        if kept >= 0:
            os.set_inheritable(kept, True)
    _execute(paths.place(python), paths.CODE, str(settings_fd))


def _build_root(opened: jail.View) -> None:
    jail.build_root(opened)
    kernel.keep_to_serve()


def _execute(python: str, *arguments: str) -> NoReturn:
    libraries = paths.place(os.path.realpath(paths.libraries()))
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    os.execve(python, [python, "-s", "-S", "-B", *arguments], environment)


def open_statm() -> int:
    """Descriptor of the kernel's count of this process's pages, for a place without /proc; or -1."""
    try:
        return os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        return -1


def _wait_and_exit(pid: int) -> None:
    """What is left of the process outside: it holds process 1 of the namespace as its child."""
    while True:
        with contextlib.suppress(InterruptedError):
            os.waitpid(pid, 0)
            os._exit(0)


def rehearsal(attempt: Callable[[], bool]) -> str:
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
