"""Folders that are written once and read by every later resume, with the hashes of their files.

A folder without hashes is older than they are, and is believed.
"""

from __future__ import annotations

import json
from pathlib import Path

from srl_agents.checkpoints.folder import seal_of, sha256_of
from srl_agents.own_folders import rename_durably
from srl_envs.errors import CheckpointError

HASHES = "hashes.json"


def keep_frozen(work: Path, final: Path) -> None:
    """Give a finished folder its name for good, with hashes of the files in it."""
    files = [path for path in sorted(work.iterdir()) if path.is_file()]
    hashes = {path.name: sha256_of(path) for path in files}
    text = json.dumps({"sha256": hashes, "seal": seal_of(hashes)}, indent=1)
    (work / HASHES).write_text(text + "\n")
    rename_durably(work, final)


def changed_files(folder: Path) -> list[str]:
    """Files of a folder from `keep_frozen` that have changed since; empty without hashes."""
    path = folder / HASHES
    if not path.is_file():
        return []
    try:
        found = json.loads(path.read_text())
        hashes = dict(found["sha256"])
        if found["seal"] != seal_of(hashes):
            return [HASHES]
    except (ValueError, KeyError, TypeError):
        return [HASHES]
    return [name for name in hashes if _hash_if_there(folder / name) != hashes[name]]


def check_frozen(folder: Path, mend: str) -> None:
    """Refuse a folder whose files changed since `keep_frozen`.

    Args:
        folder: that is about to be read.
        mend: what the user can do about it.

    Raises:
        CheckpointError: names the files.
    """
    if changed := changed_files(folder):
        files = ", ".join(str(folder / name) for name in changed)
        raise CheckpointError(f"damaged on disk since it was written: {files}. {mend}")


def _hash_if_there(path: Path) -> str | None:
    return sha256_of(path) if path.is_file() else None
