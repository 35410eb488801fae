"""A run whose roles do not fit into memory at once: phases one after another, under a budget.

    python -m benchmarks.memory.phases [--model smollm2-135m] [--budget-gib B] [--json FILE]

Two learners of `kuhn_poker-v0`, one hand an episode, by PPO, each with a critic's adapter and float32
optimizer state, for two updates: once without a budget, which shows what all roles take at once, and once
with ``--budget-gib``, or ``--share`` of that. Reads the traces that the runs wrote; every run is a process of
its own. With ``--runs`` the folders of both stay, for `srl report`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.memory.child_peaks import in_child
from srl_agents.memory.phase_manager import TRACE
from srl_agents.metrics import ConsoleView
from srl_agents.models.memory.host_allocator import return_large_blocks
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.loop.run import LeagueTraining
from srl_envs.reading.settings import build

_GIB = 2**30


def recipe_of(options: argparse.Namespace, budget_gib: float | None) -> LeagueRecipe:
    """Small in tokens, so that what is held outweighs what passes through."""
    plain: dict[str, Any] = {
        "name": "phases",
        "model": options.model,
        "env": "kuhn_poker-v0",
        "env_options": {"hands": 1, "max_retries": 0, "forfeit_after": 1},
        "device": "cpu",
        "updates": options.updates,
        "checkpoint_every": 100,
        "snapshot_every": 100,
        "lora": {"rank": options.rank, "alpha": 16},
        "rollout": {"start_states": 1, "group_size": 2, "max_new_tokens": 8, "batch_rows": 4},
        "opponents": {"mirror": 1, "live": 1, "past": 0},
        "evaluation": {"every": 0, "final_pairs": 1, "bots": []},
        "training": {"algorithm": "ppo", "critic": "adapter", "micro_batch_rows": 1,
                     "iterations": 1, "minibatches": 1},
        "memory": {"budget_gib": budget_gib},
        "survival": {"allow_nothing_learned": True},
    }  # fmt: skip
    return build(LeagueRecipe, plain, "phases")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """One run in this process; its trace."""
    return_large_blocks()  # as `srl train` does
    recipe = recipe_of(options, options.budget_gib)
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(options.runs or scratch) / ("free" if options.budget_gib is None else "bound")
        with ConsoleView("phases", recipe.updates, Console(quiet=True)) as view:
            training = LeagueTraining(recipe, run, view)
            try:
                training.run()
            finally:
                training.close()
        lines = [json.loads(line) for line in (run / TRACE).read_text().splitlines()]
    return {"budget_gib": options.budget_gib, "trace": lines}


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.85, help="of the unbounded peak")
    parser.add_argument("--budget-gib", type=float)
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--runs", help="keep the folders of both runs in this one")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options)))
        return
    given = [
        part
        for key in ("model", "rank", "updates", "runs")
        if getattr(options, key) is not None
        for part in (f"--{key}", str(getattr(options, key)))
    ]
    free = in_child("benchmarks.memory.phases", *given, "--child")
    most = max(line["peak"] for line in free["trace"]) / _GIB
    budget = options.budget_gib or round(options.share * most, 2)
    print(f"without a budget: {most:.2f} GiB; budget: {budget:.2f} GiB", flush=True)
    bound = in_child("benchmarks.memory.phases", *given, "--child", "--budget-gib", str(budget))
    for line, before in zip(bound["trace"], free["trace"], strict=True):
        print(
            f"{line['update']} {line['phase']:16} {before['peak'] / _GIB:6.2f} -> "
            f"{line['peak'] / _GIB:6.2f} GiB  {', '.join(line['roles'])}"
        )
    if options.json:
        result = {"command": "python -m benchmarks.memory.phases", "free": free, "bound": bound}
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
