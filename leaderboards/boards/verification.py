"""A board's verdict on a bundle: ``ROOT16.verified.json`` beside it, signed with the board's key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leaderboards.bundles.verify import LEVELS, Verdict
from leaderboards.contents.intake import BundleError, open_regular
from leaderboards.keys import SigningKey, is_signed
from leaderboards.provenance import now
from leaderboards.registration.tickets import write_json
from srl_envs import __version__
from srl_envs.errors import StoreError

VERIFIED = ".verified.json"
"""Behind the name of the bundle's folder."""
_MOST_BYTES = 1 << 20
_PURPOSE = "verification/1"


def write_verified(
    folder: Path, root: str, verdict: Verdict, key: SigningKey, published: str = ""
) -> None:
    """Sign what was checked, beside the bundle's folder.

    Args:
        folder: of the bundle.
        root: of the bundle.
        verdict: what was checked.
        key: of the board.
        published: when the bundle came in; now if empty.
    """
    when = now()
    said = {
        "root": root,
        "level": verdict.reached,
        "checked": verdict.checked,
        "notes": verdict.notes,
        "srl": __version__,
        "published": published or when,
        "when": when,
    }
    write_json(verified_path(folder), key.signed(_PURPOSE, said))


def read_verified(folder: Path, root: str, keys: Sequence[str]) -> dict[str, Any]:
    """What was checked.

    Args:
        folder: of the bundle.
        root: of the bundle.
        keys: public ones, of which one must have signed it.

    Raises:
        StoreError: the verdict is missing, it is of another bundle, or another key signed it.
    """
    path = verified_path(folder)
    try:
        with open_regular(path.parent, path.name) as file:
            said = dict(json.loads(file.read(_MOST_BYTES)))
    except (BundleError, OSError, ValueError, TypeError, RecursionError) as error:
        reason = str(error) if isinstance(error, BundleError) else type(error).__name__
        raise StoreError(f"{path.name} cannot be read ({reason}): publish {folder.name}.") from None
    if not any(is_signed(public, _PURPOSE, said) for public in keys):
        raise StoreError(
            f"{path.name} is not signed by this board's key: it was edited, or written by another board. "
            "Publish the bundle, or `srl leaderboard rekey`."
        )
    whole = isinstance(said.get("published"), str) and said.get("level") in LEVELS
    if said.get("root") != root or not whole:
        raise StoreError(f"{path.name} is the verdict on another bundle than {folder.name}.")
    return said


def verified_path(folder: Path) -> Path:
    """Path of the verdict on a bundle."""
    return folder.with_name(folder.name + VERIFIED)
