"""Model names: what `tiny`, `smollm2-135m`, a hub id or a folder stand for."""

from __future__ import annotations

from pathlib import Path


def resolve(name: str) -> Path:
    """Folder with a loadable model."""
    return Path(name)
