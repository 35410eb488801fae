"""Which requests went to endpoints, written down before they are sent: a kill leaves no doubt what was asked.

A file of JSON lines that only grows, beside the journal of replies. A request that is sent again, because the
process that waited for its reply was killed, stands there again.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from srl_agents.records import canonical_json
from srl_envs.errors import StoreError

SENT = "requests_sent.jsonl"
"""Name of this file in a run's folder."""


class SentRequests:
    """The requests of one run, by agent. Threads may share it.

    Args:
        path: made if absent; a last line that a crash cut short counts for nothing.

    Raises:
        StoreError: the file cannot be opened, or holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._writing = path, threading.Lock()
        self._times: dict[str, Counter[str]] = {}
        """Agent -> request -> how often it was sent."""
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._read(path.read_bytes())
        except OSError as error:
            raise StoreError(f"{path} cannot be opened: {error.strerror}.") from None

    def add(self, agent: str, request: str) -> None:
        """A request is about to be sent.

        Raises:
            StoreError: the disk is full or gone.
        """
        line = canonical_json([agent, request]).encode() + b"\n"
        with self._writing:
            try:
                os.write(self._file, line)
            except OSError as error:
                raise StoreError(
                    f"{self._path} takes no further request: {error.strerror}."
                ) from None
            self._times.setdefault(agent, Counter())[request] += 1

    def lost(self, agent: str, answered: Callable[[str], bool]) -> int:
        """How often an agent was asked in vain: what it was sent beyond the one time that was answered.

        Args:
            agent: id.
            answered: whether there is a reply to a request.
        """
        with self._writing:
            times = dict(self._times.get(agent, {}))
        return sum(count - answered(request) for request, count in times.items())

    def close(self) -> None:
        """Closing again does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _read(self, data: bytes) -> None:
        whole, _, torn = data.rpartition(b"\n")
        if torn:
            os.ftruncate(self._file, len(data) - len(torn))
        for line in whole.splitlines():
            try:
                agent, request = json.loads(line)
            except (ValueError, TypeError) as error:
                raise StoreError(
                    f"{self._path}: no request ({type(error).__name__}: {error}). The file was edited; start "
                    "in another folder."
                ) from None
            self._times.setdefault(str(agent), Counter())[str(request)] += 1
