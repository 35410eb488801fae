"""Where the pages of the documentation lie: inside the installed package, or in a checkout's ``docs``."""

from __future__ import annotations

from pathlib import Path

import srl_agents
from srl_envs.errors import ConfigError, nearest

ROOMS = ("", "guides", "environments", "reference", "design")
"""Folders in which a page's name is looked for, in this order."""
_PACKAGE = Path(srl_agents.__file__).parent
_PLACES = (_PACKAGE / "documentation", _PACKAGE.parent / "docs")


def folder() -> Path:
    """The folder of the pages of this version.

    Raises:
        ConfigError: the package was installed without them.
    """
    found = next((place for place in _PLACES if (place / "guides").is_dir()), None)
    if found is None:
        raise ConfigError(
            f"{_PLACES[0]}: the pages are missing. Install the wheel, which has them."
        )
    return found


def topics() -> dict[str, Path]:
    """``guides/endpoints`` -> its file, room by room."""
    root = folder()
    pages = {}
    for room in ROOMS:
        for path in sorted((root / room).glob("*.md")):
            pages[f"{room}/{path.stem}".lstrip("/")] = path
    return pages


def find(topic: str) -> Path:
    """The file of a topic: ``endpoints``, ``guides/endpoints`` or ``docs/guides/endpoints.md``.

    Raises:
        ConfigError: no page has that name.
    """
    pages = topics()
    name = topic.strip("/").removeprefix("docs/").removesuffix(".md").lower()
    by_name = {key.lower(): key for key in pages}
    for room in ROOMS:
        key = by_name.get(f"{room}/{name}".lstrip("/"))
        if key:
            return pages[key]
    stems = {key.rpartition("/")[2]: key for key in reversed(by_name)}
    written = "" if folder() == _PLACES[0] else " `make docs` writes those that come from the code."
    raise ConfigError(f"no page {topic!r}.{nearest(name, stems)} `srl docs` lists all.{written}")


def opening(path: Path) -> str:
    """A page's title."""
    with path.open(encoding="utf-8") as file:
        first = next((line for line in file if line.startswith("# ")), "")
    return first.removeprefix("# ").strip()
