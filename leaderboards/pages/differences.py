"""What changed between two sites of one board: new and lost agents, places that moved, new epochs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_MOST_BYTES = 512 << 20
MOST_LINES = 60


def last_site(folder: Path) -> dict[str, Any] | None:
    """The numbers of the site that a folder holds; None where it holds none that can be read."""
    path = folder / "data.json"
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    """One line per difference, all games first; none without an earlier site or of another format.

    Args:
        before: ``data.json`` of the earlier site.
        after: the data of the new one.
    """
    if before is None or before.get("schema") != after["schema"]:
        return []
    try:
        lines = list(_lines(before, after))
    except (KeyError, TypeError, AttributeError):  # a file that something else wrote
        return []
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"and {more} more differences"]


def _lines(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = (_rows(data["all_games"]["agents"]) for data in (before, after))
    yield from _moved("all games", old, new)
    boards = {_name(board): board for board in before["boards"]}
    for board in after["boards"]:
        name = _name(board)
        earlier = boards.get(name)
        if earlier is None:
            yield f"{name}: a new game, with {len(board['agents'])} agents"
            continue
        epochs = len(board.get("earlier", [])) - len(earlier.get("earlier", []))
        if epochs > 0:
            yield f"{name}: a new epoch, {epochs} bundles left the rating"
        yield from _moved(name, _rows(earlier["agents"]), _rows(board["agents"]))
    for name in boards.keys() - {_name(board) for board in after["boards"]}:
        yield f"{name}: no longer on this site"


def _moved(
    game: str, old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    for name, row in new.items():
        if name not in old:
            yield f"{game}: {name} is new, rank {_rank(row)}"
        elif _rank(old[name]) != _rank(row):
            yield f"{game}: {name} has rank {_rank(row)}, before {_rank(old[name])}"
    yield from (f"{game}: {name} is gone" for name in old if name not in new)


def _rows(rows: Any) -> dict[str, Mapping[str, Any]]:
    return {row["agent"]: row for row in rows}


def _rank(row: Mapping[str, Any]) -> str:
    best, worst = row["best_rank"], row["worst_rank"]
    if best is None:
        return "none"
    return str(best) if best == worst else f"{best} to {worst}"


def _name(board: Mapping[str, Any]) -> str:
    return str(board.get("protocol") or f"{board['env_id']} {board['options']}".rstrip())
