"""The files that a page loads, and JSON that is safe inside one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

_HERE = files("srl_agents.cli.pages.shared")


@dataclass(frozen=True, slots=True)
class SharedFiles:
    """Files of this package."""

    loaded: tuple[Traversable, ...]
    """Styles and scripts, in the order that a page loads them."""
    plotting: tuple[Traversable, ...]
    """Those of them that only charts need."""
    beside: tuple[Traversable, ...]
    """Files that must lie beside them: the plotting library's licence."""


def shared_files() -> SharedFiles:
    """The plotting library (uPlot, unchanged) and our own files on top of it."""
    plotting = _HERE / "uplot"
    style, script = plotting / "uPlot.min.css", plotting / "uPlot.iife.min.js"
    return SharedFiles(
        loaded=(
            style,
            _HERE / "page.css",
            script,
            _HERE / "dom.js",
            _HERE / "theme.js",
            _HERE / "charts.js",
        ),
        plotting=(style, script),
        beside=(plotting / "uPlot.LICENSE",),
    )


def embedded_json(value: Any) -> str:
    """JSON that no content can break out of inside a script, be it a file or an element."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":  # everything else that HTML could read is ASCII-escaped already
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
