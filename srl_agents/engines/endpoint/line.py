"""What all endpoints of a process share: one thread with an event loop, connections, and limits.

Limits belong to a provider, not to an engine, so four models of one account wait for one bucket. They live
in one thread, so they need no lock, and any event loop may ask.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import httpx2

from srl_agents.engines.endpoint.rate_limits import RateLimit
from srl_agents.engines.endpoint.settings import API_KEY, Account
from srl_envs.errors import ConfigError
from srl_envs.redaction import Redactor

T = TypeVar("T")
_CONNECT_S = 5.0
_NO_LIMIT = 1 << 20
for _client in ("httpx2", "httpcore2"):  # below warnings they log lines and headers of answers
    logging.getLogger(_client).setLevel(logging.WARNING)


class Secret:
    """A key. Only the server that it is sent to sees its text.

    Args:
        variable: of the environment, that holds it.

    Raises:
        ConfigError: what is there cannot be sent.
    """

    def __init__(self, variable: str) -> None:
        self.variable = variable
        self._key = os.environ.get(variable, "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            # the client would refuse the header, and its error shows the header
            raise ConfigError(
                f"{variable} holds a character that no key has, such as a line break or an accent: copy "
                "the key again."
            )
        if not self._key and variable != API_KEY:
            raise ConfigError(f"{variable} is not set: put the provider's key into it.")
        self._redactor = Redactor(self._key)

    def __repr__(self) -> str:
        return f"Secret({self.variable})"

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._key)

    @property
    def headers(self) -> dict[str, str]:
        """Authorization header of a request; empty without a key."""
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def hide(self, text: str) -> str:
        """A text of the server without the key in any form; see `Redactor`."""
        return self._redactor.hide(text)

    def hide_in_body(self, raw: bytes) -> str:
        """The body of an answer without the key, whatever its encoding; JSON stays JSON."""
        return self.hide(raw.decode(json.detect_encoding(raw), errors="replace"))


class Counter:
    """The connections and limits of one account."""

    def __init__(self, account: Account) -> None:
        self.users = 0
        self.limit = RateLimit(account.requests_per_minute, account.tokens_per_minute)
        self.places = asyncio.Semaphore(account.concurrency or _NO_LIMIT)
        self.client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=_CONNECT_S),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
        )


class Line:
    """The thread, while an engine uses it. Counters are read and written only in it."""

    def __init__(self) -> None:
        self.users = 0
        self.process = os.getpid()
        self.counters: dict[Account, Counter] = {}
        self.gates: dict[int, asyncio.Semaphore] = {}
        """Places for requests, by the limit on all requests at once."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="endpoints", daemon=True
        )
        self._thread.start()

    def send(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Do the work there; cancelling the result cancels the work."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def join(self, account: Account) -> Counter:
        """Use an account until `part`."""
        if account not in self.counters:
            self.counters[account] = Counter(account)
        counter = self.counters[account]
        counter.users += 1
        return counter

    def gate(self, in_flight: int) -> asyncio.Semaphore:
        """Places for so many requests of all engines that name this number."""
        return self.gates.setdefault(in_flight, asyncio.Semaphore(in_flight))

    async def part(self, account: Account) -> None:
        """The last one to part closes the connections."""
        counter = self.counters[account]
        counter.users -= 1
        if not counter.users:
            del self.counters[account]
            await counter.client.aclose()

    def end(self) -> None:
        """End the thread and its event loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


_lock = threading.Lock()
_shared: Line | None = None


def take_line() -> Line:
    """The process's line; give it back with `leave_line`."""
    global _shared  # noqa: PLW0603 - one per process is what makes limits hold
    with _lock:
        if _shared is None or _shared.process != os.getpid():  # a fork has no threads
            _shared = Line()
        _shared.users += 1
        return _shared


def leave_line(line: Line) -> None:
    """The last one to leave ends the thread."""
    global _shared  # noqa: PLW0603
    with _lock:
        line.users -= 1
        if line.users:
            return
        if _shared is line:
            _shared = None
    line.end()
