"""Eight learners on one base and on two: memory, and time per token that a learner wrote or learned from.

    python -m benchmarks.league.eight_learners --updates 4

Each case is a run of its own in a process of its own, interleaved over the repetitions. Memory is the largest
resident set of the process. ``ms per learner-token`` is the wall time of the updates after the first, which
warms up, over the tokens that learners wrote in these updates: play, credit and learning, and no looks.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ONE: dict[str, Any] = {"model": "tiny", "learners": 8}
TWO: dict[str, Any] = {
    "models": {
        "deep": {"model": "tiny", "learners": 4},
        "shallow": {"model": "tiny-shallow", "learners": 4},
    }
}
CASES: dict[str, dict[str, Any]] = {
    "8 on tiny": ONE,
    "4 on tiny, 4 on tiny-shallow": TWO,
    "8 on tiny, federated": {**ONE, "coordination": {"kind": "federated", "every": 2}},
    "4 and 4, federated within each": {**TWO, "coordination": {"kind": "federated", "every": 2}},
}


def recipe_of(case: str, updates: int) -> Any:
    """The recipe of one case."""
    from srl_agents.recipes.settings import LeagueRecipe
    from srl_envs.reading.settings import build

    return build(
        LeagueRecipe,
        {
            "name": "eight-learners",
            "env": "connect_four-v0",
            "env_options": {"rows": 5, "cols": 5, "k": 3},
            "updates": updates,
            "lora": {"rank": 8, "alpha": 16},
            "rollout": {"start_states": 2, "group_size": 8, "max_new_tokens": 8},
            "opponents": {"mirror": 0.5, "live": 2, "past": 1, "bots": {"middle": 1}},
            "training": {"learning_rate": 1e-3, "micro_batch_rows": 32},
            "evaluation": {"every": 0, "final_pairs": 1, "bots": []},
            "snapshot_every": updates,
            "checkpoint_every": updates,
            **CASES[case],
        },
        case,
    )


def child(case: str, updates: int) -> dict[str, Any]:
    """Run one case; what it took."""
    import time

    from rich.console import Console

    from srl_agents.metrics import ConsoleView
    from srl_agents.models.memory.host_allocator import return_large_blocks
    from srl_agents.training.loop.run import LeagueTraining

    return_large_blocks()  # as `srl train` does
    recipe = recipe_of(case, updates)
    with (
        tempfile.TemporaryDirectory() as folder,
        ConsoleView(case, updates, Console(quiet=True)) as view,
    ):
        training = LeagueTraining(recipe, Path(folder) / "run", view)
        try:
            training.take_update()
            started = time.monotonic()
            for _ in range(updates - 1):
                training.take_update()
            seconds = time.monotonic() - started
            first = recipe.rollout.start_states
            played = [
                (spec, result)
                for spec, result in training.parts.store.matches(split="train")
                if spec.schedule.startswith("train/") and spec.number >= first
            ]
        finally:
            training.close()
    tokens = sum(result.tokens[seat] for spec, result in played for seat in spec.learner_seats)
    return {
        "case": case,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "ms_per_learner_token": 1000 * seconds / tokens,
        "learner_tokens": tokens,
    }


def main() -> None:
    """Print one line per case: medians over the repetitions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write every run there")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.updates < 2:
        parser.error("--updates: 2 or more, for the first warms up.")
    if options.case:
        print(json.dumps(child(options.case, options.updates)))
        return
    command = [sys.executable, "-m", "benchmarks.league.eight_learners"]
    found: dict[str, list[dict[str, Any]]] = {case: [] for case in CASES}
    for _ in range(options.repetitions):
        for case in CASES:
            asked = [*command, "--updates", str(options.updates), "--case", case]
            done = subprocess.run(asked, check=True, capture_output=True, text=True)
            found[case].append(json.loads(done.stdout.splitlines()[-1]))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    for case, own in found.items():
        peak = median(one["peak_mib"] for one in own)
        pace = median(one["ms_per_learner_token"] for one in own)
        print(f"{case:32} {peak:7.0f} MiB  {pace:6.2f} ms per learner-token")


if __name__ == "__main__":
    main()
