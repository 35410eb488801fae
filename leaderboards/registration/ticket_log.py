"""The log of a board's tickets: drawn in constant time, read with one signature, verified in full on request.

``registrations.jsonl`` is the log; each line holds the hash of the one before. ``registrations.head.json``,
signed with the board's key, vouches for the lines up to a byte and names the content of
``registrations.index``, from which a draw answers: was this drawn, whose is this name, how much did this key
register today. Lines behind the head are verified one by one, and an index that is not the head's is built
again from the log. Reasons: docs/design/trust.md.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from leaderboards.contents.intake import BundleError, open_regular
from leaderboards.keys import SigningKey, fingerprint, is_signed
from leaderboards.names import confused, name_fault, name_key
from leaderboards.protocol import Protocol, load_protocol
from leaderboards.provenance import now
from leaderboards.registration.authenticated_map import EMPTY, AuthenticatedMap, DamagedMapError
from leaderboards.registration.charter import (
    CHARTER,
    Charter,
    FormerKey,
    locked,
    read_charter,
    signing_key,
    write_charter,
)
from leaderboards.registration.tickets import (
    FIRST_LINK,
    TICKET_PURPOSE,
    Request,
    Ticket,
    TicketError,
    write_json,
)
from srl_agents.records import canonical_json, digest
from srl_envs.errors import ConfigError, StoreError, file_fault
from srl_envs.reading.settings import build

REGISTRATIONS = "registrations.jsonl"
HEAD = "registrations.head.json"
INDEX = "registrations.index"
_PURPOSE = "log-head/1"
_MOST_HEAD_BYTES = 1 << 16
_DAY = 10
"""Characters of a UTC time that name its day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one key, and all new keys together, may register in a day of UTC. Keys are free."""

    tickets: int = 32
    """Most tickets per key and day."""
    agents: int = 64
    """Most agents per key and day, over all its tickets."""
    new_keys: int = 64
    """Per board: keys that register for the first time."""


LIMITS = Limits()


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """Head of the log, which the board's key signs."""

    tickets: int = 0
    bytes: int = 0
    """Bytes of the log, up to the end of the last ticket."""
    last: int = 0
    """Byte at which the last of them begins."""
    link: str = FIRST_LINK
    """`Ticket.link` of the last ticket."""
    index: str = EMPTY
    """Hash of the index over the tickets."""


def registrations(board: Path, *, full: bool = False) -> list[Ticket]:
    """All tickets that this board drew, in order; a last line that a kill cut short is left out.

    Args:
        board: its folder.
        full: check every signature, also of tickets for which the head vouches.

    Raises:
        StoreError: log, head or charter were edited, or a ticket was signed by a key that did not sign for
            the board then.
    """
    charter = read_charter(board)
    if charter is None:
        raise_without_charter(board)
        return []
    return _tickets(board, charter, _read_head(board, charter) or Head(), full=full)


def audited(board: Path, charter: Charter) -> list[Ticket]:
    """All tickets with every signature checked; the head is not read, since it may be lost.

    Raises:
        StoreError: as `registrations`.
    """
    return _tickets(board, charter, Head(), full=True)


def raise_without_charter(board: Path) -> None:
    """Only an empty log has no charter beside it.

    Raises:
        StoreError: there are tickets.
    """
    if _whole_lines(board / REGISTRATIONS, 0):
        raise StoreError(f"{board / REGISTRATIONS} has no {CHARTER} beside it: restore the board.")


def _tickets(board: Path, charter: Charter, head: Head, *, full: bool) -> list[Ticket]:
    path = board / REGISTRATIONS
    tickets: list[Ticket] = []
    for number, line in enumerate(_whole_lines(path, 0)):
        link = tickets[-1].link if tickets else FIRST_LINK
        vouched = not full and number < head.tickets
        tickets.append(_ticket(path, line, number, link, vouched=vouched))
    if len(tickets) < head.tickets or _link(tickets, head.tickets) != head.link:
        raise StoreError(f"{path} lost tickets that {HEAD} vouches for: restore it.")
    _require_keys_of_their_time(path, charter, tickets)
    return tickets


def register(board: Path, request: Request, *, limits: Limits | None = LIMITS) -> Ticket:
    """Draw the ticket of a request, or find the one that was drawn for it.

    Args:
        board: its folder.
        request: checked by `Request.from_data`.
        limits: of a day; None draws without limits, for entrants whom the operator trusts.

    Raises:
        KeyFileError: the board's key is not here.
        StoreError: the board was edited or cannot be written.
        TicketError: the request is for another protocol than the one here, no bundle of it could be
            published, a name in it belongs to another owner, or its key has registered enough for today.
    """
    with locked(board):
        if read_charter(board) is None:
            raise_without_charter(board)  # before a key is made
        key = signing_key(board)
        try:
            with _Writer(board, key) as writer:
                return writer.draw(request, limits)
        except DamagedMapError:
            rebuild(board, key)
            with _Writer(board, key) as writer:
                return writer.draw(request, limits)


def rebuild(board: Path, key: SigningKey) -> None:
    """Verify the whole log, make its index again, and sign a head. The caller holds the board's lock.

    Raises:
        StoreError: the log was edited, or something cannot be written.
    """
    registrations(board, full=True)
    _remove_index(board)
    with _Writer(board, key, Head()) as writer:
        writer.catch_up()
        writer.commit()


def succeeded(charter: Charter, tickets: Sequence[Ticket], key: SigningKey) -> Charter:
    """The charter under a new key, which vouches for these registrations; `rebuild` signs their head."""
    former = FormerKey(
        public_key=charter.public_key,
        tickets=len(tickets),
        link=_link(tickets, len(tickets)),
        until=now(),
    )
    return replace(charter, public_key=key.public, former=(*charter.former, former), head=False)


def name_owners(tickets: Iterable[Ticket]) -> dict[str, str]:
    """`names.name_key` -> public key of the owner who registered a name of this key first."""
    owners: dict[str, str] = {}
    for ticket in tickets:
        for agent in ticket.request.agents:
            owners.setdefault(name_key(agent.agent_id), ticket.request.owner)
    return owners


class _Writer:
    """The log under the board's lock; every read of it takes the same time, however long it is."""

    def __init__(self, board: Path, key: SigningKey, head: Head | None = None) -> None:
        charter = read_charter(board)
        if charter is None:
            raise StoreError(f"{board} lost its charter: restore it.")
        self._board, self._key, self._charter = board, key, charter
        self._path = board / REGISTRATIONS
        found = head if head is not None else _read_head(board, charter)
        if found is None:  # a board of an earlier version, or one whose key has just changed
            raise_unless_empty(self._path)
        self._head = found or Head()
        self._require_last()
        self._index = AuthenticatedMap(board / INDEX, self._head.index)

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._index.__exit__(None, None, None)

    def draw(self, request: Request, limits: Limits | None) -> Ticket:
        """As `register`; raises `DamagedMapError` where the index has to be built again."""
        self.catch_up()
        place = self._index.get(f"request {request.identity}")
        if place is not None:
            return self._at(place, request)
        protocol = _protocol_of(request)
        fault = _unplayable(request, protocol, self._charter) or self._taken(request)
        if fault := fault or (self._beyond(request, limits) if limits else ""):
            raise TicketError(f"registration: {fault}.")
        data = {
            "request": request.data,
            "number": self._head.tickets,
            "nonce": secrets.token_hex(32),
            "when": now(),
            "board": self._key.public,
            "previous": self._head.link,
        }
        ticket = Ticket.from_data(self._key.signed(TICKET_PURPOSE, data))
        line = canonical_json(ticket.data).encode() + b"\n"
        start = self._head.bytes
        self._note(ticket, len(line))
        _append(self._path, start, line)
        self.commit()
        return ticket

    def catch_up(self) -> None:
        """Verify and note the lines behind the head: those of a draw that was stopped half-way.

        Tickets of former keys are there only in `rebuild`, which has verified them.
        """
        before = max((former.tickets for former in self._charter.former), default=0)
        for line in _whole_lines(self._path, self._head.bytes):
            ticket = _ticket(self._path, line, self._head.tickets, self._head.link)
            if ticket.number >= before and ticket.board != self._charter.public_key:
                raise _signed_by_another(self._path, ticket)
            self._note(ticket, len(line))

    def commit(self) -> None:
        """Write the index, then the head that names its content."""
        self._head = replace(self._head, index=self._index.commit())
        write_json(self._board / HEAD, self._key.signed(_PURPOSE, asdict(self._head)))
        if not self._charter.head:
            self._charter = replace(self._charter, head=True)
            write_charter(self._board, self._charter, self._key)

    def _note(self, ticket: Ticket, length: int) -> None:
        """Count a ticket that stands behind the head in."""
        head, index, request = self._head, self._index, ticket.request
        day = ticket.when[:_DAY]
        index.put(f"request {request.identity}", [head.bytes, length])
        for agent in request.agents:
            key = f"name {name_key(agent.agent_id)}"
            if index.get(key) is None:
                index.put(key, request.owner)
        if index.get(f"owner {request.owner}") is None:
            index.put("new keys", {"day": day, "keys": 1 + self._today("new keys", day, "keys")})
        index.put(f"owner {request.owner}", {"day": day, **self._with(request, day)})
        self._head = Head(
            tickets=head.tickets + 1,
            bytes=head.bytes + length,
            last=head.bytes,
            link=ticket.link,
            index=head.index,
        )

    def _with(self, request: Request, day: str) -> dict[str, int]:
        """What an owner registered on a day, this request included."""
        place = f"owner {request.owner}"
        return {
            "tickets": 1 + self._today(place, day, "tickets"),
            "agents": len(request.agents) + self._today(place, day, "agents"),
        }

    def _today(self, place: str, day: str, what: str) -> int:
        counted = self._index.get(place)
        return int(counted[what]) if counted is not None and counted["day"] == day else 0

    def _taken(self, request: Request) -> str:
        """Which name of a request is another owner's; empty if none is."""
        for agent in request.agents:
            owner = self._index.get(f"name {name_key(agent.agent_id)}")
            if owner not in (None, request.owner):
                return (
                    f"agent {agent.agent_id}: a name that reads like it belongs to the owner "
                    f"{fingerprint(owner)}, who registered it first; this is "
                    f"{fingerprint(request.owner)}. Choose another name, NAME=AGENT"
                )
        return ""

    def _beyond(self, request: Request, limits: Limits) -> str:
        """Which limit of a day a request breaks; empty if none."""
        day, who = now()[:_DAY], fingerprint(request.owner)
        wait = "wait until tomorrow (UTC), or ask the board's operator for `draw --no-limits`"
        counted = self._with(request, day)
        for what, most in (("tickets", limits.tickets), ("agents", limits.agents)):
            if counted[what] > most:
                return f"the key {who} would have {counted[what]} {what} today, of {most}: {wait}"
        new = self._index.get(f"owner {request.owner}") is None
        if new and self._today("new keys", day, "keys") >= limits.new_keys:
            return f"{limits.new_keys} new keys registered with this board today, the most: {wait}"
        return ""

    def _at(self, place: Sequence[int], request: Request) -> Ticket:
        """The ticket of a request that was drawn before."""
        start, length = place
        line = _read_bytes(self._path, start, length)
        try:
            ticket = Ticket.from_data(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{self._path}, byte {start}: {error} Restore the file.") from None
        if ticket.request.identity != request.identity:
            raise StoreError(f"{self._path}, byte {start}: another ticket. Restore the file.")
        return ticket

    def _require_last(self) -> None:
        """The last line that the head vouches for is in its place: nothing was cut or put in before it."""
        head = self._head
        if not head.tickets:
            return
        line = _read_bytes(self._path, head.last, head.bytes - head.last)
        try:
            found = digest(json.loads(line)) if line.endswith(b"\n") else ""
        except (ValueError, RecursionError):
            found = ""
        if found != head.link:
            raise StoreError(
                f"{self._path} lost or moved tickets that {HEAD} vouches for: restore it."
            )


def raise_unless_empty(path: Path) -> None:
    """A log without a head has no index either.

    Raises:
        DamagedMapError: the log has lines.
    """
    if _whole_lines(path, 0):
        raise DamagedMapError(f"{path} has no head.")


def _protocol_of(request: Request) -> Protocol:
    """The protocol that a request names.

    Raises:
        TicketError: there is none, or it is another here.
    """
    try:
        protocol = load_protocol(request.protocol)
    except ConfigError as error:
        raise TicketError(f"registration: {error}") from None
    if (protocol.name, protocol.sha256) != (request.protocol, request.protocol_sha256):
        raise TicketError(
            f"registration: it is for {request.protocol} with hash {request.protocol_sha256[:12]}; here "
            f"is {protocol.name} with {protocol.sha256[:12]}. Entrant and board need the same SRL."
        )
    return protocol


def _unplayable(request: Request, protocol: Protocol, charter: Charter) -> str:
    """Why no bundle of this request could be published; empty if one could."""
    if not 1 <= request.seeds <= protocol.seeds:
        return f"seeds is {request.seeds}: {protocol.name} has 1 to {protocol.seeds}"
    if request.maker and not charter.has_maker(request.maker, request.owner):
        return (
            f"it claims the names of {request.maker}, and this board does not list the key "
            f"{fingerprint(request.owner)} for {request.maker}. Register without --maker, or ask the board's "
            "operator (`srl leaderboard maker`)"
        )
    names = [agent.agent_id for agent in request.agents]
    for name in names:
        if fault := name_fault(name, maker=request.maker, reserved=charter.reserved):
            return f"agent {name}: {fault}"
    if pair := confused([*protocol.references, *names]):
        return f"agents {pair[0]} and {pair[1]}: their names read alike"
    return ""


def _read_head(board: Path, charter: Charter) -> Head | None:
    """What the board's present key vouches for; None where it has signed nothing yet.

    Raises:
        StoreError: the head is missing or was edited.
    """
    path = board / HEAD
    advice = (
        "Restore it; if it is lost, `srl leaderboard rekey` verifies the log and signs a new one."
    )
    if not os.path.lexists(path):
        if charter.head:
            raise StoreError(f"{path} is missing. {advice}")
        return None
    try:
        with open_regular(board.resolve(), HEAD) as file:
            data = dict(json.loads(file.read(_MOST_HEAD_BYTES)))
        signed = is_signed(charter.public_key, _PURPOSE, data)
        data.pop("signature", None)
        head = build(Head, data, HEAD)
    except (OSError, ValueError, TypeError, RecursionError, BundleError) as error:
        raise StoreError(f"{path} cannot be read: {error} {advice}") from None
    if not signed:
        if not charter.head:  # the key has just changed
            return None
        raise StoreError(f"{path} was edited: its signature is not the board's. {advice}")
    return head


def _ticket(path: Path, line: bytes, number: int, link: str, *, vouched: bool = False) -> Ticket:
    """One line of the log.

    Raises:
        StoreError: it was edited, or does not follow the one before.
    """
    try:
        ticket = Ticket.from_data(json.loads(line), vouched=vouched)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}, line {number + 1}: {error} Restore the file.") from None
    if ticket.number != number or ticket.previous != link:
        raise StoreError(
            f"{path}, line {number + 1}: ticket {ticket.number} does not follow the one before: "
            "lines were removed or moved. Restore the file."
        )
    return ticket


def _require_keys_of_their_time(path: Path, charter: Charter, tickets: list[Ticket]) -> None:
    """Each ticket is signed by the key that signed for the board then.

    Raises:
        StoreError: one is not, or tickets that a former key vouched for are missing.
    """
    for former in charter.former:
        if len(tickets) < former.tickets or _link(tickets, former.tickets) != former.link:
            raise StoreError(f"{path} lost tickets that {CHARTER} vouches for: restore it.")
    start = 0
    eras = [(f.public_key, f.tickets) for f in charter.former]
    for public, end in [*eras, (charter.public_key, len(tickets))]:
        for ticket in tickets[start:end]:
            if ticket.board != public:
                raise _signed_by_another(path, ticket)
        start = end


def _signed_by_another(path: Path, ticket: Ticket) -> StoreError:
    return StoreError(
        f"{path}, line {ticket.number + 1}: signed by {fingerprint(ticket.board)}, which was not the board's "
        "key then. Restore the file."
    )


def _link(tickets: Sequence[Ticket], count: int) -> str:
    return tickets[count - 1].link if count else FIRST_LINK


def _append(path: Path, start: int, line: bytes) -> None:
    """Add a line that is on disk when this returns, replacing one that was cut short."""
    try:
        with path.open("r+b" if path.exists() else "xb") as file:
            file.truncate(start)
            file.seek(start)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"cannot write {file_fault(error, path)}. Nothing was drawn.") from None


def _whole_lines(path: Path, start: int) -> list[bytes]:
    """The lines from a byte on; one that was cut short is left out."""
    if not os.path.lexists(path):
        return []
    lines = _read_bytes(path, start, -1).splitlines(keepends=True)
    return lines if not lines or lines[-1].endswith(b"\n") else lines[:-1]


def _read_bytes(path: Path, start: int, length: int) -> bytes:
    try:
        with open_regular(path.parent.resolve(), path.name) as file:
            file.seek(start)
            return file.read(length)
    except (OSError, BundleError, ValueError, OverflowError) as error:
        raise StoreError(f"{path} cannot be read: {error} Restore it.") from None


def _remove_index(board: Path) -> None:
    try:
        for name in (INDEX, f"{INDEX}-journal", f"{INDEX}-wal", f"{INDEX}-shm"):
            (board / name).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot remove {file_fault(error, board / INDEX)}.") from None
