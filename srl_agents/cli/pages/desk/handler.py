"""HTTP server of the desk: its page, and the chat API that forwards requests to the person."""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any

from srl_agents.agents.grammar import HUMAN
from srl_agents.cli.pages.desk.questions import MOST_QUESTIONS, Desk, DeskFullError, PausedError
from srl_agents.closing_server import ClosingServer, serving
from srl_agents.engines.endpoint.tries import LEFT, PAUSED
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

_MOST_BYTES = 1 << 20
"""Most bytes of one request."""
_SHOWN = 8
"""Most questions that the page gets in full; it gets the number of the others."""
_SILENT_S = 30.0
"""After which a connection is closed whose client sends nothing, or only part of a request."""
_FILES = {
    "/": ("desk", "desk.html", "text/html"),
    "/desk.js": ("desk", "desk.js", "text/javascript"),
    "/controls.js": ("desk", "controls.js", "text/javascript"),
    "/desk.css": ("desk", "desk.css", "text/css"),
    "/page.css": ("shared", "page.css", "text/css"),
}
_MOST_DIGITS = 8
_AGAIN_S = 2
"""Seconds after which a client of a paused desk asks again."""
_READY = "ready"
"""Reply to a request for one token, with which clients test whether the server answers."""


@contextmanager
def desk_server(desk: Desk, host: str, port: int) -> Iterator[str]:
    """Serve a desk; gives its address.

    Raises:
        ConfigError: the port is taken or none, or the host is none of this machine.
    """

    class Handler(_Handler):
        def __init__(self, *arguments: Any) -> None:
            self.desk = desk
            super().__init__(*arguments)

    try:
        server = _Server((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"{host}:{port} cannot be served: {error}") from None
    with serving(server, "desk"):
        yield f"http://{host}:{server.server_address[1]}"


class _Server(ClosingServer):
    most_connections = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing for a client that disconnects while it waits: it asks again."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = _SILENT_S
    desk: Desk

    def do_GET(self) -> None:
        """The page, its files, what waits, and the list of models."""
        if not self._meant_for_here():
            return
        if self.path in _FILES:
            package, name, kind = _FILES[self.path]
            content = (files(f"srl_agents.cli.pages.{package}") / name).read_bytes()
            self._send(200, content, f"{kind}; charset=utf-8")
        elif self.path == "/waiting":
            waiting = self.desk.waiting()
            shown, more = waiting[:_SHOWN], len(waiting[_SHOWN:])
            self._tell(
                200,
                {
                    "questions": shown,
                    "more": more,
                    "answered": self.desk.answered,
                    "news": self.desk.tell_news(),
                    "paused": self.desk.paused and not self.desk.pausable,
                },
            )
        elif self.path == "/v1/models":
            self._tell(200, {"object": "list", "data": [{"id": HUMAN, "object": "model"}]})
        else:
            self._refuse(404, f"nothing is at {self.path}.")

    def do_POST(self) -> None:
        """A chat to reply to, or the person's reply."""
        body = self._body() if self._meant_for_here() else None
        if body is None:
            return
        if self.path == "/v1/chat/completions":
            self._complete(body)
        elif self.path in ("/reply", "/resign"):
            self._decide(body, resigned=self.path == "/resign")
        elif self.path in ("/pause", "/go_on"):
            (self.desk.pause if self.path == "/pause" else self.desk.go_on)()
            self._tell(200, {"taken": True})
        else:
            self._refuse(404, f"nothing is at {self.path}.")

    def _decide(self, body: dict[str, Any], *, resigned: bool) -> None:
        """The person's reply to a question, or that there is none."""
        number, reply = body.get("number"), "" if resigned else body.get("reply")
        if type(number) is not int or not isinstance(reply, str) or not (resigned or reply.strip()):
            self._refuse(400, "number and reply are wanted.")
        elif self.desk.resign(number) if resigned else self.desk.answer(number, reply):
            self._tell(200, {"taken": True})
        else:
            self._refuse(410, "no client waits for this reply any more.")

    def _complete(self, body: dict[str, Any]) -> None:
        chat = body.get("messages")
        texts = isinstance(chat, list) and all(
            isinstance(m, dict) and isinstance(m.get("content"), str) for m in chat
        )
        if not chat or not texts:
            self._refuse(400, "messages is wanted: a list of {role, content} with texts.")
            return
        if body.get("model") != HUMAN:
            self._refuse(404, f"no model {body.get('model')!r} here; there is {HUMAN!r}.")
            return
        if 1 in (body.get("max_tokens"), body.get("max_completion_tokens")):
            reply: str | None = _READY
        else:
            asked = [{"role": str(m.get("role")), "content": m["content"]} for m in chat]
            try:
                reply = self.desk.ask(asked, self._gone, within_s=self._patience_s())
            except PausedError:
                self._refuse(503, "the person pauses.", {PAUSED: "1", "Retry-After": str(_AGAIN_S)})
                return
            except DeskFullError:
                self._refuse(
                    503, f"{MOST_QUESTIONS} questions wait for the person; ask again later."
                )
                return
        if reply is None:
            self.close_connection = True
            return
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": reply},
            "finish_reason": "stop",
        }
        self._tell(
            200,
            {
                "id": "desk",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": HUMAN,
                "choices": [choice],
            },
        )

    def _patience_s(self) -> float | None:
        """Seconds that the client waits, where it sends them."""
        left = self.headers.get(LEFT, "")
        digits = left.isascii() and left.isdecimal() and len(left) < _MOST_DIGITS
        return float(left) if digits else None

    def _meant_for_here(self) -> bool:
        """Refuse a page from elsewhere whose name was made to stand for this machine."""
        named = self.headers.get("Host", "").rpartition(":")[0].strip("[]")
        at = str(self.connection.getsockname()[0])
        if not ip_address(at).is_loopback or named in (at, "localhost"):
            return True
        self.close_connection = True
        self._refuse(421, f"this desk is at {at} and localhost.")
        return False

    def _gone(self) -> bool:
        """Whether the client has closed its end."""
        try:
            if not select.select([self.connection], [], [], 0)[0]:
                return False
            return not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _body(self) -> dict[str, Any] | None:
        """The request's JSON; None where it was refused. A page from elsewhere cannot send this type."""
        length = self.headers.get("Content-Length", "")
        digits = length.isascii() and length.isdecimal() and len(length) <= len(str(_MOST_BYTES))
        if not digits or int(length) > _MOST_BYTES:
            self.close_connection = True
            self._refuse(413, "a body of known length, of at most 1 MiB, is wanted.")
            return None
        raw = self.rfile.read(int(length))
        if len(raw) < int(length):  # the client has gone
            self.close_connection = True
            return None
        if self.headers.get_content_type() != "application/json":
            self._refuse(415, "application/json is wanted.")
            return None
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            self._refuse(400, "a JSON object is wanted.")
            return None
        return body

    def _refuse(
        self, status: int, words: str, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._tell(status, {"error": {"message": words}}, headers)

    def _tell(
        self, status: int, body: dict[str, Any], headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._send(status, plain_json(body).encode(), "application/json", headers)

    def _send(
        self,
        status: int,
        content: bytes,
        kind: str,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cache-Control", "no-store")
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Nothing; the page shows what happens."""
