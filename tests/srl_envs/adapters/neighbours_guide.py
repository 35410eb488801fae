"""The examples of the guide, for the tests that run them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).parents[3] / "docs/guides/neighbours.md"


def examples(title: str) -> list[str]:
    """The Python blocks of one section."""
    section = re.split(r"^## ", GUIDE.read_text(), flags=re.MULTILINE)
    (text,) = [part for part in section if part.startswith(f"{title}\n")]
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def run(code: str) -> dict[str, Any]:
    """The names that an example leaves behind."""
    names: dict[str, Any] = {}
    exec(compile(code, str(GUIDE), "exec"), names)
    return names
