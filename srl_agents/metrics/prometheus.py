"""Metrics in Prometheus' text format, and a small server of one page.

Source of the format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text, version 0.0.4).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from srl_agents.closing_server import ClosingServer, serving
from srl_envs.errors import ConfigError, SRLError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Gauge:
    """A number that goes up and down, once for each set of labels."""

    name: str
    """With its unit last, for example ``srl_phase_share``."""
    what: str
    """Help text of the metric."""
    samples: Iterable[tuple[Mapping[str, str], float]] = field(default_factory=tuple)
    """(labels, value) pairs."""


def exposition(gauges: Iterable[Gauge]) -> str:
    """The text of a page; gauges without samples are left out.

    Raises:
        ValueError: a name is none that Prometheus takes.
    """
    lines: list[str] = []
    for gauge in gauges:
        samples = list(gauge.samples)
        if not samples:
            continue
        if not _NAME.fullmatch(gauge.name):
            raise ValueError(f"metric {gauge.name!r}: use letters, digits, underscores and colons.")
        lines += [f"# HELP {gauge.name} {_escaped(gauge.what)}", f"# TYPE {gauge.name} gauge"]
        lines += [f"{gauge.name}{_labels(labels)} {value!r}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    for name in labels:
        if not _LABEL.fullmatch(name):
            raise ValueError(f"label {name!r}: use letters, digits and underscores.")
    pairs = ",".join(
        '{}="{}"'.format(name, _escaped(value).replace('"', '\\"'))
        for name, value in labels.items()
    )
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


@contextmanager
def metrics_page(host: str, port: int, page: Callable[[], str]) -> Iterator[str]:
    """Serve a page under ``/metrics`` while the block runs.

    Args:
        host: address to listen on.
        port: 0 takes a free one.
        page: makes the text; called for every visit; the text of an SRLError that it raises becomes the page
            of that visit.

    Yields:
        Its address.

    Raises:
        ConfigError: the port cannot be had.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b""
            if self.path.partition("?")[0] == "/metrics":
                try:
                    code, body = 200, page().encode()
                except SRLError as error:
                    code, body = 503, f"{error}\n".encode()
            else:
                code = 404
            self.send_response(code)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing for visits."""

    try:
        httpd = ClosingServer((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--metrics-port {port}: cannot listen on {host} ({error}).") from error
    with serving(httpd, "metrics"):
        yield f"http://{host}:{httpd.server_address[1]}/metrics"
