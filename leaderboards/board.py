"""A board: a folder of verified bundles that only grows, and how it is read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from leaderboards.bundle import MANIFEST, Bundle, open_bundle
from leaderboards.protocol import Protocol
from leaderboards.provenance import now
from leaderboards.verify import LEVELS, Level, Verdict
from srl_agents.league.store import LeagueStore
from srl_envs import __version__
from srl_envs.errors import ConfigError, StoreError

PUBLISHED = Path(__file__).parent / "published"
"""The board that SRL ships."""
CHANGELOG = "changelog.jsonl"
_VERIFIED = ".verified.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One bundle of a board."""

    bundle: Bundle
    level: Level
    """Up to which it was verified when it came in."""
    verified: dict[str, Any]
    """What was checked, by which SRL, and when."""


@dataclass(frozen=True, slots=True)
class BoardGroup:
    """All bundles of one protocol."""

    protocol: Protocol
    entries: tuple[Entry, ...]

    @property
    def levels(self) -> dict[str, Level]:
        """Agent id -> the highest level of a bundle that it is in."""
        found: dict[str, Level] = {}
        for entry in self.entries:
            for agent in entry.bundle.agents:
                found[agent.agent_id] = max(found.get(agent.agent_id, "L0"), entry.level)
        return found


def read_board(folder: Path = PUBLISHED) -> list[BoardGroup]:
    """All groups, sorted by protocol; reads manifests, no records.

    Raises:
        BundleError: a manifest is damaged.
        StoreError: a bundle has no word of its verification.
    """
    entries = [_entry(path.parent) for path in sorted(folder.glob(f"*/*/{MANIFEST}"))]
    groups = groupby(entries, key=lambda entry: entry.bundle.protocol.name)
    return [
        BoardGroup(found[0].bundle.protocol, tuple(found)) for _, g in groups if (found := list(g))
    ]


@contextmanager
def merged_store(group: BoardGroup, path: Path) -> Iterator[LeagueStore]:
    """A league store with the matches of all bundles, each once.

    Args:
        group: from `read_board`.
        path: of the store; made, or filled up.

    Raises:
        StoreError: two bundles have different results for one match, or different agents under one
            name.
    """
    with LeagueStore(path) as store:
        for entry in group.entries:
            for agent in entry.bundle.agents:
                store.add_agent(agent)
            store.report_many(entry.bundle.matches())
        yield store


def publish(bundle: Bundle, verdict: Verdict, board: Path, *, reason: str = "") -> bool:
    """Put a verified bundle into a board, unless its claim is there already.

    Args:
        bundle: stays where it is; a copy goes in.
        verdict: of `verify`; what it asked for must hold.
        board: folder of the board; made if absent.
        reason: for the changelog.

    Returns:
        False if the board has the same claim: somebody played the same and got the same.

    Raises:
        ConfigError: the verdict is no acceptance of this bundle.
    """
    if not verdict.accepted or Path(verdict.bundle).resolve() != bundle.folder.resolve():
        raise ConfigError(
            f"{bundle.folder} was not accepted at {verdict.asked}: it is not published."
        )
    entries = [entry for group in read_board(board) for entry in group.entries]
    if any(entry.bundle.claim == bundle.claim for entry in entries):
        return False
    target = board / bundle.protocol.name / bundle.folder.name
    target.parent.mkdir(parents=True, exist_ok=True)
    work = target.with_name(f".tmp-{target.name}")
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(bundle.folder, work)
    _write(target.with_name(target.name + _VERIFIED), _verification(bundle, verdict))
    work.rename(target)
    line = {
        "when": now(),
        "action": "add",
        "env": bundle.protocol.name,
        "root": bundle.root,
        "agents": [agent.agent_id for agent in bundle.entrants] or list(bundle.protocol.references),
        "reason": reason,
    }
    with (board / CHANGELOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return True


def _verification(bundle: Bundle, verdict: Verdict) -> dict[str, Any]:
    return {
        "root": bundle.root,
        "level": verdict.reached,
        "checked": verdict.checked,
        "notes": verdict.notes,
        "srl": __version__,
        "when": now(),
    }


def _entry(folder: Path) -> Entry:
    path = folder.with_name(folder.name + _VERIFIED)
    bundle = open_bundle(folder)
    try:
        verified = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{path} cannot be read ({type(error).__name__}): publish {folder}."
        ) from None
    if verified.get("root") != bundle.root or verified.get("level") not in LEVELS:
        raise StoreError(f"{path} speaks of another bundle than {folder.name}.")
    return Entry(bundle, verified["level"], verified)


def _write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def describe(groups: Sequence[BoardGroup]) -> list[str]:
    """One line per group for people."""
    return [
        f"{group.protocol.name}: {len(group.entries)} bundles, {len(group.levels)} agents, "
        f"verified to {', '.join(sorted({entry.level for entry in group.entries}))}"
        for group in groups
    ]
