"""A board: a folder of verified bundles that only grows, and how it is read.

A bundle that cannot be read, or contradicts one that stays, is set aside with its reason and stops
nothing. Of two bundles that contradict each other in a match, the one that was verified further stays,
then the one that was published first, then the one whose root comes first.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from leaderboards.boards.epochs import Earlier, changes, earlier
from leaderboards.boards.verification import VERIFIED, read_verified
from leaderboards.bundles.agent_specs import is_model
from leaderboards.bundles.roster import parent_among, version
from leaderboards.bundles.submission import Bundle, open_bundle
from leaderboards.bundles.verify import Level
from leaderboards.contents.bases import read_bases
from leaderboards.contents.fields import shown
from leaderboards.contents.intake import BUNDLE_NAME, MANIFEST, BundleError, open_regular, read_json
from leaderboards.contents.mistakes import mistakes_of, moves_of
from leaderboards.contents.schemas import CHANGE, MANIFEST_FILE, checked
from leaderboards.keys import fingerprint
from leaderboards.names import name_key
from leaderboards.protocol import Protocol, load_protocol
from leaderboards.registration.charter import read_charter
from leaderboards.registration.tickets import Ticket
from leaderboards.reserved import skeleton
from srl_agents.league.agents import AgentVersion
from srl_agents.league.store.history import LeagueStore
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.errors import SRLError, StoreError

PUBLISHED = Path(__file__).parents[1] / "published"
"""The board that SRL ships."""
CHANGELOG = "changelog.jsonl"
_REPLAYED = "L2"
"""Level from which on every match was played again, bots included."""
EXPLOITS = "exploits"
"""Folder of a board with best responses against its agents; they are not bundles."""
_MOST_CHANGELOG_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One bundle of a board."""

    bundle: Bundle
    level: Level
    """Up to which it was verified when it came in."""
    verified: dict[str, Any]
    """What was checked, by which SRL, and when."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """A part of a board that does not count."""

    bundle: str
    """Path of the bundle below the board."""
    reason: str


@dataclass(frozen=True, slots=True)
class BoardGroup:
    """All bundles of one protocol, the first published first."""

    protocol: Protocol
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """Content of a board's folder."""

    groups: tuple[BoardGroup, ...]
    """Entries by protocol, sorted."""
    set_aside: tuple[SetAside, ...]
    bases: dict[str, str]
    """Hash of a base model's weights -> what this board calls it."""
    changes: tuple[dict[str, Any], ...]
    """The changelog, oldest first."""
    fingerprint: str
    """Fingerprint of the key that signs; empty where nothing was published yet."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The matches of a group, each once."""

    store: LeagueStore
    entries: tuple[Entry, ...]
    """Entries that count."""
    levels: dict[str, Counter[str]]
    """Agent -> level -> matches that are verified so far; a match has the highest of its bundles. For
    references the matches among themselves: an entrant's level is not theirs."""
    set_aside: tuple[SetAside, ...]
    mistakes: dict[str, Counter[str]]
    """Agent -> kind -> refused replies, see `mistakes_of`; for references as in ``levels``."""
    moves: Counter[str]
    """Agent -> its replies that were taken as moves, in all of these matches."""
    earlier: tuple[Earlier, ...] = ()
    """Bundles of earlier epochs, which count no more."""


@dataclass(slots=True)
class _Shared:
    """The matches of the bundles that stay."""

    matches: dict[str, tuple[MatchSpec, MatchResult]] = field(default_factory=dict)
    records: dict[str, str] = field(default_factory=dict)
    """Match -> hash of its result and transcript."""
    levels: dict[str, Level] = field(default_factory=dict)
    mistakes: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    """Match -> agent -> kind -> refused replies; without matches that have none."""
    moves: dict[str, Counter[str]] = field(default_factory=dict)
    """Match -> agent -> replies that were taken as moves."""


def read_board(folder: Path = PUBLISHED, *, former_keys: bool = False) -> Board:
    """Everything that counts, and what does not; reads manifests, no records.

    Args:
        folder: of the board.
        former_keys: take verifications that a key before the present one signed, to check them again.

    Raises:
        StoreError: the board's own charter or table of bases is damaged.
    """
    charter = read_charter(folder)
    keys = [] if charter is None else [charter.public_key]
    if charter is not None and former_keys:
        keys += [former.public_key for former in charter.former]
    set_aside: list[SetAside] = []
    entries = []
    changes = _changes(folder, set_aside)
    places = {str(line.get("root")): place for place, line in reversed(list(enumerate(changes)))}
    for path in _candidates(folder, set_aside):
        try:
            entries.append(_entry(path, keys))
        except SRLError as error:
            set_aside.append(SetAside(_below(folder, path), str(error)))
    entries.sort(
        key=lambda e: (
            e.bundle.protocol.name,
            places.get(e.bundle.root, len(places)),
            e.verified["published"],
            e.bundle.root,
        )
    )
    entries = _owned(folder, entries, set_aside)
    groups = []
    for _, found in groupby(entries, key=lambda entry: entry.bundle.protocol.name):
        kept = _with_names_of_their_own(folder, list(found), set_aside)
        groups.append(BoardGroup(kept[0].bundle.protocol, tuple(kept)))
    return Board(
        groups=tuple(groups),
        set_aside=tuple(set_aside),
        bases=read_bases(folder),
        changes=tuple(changes),
        fingerprint=charter.fingerprint if charter is not None else "",
    )


def mentioned_names(folder: Path) -> dict[str, set[str]]:
    """Names of agents by protocol, as manifests have them; no signature or hash is checked."""
    names: dict[str, set[str]] = {}
    for path in _candidates(folder, []):
        own = names.setdefault(path.parent.name, set())
        try:
            own.update(load_protocol(path.parent.name).references)
            manifest = checked(MANIFEST_FILE, read_json(path, MANIFEST), MANIFEST)
        except SRLError:  # `read_board` sets it aside, with the reason
            continue
        own.update(agent["agent_id"] for agent in manifest["claim"]["agents"])
    return names


@contextmanager
def merged_store(group: BoardGroup, path: Path) -> Iterator[Merged]:
    """A league store with the matches of all bundles that count, each once.

    Args:
        group: from `read_board`.
        path: of the store; made, or filled up.
    """
    shared, kept, set_aside, left = _Shared(), [], [], []
    replayed = [entry for entry in group.entries if entry.level >= _REPLAYED]
    present = replayed[-1] if replayed else None
    order = sorted(group.entries, key=lambda entry: (entry is present, entry.level), reverse=True)
    for entry in order:
        folder = entry.bundle.folder
        name = f"{folder.parent.name}/{folder.name}"
        wrong = _add(entry, shared)
        if not wrong:
            kept.append(entry)
        elif present is not None and entry in replayed and _of_another_epoch(entry, present):
            published = str(entry.verified["published"])
            left.append(earlier(name, entry.bundle, present.bundle, published))
        else:
            set_aside.append(SetAside(name, wrong))
    entries = tuple(entry for entry in group.entries if entry in kept)
    references = frozenset(group.protocol.references)
    levels: dict[str, Counter[str]] = {}
    mistakes: dict[str, Counter[str]] = {}
    moves: Counter[str] = Counter()
    for moved in shared.moves.values():
        moves.update(moved)
    for name, (spec, _) in shared.matches.items():
        among, wrong_of = references.issuperset(spec.seats), shared.mistakes.get(name, {})
        for seated in set(spec.seats) if among else set(spec.seats) - references:
            levels.setdefault(seated, Counter())[shared.levels[name]] += 1
            mistakes.setdefault(seated, Counter()).update(wrong_of.get(seated, {}))
    with LeagueStore(path) as store:
        for agent in agents_of(entries):
            store.add_agent(agent)
        store.report_many(shared.matches.values())
        yield Merged(
            store, entries, levels, tuple(set_aside), mistakes, moves=moves, earlier=tuple(left)
        )


def _of_another_epoch(entry: Entry, present: Entry) -> bool:
    """Whether references played differently in two bundles that were both replayed."""
    try:
        return changes(entry.bundle, present.bundle).any
    except BundleError:
        return False


def agents_of(entries: Sequence[Entry]) -> list[AgentVersion]:
    """Everybody in these bundles, once, with the parents that the board sees.

    An adapter's parent is in its own bundle, or else in one whose weights were audited. A declared but
    unaudited adapter cannot be the parent of another owner's.
    """
    found: dict[str, AgentVersion] = {}
    audited = [
        (agent.agent_id, agent.spec)
        for entry in entries
        if entry.level == "L3"
        for agent in entry.bundle.agents
    ]
    for entry in entries:
        for agent in entry.bundle.agents:
            parent = agent.parent or parent_among(agent.spec, audited)
            known = found.get(agent.agent_id)
            if known is None or (known.parent is None and parent is not None):
                found[agent.agent_id] = version(
                    entry.bundle.protocol, agent.agent_id, agent.spec, parent
                )
    return list(found.values())


def describe(board: Board) -> list[str]:
    """For people: one line per group, and one per part that was set aside."""
    lines = []
    for group in board.groups:
        agents = {agent.agent_id for entry in group.entries for agent in entry.bundle.agents}
        lines.append(
            f"{group.protocol.name}: {len(group.entries)} bundles, {len(agents)} agents, "
            f"verified to {', '.join(sorted({entry.level for entry in group.entries}))}"
        )
    return [*lines, *(f"set aside: {part.bundle}: {part.reason}" for part in board.set_aside)]


# --- reading ---------------------------------------------------------------------------------


def _candidates(board: Path, set_aside: list[SetAside]) -> Iterator[Path]:
    """Folders that may be bundles, two levels below the board; links are not followed."""
    for protocol in _listed(board, board, set_aside) if board.is_dir() else ():
        if protocol.name == EXPLOITS:
            continue
        if protocol.is_dir(follow_symlinks=False):
            for entry in _listed(board, Path(protocol.path), set_aside):
                if entry.name.startswith(".tmp-") or entry.name.endswith(VERIFIED):
                    continue
                if BUNDLE_NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    yield Path(entry.path)
                else:
                    reason = (
                        "it is not a bundle: a bundle is a folder named by 16 hexadecimal digits"
                    )
                    set_aside.append(SetAside(_below(board, Path(entry.path)), reason))
        elif protocol.is_symlink():
            reason = "it is a symbolic link"
            set_aside.append(SetAside(_below(board, Path(protocol.path)), reason))


def _listed(board: Path, folder: Path, set_aside: list[SetAside]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        set_aside.append(SetAside(_below(board, folder), f"it cannot be listed: {error.strerror}."))
        return []


def _below(board: Path, path: Path) -> str:
    """A part of a board, by a name that is safe to show."""
    text = str(path.relative_to(board))
    return text if text.isascii() and text.isprintable() and len(text) < 200 else shown(text)


def _entry(folder: Path, keys: Sequence[str]) -> Entry:
    bundle = open_bundle(folder)
    if folder.parent.name != bundle.protocol.name:
        raise StoreError(f"it is a bundle of {bundle.protocol.name} in another folder.")
    verified = read_verified(folder, bundle.root, keys)
    return Entry(bundle, verified["level"], verified)


def _owned(board: Path, entries: Sequence[Entry], set_aside: list[SetAside]) -> list[Entry]:
    """Entries whose names belong to their owners: to those who registered them first."""
    owners: dict[str, Ticket] = {}
    tickets = [entry.bundle.ticket for entry in entries if entry.bundle.ticket is not None]
    for ticket in sorted(tickets, key=lambda each: each.number):
        for agent in ticket.request.agents:
            owners.setdefault(name_key(agent.agent_id), ticket)
    kept = []
    for entry in entries:
        if wrong := _not_owned(entry.bundle, owners):
            set_aside.append(SetAside(_below(board, entry.bundle.folder), wrong))
        else:
            kept.append(entry)
    return kept


def _not_owned(bundle: Bundle, owners: Mapping[str, Ticket]) -> str:
    """Which name of a bundle is another owner's; empty if none is."""
    if bundle.ticket is None:
        return ""
    for agent in bundle.ticket.request.agents:
        first = owners[name_key(agent.agent_id)]
        if first.request.owner != bundle.ticket.request.owner:
            return (
                f"a name that reads like {agent.agent_id} belongs to the owner "
                f"{fingerprint(first.request.owner)}, who registered it first, with ticket {first.number}"
            )
    return ""


def _with_names_of_their_own(
    board: Path, entries: Sequence[Entry], set_aside: list[SetAside]
) -> list[Entry]:
    """Entries whose names stand for the same agents as in those before them."""
    kept: list[Entry] = []
    for entry in entries:
        if wrong := name_clash(entry.bundle, kept):
            set_aside.append(SetAside(_below(board, entry.bundle.folder), wrong))
        else:
            kept.append(entry)
    return kept


def name_clash(bundle: Bundle, before: Sequence[Entry]) -> str:
    """Which name of a bundle stands for another agent of the same protocol; empty if none does."""
    known = {skeleton(a.agent_id): a for entry in before for a in entry.bundle.agents}
    for agent in bundle.agents:
        other = known.get(skeleton(agent.agent_id), agent)
        if (other.agent_id, other.spec) != (agent.agent_id, agent.spec):
            alike = "reads like" if other.agent_id != agent.agent_id else "has other contents than"
            return f"agent {agent.agent_id} {alike} {other.agent_id}, which was published before"
    return ""


def _changes(board: Path, set_aside: list[SetAside]) -> list[dict[str, Any]]:
    """The lines of the changelog that can be read."""
    if not os.path.lexists(board / CHANGELOG):
        return []
    changes = []
    try:
        with open_regular(board, CHANGELOG) as file:
            lines = file.read(_MOST_CHANGELOG_BYTES).splitlines()
    except (BundleError, OSError) as error:
        set_aside.append(SetAside(CHANGELOG, str(error)))
        return []
    for number, line in enumerate(lines, 1):
        try:
            changes.append(checked(CHANGE, json.loads(line), f"line {number}"))
        except BundleError as error:
            set_aside.append(SetAside(CHANGELOG, str(error)))
        except (ValueError, RecursionError):
            set_aside.append(SetAside(CHANGELOG, f"line {number} is not JSON."))
    return changes


# --- matches ---------------------------------------------------------------------------------


def _add(entry: Entry, shared: _Shared) -> str:
    """Why a bundle does not count; if it does, its matches are in ``shared``."""
    matches, records, mistakes, moves = {}, {}, {}, {}
    limits = {
        agent.agent_id: agent.spec["sampling"]["max_new_tokens"]
        for agent in entry.bundle.agents
        if is_model(agent)
    }
    try:
        for record in entry.bundle.records():
            name = record.spec.match_id
            records[name] = record.happened
            if shared.records.get(name, records[name]) != records[name]:
                return (
                    f"match {name[:12]}, {' - '.join(record.spec.seats)}, has another result in a "
                    "bundle that was verified further or published before"
                )
            matches[name] = (record.spec, record.result)
            moves[name] = moves_of(record)
            if any(record.result.invalid_replies):
                mistakes[name] = mistakes_of(record, limits)
    except BundleError as error:
        return str(error)
    for name in matches:
        shared.levels.setdefault(name, entry.level)  # the highest level comes first
    shared.matches |= {name: match for name, match in matches.items() if name not in shared.matches}
    shared.records |= records
    shared.mistakes |= mistakes
    shared.moves |= moves
    return ""
