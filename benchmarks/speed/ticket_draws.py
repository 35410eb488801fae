"""What one more ticket costs a board that has drawn many, and what it costs to read or verify the whole log.

    python -m benchmarks.speed.ticket_draws --json benchmarks/results/ticket_draws.json

Boards are made in a temporary folder, with one key per ticket, since keys are free.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
import unittest.mock
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from leaderboards.keys import SigningKey, _generate
from leaderboards.protocol import Protocol, load_protocol
from leaderboards.registration.ticket_log import REGISTRATIONS, register, registrations
from leaderboards.registration.tickets import Committed, Request

SIZES = (20, 400, 10_000)
DRAWS = 40


def request(protocol: Protocol, number: int, owner: SigningKey) -> Request:
    """A registration with a name and contents of its own."""
    return Request.sign(protocol, [Committed(f"agent{number:06d}x", f"{number:064x}")], owner)


def seconds(action: Callable[[], Any]) -> tuple[float, float]:
    """(wall, processor) time of one call; waiting for the disk and for other programs is wall time only."""
    started_s, used_s = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - started_s, time.process_time() - used_s


def fill(board: Path, protocol: Protocol, size: int) -> None:
    """Draw tickets up to a size, without waiting for the disk."""
    with unittest.mock.patch("os.fsync"):
        for number in range(len(registrations(board)), size):
            register(board, request(protocol, number, _generate()), limits=None)


def measure(board: Path, protocol: Protocol, size: int) -> dict[str, Any]:
    """Fill a board up to a size, then draw more and read it all."""
    fill(board, protocol, size)
    new = [request(protocol, 10**6 + size + k, _generate()) for k in range(DRAWS)]
    draws = [seconds(partial(register, board, one, limits=None)) for one in new]
    again = [seconds(partial(register, board, one, limits=None)) for one in new]
    return {
        "tickets": size,
        "draw_ms": _median_ms(wall for wall, _ in draws),
        "draw_cpu_ms": _median_ms(cpu for _, cpu in draws),
        "same_request_cpu_ms": _median_ms(cpu for _, cpu in again),
        "read_cpu_ms": _median_ms([seconds(lambda: registrations(board))[1]]),
        "verify_cpu_ms": _median_ms([seconds(lambda: registrations(board, full=True))[1]]),
        "log_bytes": (board / REGISTRATIONS).stat().st_size,
    }


def _median_ms(values: Iterable[float]) -> float:
    return round(1e3 * statistics.median(values), 2)


def main() -> None:
    """Print a row per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = parser.parse_args()
    protocol, rows = load_protocol("kuhn_poker-v0"), []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SRL_KEYS"] = str(Path(folder) / "keys")
        for size in sorted(options.sizes):
            rows.append(measure(Path(folder) / "board", protocol, size))
            print(json.dumps(rows[-1]), flush=True)
    if options.json:
        made = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        options.json.write_text(json.dumps({**made, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
