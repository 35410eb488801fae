"""Third-party packages that programs may import: named ones only, found by folder, not by search path."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType


def locate(names: Iterable[str], search: list[str]) -> dict[str, str]:
    """Folder of each installed package among `names`, made importable; the others are left out."""
    found: dict[str, str] = {}
    for name in names:
        spec = importlib.machinery.PathFinder.find_spec(name, search)
        if spec and spec.submodule_search_locations:
            found[name] = os.path.realpath(next(iter(spec.submodule_search_locations)))
    sys.meta_path.append(_Finder(found))
    return found


def folders(found: dict[str, str]) -> list[str]:
    """What must be readable: each package, and the neighbour that holds a wheel's libraries."""
    candidates = [path + suffix for path in found.values() for suffix in ("", ".libs")]
    return [path for path in candidates if os.path.isdir(path)]


def load(found: dict[str, str]) -> None:
    """Import the packages now."""
    for name in found:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


class _Finder:
    """Finds exactly the located packages."""

    def __init__(self, found: dict[str, str]) -> None:
        self._found = found

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The package's spec, None for any other name."""
        folder = self._found.get(name)
        if folder is None:
            return None
        return importlib.util.spec_from_file_location(
            name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
