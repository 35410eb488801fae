"""Replies of endpoints on disk, so that what was answered is never asked, and paid, a second time.

A file of JSON lines that only grows. A line is written with one call before the reply is used, so it
survives the end of the process by any signal; a machine that loses power may lose the last ones. What
stands in a line is what the endpoint said. Keys are taken out before it comes here.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from srl_agents import file_lock
from srl_agents.records import Served, canonical_json
from srl_envs.errors import StoreError

REPLIES = "replies.jsonl"
"""Name of the journal in a run's folder."""
_LISTS = ("failed_tries",)


@dataclass(frozen=True, kw_only=True, slots=True)
class JournaledReply:
    """One answered request, as the journal keeps it."""

    text: str
    thoughts: str
    served: Served


class ReplyJournal:
    """The replies of one run, by request. Threads may share it, and processes may write to one file.

    What another process adds is found when the file is opened again.

    Args:
        path: made if absent; a last line that a crash cut short goes.

    Raises:
        StoreError: the file cannot be opened, or holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = threading.Lock()
        self._places: dict[str, tuple[int, int]] = {}
        """Request -> (first byte, length) of its line."""
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise StoreError(f"{path} cannot be opened: {error.strerror}.") from None
        try:
            with self._alone():
                os.ftruncate(self._file, self._read_all())
        except BaseException:
            os.close(self._file)
            raise

    def __len__(self) -> int:
        """Requests that were answered."""
        return len(self._places)

    def __contains__(self, request: str) -> bool:
        """Whether a request was answered."""
        return request in self._places

    def find(self, request: str) -> JournaledReply | None:
        """The reply to a request; None if it was not answered.

        Args:
            request: digest of all that it consists of.
        """
        if request not in self._places:
            return None
        start, length = self._places[request]
        return _reply(json.loads(os.pread(self._file, length, start)))

    def add(self, request: str, reply: JournaledReply) -> None:
        """Keep a reply; the first one to a request stays.

        Raises:
            StoreError: the disk is full or gone.
        """
        if request in self._places:
            return
        line = canonical_json({"request": request, **asdict(reply)}).encode() + b"\n"
        with self._alone():
            start = os.fstat(self._file).st_size
            try:
                written = os.write(self._file, line)
            except OSError as error:
                raise StoreError(
                    f"{self._path} takes no further reply: {error.strerror}."
                ) from None
            if written < len(line):
                os.ftruncate(self._file, start)
                raise StoreError(f"{self._path} takes no further reply: the disk is full.")
        self._places[request] = (start, len(line))

    def close(self) -> None:
        """See that all of it is on the disk. Closing again does nothing."""
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other thread, and no other process, writes meanwhile."""
        with self._writing:
            file_lock.lock(self._file)
            try:
                yield
            finally:
                file_lock.unlock(self._file)

    def _read_all(self) -> int:
        """Fill `_places`; returns the length of the lines that are whole."""
        whole = 0
        with os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(0)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                try:
                    data = json.loads(line)
                    _reply(data)
                    self._places.setdefault(str(data["request"]), (whole, len(line)))
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise StoreError(
                        f"{self._path}, byte {whole}: no reply ({type(error).__name__}: {error}). The "
                        "file was edited; start in another folder."
                    ) from None
                whole += len(line)
        return whole


def _reply(data: Any) -> JournaledReply:
    served: dict[str, Any] = {k: tuple(v) if k in _LISTS else v for k, v in data["served"].items()}
    return JournaledReply(
        text=str(data["text"]), thoughts=str(data["thoughts"]), served=Served(**served)
    )
