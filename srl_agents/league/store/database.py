"""Access to the file of a store: SQLite, whose faults become a `StoreError` that names the file, and the
writer's lock, which holds how many matches were acknowledged."""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from srl_agents import file_lock
from srl_envs.errors import StoreError

_MARK = re.compile(r"(\d{20}) matches acknowledged\n")

_KEPT = "Every match that was acknowledged is still there"
_ADVICE = {
    sqlite3.SQLITE_FULL: f"the disk is full. {_KEPT}: free some space.",
    sqlite3.SQLITE_IOERR: "the disk refused to read or write. Look for a full disk, a quota, a limit on"
    f" file sizes or a failing device. {_KEPT}, unless the device lost it.",
    sqlite3.SQLITE_READONLY: "file or folder can only be read. Give this user the right to write to both,"
    " or copy the folder.",
    sqlite3.SQLITE_CANTOPEN: "file or folder cannot be opened. Give this user the right to read and write"
    " both.",
    sqlite3.SQLITE_BUSY: "another program has locked it. Close that program and try again.",
}
_DAMAGE = {
    sqlite3.SQLITE_CORRUPT: "the file is damaged: part of it is missing or was overwritten.",
    sqlite3.SQLITE_NOTADB: "the file is not a database, or its first page was overwritten.",
}


class Database(sqlite3.Connection):
    """A connection that raises `StoreError`, also while rows are fetched."""

    path: Path

    def execute(self, *args: Any) -> sqlite3.Cursor:
        """As in the base class, with errors that name the file."""
        return self._cursor().execute(*args)

    def executemany(self, *args: Any) -> sqlite3.Cursor:
        """As in the base class, with errors that name the file."""
        return self._cursor().executemany(*args)

    def executescript(self, *args: Any) -> sqlite3.Cursor:
        """As in the base class, with errors that name the file."""
        return self._cursor().executescript(*args)

    def _cursor(self) -> _Cursor:
        found = self.cursor(_Cursor)
        found.path = self.path
        return found


class _Cursor(sqlite3.Cursor):
    path: Path

    def execute(self, *args: Any) -> _Cursor:
        with named(self.path):
            super().execute(*args)
        return self

    def executemany(self, *args: Any) -> _Cursor:
        with named(self.path):
            super().executemany(*args)
        return self

    def executescript(self, *args: Any) -> _Cursor:
        with named(self.path):
            super().executescript(*args)
        return self

    def fetchone(self) -> Any:
        with named(self.path):
            return super().fetchone()

    def fetchall(self) -> list[Any]:
        with named(self.path):
            return super().fetchall()

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except sqlite3.DatabaseError as error:
            raise _told(self.path, error) from error


def connect(path: Path, target: str, *, uri: bool = False) -> Database:
    """Open a file; transactions are the caller's.

    Args:
        path: that errors name.
        target: file or URI.
        uri: whether ``target`` is a URI.

    Raises:
        StoreError: it cannot be opened.
    """
    with named(path):
        db = sqlite3.connect(target, uri=uri, isolation_level=None, timeout=30, factory=Database)
    db.path = path
    return db


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Turn errors of SQLite inside into `StoreError`."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise _told(path, error) from error


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn errors about what rows hold into `StoreError`: no league wrote them."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise StoreError(
            f"{path} holds a row that no league wrote ({type(error).__name__}: {error}): the file is "
            f"damaged or was edited. {mend(path)}"
        ) from error


def mend(path: Path) -> str:
    """Advice for a store that is damaged.

    Args:
        path: of the store.
    """
    folder = shlex.quote(str(path.parent))
    return f"Restore it from a backup, or save what is left with: srl league rebuild {folder}"


def end(db: sqlite3.Connection) -> None:
    """Roll back what is open; if SQLite did so itself, the first error is still the one reported."""
    if db.in_transaction:
        try:
            db.execute("ROLLBACK")
        except StoreError:  # nothing is committed either way
            return


def _told(path: Path, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGE:
        return StoreError(f"{path}: {_DAMAGE[code]} {mend(path)} (SQLite: {error}).")
    advice = _ADVICE.get(code, "it has not the tables or contents of a league store of SRL.")
    return StoreError(f"{path}: {advice} (SQLite: {error}).")


def take_lock(path: Path) -> int:
    """File descriptor that holds the writer's lock; the kernel drops it when the process dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        file_lock.lock(descriptor, wait=False)
    except BlockingIOError:
        _, _, holder = os.pread(descriptor, 4096, 0).decode(errors="replace").partition("\n")
        os.close(descriptor)
        raise StoreError(
            f"{path.with_suffix('')} already has a writer: {holder or 'unknown'}. Wait for it or stop it,"
            " or open the store with mode='read'."
        ) from None
    count = acknowledged(descriptor)
    os.ftruncate(descriptor, 0)
    text = f"{_mark(count)}process {os.getpid()} ({' '.join(sys.argv)[:200]})"
    os.pwrite(descriptor, text.encode(), 0)
    return descriptor


def has_writer(path: Path) -> bool:
    """Whether a living process holds the writer's lock of a store.

    Args:
        path: the lock, as in `take_lock`.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        file_lock.lock(descriptor, wait=False)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def acknowledged(descriptor: int) -> int:
    """Matches that writers of this store acknowledged, from its lock file; 0 if the lock is empty."""
    found = _MARK.match(os.pread(descriptor, 100, 0).decode(errors="replace"))
    return int(found[1]) if found else 0


def acknowledge(descriptor: int, matches: int) -> None:
    """Note in the lock how many matches are in the store; overwrites in place, so no disk is too full."""
    os.pwrite(descriptor, _mark(matches).encode(), 0)


def _mark(matches: int) -> str:
    return f"{matches:020} matches acknowledged\n"
