"""An agent behind a loopback address, for a measuring program that lives in another environment."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import threading
from collections import Counter
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as Late
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from typing import Any

from srl_agents.agents.players import ModelPolicy
from srl_agents.closing_server import ClosingServer, serving
from srl_agents.engines.protocol import Generation
from srl_envs.errors import SRLError

REPLY_S = 600.0
"""Seconds that one reply may take."""
_LARGEST_BODY = 4_000_000
_WORD_BYTES = 8


class _Server(ClosingServer):
    """Inspect opens a connection per sample, all at once; the standard library lets five of them wait."""

    request_queue_size = 1024


class ReplyServer:
    """Answers ``POST /reply {"text": ...}`` on 127.0.0.1 for clients that send the secret.

    Requests that wait together reach the engine together. The random numbers of a reply follow from the
    seed, the text, and how often it was asked before, so the order of other requests decides nothing.

    Args:
        policy: who answers.
        seed: of its randomness.
    """

    def __init__(self, policy: ModelPolicy, *, seed: int = 0) -> None:
        self._policy, self._seed = policy, seed
        self.secret = secrets.token_urlsafe(24)
        self.answered = 0
        """Replies so far."""
        self._asked: Counter[bytes] = Counter()
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._opened = ExitStack()

    @property
    def address(self) -> str:
        """Address of the server, as a URL."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> ReplyServer:
        thread = threading.Thread(target=self._loop.run_forever, name="replies", daemon=True)
        thread.start()
        self._opened.callback(self._loop.close)
        self._opened.callback(thread.join)
        self._opened.callback(self._loop.call_soon_threadsafe, self._loop.stop)
        self._opened.enter_context(serving(self._server, "reply-server"))
        self._opened.callback(
            lambda: asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def reply(self, text: str) -> Generation:
        """One reply.

        Raises:
            SRLError: what the engine raises.
            TimeoutError: it took longer than `REPLY_S`.
        """
        digest = hashlib.sha256(text.encode()).digest()
        with self._lock:
            before = self._asked[digest]
            self._asked[digest] += 1
        number = int.from_bytes(digest[:_WORD_BYTES], "big") >> 1
        request = self._policy.request(text, (self._seed, number, before))
        waiting = asyncio.run_coroutine_threadsafe(
            self._policy.engine.generate(request), self._loop
        )
        try:
            found = waiting.result(REPLY_S)
        except Late:
            waiting.cancel()
            raise
        with self._lock:
            self.answered += 1
        return found


async def _cancel_all() -> None:
    """Cancel the other tasks of this loop, and wait for them."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _handler(server: ReplyServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            given = self.headers.get("authorization", "")
            if not hmac.compare_digest(given, f"Bearer {server.secret}"):
                return self._send(401, {"error": "wrong secret"})
            try:
                length = int(self.headers.get("content-length", "0"))
                text = json.loads(self.rfile.read(min(length, _LARGEST_BODY)))["text"]
            except (ValueError, KeyError, TypeError):
                return self._send(400, {"error": 'send {"text": ...}'})
            if self.path != "/reply" or not isinstance(text, str):
                return self._send(404, {"error": "POST /reply with a text"})
            try:
                found = server.reply(text)
            except (SRLError, Late, CancelledError) as error:
                return self._send(500, {"error": f"{type(error).__name__}: {error}"})
            return self._send(
                200,
                {
                    "text": found.text,
                    "finish": found.finish,
                    "prompt_tokens": len(found.prompt_ids),
                    "reply_tokens": len(found.token_ids),
                },
            )

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the command shows progress."""

        def _send(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
