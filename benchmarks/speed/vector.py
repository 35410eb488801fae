"""Replies per second of the vector: one process, one worker, two workers.

    python -m benchmarks.speed.vector [--env connect_four-v0] [--n 256] [--workers 0 1 2]
        [--free] [--json FILE]

Replies are drawn before the clock starts and dealt out by seat, so the policy costs next to nothing:
what is measured is games, messages and the waiting for each other. A share of the replies is
illegal where a column is full; the games go on all the same. Rounds alternate between the
contestants and the best counts. Replies per second of wall time, and their ratio, mean something only
where as many cores are free as there are workers (see the last column); replies per CPU second, and
the share of it that this process takes for itself, hold on a busy machine too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import srl_envs
from srl_envs.vector import VectorEnv

BODIES = {
    "connect_four-v0": [str(column) for column in range(1, 8)],
    "kuhn_poker-v0": ["check", "bet", "fold", "call"],
    "nim-v0": [f"{heap} {count}" for heap in range(1, 4) for count in range(1, 4)],
    "iterated_dilemma-v0": ["A", "B"],
    "hanabi_mini-v0": [f"{kind} {card}" for kind in ("play", "discard") for card in range(1, 5)],
}
DRAWN = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """One contestant's best round."""

    replies_per_s: float
    """Replies per second of wall time."""
    replies_per_cpu_s: float
    """Replies per CPU second of this process and its workers together."""
    own_share: float
    """Share of that CPU time which is this process's."""
    cores: float
    """CPU seconds that all of them got per wall second."""


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(vec: VectorEnv, replies: list[str], seconds: float) -> Rate:
    """Step for at least ``seconds`` of wall time."""
    now = vec.reset(seed=0)
    pids = [worker.process.pid for worker in vec.workers]
    sent = at = 0
    before = sum(map(cpu_s, pids))
    own, start = time.process_time(), time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        count = len(now.texts)
        at = (at + count) % (DRAWN - vec.n * len(vec.possible_agents))
        now = vec.step(replies[at : at + count])
        sent += count
    own = time.process_time() - own
    everybody = own + sum(map(cpu_s, pids)) - before
    return Rate(
        replies_per_s=sent / spent,
        replies_per_cpu_s=sent / everybody,
        own_share=own / everybody,
        cores=everybody / spent,
    )


def main() -> None:
    """Print a table; the ratios are those of wall time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--env", default="connect_four-v0", choices=BODIES)
    parser.add_argument("--n", type=int, default=256, help="environments")
    parser.add_argument("--workers", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--free", action="store_true", help="do not pin the workers")
    parser.add_argument("--seconds", type=float, default=3.0, help="wall seconds per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="also write the numbers to this file")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    bodies = BODIES[options.env]
    replies = [f"<action>{bodies[i]}</action>" for i in rng.integers(len(bodies), size=DRAWN)]
    ready = {
        count: srl_envs.make_vec(
            options.env, options.n, workers=count, pin_workers=count > 0 and not options.free
        )
        for count in options.workers
    }
    best: dict[int, Rate] = {}
    for _ in range(options.rounds):
        for count, vec in ready.items():
            rate = measure(vec, replies, options.seconds)
            if count not in best or rate.replies_per_s > best[count].replies_per_s:
                best[count] = rate
    for vec in ready.values():
        vec.close()
    print(f"{options.env}, n={options.n}, best of {options.rounds} x {options.seconds} s")
    print("workers  replies/s  to one worker  replies per CPU s  own share  cores")
    one = best[1].replies_per_s if 1 in best else float("nan")
    for count, rate in best.items():
        print(
            f"{count:7d} {rate.replies_per_s:10,.0f} {rate.replies_per_s / one:14.2f} "
            f"{rate.replies_per_cpu_s:18,.0f} {rate.own_share:10.2f} {rate.cores:6.2f}"
        )
    if options.json:
        record = {
            "env": options.env,
            "n": options.n,
            "pinned": not options.free,
            "python": platform.python_version(),
            "machine": platform.processor() or platform.machine(),
            "workers": {str(count): asdict(rate) for count, rate in best.items()},
        }
        Path(options.json).write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
