"""Where the pages of the documentation lie: inside the installed package, or in a checkout's ``docs``."""

from __future__ import annotations

import pydoc
from pathlib import Path

import srl_agents
from srl_envs.errors import ConfigError, nearest

ROOMS = ("", "guides", "environments", "reference", "design")
"""Folders in which a page's name is looked for, in this order."""
MODULES = {
    "srl_envs": "make, play and replay games",
    "srl_envs.core": "what a game is made of",
    "srl_envs.rewards": "answer matcher, format checker, rubrics",
    "srl_envs.sandbox": "run untrusted programs",
    "srl_envs.wrappers": "change what seats see and what they are paid",
    "srl_envs.vector": "many episodes at once",
    "srl_envs.testing": "the checks that every environment passes",
    "srl_agents": "train, open a run, write a loop of one's own",
    "srl_agents.records": "what passes between the parts of a run",
    "srl_agents.testing": "the checks of algorithms, engines, transports and other kinds",
}
"""Public modules -> what they are for."""
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


def python_help(topic: str) -> str | None:
    """What Python's help says of a public module, or of a name in one; None if the topic is a page.

    Raises:
        ConfigError: the module has no such public name.
    """
    places = [name for name in MODULES if f"{topic}.".startswith(f"{name}.")]
    if not places:
        return None
    place = max(places, key=len)
    module = pydoc.locate(place)
    rest = topic.removeprefix(place).lstrip(".")
    public = getattr(module, "__all__", ())
    if rest and rest.partition(".")[0] not in public:
        raise ConfigError(f"{place} has no public name {rest!r}.{nearest(rest, public)}")
    found = pydoc.locate(topic)
    if found is None:
        raise ConfigError(f"{topic}: no such name. `srl docs {place}` lists those that there are.")
    return pydoc.plain(pydoc.render_doc(found))
