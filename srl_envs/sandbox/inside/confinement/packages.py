"""Third-party packages that programs may import: named ones only, found by folder, not by search path."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType

from .paths import PACKAGES


def locate(names: Iterable[str], search: list[str]) -> dict[str, str]:
    """Folder of each installed package among `names`, the others are left out."""
    found: dict[str, str] = {}
    for name in names:
        spec = importlib.machinery.PathFinder.find_spec(name, search)
        if spec and spec.submodule_search_locations:
            found[name] = os.path.realpath(next(iter(spec.submodule_search_locations)))
    return found


def importable(found: dict[str, str]) -> None:
    """Let programs import the packages in these folders."""
    sys.meta_path.append(_Finder(found))


def folders(found: Mapping[str, str]) -> dict[str, str]:
    """What must be readable: each package, and the neighbour that holds a wheel's libraries.

    Returns:
        Place in the private root -> path here.
    """
    candidates = {
        f"{PACKAGES}/{name}{suffix}": path + suffix
        for name, path in found.items()
        for suffix in ("", ".libs")
    }
    return {place: path for place, path in candidates.items() if os.path.isdir(path)}


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
