"""Several endpoints on one board: do four models together get four times the rate of one?

    python -m benchmarks.speed.endpoints [--latency-s 1.0] [--seeds 4] [--json FILE]

A local server answers every chat after the same latency, with a move of Nim that the chat decides, so all
models play the same matches. `srl leaderboard
run` plays one model, then four, in a process of its own, as users do. Rates are replies per second between
the first and the last reply at the server, greetings left out; the ends of both runs, where few matches are
left, are part of it. The runs alternate, so that a load of the machine meets both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

MODELS = ("one", "two", "three", "four")
GAME = "nim-v0"
MOVES = ("1 1", "2 1", "3 1", "1 2")


@dataclass
class Stub:
    """A chat server, and what it saw."""

    latency_s: float
    url: str = ""
    replied_s: list[float] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.split("content-length:")[1].split("\r\n")[0])
                request = json.loads(await reader.readexactly(length))
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
                await asyncio.sleep(self.latency_s)
                self.in_flight -= 1
                self.replied_s.append(time.monotonic())
                body = json.dumps(self._answer(request)).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n" % len(body) + body
                )
                await writer.drain()
        writer.close()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        seen = request["messages"][-1]["content"].encode()
        text = f"<action>{MOVES[zlib.crc32(seen) % len(MOVES)]}</action>"
        message = {"role": "assistant", "content": text}
        return {
            "id": "1",
            "object": "chat.completion",
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 200, "completion_tokens": 10, "total_tokens": 210},
        }


@contextmanager
def serving(latency_s: float) -> Iterator[Stub]:
    """A stub in a thread of this process."""
    stub, loop, ready = Stub(latency_s), asyncio.new_event_loop(), threading.Event()

    async def start() -> None:
        server = await asyncio.start_server(stub.serve, "127.0.0.1", 0, backlog=256)
        stub.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        ready.set()

    def run() -> None:
        loop.run_until_complete(start())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    yield stub
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def play(models: int, latency_s: float, seeds: int) -> dict[str, float]:
    """One run of the command."""
    code = "import sys; from srl_agents.cli.main import main; sys.exit(main())"
    with serving(latency_s) as stub, tempfile.TemporaryDirectory() as folder:
        agents = [f"--agent={name}=openai:{name}@{stub.url}" for name in MODELS[:models]]
        options = ["leaderboard", "run", GAME, f"--seeds={seeds}", f"--out={folder}/run", "--json"]
        options.append("--unregistered")
        command = [sys.executable, "-c", code, *options, *agents]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        replied_s = stub.replied_s[models:]
        seconds = replied_s[-1] - replied_s[0] + latency_s
        return {
            "replies": len(replied_s),
            "seconds": round(seconds, 2),
            "replies_per_s": round(len(replied_s) / seconds, 2),
            "most_in_flight": stub.most_in_flight,
        }


def main(argv: list[str] | None = None) -> int:
    """Print and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--latency-s", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args(argv)
    rounds, ratios = [], []
    for _ in range(options.repeats):
        one = play(1, options.latency_s, options.seeds)
        four = play(4, options.latency_s, options.seeds)
        ratios.append(round(four["replies_per_s"] / one["replies_per_s"], 3))
        rounds.append({"one": one, "four": four, "ratio": ratios[-1]})
        print(json.dumps(rounds[-1]), flush=True)
    results = {
        "game": GAME,
        "latency_s": options.latency_s,
        "seeds": options.seeds,
        "load_average": os.getloadavg()[0],
        "cores": os.cpu_count(),
        "ratio": median(ratios),
        "rounds": rounds,
    }
    print(json.dumps({key: results[key] for key in ("ratio", "load_average")}))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
