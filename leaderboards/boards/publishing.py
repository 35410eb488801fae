"""Operations of a board's operator: add verified bundles, and sign everything again with a new key."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from leaderboards.boards.archive import CHANGELOG, Entry, name_clash, read_board
from leaderboards.boards.verification import verified_path, write_verified
from leaderboards.bundles.agent_specs import committed
from leaderboards.bundles.lent_adapters import lent_adapters
from leaderboards.bundles.submission import Bundle, open_bundle
from leaderboards.bundles.verify import Level, Verdict, verify
from leaderboards.contents.intake import BundleError, take
from leaderboards.keys import SigningKey, fingerprint, new_board_key
from leaderboards.names import name_key, split_name
from leaderboards.provenance import now
from leaderboards.registration.charter import locked, read_charter, signing_key, write_charter
from leaderboards.registration.ticket_log import (
    audited,
    name_owners,
    rebuild,
    registrations,
    succeeded,
)
from leaderboards.registration.tickets import Ticket
from leaderboards.reserved import skeleton
from srl_envs.errors import ConfigError, StoreError, file_fault

Progress = Callable[[str, int, int], None]
"""(task, parts done, parts in all)."""


def publish(bundle: Bundle, verdict: Verdict, board: Path, *, reason: str = "") -> bool:
    """Put a verified bundle into a board, unless its claim is there already.

    Args:
        bundle: stays where it is; a copy goes in, and is held against what was verified.
        verdict: of `verify`; what it asked for must hold.
        board: folder of the board; made if absent, with a key.
        reason: for the changelog.

    Returns:
        False if the board has the same claim: the same matches with the same results.

    Raises:
        ConfigError: the verdict does not accept this bundle, its agents are not registered with
            this board, or one of their names has another owner.
        BundleError: the folder holds something else by now.
        KeyFileError: the board's key is not on this machine.
        StoreError: the board was edited, or another process writes to it.
    """
    if not verdict.accepted or verdict.root != bundle.root:
        raise ConfigError(
            f"{bundle.folder} was not accepted at {verdict.asked}: it is not published."
        )
    with locked(board):
        known = registrations(board)
        _require_registered(bundle, board, known)
        entries = [entry for group in read_board(board).groups for entry in group.entries]
        if any(entry.bundle.claim == bundle.claim for entry in entries):
            return False
        _require_names(bundle, known)
        if wrong := name_clash(bundle, [e for e in entries if _beside(e.bundle, bundle)]):
            raise ConfigError(f"{bundle.folder}: {wrong}. It would not count.")
        key = signing_key(board)
        target = board / bundle.protocol.name / bundle.folder.name
        target.parent.mkdir(parents=True, exist_ok=True)
        _take_over(bundle, verdict, target, key)
        _note(board, bundle, "add", reason)
    return True


def _take_over(bundle: Bundle, verdict: Verdict, target: Path, key: SigningKey) -> None:
    """Copy what was verified, and sign beside it what was checked.

    Raises:
        BundleError: the folder holds something else by now.
    """
    work = target.with_name(f".tmp-{target.name}")
    _clear(work)
    work.mkdir()
    copy = work / target.name
    try:
        files = take(bundle.folder, copy)
        again = open_bundle(copy)
        if again.root != verdict.root or files != again.manifest["files"]:
            raise BundleError(
                f"{bundle.folder} was changed after it was verified: verify it again."
            )
        write_verified(target, bundle.root, verdict, key)
        _clear(target)  # one that is here and did not count
        copy.rename(target)
    finally:
        _clear(work)


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _require_registered(bundle: Bundle, board: Path, known: list[Ticket]) -> None:
    """Entrants with contents of their own play with a ticket of this board.

    Raises:
        ConfigError: they did not.
    """
    if bundle.ticket is None:
        if committed(bundle.agents):
            name = committed(bundle.agents)[0].agent_id
            raise ConfigError(
                f"{bundle.folder}: agent {name} was not registered with a board before it played, so "
                "its number of attempts is unknown. `srl leaderboard register`, `draw`, then `run "
                "--tickets`."
            )
        return
    number = bundle.ticket.number
    if number >= len(known) or known[number].data != bundle.ticket.data:
        raise ConfigError(
            f"{bundle.folder}: its ticket is not one that {board} drew. Register its agents there."
        )


def _beside(other: Bundle, bundle: Bundle) -> bool:
    """Whether a published bundle's names count against a new one: those of later owners do not."""
    owners = {found.ticket.request.owner for found in (other, bundle) if found.ticket is not None}
    return other.protocol.name == bundle.protocol.name and len(owners) < 2


def _require_names(bundle: Bundle, known: list[Ticket]) -> None:
    """A name belongs to the owner who registered it first.

    Raises:
        ConfigError: another owner has it.
    """
    if bundle.ticket is None:
        return
    owners, owner = name_owners(known), bundle.ticket.request.owner
    for agent in committed(bundle.agents):
        held = owners[name_key(agent.agent_id)]
        if held != owner:
            raise ConfigError(
                f"{bundle.folder}: the name {agent.agent_id} belongs to the owner {fingerprint(held)}, who "
                f"registered it first; this is {fingerprint(owner)}."
            )


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts in a board's log."""

    of_agent: Counter[tuple[str, str, str]]
    """(owner, protocol, skeleton of a lineage) -> tickets that hold a version of it."""
    of_owner: Counter[tuple[str, str]]
    """(owner, protocol) -> agents on all its tickets."""

    def count(self, owner: str, protocol: str, agent_id: str) -> int:
        """Tickets of this agent, in whichever version."""
        return self.of_agent[owner, protocol, _lineage_key(agent_id)]


def attempts(tickets: list[Ticket]) -> Attempts:
    """How often each agent was registered, and how many agents each owner registered."""
    counted = Attempts(Counter(), Counter())
    for request in (ticket.request for ticket in tickets):
        counted.of_owner[request.owner, request.protocol] += len(request.agents)
        for key in {_lineage_key(agent.agent_id) for agent in request.agents}:
            counted.of_agent[request.owner, request.protocol, key] += 1
    return counted


def _lineage_key(agent_id: str) -> str:
    return skeleton(split_name(agent_id)[0])


@dataclass(frozen=True, slots=True)
class Resigned:
    """Outcome of one bundle in `rekey`."""

    bundle: str
    level: str
    """Level that holds now; empty if the bundle is set aside."""
    reason: str


def rekey(
    board: Path,
    *,
    at_most: Level = "L3",
    sources: Mapping[str, str] | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> Iterator[Resigned]:
    """Verify every bundle again and sign with a new key; one that does not hold stays unsigned.

    Args:
        board: folder of the board.
        at_most: check no higher level than this, for a machine without an agent's weights.
        sources: agent id -> model, where a bundle does not hold an adapter.
        workers: processes that replay.
        progress: called as the work goes on.

    Yields:
        One result per bundle. The new key signs once all are through.

    Raises:
        ConfigError: the board is missing, or weights are missing.
        KeyFileError: the new key cannot be written.
        StoreError: the board was edited, or another process writes to it.
    """
    if read_charter(board) is None:  # a mistyped folder is not made
        raise ConfigError(f"{board} is not a board with a key: publish a bundle first.")
    with locked(board):
        charter = read_charter(board)
        if charter is None:
            raise StoreError(f"{board} lost its charter: restore it.")
        known = audited(board, charter)
        verdicts = []
        groups = read_board(board, former_keys=True).groups
        entries = [entry for group in groups for entry in group.entries]
        lent = lent_adapters([entry.bundle.folder for entry in entries])
        for entry, found in zip(entries, lent, strict=True):
            given = {name: s for name, s in (sources or {}).items() if name in _models(entry)}
            own = {**found, **given}
            level: Level = min(entry.level, at_most)
            verdict = verify(
                entry.bundle.folder, level, workers=workers, sources=own, progress=progress
            )
            try:
                _require_registered(entry.bundle, board, known)
            except ConfigError as error:
                verdict.reached, verdict.rejected = None, str(error)
            verdicts.append((entry, verdict))
            reached = verdict.reached if verdict.accepted else ""
            yield Resigned(str(entry.bundle.folder), reached or "", verdict.rejected)
        key = new_board_key(board)
        write_charter(board, succeeded(charter, known, key), key)
        rebuild(board, key)
        for entry, verdict in verdicts:
            folder, root = entry.bundle.folder, entry.bundle.root
            if verdict.accepted:
                write_verified(folder, root, verdict, key, entry.verified["published"])
            else:
                verified_path(folder).unlink()
                _note(board, entry.bundle, "set aside", verdict.rejected)


def _models(entry: Entry) -> set[str]:
    return {agent.agent_id for agent in committed(entry.bundle.agents)}


def _note(board: Path, bundle: Bundle, action: str, reason: str) -> None:
    line = {
        "when": now(),
        "action": action,
        "env": bundle.protocol.name,
        "root": bundle.root,
        "agents": [agent.agent_id for agent in bundle.entrants] or list(bundle.protocol.references),
        "reason": reason,
    }
    try:
        with (board / CHANGELOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"cannot write {file_fault(error, board / CHANGELOG)}.") from None
