"""Who signs for a board: its key, the keys before it, and the log of registrations that they vouch for.

``board.json`` is signed with the key that it names. Whoever can replace both can make another board, so
readers compare fingerprints; nobody can edit this one. Reasons: docs/design/trust.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leaderboards.intake import BundleError, open_regular
from leaderboards.keys import (
    SIGNATURE,
    SigningKey,
    board_key,
    fingerprint,
    is_signed,
    new_board_key,
    public_key_fault,
)
from leaderboards.provenance import now
from leaderboards.registration import FIRST_LINK, Request, Ticket, draw, read_log, write_json
from srl_agents.league.schema import take_lock
from srl_envs.errors import ConfigError, StoreError, file_fault
from srl_envs.settings import build, dump

CHARTER, REGISTRATIONS = "board.json", "registrations.jsonl"
_LOCK = ".board.lock"
_PURPOSE = "board/1"
_MOST_CHARTER_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class FormerKey:
    """A key that signed for the board until another replaced it."""

    public_key: str
    tickets: int
    """How many registrations the log had then: later ones under this key are forged."""
    link: str
    """`Ticket.link` of the last of them."""
    until: str
    """UTC."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Charter:
    """``board.json``."""

    schema: int = 1
    public_key: str
    former: tuple[FormerKey, ...] = ()
    reserved: tuple[str, ...] = ()
    """Beginnings of names that nobody may take, beside those that every board reserves."""

    @property
    def fingerprint(self) -> str:
        """What readers compare."""
        return fingerprint(self.public_key)


def read_charter(board: Path) -> Charter | None:
    """The charter of a board; None where there is none.

    Raises:
        StoreError: it was edited.
    """
    path = board / CHARTER
    if not os.path.lexists(path):
        return None
    try:
        with open_regular(board.resolve(), CHARTER) as file:
            data = json.loads(file.read(_MOST_CHARTER_BYTES))
        content = {key: value for key, value in data.items() if key != SIGNATURE}
        charter = build(Charter, content, CHARTER)
    except (OSError, ValueError, AttributeError, RecursionError, BundleError) as error:
        raise StoreError(f"{path} cannot be read: {error} Restore it.") from None
    for public in (charter.public_key, *(former.public_key for former in charter.former)):
        if fault := public_key_fault(public):
            raise StoreError(f"{path} names the key {public[:80]!r}: {fault}. Restore it.")
    if not is_signed(charter.public_key, _PURPOSE, data):
        raise StoreError(
            f"{path} was edited: its signature is not by the key that it names. Restore it."
        )
    return charter


def signing_key(board: Path) -> SigningKey:
    """The board's private key; a board without a charter gets a new key and a charter.

    Raises:
        KeyFileError: the key is not on this machine, or lies where it should not.
        StoreError: the charter was edited.
    """
    charter = read_charter(board)
    if charter is not None:
        return board_key(charter.public_key, board)
    key = new_board_key(board)
    write_charter(board, Charter(public_key=key.public), key)
    return key


def write_charter(board: Path, charter: Charter, key: SigningKey) -> None:
    """Sign and write ``board.json``."""
    write_json(board / CHARTER, key.signed(_PURPOSE, dump(charter)))


def succeeded(board: Path, charter: Charter, key: SigningKey) -> Charter:
    """The charter under a new key, which vouches for the registrations so far."""
    tickets = registrations(board)
    former = FormerKey(
        public_key=charter.public_key,
        tickets=len(tickets),
        link=tickets[-1].link if tickets else FIRST_LINK,
        until=now(),
    )
    return Charter(
        public_key=key.public, former=(*charter.former, former), reserved=charter.reserved
    )


def registrations(board: Path) -> list[Ticket]:
    """All tickets that this board drew, in order.

    Raises:
        StoreError: the log or the charter was edited, or a ticket was signed by a key that did not sign
            for the board then.
    """
    path = board / REGISTRATIONS
    charter, tickets = read_charter(board), read_log(path)
    if charter is None:
        if tickets:
            raise StoreError(f"{path} has no {CHARTER} beside it: restore the board.")
        return []
    for former in charter.former:
        link = tickets[former.tickets - 1].link if former.tickets else FIRST_LINK
        if len(tickets) < former.tickets or link != former.link:
            raise StoreError(f"{path} lost tickets that {CHARTER} vouches for: restore it.")
    start = 0
    eras = [(f.public_key, f.tickets) for f in charter.former]
    for public, end in [*eras, (charter.public_key, len(tickets))]:
        for ticket in tickets[start:end]:
            if ticket.board != public:
                raise StoreError(
                    f"{path}, line {ticket.number + 1}: signed by {fingerprint(ticket.board)}, which was "
                    "not the board's key then. Restore the file."
                )
        start = end
    return tickets


def register(board: Path, request: Request) -> Ticket:
    """Draw the ticket of a request, or find the one that was drawn for it.

    Raises:
        KeyFileError: the board's key is not here.
        StoreError: the board was edited or cannot be written.
        TicketError: the request is for another protocol than the one here, or no bundle of it could be
            published.
    """
    with locked(board):
        registrations(board)  # whatever is wrong with the log is said before a key is made
        key, charter = signing_key(board), read_charter(board)
        reserved = charter.reserved if charter is not None else ()
        return draw(board / REGISTRATIONS, request, key, reserved)


@contextmanager
def locked(board: Path) -> Iterator[None]:
    """One writer of a board at a time.

    Raises:
        ConfigError: the folder cannot be made.
        StoreError: another process writes.
    """
    try:
        board.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"board {file_fault(error, board)}.") from None
    try:
        lock = take_lock(board / _LOCK)
    except StoreError:
        raise StoreError(f"another process writes to the board {board}: wait for it.") from None
    try:
        yield
    finally:
        os.close(lock)
