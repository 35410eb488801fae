"""Sphinx's settings for the site: the pages under ``docs/`` and what `make docs` writes beside them.

`make site` builds it, without a network; every warning, so every dead link, is a failure. Why this generator:
docs/design/pages.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import srl_envs  # noqa: E402 - found by the line above

project = "SRL"
author = "SRL contributors"
version = release = srl_envs.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "outline",
]
root_doc = "index"
exclude_patterns = ["site/**", "package_readme.md"]
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r".*")]  # types in signatures; links of pages are myst's

myst_heading_anchors = 4
myst_links_external_new_tab = False
myst_enable_extensions = ["dollarmath"]

default_role = "code"  # docstrings write `name`, as Markdown does
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
napoleon_numpy_docstring = False
napoleon_use_rtype = False
python_use_unqualified_type_names = True
add_module_names = False
viewcode_line_numbers = True

html_theme = "furo"
html_title = f"SRL {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = True  # the outline leads to them
html_sourcelink_suffix = ""
html_show_sphinx = False
html_show_search_summary = False  # it would be fetched, which a page opened from disk may not do
html_show_copyright = False
html_theme_options = {"navigation_with_keys": False, "footer_icons": []}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def plain_default(
    _app: Any,
    _what: str,
    _name: str,
    _obj: Any,
    _options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """A signature that parses: a dataclass shows the default of a made field as no expression."""
    return signature and signature.replace("<factory>", "..."), returns


def linked_games(app: Any, page: str, content: list[str]) -> None:
    """Links from the list of games to their pages, which are built and so never linked in the source."""
    if page == "environments/README":
        folder = Path(app.srcdir) / "environments"
        for game in folder.glob("*-v*.md"):
            content[0] = content[0].replace(
                f"| `{game.stem}` |", f"| [`{game.stem}`]({game.name}) |"
            )


def setup(app: Any) -> None:
    """Register with Sphinx."""
    app.connect("source-read", linked_games)
    app.connect("autodoc-process-signature", plain_default)
