"""Events of a vLLM server's prefix cache: a thread counts the blocks that it stored and removed."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srl_agents.engines.vllm.events.stream import BrokenStreamError, published, unpacked

_AGAIN_S = 0.2
"""Before a publisher that is not there is looked for again."""
_PATIENCE_S = 5.0
"""Longest wait for the thread to end with the publisher."""


@dataclass(frozen=True, slots=True)
class KVCounts:
    """Counts since the reader was made; a server that is started again goes on with them."""

    stored: int = 0
    """Blocks that came into the prefix cache."""
    removed: int = 0
    """Blocks that had to make room."""
    cleared: int = 0
    """Times that all were dropped at once."""
    missed: int = 0
    """Batches of events that were published and did not come here."""

    def with_batch(self, events: list[Any], skipped: int) -> KVCounts:
        """The counts after one more batch.

        Args:
            events: as vLLM 0.32 publishes them (`vllm.distributed.kv_events`).
            skipped: batches that are missing before it.
        """
        found = {"BlockStored": 0, "BlockRemoved": 0, "AllBlocksCleared": 0}
        for event in events:
            kind = event["type"]
            found[kind] = found.get(kind, 0) + len(event.get("block_hashes", (1,)))
        return replace(
            self,
            stored=self.stored + found["BlockStored"],
            removed=self.removed + found["BlockRemoved"],
            cleared=self.cleared + found["AllBlocksCleared"],
            missed=self.missed + skipped,
        )


class KVEvents:
    """Reads a publisher until it is closed; one that ends is waited for.

    Args:
        path: of the publisher's Unix socket.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._counts = path, KVCounts()
        self.connected = threading.Event()
        """Set while a publisher sends events."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, name="KV events", daemon=True)
        self._thread.start()

    @property
    def counts(self) -> KVCounts:
        """Blocks that were stored and removed until now."""
        return self._counts

    def close(self) -> None:
        """Count no further; call it when the publisher has ended."""
        self._closed.set()
        self._thread.join(_PATIENCE_S)

    def _read(self) -> None:
        while not self._closed.is_set():
            with suppress(OSError, BrokenStreamError, KeyError, TypeError, ValueError):
                self._read_one()
            self.connected.clear()
            self._closed.wait(_AGAIN_S)

    def _read_one(self) -> None:
        """Count the events of one publisher until it ends."""
        expected = 0
        for _, number, payload in published(self.path, self.connected.set):
            if self._closed.is_set():
                return
            sent = int.from_bytes(number, "big")
            events = unpacked(payload)[1]
            self._counts = self._counts.with_batch(events, sent - expected)
            expected = sent + 1
