"""What a solver says of the games that can be solved, and how far each bot is from it.

    python -m benchmarks.environments.solved_values [--only NAME ...] [--publish]

Kuhn and Leduc poker, blotto, sealed bids, connect four, hold'em where stacks are short, and shortest ways
through grids and rooms. A bot is asked by its texts, as a player is. Solvers share no code with
bots, but for the best answer to a mixture in blotto, which a test holds to a search of all spreads.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import MappingProxyType

import srl_envs
from benchmarks.environments.solvers import bids, boards, cards
from benchmarks.environments.solvers.rows import Bot, Solved

RESULTS = Path(__file__).parents[1] / "results/solved_values.json"
SOLVED: Mapping[str, tuple[str, Callable[..., Solved]]] = MappingProxyType(
    {
        "kuhn": ("kuhn_poker-v0", cards.kuhn),
        "leduc": ("kuhn_poker-v0", cards.leduc),
        "holdem": ("holdem-v0", cards.holdem),
        "blotto": ("blotto-v0", bids.blotto),
        "second price": ("sealed_auction-v1", partial(bids.auction, price="second")),
        "first price": ("sealed_auction-v1", partial(bids.auction, price="first")),
        "connect four, small": (
            "connect_four-v0",
            partial(boards.connect_four, size=(5, 4, 3), most_empty=20),
        ),
        "connect four": (
            "connect_four-v0",
            partial(boards.connect_four, size=(6, 7, 4), most_empty=14),
        ),
        "plan path": ("plan_path-v0", partial(boards.ways, "plan_path-v0")),
        "sokoban": ("sokoban-v0", partial(boards.ways, "sokoban-v0")),
    }
)
"""Name -> id of the game, and what compares its bots with a solver."""


def main() -> int:
    """Solve, print, and publish where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SOLVED, default=list(SOLVED))
    parser.add_argument("--publish", action="store_true", help="write the rows to the results")
    asked = parser.parse_args()
    for name in asked.only:
        env_id, compare = SOLVED[name]
        began = time.process_time()
        row = compare(bots=srl_envs.spec(env_id).bots, make=partial(_bot, env_id))
        found = {"name": name, **asdict(row), "cpu_s": round(time.process_time() - began, 1)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
        if asked.publish:
            publish(found)
    return 0


def _bot(env_id: str, name: str, seed: int) -> Bot:
    return srl_envs.make_bot(env_id, name, seed=seed)


def publish(row: Mapping[str, object]) -> None:
    """Put a row in the place of the one of its name."""
    rows = {one["name"]: one for one in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}
    rows[row["name"]] = row
    RESULTS.write_text(json.dumps([rows[name] for name in SOLVED if name in rows], indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
