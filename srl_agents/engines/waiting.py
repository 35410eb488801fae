"""Waiting for another process: a line every half minute with its name, since when, and the limit."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

Say = Callable[[str], None]
EVERY_S = 30.0
"""Seconds between two lines."""


def to_stderr(line: str) -> None:
    """A line where nothing better shows it."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - the default of callers without a console


class Waiting:
    """One wait, from now on. Call `tick` at least as often as lines are due.

    Args:
        who: is waited for, for example ``the vLLM server at http://host:8000 to answer``.
        limit_s: after which the caller gives up.
        say: shows a line.
        every_s: between two lines.
    """

    def __init__(self, who: str, limit_s: float, say: Say, every_s: float = EVERY_S) -> None:
        self.who, self.limit_s, self._say, self._every_s = who, limit_s, say, every_s
        self._begun, self._since = time.monotonic(), time.strftime("%H:%M:%S")
        self._next_s = every_s

    @property
    def passed_s(self) -> float:
        """Seconds since the wait began."""
        return time.monotonic() - self._begun

    @property
    def left_s(self) -> float:
        """Seconds until the limit; 0 or less behind it."""
        return self.limit_s - self.passed_s

    @property
    def due_s(self) -> float:
        """Seconds until the next line."""
        return max(self._next_s - self.passed_s, 0.01)

    def tick(self) -> None:
        """Say the line if it is due."""
        if self.passed_s >= self._next_s:
            self._next_s = self.passed_s + self._every_s
            self._say(
                f"waiting for {self.who}: {self.passed_s:.0f} s since {self._since}, at most "
                f"{self.limit_s:g} s"
            )

    @asynccontextmanager
    async def said(self) -> AsyncIterator[None]:
        """Inside, the lines come by themselves."""

        async def lines() -> None:
            while True:
                await asyncio.sleep(max(self._next_s - self.passed_s, 0.0))
                self.tick()

        task = asyncio.create_task(lines())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


class SilenceWatch:
    """Prints a line when none of the requests that one server has was answered for a while.

    Args:
        who: is asked.
        say: shows a line.
        every_s: of silence before a line, and between two lines.
    """

    def __init__(self, who: str, say: Say, every_s: float = EVERY_S) -> None:
        self._who, self._say, self._every_s = who, say, every_s
        self._open = 0
        self._heard, self._heard_at = 0.0, ""
        self._lines: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def request(self, limit_s: float) -> AsyncIterator[None]:
        """Inside, one request is open.

        Args:
            limit_s: that its reply may take.
        """
        if not self._open:
            self._hear()
            self._lines = asyncio.create_task(self._watch(limit_s))
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self._hear()
            if not self._open and self._lines is not None:
                self._lines.cancel()

    def _hear(self) -> None:
        self._heard, self._heard_at = time.monotonic(), time.strftime("%H:%M:%S")

    async def _watch(self, limit_s: float) -> None:
        said = 0.0
        while True:
            quiet_s = time.monotonic() - self._heard
            due_s = self._every_s - min(quiet_s, time.monotonic() - said)
            if due_s > 0:
                await asyncio.sleep(due_s)
                continue
            said = time.monotonic()
            self._say(
                f"waiting for {self._who}: {self._open} requests, no reply for {quiet_s:.0f} s (since "
                f"{self._heard_at}); one may take {limit_s:g} s"
            )
