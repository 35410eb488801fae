"""Which parts of the host's file system a program needs to read, and nothing more."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_SYSTEM = ("/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo")
_FILES = ("/etc/ld.so.cache",)
PYTHON, CODE, PACKAGES = "/python", "/inside", "/packages"
"""Paths in the private root of the interpreter, this package, and what programs may import."""


def readable(executables: Iterable[str] = ()) -> list[str]:
    """Directories and files of the interpreters and of the shared libraries they load."""
    wanted = [*_SYSTEM, *_FILES, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    wanted += [path for path in sys.path if path]
    wanted += executables
    wanted.append(libraries())
    return _outermost(os.path.realpath(path) if path not in _SYSTEM else path for path in wanted)


def libraries() -> str:
    """Directory of the shared libraries that come with the interpreter."""
    return os.path.join(sys.base_prefix, "lib")


def place(path: str) -> str:
    """Path in the private root for a path of the host; its name reveals nothing about the host."""
    prefix = os.path.realpath(sys.base_prefix)
    if path.startswith("/usr/") or path in _SYSTEM + _FILES:
        return path  # the same on every host
    if path == prefix or path.startswith(prefix + "/"):
        return PYTHON + path[len(prefix) :]
    return f"{PYTHON}/bin/{os.path.basename(path)}"


def hidden() -> list[str]:
    """Installed packages below the readable directories: no program may import the host's."""
    found = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    for root in (sysconfig.get_path("stdlib"), "/usr/lib/python3", "/usr/local/lib"):
        found |= {os.path.join(root, name) for name in ("site-packages", "dist-packages")}
    return sorted({os.path.realpath(path) for path in found if os.path.isdir(path)})


def carve(roots: Iterable[str], holes: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Cover `roots` without `holes`, for Landlock, which can only add.

    Yields:
        A path, and whether all below it may be read; False means that it may only be listed.
    """
    for root in roots:
        inner = [hole for hole in holes if hole == root or hole.startswith(root + "/")]
        if root in inner:
            continue
        yield root, not inner
        if inner:
            children = (os.path.join(root, name) for name in os.listdir(root))
            yield from carve(list(children), inner)


def _outermost(paths: Iterable[str]) -> list[str]:
    """Existing paths, without those that lie below another of them."""
    kept: list[str] = []
    for path in sorted({path for path in paths if path and os.path.exists(path)}):
        if os.path.islink(path) or not any(path.startswith(parent + "/") for parent in kept):
            kept.append(path)
    return kept
