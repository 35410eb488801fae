"""A real HTTP server that answers as an OpenAI-compatible API does, in a thread of the test."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "org/parrot"
_AT_ONCE = struct.pack("ii", 1, 0)
"""Of SO_LINGER: closing resets."""
DATED = "org/parrot-2026-01-02"
"""What it calls the model in its replies."""


@dataclass
class ChatServer:
    """What it answers may be changed at any moment; what it was asked is kept."""

    reply: Callable[[dict[str, Any]], Any] = lambda request: "<action>bet</action>"
    """Request -> text of the reply, None, or a whole message."""
    key: str | None = None
    """Wanted of every request."""
    models: tuple[str, ...] = (MODEL,)
    listed: tuple[str, ...] | None = None
    """Names in its list of models; None: those of `models`."""
    refusals: list[tuple[int, str]] = field(default_factory=list)
    """(status, message) of the next requests, before any reply."""
    breaks: list[str] = field(default_factory=list)
    """Of the next requests: ``cut`` closes the connection, ``trickle`` sends a byte at a time,
    ``reset`` sends half of a reply and resets the connection."""
    answer_headers: dict[str, str] = field(default_factory=lambda: {"Retry-After-Ms": "1"})
    """Of every answer; by default retries do not wait long."""
    fingerprint: Any = None
    length_name: str = "max_tokens"
    """Name of the request's field for the longest reply."""
    model: Any = DATED
    """Reported with every reply."""
    finish: Any = "stop"
    usage: Any = None
    body: bytes | None = None
    """Sent in place of a completion."""
    delay_s: float = 0.0
    gathers: int = 0
    """Until so many requests have been open together, each waits until no other has come for two
    seconds; the first of each model, its greeting, does not."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    at_once: int = 0
    """Most requests that were open together."""
    port: int = 0
    """0: a free one."""
    url: str = ""
    _open: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _last_s: float = 0.0

    def answer(self, request: dict[str, Any]) -> tuple[int, Any]:
        """(status, body) for a chat."""
        if self.refusals:
            status, message = self.refusals.pop(0)
            return status, error(message)
        if request["model"] not in self.models:
            return 404, error(f"The model `{request['model']}` does not exist.")
        others = {"max_tokens", "max_completion_tokens"} - {self.length_name}
        if found := others & set(request):
            return 400, error(f"Unsupported parameter: '{found.pop()}'.")
        reply = self.reply(request)
        answered = reply if isinstance(reply, dict) else {"role": "assistant", "content": reply}
        return 200, {
            "id": "chat-1",
            "object": "chat.completion",
            "created": 1,
            "model": self.model if request["model"] == MODEL else f"{request['model']}-2026-01-02",
            "system_fingerprint": self.fingerprint,
            "choices": [{"index": 0, "message": answered, "finish_reason": self.finish}],
            "usage": self.usage,
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def shutdown_request(self, request: Any) -> None:
        """Without the polite end where the socket is to be reset."""
        if request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, len(_AT_ONCE)) == _AT_ONCE:
            self.close_request(request)
        else:
            super().shutdown_request(request)


def error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": None}}


@contextmanager
def chat_server(**settings: Any) -> Iterator[ChatServer]:
    """A server; gone at the end."""
    chat = ChatServer(**settings)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            known = self.path == "/v1/models"
            listed = [
                {"id": name} for name in (chat.models if chat.listed is None else chat.listed)
            ]
            self._send(200 if known else 404, {"object": "list", "data": listed})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/chat/completions":
                self._send(404, {"detail": "Not Found"})
                return
            if chat.key is not None and self.headers["Authorization"] != f"Bearer {chat.key}":
                self._send(401, error(f"Incorrect API key: {self.headers['Authorization']}"))
                return
            with chat._lock:
                chat.requests.append(request)
                chat.headers.append(dict(self.headers))
                chat._open += 1
                chat.at_once = max(chat.at_once, chat._open)
                chat._last_s = time.monotonic()
                broken = chat.breaks.pop(0) if chat.breaks else ""
                status, body = (200, None) if broken else chat.answer(request)
            greeted = len(chat.requests) > len(chat.models)
            while greeted and chat.at_once < chat.gathers and time.monotonic() < chat._last_s + 2:
                time.sleep(0.01)
            time.sleep(chat.delay_s)
            with chat._lock:
                chat._open -= 1
            if broken == "cut":
                self.close_connection = True
            elif broken == "trickle":
                self._trickle()
            elif broken == "reset":
                self._reset()
            else:
                self._send(status, body, chat.body if status == 200 else None)

        def _reset(self) -> None:
            self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)

        def _trickle(self) -> None:
            self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            with suppress(OSError):
                for _ in range(40):
                    self.wfile.write(b" ")
                    time.sleep(0.02)

        def _send(self, status: int, body: Any, raw: bytes | None = None) -> None:
            data = json.dumps(body).encode() if raw is None else raw
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in chat.answer_headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # the client has left
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = _Server(("127.0.0.1", chat.port), Handler)
    chat.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield chat
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
