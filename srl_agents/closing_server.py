"""An HTTP server that ends all of its threads when it closes, those of open connections included."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from typing import Any

_PATIENCE_S = 5.0
"""For one handler whose connection was closed."""


@dataclass(frozen=True, kw_only=True)
class AddressOptions:
    """Where a server listens. Without slots, so that other settings may derive from it."""

    host: str = "127.0.0.1"
    """Address that it listens on, best a local one. Every program that reaches it can load adapters into a
    vLLM server, and answer for you in `srl serve human`."""
    port: int | None = None
    """Port of that address; 0 takes a free one. If absent: 8000 for `srl serve`, 8009 for `srl serve human`,
    a free one for a server of a run."""


class ClosingServer(ThreadingHTTPServer):
    """Closes the connections that are open at its end, and joins the threads that served them.

    The standard library's server either leaves such threads behind or waits for clients that keep their
    connection open.
    """

    daemon_threads = True
    most_connections: int | None = None
    """Open at once, each with a thread; further ones are closed at once. None: as many as come."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._serving: dict[threading.Thread, socket.socket] = {}
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """See `socketserver.ThreadingMixIn`."""
        self._serving = {known: link for known, link in self._serving.items() if known.is_alive()}
        if self.most_connections is not None and len(self._serving) >= self.most_connections:
            self.shutdown_request(request)
            return
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), daemon=True
        )
        self._serving = {**self._serving, thread: request}
        thread.start()

    def server_close(self) -> None:
        """Close the port and the connections, and wait for their threads."""
        super().server_close()
        for link in self._serving.values():
            with contextlib.suppress(OSError):  # its thread has closed it
                link.shutdown(socket.SHUT_RDWR)
        for thread in self._serving:
            thread.join(_PATIENCE_S)
        self._serving = {}


@contextlib.contextmanager
def serving(server: ClosingServer, name: str) -> Iterator[None]:
    """Serve from a thread of this name until the end of the block."""
    thread = threading.Thread(target=server.serve_forever, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
