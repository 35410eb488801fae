"""What JSON in place of pickle would cost the messages of a vector's workers.

    python -m benchmarks.speed.vector_messages [--env connect_four-v0] [--n 128] [--steps 15]

Prints milliseconds of processor time per step of ``n`` environments: for the games, and for each way to
write and read what a worker reports. JSON needs a walk over the infos before, because it would change tuples
and keys that are numbers without an error. Processor time holds on a busy machine; of the messages, the
least of five rounds counts.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.speed.vector import BODIES
from srl_envs.vector.batch import EnvBatch, Report
from srl_envs.vector.worker import factory

ROUNDS = 5


def played(env_id: str, n: int, steps: int) -> tuple[list[Report], float]:
    """Reports of a few steps, and milliseconds per step of the games."""
    batch, draw = EnvBatch(factory(env_id, {}, None), range(n)), np.random.default_rng(0)
    report, reports, begun = batch.reset(0, 0), [], time.process_time()
    for _ in range(steps):
        bodies = draw.choice(BODIES[env_id], len(report.on_move))
        report = batch.step([f"<action>{body}</action>" for body in bodies])
        reports.append(report)
    passed = time.process_time() - begun
    batch.close()
    return reports, 1e3 * passed / steps


def is_plain(value: Any) -> bool:
    """Whether JSON gives it back as it is."""
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and is_plain(item) for key, item in value.items())
    if kind is list:
        return all(map(is_plain, value))
    return value is None or kind in (str, int, float, bool)


def milliseconds(work: Callable[[Any], object], values: list[Any]) -> float:
    """Per value, in the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        for value in values:
            work(value)
        best = min(best, time.process_time() - begun)
    return 1e3 * best / len(values)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="connect_four-v0", choices=sorted(BODIES))
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--steps", type=int, default=15)
    options = parser.parse_args()
    reports, games = played(options.env, options.n, options.steps)
    infos = [report.infos for report in reports]
    heads = [tuple(report[:2]) for report in reports]
    encode = json.JSONEncoder(check_circular=False).encode
    parts = [*infos, *heads]
    pickled, texts = [pickle.dumps(part, -1) for part in parts], list(map(encode, parts))
    rows = {
        "the games": games,
        "pickle, written": 2 * milliseconds(lambda part: pickle.dumps(part, -1), parts),
        "pickle, read": 2 * milliseconds(pickle.loads, pickled),
        "JSON, looked through": milliseconds(is_plain, infos),
        "JSON, written": 2 * milliseconds(encode, parts),
        "JSON, read": 2 * milliseconds(json.loads, texts),
    }  # each step has two messages: on_move and texts, and infos
    for name, spent in rows.items():
        print(f"{name:22s} {spent:7.3f} ms")
    before = games + rows["pickle, written"]
    after = games + rows["JSON, looked through"] + rows["JSON, written"]
    print(f"a worker's time per step: {after / before:.2f} times")


if __name__ == "__main__":
    main()
