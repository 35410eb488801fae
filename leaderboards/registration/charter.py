"""A board's charter: its key, the keys before it, and the makers of models whose keys it lists.

``board.json`` is signed with the key that it names. A person who can replace both can make another board, so
readers compare fingerprints; only the key's holder can edit this one. Reasons: docs/design/trust.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leaderboards.contents.intake import BundleError, open_regular
from leaderboards.keys import (
    SIGNATURE,
    SigningKey,
    board_key,
    fingerprint,
    is_signed,
    new_board_key,
    public_key_fault,
)
from leaderboards.registration.tickets import write_json
from srl_agents.league.store.database import take_lock
from srl_envs.errors import ConfigError, StoreError, file_fault
from srl_envs.reading.settings import build, dump

CHARTER = "board.json"
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
    """`Ticket.link` of the last ticket under this key."""
    until: str
    """Time, UTC, at which the key was replaced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Maker:
    """A maker of models, and a key that the operator has confirmed as theirs."""

    name: str
    """Maker's name in the list of reserved names, such as ``openai``."""
    public_key: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Charter:
    """Content of ``board.json``."""

    schema: int = 1
    public_key: str
    former: tuple[FormerKey, ...] = ()
    reserved: tuple[str, ...] = ()
    """Beginnings of names that no entrant may take, beside those that every board reserves."""
    makers: tuple[Maker, ...] = ()
    """Keys whose owners may use the names of a maker of models."""
    head: bool = False
    """Whether the log has a signed head, without which it is not read."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the key, which readers compare."""
        return fingerprint(self.public_key)

    def has_maker(self, name: str, public_key: str) -> bool:
        """Whether the board lists a key for a maker."""
        return Maker(name=name, public_key=public_key) in self.makers


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
    others = [f.public_key for f in charter.former] + [m.public_key for m in charter.makers]
    for public in (charter.public_key, *others):
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
