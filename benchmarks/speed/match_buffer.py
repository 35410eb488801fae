"""What the buffer between generation and learning costs: CPU time of a match that is written and read once.

    python -m benchmarks.speed.match_buffer [--json FILE]

Matches have two seats with tokens of their own; a prompt holds the prompts before it. The best of twelve.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_agents.rollouts.buffer import MatchBuffer

AGENT = "alice@3-0123456789abcdef"
SHAPES = {"short": (3, 80, 8), "long": (12, 300, 64)}
"""Turns of a seat, tokens that each adds to the prompt, tokens of a reply."""
MATCHES, PART = 64, 16


def match(number: int, turns: int, added: int, written: int) -> Episode:
    """One that both seats learn from."""
    chance = random.Random(number)
    spec = MatchSpec(
        env_id="nim-v0", options={"heaps": [3, 2]}, seed=number, split="train", seats=(AGENT, AGENT),
        learner_seats=(0, 1), schedule="train/alice", number=number,
    )  # fmt: skip
    seats = []
    for seat in range(2):
        read = tuple(chance.randrange(50_000) for _ in range(added * turns))
        taken = tuple(
            Turn(
                turn_index=2 * step + seat, observation="o" * (4 * added), reply="r" * (4 * written),
                invalid=None, reward=0.5, components={"outcome": 0.5, "format": 0.0}, version=AGENT,
                prompt_ids=read[: added * (step + 1)],
                completion_ids=tuple(chance.randrange(50_000) for _ in range(written)),
                logprobs=tuple(-chance.random() for _ in range(written)), finish="stop", step=step,
            )
            for step in range(turns)
        )  # fmt: skip
        seats.append(
            Trajectory(
                seat=seat, policy=AGENT, turns=taken, outcome=0.5, total_reward=0.5,
                components={"outcome": 0.5},
            )
        )  # fmt: skip
    return Episode(spec=spec, trajectories=tuple(seats), termination="ok")


def cost_ms(matches: Sequence[Episode], part: int) -> float:
    """CPU milliseconds of a match, added in parts of so many and read."""
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        buffer = MatchBuffer(Path(folder), 1)
        for number in range(1, 13):
            began = time.process_time()
            for start in range(0, len(matches), part):
                buffer.add(number, matches[start : start + part], 0.0)
            assert buffer.played(number).refresh() == len(matches)
            best = min(best, time.process_time() - began)
    return 1e3 * best / len(matches)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    options = parser.parse_args()
    rows = []
    for name, shape in SHAPES.items():
        matches = [match(number, *shape) for number in range(MATCHES)]
        turns = [turn for seat in matches[0].trajectories for turn in seat.turns]
        tokens = sum(len(turn.prompt_ids) + len(turn.completion_ids) for turn in turns)
        for part in (1, PART):
            spent_ms = round(cost_ms(matches, part), 3)
            rows.append({"match": name, "tokens": tokens, "part": part, "cpu_ms": spent_ms})
            print(f"{name:>5} {tokens:6} tokens, {part:2} at once: {spent_ms:6.3f} ms a match")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
