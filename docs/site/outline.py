"""Sphinx extension: ``llms.txt``, an outline of the site for language models that links to pages' sources.

The format is that of llmstxt.org. Sections are the captions of the root page; each link is relative and has
the page's first sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import toctree
from sphinx.application import Sphinx

FILE = "llms.txt"
MOST_CHARS = 160
"""Of the words beside a link."""


def outline(app: Sphinx) -> str:
    """The text of the file."""
    root = app.env.get_doctree(app.config.root_doc)
    lines = [f"# {app.config.project} {app.config.version}", "", f"> {opening(root)}"]
    for section in root.findall(toctree):
        lines += ["", f"## {section['caption']}", ""]
        lines += [entry(app, page) for page in _pages(app, section["includefiles"])]
    return "\n".join(lines) + "\n"


def _pages(app: Sphinx, names: list[str]) -> Iterator[str]:
    """Pages of a section with the pages below them."""
    for name in names:
        yield name
        yield from _pages(app, app.env.toctree_includes.get(name, []))


def entry(app: Sphinx, page: str) -> str:
    """One line of the outline."""
    source = Path(app.env.doc2path(page)).suffix
    text = opening(app.env.get_doctree(page))
    return f"- [{app.env.titles[page].astext()}](_sources/{page}{source}): {text}"


def opening(tree: nodes.document) -> str:
    """The first paragraph of a page, cut after a word."""
    text = " ".join(next((one.astext() for one in tree.findall(nodes.paragraph)), "").split())
    if len(text) <= MOST_CHARS:
        return text
    return f"{text[:MOST_CHARS].rpartition(' ')[0]} ..."


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        (Path(app.outdir) / FILE).write_text(outline(app), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
