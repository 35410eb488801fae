"""Paths of program collections outside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3].parent / "shared"


def folder(name: str) -> Path:
    """The collection's folder; skips the test where there is none."""
    path = SHARED / "data" / name
    if not path.is_dir():
        pytest.skip(f"no {name} collection beside the repository")
    return path
