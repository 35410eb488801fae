"""Requests as they were made, in the format that `srl plan kv` replays.

One line per reply: when it was asked for, how long prompt and reply are, and the hashes of the prompt's
blocks. Hashes show which prompts begin alike, but not their text.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from srl_agents.caching.blocks import block_hashes
from srl_agents.caching.simulation.traces import Request, append_requests, marked_ends, read_trace
from srl_agents.engines.protocol import Generation, GenerationRequest
from srl_envs.errors import ConfigError

REQUESTS = "requests.jsonl"
"""File of a run's requests, in its folder."""


class RequestTrace:
    """Collects requests and appends them to a file.

    Engines that report no tokens leave no line. A session is a seat of a match; it ends with its last request
    before `write`.

    Args:
        path: the file, ending in ``.jsonl``; what it holds stays, but for a last line that a killed process
            left half written, and its clock goes on. None: no file, for requests that `take` hands on.
        tokens_per_block: tokens that share one hash; engines share only whole blocks.

    Raises:
        ConfigError: the size of a block is impossible, or the file holds something else.
    """

    def __init__(
        self,
        path: Path | None,
        tokens_per_block: int,
    ) -> None:
        if tokens_per_block < 1:
            raise ConfigError(f"trace={tokens_per_block}: use 1 token per block or more.")
        self.path, self.tokens_per_block = path, tokens_per_block
        self._last_s = 0.0
        """Arrival of the last request in the file."""
        if path is not None and _whole_lines(path):
            self._last_s = read_trace(path, tokens_per_block).requests[-1].arrival_s
        self._zero_s = 0.0 if path is None else time.monotonic() - self._last_s
        self._rows: list[Request] = []

    def now_s(self) -> float:
        """Seconds on the trace's clock."""
        return time.monotonic() - self._zero_s

    def add(self, arrival_s: float, request: GenerationRequest, reply: Generation) -> None:
        """Keep one request that was answered.

        Args:
            arrival_s: `now_s` when it was made.
            request: its key ends with the turn; what stands before names the session.
            reply: what came.
        """
        if not reply.prompt_ids:
            return
        version = "" if reply.version is None else str(reply.version)
        self._rows.append(
            Request(
                arrival_s=arrival_s,
                prompt_tokens=len(reply.prompt_ids),
                reply_tokens=len(reply.token_ids),
                blocks=block_hashes(
                    reply.prompt_ids, self.tokens_per_block, model=version, partial=True
                ),
                session=_session(request.key[:-1]),
            )
        )

    def take(self, match: tuple[int, ...]) -> list[Request]:
        """Remove the requests of one match from this trace and return them.

        Args:
            match: what the keys of its requests begin with.

        Returns:
            In order of arrival, by the clock itself.
        """
        prefix = f"{_session(match)}-"
        taken = [row for row in self._rows if str(row.session).startswith(prefix)]
        self._rows = [row for row in self._rows if not str(row.session).startswith(prefix)]
        return list(marked_ends(sorted(taken, key=lambda row: row.arrival_s)))

    def append(self, rows: Sequence[Request]) -> None:
        """Append requests that another process took from its trace; the clock is the machine's.

        One that arrived before the last line was written counts as arriving then.

        Raises:
            ConfigError: the file cannot be written.
        """
        if self.path is None:
            raise ConfigError("this trace has no file.")
        placed = [
            replace(row, arrival_s=max(row.arrival_s - self._zero_s, self._last_s))
            for row in sorted(rows, key=lambda row: row.arrival_s)
        ]
        if placed:
            append_requests(self.path, placed)
            self._last_s = placed[-1].arrival_s

    def write(self) -> None:
        """Append what was added since the last call, in order of arrival; without a file, drop it.

        Raises:
            ConfigError: the file cannot be written.
        """
        rows, self._rows = sorted(self._rows, key=lambda row: row.arrival_s), []
        if rows and self.path is not None:
            append_requests(self.path, marked_ends(rows))
            self._last_s = rows[-1].arrival_s


def _session(key: tuple[int, ...]) -> str:
    """Name of what the keys of requests begin with."""
    return "-".join(f"{part:x}" for part in key)


def _whole_lines(path: Path) -> int:
    """Cut off what follows the last line end; bytes that are left."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
        return file.seek(0, os.SEEK_END)
