"""One self-contained HTML file: style, script and numbers inside, nothing fetched.

Names of agents come from anywhere. They travel as data and reach the page as text nodes, and the
content policy admits exactly the one script and the one style sheet that ship with this package.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from string import Template
from typing import Any

_ASSETS = files("leaderboards.pages") / "assets"


def page(data: dict[str, Any]) -> str:
    """The HTML for the result of `leaderboards.build.board_data`."""
    style, script = (_asset(name) for name in ("board.css", "board.js"))
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src {_source(style)}; script-src {_source(script)}"
    )
    return Template(_asset("index.html")).substitute(
        policy=policy, style=style, script=script, data=embedded_json(data)
    )


def embedded_json(data: dict[str, Any]) -> str:
    """JSON that no content can break out of inside a ``<script>`` element."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":  # everything else that HTML could read is ASCII-escaped already
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    """A content-policy source that matches exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
