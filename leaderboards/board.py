"""A board: a folder of verified bundles that only grows, and how it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from leaderboards.bundle import MANIFEST, Bundle, open_bundle
from leaderboards.charter import read_charter
from leaderboards.protocol import Protocol
from leaderboards.verification import read_verified
from leaderboards.verify import Level
from srl_agents.league.store import LeagueStore

PUBLISHED = Path(__file__).parent / "published"
"""The board that SRL ships."""
CHANGELOG = "changelog.jsonl"


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


def read_board(folder: Path = PUBLISHED, *, former_keys: bool = False) -> list[BoardGroup]:
    """All groups, sorted by protocol; reads manifests, no records.

    Args:
        folder: of the board.
        former_keys: take verifications that a key before the present one signed, to check them again.

    Raises:
        BundleError: a manifest is damaged.
        StoreError: a bundle has no word of its verification.
    """
    charter = read_charter(folder)
    keys = [] if charter is None else [charter.public_key]
    if charter is not None and former_keys:
        keys += [former.public_key for former in charter.former]
    entries = [_entry(path.parent, keys) for path in sorted(folder.glob(f"*/*/{MANIFEST}"))]
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


def _entry(folder: Path, keys: Sequence[str]) -> Entry:
    bundle = open_bundle(folder)
    verified = read_verified(folder, bundle.root, keys)
    return Entry(bundle, verified["level"], verified)


def describe(groups: Sequence[BoardGroup]) -> list[str]:
    """One line per group for people."""
    return [
        f"{group.protocol.name}: {len(group.entries)} bundles, {len(group.levels)} agents, "
        f"verified to {', '.join(sorted({entry.level for entry in group.entries}))}"
        for group in groups
    ]
