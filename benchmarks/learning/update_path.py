"""Files of this repository that one update of a run goes through: what a reader of an update has to read.

    python -m benchmarks.learning.update_path [--recipe quickstart-tiny] [--set rollout.group_size=4]
        [--update 2] [--functions]

A run is trained up to the update. From its first phase to its last, Python reports each call in every thread
to a profile hook, which notes the function's file. Only calls count: a class that is made by `dataclass`, or
a module that is only imported, is not gone through. The first update is left out, as it fills caches. The
table has the files and their lines by package; ``--functions`` lists what was called in each file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import srl_agents
from srl_agents.training.loop.run import LeagueTraining

ROOT = Path(srl_agents.__file__).parents[1]
PACKAGES = ("srl_agents", "srl_envs")


class UpdatePath:
    """Notes the functions that one update calls; use it as a context manager around the training.

    Args:
        number: of the update, from 1; the first that this process makes counts as 1.
    """

    def __init__(self, number: int = 2) -> None:
        self._number, self._begun = number, 0
        self._open = False
        self._seen: set[CodeType] = set()

    def __enter__(self) -> UpdatePath:
        threading.setprofile(self._hook)
        sys.setprofile(self._hook)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @property
    def functions(self) -> dict[Path, list[str]]:
        """File, from the repository's root -> functions that were called in it, in the order of lines."""
        found: defaultdict[Path, list[tuple[int, str]]] = defaultdict(list)
        for code in self._seen:
            path = Path(code.co_filename)
            if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PACKAGES:
                name = getattr(code, "co_qualname", code.co_name)
                found[path.relative_to(ROOT)].append((code.co_firstlineno, name))
        return {path: [name for _, name in sorted(found[path])] for path in sorted(found)}

    def _hook(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code is LeagueTraining._update.__code__:
            self._begun += event == "call"
            self._open = self._begun == self._number and event == "call"
        if self._open and event == "call":
            self._seen.add(code)


def update_path(
    recipe: str, *, update: int = 2, overrides: Sequence[str] = ()
) -> dict[Path, list[str]]:
    """Train a run up to an update, in a folder that is removed; returns `UpdatePath.functions`.

    Args:
        recipe: name of a shipped recipe, or a YAML file.
        update: to follow.
        overrides: settings, as for ``srl train --set``.
    """
    with tempfile.TemporaryDirectory() as folder, UpdatePath(update) as path:
        srl_agents.train(
            recipe, out=Path(folder) / "run", updates=update + 1, overrides=overrides, quiet=True
        )
    return path.functions


def lines_of(path: Path) -> int:
    """Lines of a file of the repository."""
    return len((ROOT / path).read_text(encoding="utf-8").splitlines())


def main() -> None:
    """Follow an update and print the tables."""
    parser = argparse.ArgumentParser(description="Files that one update of a run goes through.")
    parser.add_argument("--recipe", default="quickstart-tiny", help="a shipped one, or a YAML file")
    parser.add_argument("--set", action="append", default=[], help="a setting over the recipe's")
    parser.add_argument("--update", type=int, default=2)
    parser.add_argument("--functions", action="store_true", help="list what was called")
    options = parser.parse_args()
    found = update_path(options.recipe, update=options.update, overrides=options.set)
    files, lines = Counter[str](), Counter[str]()
    for path, functions in found.items():
        package = "/".join(path.parts[:2])
        files[package] += 1
        lines[package] += lines_of(path)
        if options.functions:
            print(f"{lines_of(path):5} {path}: {', '.join(functions)}")
    print(f"{'package':28} {'files':>5} {'lines':>6}")
    for package in sorted(files):
        print(f"{package:28} {files[package]:5} {lines[package]:6,}")
    print(f"{'all':28} {files.total():5} {lines.total():6,}")


if __name__ == "__main__":
    main()
