"""A small HTTP server that speaks the part of vLLM's API that SRL uses, with faults on demand."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

_LENGTH = 5
"""Tokens of a reply, if as many are wanted."""


@dataclass
class VLLMStub:
    """What it does may be changed at any moment; what it was asked is kept."""

    faults: list[Any] = field(default_factory=list)
    """Of the next replies: ``abort``, ``cut`` (the connection), a status, or a body of bytes."""
    delay_s: float = 0.0
    gathers: int = 0
    """Hold replies until so many were open together, or no further one came for 2 s."""
    name: str = "base"
    """What its list of models calls the base."""
    adapters: dict[str, str] = field(default_factory=dict)
    """Name -> digest of its weights, empty if all are 0."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    closes: int | None = None
    """Token with which it ends what is asked for with the stop text ``</think>``."""
    asleep: bool = False
    dead: bool = False
    """It cuts every connection."""
    at_once: int = 0
    """Most replies that were written together."""
    url: str = ""
    counters: str = (
        'vllm:prefix_cache_queries_total{engine="0"} 8.0\n'
        'vllm:prefix_cache_hits_total{engine="0"} 2.0\n'
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5"} 3.0\n'
        'vllm:iteration_tokens_total_count{engine="0"} 4.0\n'
        'vllm:generation_tokens_total{engine="0"} 6.0\n'
    )
    """Metrics in Prometheus' format."""
    _open: int = 0
    _last_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def generate(self, request: dict[str, Any]) -> tuple[int, Any]:
        """A reply that its prompt, its weights and its seed decide."""
        name, wanted = request["model"], request["sampling_params"]
        if name != "base" and name not in self.adapters:
            return 404, {"error": {"message": f"no model {name}"}}
        drawn = hashlib.sha256(
            json.dumps([request["token_ids"], wanted["seed"], self.adapters.get(name, "")]).encode()
        ).digest()
        tokens = [97 + byte % 26 for byte in drawn[: min(_LENGTH, wanted["max_tokens"])]]
        if self.closes is not None and wanted["stop"] == ["</think>"]:
            tokens[-1] = self.closes
        content = [
            {"token_id": t, "logprob": -0.5 - b / 256} for t, b in zip(tokens, drawn, strict=False)
        ]
        choice = {"finish_reason": "stop", "token_ids": tokens, "logprobs": {"content": content}}
        usage = {"prompt_tokens": len(request["token_ids"]), "prompt_tokens_details": None}
        return 200, {"model": name, "choices": [choice], "usage": usage}

    def answer(self, path: str, request: Any) -> tuple[int, Any]:
        """(status, body) for one request."""
        if request == {}:  # of a look at its paths
            return 422, {"detail": "Field required"}
        if path == "/inference/v1/generate":
            with self._lock:
                self.asked.append(request)
                self._open += 1
                self.at_once = max(self.at_once, self._open)
                self._last_s = time.monotonic()
            try:
                while self.at_once < self.gathers and time.monotonic() < self._last_s + 2:
                    time.sleep(0.005)
                time.sleep(self.delay_s)
                return self.generate(request)
            finally:
                with self._lock:
                    self._open -= 1
        if path == "/v1/load_lora_adapter":
            weights = load_file(Path(request["lora_path"]) / "adapter_model.safetensors")
            contents = b"".join(weights[key].numpy().tobytes() for key in sorted(weights))
            zeros = not any(weight.any() for weight in weights.values())
            self.adapters[request["lora_name"]] = (
                "" if zeros else hashlib.sha256(contents).hexdigest()
            )
        elif path == "/v1/unload_lora_adapter":
            self.adapters.pop(request["lora_name"], None)
        elif path in ("/sleep", "/wake_up"):
            self.asleep = path == "/sleep"
        elif path == "/v1/models":
            return 200, {"data": [{"id": name} for name in (self.name, *self.adapters)]}
        elif path == "/metrics":
            return 200, self.counters
        elif path != "/health":
            return 404, {"error": {"message": path}}
        return 200, {}


@contextmanager
def vllm_stub(stub: VLLMStub | None = None, port: int = 0) -> Iterator[VLLMStub]:
    """Serves while the block runs."""
    found = VLLMStub() if stub is None else stub

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._answer(json.loads(body or b"null"))

        def _answer(self, request: Any) -> None:
            path = self.path.partition("?")[0]
            fault = found.faults.pop(0) if path.startswith("/inference") and found.faults else None
            if found.dead or fault == "cut":
                self.close_connection = True
                self.connection.close()
                return
            status, answer = found.answer(path, request)
            if found.dead:
                self.close_connection = True
                self.connection.close()
                return
            if fault == "abort":
                choice = answer["choices"][0]
                choice["finish_reason"] = "abort"
                choice["token_ids"] = choice["token_ids"][:1]
            body = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            if isinstance(fault, int):
                status = fault
            elif isinstance(fault, bytes):
                body = fault
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # the client has left
                self.close_connection = True

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
