"""Namespaces and a private, read-only root: what the server does before it takes any work."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from . import kernel
from .paths import DEVICES

INSIDE_ID = 65534
"""User and group id within the user namespace."""
INSIDE_FURTHER_ID = 100_000
"""First of the further user ids within it."""
_NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
)
SCRATCH_FOLDERS = ("/tmp", "/dev/shm", "/box")
_NEW_ROOT = "/tmp"  # a mount point that exists everywhere; hidden below our own tree
_OLD = "/.old"
_HOST_NAME = "sandbox"


def enter_namespaces(outside_uid: int, outside_gid: int, further_uids: int = 0) -> None:
    """Leave all of the host's namespaces; the next fork is process 1 of the new one.

    A helper that stays behind writes the id maps where root asks for ids other than its own: the
    process that leaves has no say over the host's ids any more.

    Args:
        outside_uid: the host's user id that this process keeps.
        outside_gid: its group id.
        further_uids: how many of the host's user ids that follow become `INSIDE_FURTHER_ID` and
            those after it; needs root.
    """
    me, left = os.getpid(), os.pipe()
    foreign = outside_uid != os.getuid()
    if foreign:
        os.setgroups([])
    helper = os.fork() if foreign else 0
    if foreign and helper == 0:
        _write_maps_and_exit(me, left, (outside_uid, outside_gid, further_uids))
    os.close(left[0])
    try:
        kernel.unshare(_NAMESPACES)
        if foreign:
            os.write(left[1], b"x")
            _, status = os.waitpid(helper, 0)
            if status:
                raise OSError(1, "the id maps were refused")
        else:
            _write_maps(me, outside_uid, outside_gid, 0)
    finally:
        os.close(left[1])


def take_inside_id() -> None:
    """Give up the user id of the caller for the one that the namespace maps."""
    os.setresgid(INSIDE_ID, INSIDE_ID, INSIDE_ID)
    os.setresuid(INSIDE_ID, INSIDE_ID, INSIDE_ID)


def _write_maps(pid: int, uid: int, gid: int, further_uids: int) -> None:
    further = f"\n{INSIDE_FURTHER_ID} {uid + 1} {further_uids}" if further_uids else ""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{INSIDE_ID} {uid} 1{further}"),
        ("gid_map", f"{INSIDE_ID} {gid} 1"),
    ):
        with open(f"/proc/{pid}/{name}", "w") as file:
            file.write(text)


def _write_maps_and_exit(pid: int, left: tuple[int, int], ids: tuple[int, int, int]) -> None:
    code = 1
    try:
        os.close(left[1])
        if os.read(left[0], 1):
            _write_maps(pid, *ids)
            code = 0
    finally:
        os._exit(code)


@dataclass(frozen=True)
class View:
    """The parts of the host's file system that stay in sight, already open.

    Opened after the namespaces were entered, which own the mounts, and before the user id changes:
    a descriptor still leads into a home directory that the later user could not enter by name. The
    new root also covers what lies below its mount point.
    """

    readable: list[str]
    hidden: list[str]
    packages: list[str]
    links: dict[str, str]
    sources: dict[str, int]
    """Place in the new root -> descriptor."""

    @property
    def views(self) -> list[str]:
        """Readable paths that are bound; the others are symbolic links."""
        return [path for path in self.readable if path not in self.links]

    @property
    def covers(self) -> list[str]:
        """Directories to hide below the bound ones."""
        return [path for path in self.hidden if _below(path, self.views)]

    @property
    def extras(self) -> list[str]:
        """Packages that are not in sight already."""
        seen, covers = self.views, self.covers
        return [path for path in self.packages if not _below(path, seen) or _below(path, covers)]

    def close(self) -> None:
        """Close the descriptors."""
        for source in self.sources.values():
            os.close(source)
        self.sources.clear()


def open_view(
    readable: Mapping[str, str], hidden: Iterable[str], packages: Mapping[str, str]
) -> View:
    """Open the given paths for `build_root`; each is a place in the new root -> a path here."""
    links = {place: os.readlink(path) for place, path in readable.items() if os.path.islink(path)}
    wanted = {**readable, **packages, **dict(zip(DEVICES, DEVICES, strict=True))}
    sources = {
        place: os.open(path, os.O_PATH | os.O_CLOEXEC)
        for place, path in wanted.items()
        if place not in links
    }
    return View(list(readable), list(hidden), list(packages), links, sources)


def build_root(view: View) -> None:
    """Replace the root by an empty one with read-only views of the given paths.

    No /proc, no /etc, no home; hidden directories are empty, save for packages inside them.
    """
    kernel.name_host(_HOST_NAME)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    views, covers, extras = view.views, view.covers, view.extras
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("sandbox", _NEW_ROOT, "tmpfs", flags, "size=1m,mode=755")
    for path in [*views, *DEVICES]:
        _bind(view.sources[path], path)
    for path in covers:
        kernel.mount("hidden", _NEW_ROOT + path, "tmpfs", flags, "size=1m,mode=755")
    for path in extras:
        _bind(view.sources[path], path)
    view.close()
    for link, target in view.links.items():
        os.symlink(target, _NEW_ROOT + link)
    for path in (*SCRATCH_FOLDERS, _OLD):
        os.makedirs(_NEW_ROOT + path, exist_ok=True)
    kernel.pivot_root(_NEW_ROOT, _NEW_ROOT + _OLD)
    os.chdir("/")
    kernel.unmount(_OLD)
    os.rmdir(_OLD)
    kernel.seal_mount("/", devices=True)
    for path in [*views, *extras]:
        kernel.seal_mount(path)


def _below(path: str, parents: Iterable[str]) -> bool:
    return any(path == parent or path.startswith(parent + "/") for parent in parents)


def _bind(source: int, path: str) -> None:
    target = _NEW_ROOT + path
    if stat.S_ISDIR(os.fstat(source).st_mode):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    kernel.mount(f"/proc/self/fd/{source}", target, None, kernel.MS_BIND | kernel.MS_REC)


def mount_scratch(size_bytes: int, files: int) -> None:
    """Fresh, empty, size-limited folders for one run, in a mount namespace of its own."""
    kernel.unshare(kernel.CLONE_NEWNS)
    options = f"size={size_bytes},nr_inodes={files},mode=777"
    for folder in SCRATCH_FOLDERS:
        kernel.mount("scratch", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)
    os.chdir(SCRATCH_FOLDERS[-1])


def enter_process_namespace() -> None:
    """Go on in a process namespace of its own, whose every process ends with the program.

    Two processes stay behind: this one, which the server watches, and process 1 of the namespace,
    which dies with this one and takes all others along.
    """
    kernel.unshare(kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC)
    for _ in range(2):
        pid = os.fork()
        if pid:
            kernel.Closing(0)()
            os._exit(_wait_for(pid))
        kernel.die_with_parent()


def _wait_for(pid: int) -> int:
    """Exit code of one child; reaps whatever else ends meanwhile."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
