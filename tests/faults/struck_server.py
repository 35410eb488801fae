"""A server in a process of its own that a cell strikes: a chat endpoint, killed, hung, slowed, or cut off."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

from tests.chat_server import MODEL, chat_server

AGENT = f"openai:{MODEL}@cells"
PID = "SRL_STRUCK_SERVER"
"""Environment variable with its process."""
_REPLY_S = 0.1
_PROVIDERS = "providers: {{cells: {{url: {url}, timeout_s: 2, deadline_s: 4}}}}\n"


class Endpoint:
    """Serves until it is closed; a reply depends only on its request.

    Args:
        folder: of the providers file that names it; an existing file gives the earlier port.
    """

    def __init__(self, folder: Path) -> None:
        self.providers = folder / "providers.yaml"
        port = _port(self.providers)
        self.providers.unlink(missing_ok=True)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _serve(self.providers, port)
            finally:
                os._exit(1)
        while not self.providers.is_file():
            time.sleep(0.01)

    def close(self) -> None:
        """End it, if it was not killed."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _port(providers: Path) -> int:
    """Of the server before; 0 if there was none."""
    address = re.search(r":(\d+)/v1", providers.read_text()) if providers.is_file() else None
    return int(address[1]) if address else 0


def _serve(providers: Path, port: int) -> None:
    with chat_server(reply=_reply, delay_s=_REPLY_S, port=port) as server:
        signal.signal(signal.SIGUSR1, lambda *_: server.breaks.append("reset"))
        work = providers.with_suffix(".new")
        work.write_text(_PROVIDERS.format(url=server.url))
        work.rename(providers)
        while True:
            time.sleep(1)


def _reply(request: dict[str, Any]) -> str:
    drawn = hashlib.sha256(json.dumps(request["messages"]).encode()).digest()
    return f"<action>{drawn[0]}</action>"
