"""A step of building the wheel: the pages of the documentation go into it, for `srl docs`.

Setuptools finds it by pyproject.toml. The built site is left out: making it needs Sphinx and all that it
documents, it is ten times as large, and a page of Markdown is read in any terminal.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools.command.build_py import build_py

DOCS = Path(__file__).parents[1]
TARGET = "srl_agents/documentation"
LEFT_OUT = ("package_readme.md", "index.md", "reference/api/")
"""Pages that speak to a package index, or to Sphinx."""
ENDINGS = (".md", ".ipynb", ".png", ".svg")


def shipped(root: Path = DOCS) -> list[Path]:
    """Files of the documentation that a wheel has, relative to its root."""
    files = (path.relative_to(root) for path in sorted(root.rglob("*")) if path.suffix in ENDINGS)
    return [path for path in files if not path.as_posix().startswith(LEFT_OUT)]


class BuildWithPages(build_py):
    """Setuptools' command, and the pages."""

    def run(self) -> None:
        """Copy modules, then pages; an editable installation reads them where they are."""
        super().run()
        if self.editable_mode:
            return
        for path in shipped():
            target = Path(self.build_lib) / TARGET / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(DOCS / path, target)
