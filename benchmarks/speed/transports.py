"""A version's way from a trainer to a reader in another process: latency and bandwidth beside the limits.

    python -m benchmarks.speed.transports [--mib 4 64] [--rounds 5] [--iteration-s 5] [--json FILE]

Per transport and size: seconds in which a trainer publishes, seconds in which a reader has opened what was
published, and megabytes per second of both together. The limits are one copy in memory, the loopback socket,
a file written, flushed and read, and one SHA-256, which every transport computes on both sides. Latency is
that of a version of 1 KiB. Medians; rounds alternate. The share is that of one update of so many seconds.
Where torch finds a CUDA device, ``cuda_ipc`` carries versions from it to it, and copies on the card and from
it to the host are limits, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch

from srl_agents.models.digests import version_of
from srl_agents.transports.settings import TRANSPORTS, TransportSettings

KINDS = ("files", "host_memory", "collective")
ON_CARD = "cuda_ipc"
"""Is measured where there is a GPU."""
SMALL_BYTES = 1024
PART_BYTES = 2**20
"""Of one tensor: about a factor of a large adapter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One transport at one size; medians."""

    kind: str
    mib: float
    publish_ms: float
    open_ms: float
    mb_per_s: float
    """Of publishing and opening, one after the other."""
    share: float
    """Share of the time of one update."""


def reader(settings: TransportSettings, folder: Path, pipe: Connection) -> None:
    """Open what is named until the other end is gone."""
    transport = settings.make_transport(folder, whole_weights=False)
    try:
        while True:
            update = pipe.recv()
            began = time.perf_counter()
            transport.open(update)
            pipe.send(time.perf_counter() - began)
    except (EOFError, BrokenPipeError):
        transport.close()


def tensors_of(size: int, number: int) -> dict[str, torch.Tensor]:
    """Random float32 of so many bytes."""
    draw = torch.Generator().manual_seed(number)
    count, part = size // 4, PART_BYTES // 4
    return {
        f"part{start:012}": torch.rand(min(part, count - start), generator=draw)
        for start in range(0, count, part)
    }


class Way:
    """A trainer's transport and a reader in another process.

    Args:
        kind: of the transport.
        folder: for it.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        settings = TRANSPORTS.find(kind)(kind=kind)
        self.kind, self._number = kind, 0
        self.transport = settings.make_transport(folder, whole_weights=False)
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._reader = context.Process(target=reader, args=(settings, folder, theirs), daemon=True)
        self._reader.start()
        theirs.close()

    def carry(self, size: int) -> tuple[float, float]:
        """Seconds of publishing and of opening one new version."""
        self._number += 1
        place = "cuda" if self.kind == ON_CARD else "cpu"
        tensors = {name: t.to(place) for name, t in tensors_of(size, self._number).items()}
        version = version_of("alice", self._number, tensors)
        fresh = {name: tensor.clone() for name, tensor in tensors.items()}  # no hash is kept
        began = time.perf_counter()
        update = self.transport.publish(version, fresh)
        publish_s = time.perf_counter() - began
        self._pipe.send(update)
        open_s: float = self._pipe.recv()
        self.transport.release(version)
        return publish_s, open_s

    def close(self) -> None:
        """End the reader."""
        self._pipe.close()
        self._reader.join(10)
        self._reader.kill()
        self.transport.close()


# --- limits --------------------------------------------------------------------------------------


def memcpy_s(size: int) -> float:
    """Seconds of one copy in memory."""
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    return timed(lambda: np.copyto(target, source))


def hash_s(size: int) -> float:
    """Seconds of one SHA-256."""
    content = np.ones(size, np.uint8)
    return timed(lambda: hashlib.sha256(content.data).digest())


def loopback_s(size: int) -> float:
    """Seconds until another thread has read so many bytes from a socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        content, into = bytes(size), bytearray(size)

        def send() -> None:
            with socket.create_connection(server.getsockname()) as out:
                out.sendall(content)

        def receive() -> None:
            thread = threading.Thread(target=send)
            thread.start()
            incoming, _ = server.accept()
            with incoming:
                left = memoryview(into)
                while left:
                    left = left[incoming.recv_into(left) :]
            thread.join()

        return timed(receive)


def disk_s(size: int, folder: Path) -> float:
    """Seconds to write, flush and read a file."""
    content, path = bytes(size), folder / "limit"

    def work() -> None:
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        path.read_bytes()

    return timed(work)


def card_s(size: int, target: str) -> float:
    """Seconds of one copy from the GPU to itself or to the host."""
    source = torch.ones(size, dtype=torch.uint8, device="cuda")
    into = torch.empty(size, dtype=torch.uint8, device=target)

    def work() -> None:
        into.copy_(source)
        torch.cuda.synchronize()

    work()  # kernels are loaded
    return timed(work)


def timed(work: Callable[[], object]) -> float:
    """Median of three."""
    found = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return float(np.median(found))


# --- the table -----------------------------------------------------------------------------------


def measure(
    sizes: list[int], rounds: int, iteration_s: float, scratch: Path
) -> tuple[list[Row], dict[str, float]]:
    """Rows of the table, and latencies in milliseconds by transport."""
    kinds = (*KINDS, ON_CARD) if torch.cuda.is_available() else KINDS
    ways = [Way(kind, scratch / kind) for kind in kinds]
    seen: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for way in ways:
        way.carry(SMALL_BYTES)  # the reader's imports
    for _ in range(rounds):
        for size in (SMALL_BYTES, *sizes):
            for way in ways:
                seen.setdefault((way.kind, size), []).append(way.carry(size))
    for way in ways:
        way.close()
    rows, latency = [], {}
    for (kind, size), spans in seen.items():
        publish_s, open_s = (float(np.median(part)) for part in zip(*spans, strict=True))
        whole_s = publish_s + open_s
        if size == SMALL_BYTES:
            latency[kind] = 1e3 * whole_s
            continue
        rows.append(
            Row(
                kind=kind,
                mib=size / 2**20,
                publish_ms=1e3 * publish_s,
                open_ms=1e3 * open_s,
                mb_per_s=size / whole_s / 1e6,
                share=whole_s / iteration_s,
            )
        )
    return rows, latency


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, nargs="+", default=[4, 64], help="sizes of versions")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iteration-s", type=float, default=5.0, help="seconds of an update")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    options = parser.parse_args()
    if min(options.mib) < 1 or options.rounds < 1 or options.iteration_s <= 0:
        parser.error("give sizes of at least 1 MiB, 1 round, and more than 0 seconds")
    sizes = [mib * 2**20 for mib in options.mib]
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        rows, latency = measure(sizes, options.rounds, options.iteration_s, scratch)
        limits = {
            str(size // 2**20): {
                "memcpy": size / memcpy_s(size) / 1e6,
                "loopback": size / loopback_s(size) / 1e6,
                "disk": size / disk_s(size, scratch) / 1e6,
                "sha256": size / hash_s(size) / 1e6,
            }
            for size in sizes
        }
        if torch.cuda.is_available():
            for size in sizes:
                limits[str(size // 2**20)] |= {
                    "on the card": size / card_s(size, "cuda") / 1e6,
                    "card to host": size / card_s(size, "cpu") / 1e6,
                }
    print(
        f"{'transport':>12} {'MiB':>5} {'publish ms':>11} {'open ms':>9} {'MB/s':>7} "
        f"{'of update':>10} {'1 KiB ms':>9}"
    )
    for row in rows:
        print(
            f"{row.kind:>12} {row.mib:5.0f} {row.publish_ms:11.1f} {row.open_ms:9.1f} {row.mb_per_s:7,.0f} "
            f"{row.share:10.2%} {latency[row.kind]:9.1f}"
        )
    for mib, limit in limits.items():
        rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in limit.items())
        print(f"limits at {mib} MiB, MB/s: {rates}")
    if options.json:
        record = {
            "rounds": options.rounds,
            "iteration_s": options.iteration_s,
            "rows": [asdict(row) for row in rows],
            "latency_ms": latency,
            "limits_mb_per_s": limits,
            "load": os.getloadavg()[0],
            "machine": platform.processor() or platform.machine(),
        }
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
