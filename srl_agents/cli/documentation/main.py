"""`srl docs [TOPIC]`: the documentation of this version, as it is installed."""

from __future__ import annotations

import pydoc
import sys
from collections.abc import Sequence
from pathlib import Path

from srl_agents.cli.documentation.topics import (
    MODULES,
    ROOMS,
    find,
    folder,
    opening,
    python_help,
    topics,
)
from srl_envs.errors import ConfigError

HELP = """usage: srl docs [--help] [TOPIC]

Show a page of the documentation of this version: in a terminal as a page to scroll, else as Markdown.
Without a TOPIC all pages are listed. A TOPIC is a page's name, with its room where two have that name, or a
public name of Python.

Examples:
  srl docs
  srl docs train_a_league
  srl docs reference/settings
  srl docs srl_envs.make
  srl docs endpoints > endpoints.md"""


def main(argv: Sequence[str]) -> int:
    """Run the command; see `srl docs --help`."""
    if any(word in ("-h", "--help") for word in argv):
        print(HELP)
        return 0
    if len(argv) > 1 or any(word.startswith("-") for word in argv):
        raise ConfigError(f"give one TOPIC, not {' '.join(argv)!r}. See `srl docs --help`.")
    if argv:
        text = python_help(argv[0])
        if text is None:
            _show(find(argv[0]))
        else:
            pydoc.pager(text)
    else:
        _list()
    return 0


def _list() -> None:
    pages = topics()
    width = max(map(len, pages))
    for room in ROOMS:
        print(f"{room.upper() or 'GENERAL'}")
        for topic, path in pages.items():
            if topic.rpartition("/")[0] == room:
                print(f"  {topic:{width}}  {opening(path)}")
    print("PYTHON")
    for name, purpose in MODULES.items():
        print(f"  {name:{width}}  {purpose}")
    print(f"\nThe files are in {folder()}. `srl docs TOPIC` shows one.")


def _show(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if not sys.stdout.isatty():
        print(text, end="")
        return
    try:
        from rich.console import Console
        from rich.markdown import Markdown
    except ModuleNotFoundError:  # the core has no rich
        print(text, end="")
        print(f"\n{path}")
        return
    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
        console.print(str(path), style="dim", highlight=False)
