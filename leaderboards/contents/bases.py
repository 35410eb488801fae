"""Names of base models on a board: from the hash of their weights, never from an entrant's text."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leaderboards.contents.fields import FieldError, MapOf, Text, hexadecimal
from leaderboards.contents.intake import BundleError, open_regular
from leaderboards.names import default_name
from srl_agents.agents.resolver import MODELS
from srl_envs.errors import StoreError

BASES = "bases.json"
_MOST_BYTES = 1 << 20
_BASES_FILE = MapOf(hexadecimal(64), Text(80, 1), 10_000)

KNOWN = {
    "34cf4a790013445ead099e8eb844b0fcd5cc22f552b2d8bf687249a1154343d2": "tiny",
    "62a6a4c298dc761684f48a87f88b6bea35fa4d4af73c2acb0e8b90b310261227": "tiny-shallow",
    "2e0b17ee4a88c4459fd43012628c9e8049540d349cda35896970e3e74500c205": "smollm2-135m",
}
"""Hash of the weights -> name in the catalog. A board adds its own in ``bases.json``."""
HINT = re.compile(r"\w[\w.\-]*(/\w[\w.\-]*)?", re.ASCII)
"""A name of the catalog, a hub id, or the last part of a folder: never a full path of a disk."""
_DIGITS = 12


def base_label(spec: Mapping[str, Any], more: Mapping[str, str] | None = None) -> str | None:
    """What is shown of an agent's base model; None for an agent that has none.

    Args:
        spec: of the agent, whose own word for its base is not looked at.
        more: hash -> name, the board's own.
    """
    sha256 = spec.get("base_sha256")
    if not isinstance(sha256, str):
        return None
    return {**(more or {}), **KNOWN}.get(sha256, f"unknown base {sha256[:_DIGITS]}")


def base_hint(name: str) -> str:
    """The source of a base in a bundle; of a folder only its last part."""
    if name.count("/") == 1 and HINT.fullmatch(name):
        return name
    return re.sub(r"^\W|[^\w.\-]", "_", default_name(name), flags=re.ASCII) or "_"


def base_source(spec: Mapping[str, Any]) -> str | None:
    """Where to load an agent's base from; None for weights that only their owner has."""
    known = KNOWN.get(spec["base_sha256"])
    hint = str(spec["base"])
    return known or (hint if "/" in hint or hint in MODELS else None)


def read_bases(board: Path) -> dict[str, str]:
    """What a board calls base models: hash of the weights -> name, from its ``bases.json`` if it has one.

    Raises:
        StoreError: the file is there and holds something else.
    """
    if not os.path.lexists(board / BASES):
        return {}
    try:
        with open_regular(board, BASES) as file:
            found = dict(json.loads(file.read(_MOST_BYTES)))
        _BASES_FILE.check(found)
    except (BundleError, FieldError, OSError, ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"{board / BASES} is not a valid list of bases: {error}") from None
    return found
