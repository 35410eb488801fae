"""Updates per hour with forks and without, of one recipe: what an answer to "what was this turn worth" costs.

    python -m benchmarks.speed.fork_updates --json benchmarks/results/fork_updates.json

The recipe `forks-tiny`, as it is shipped and without its section `forks`, with credit by groups. All
else is equal. Runs of both kinds alternate, each in a process of its own on one thread, and the ratio of each
pair counts. An update's time is CPU seconds from the end of the first update to that of the last, so
that nothing of a start is in it; playing, branches, credit and gradients are. Looks are off.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.learning.child_process import commit, in_child

RECIPE = "forks-tiny"
ARMS: Mapping[str, tuple[str, ...]] = {
    "without forks": ("forks=null", "credit.estimator=group"),
    "with forks": (),
}
SAME = ("evaluation.every=0", "evaluation.final_pairs=1", "snapshot_every=1000")
Row = dict[str, Any]


def train(arm: str, seed: int, updates: int, folder: Path) -> int:
    """Train one run, and write what its updates took to ``row.json`` beside it."""
    import torch
    from rich.console import Console

    from srl_agents.metrics import ConsoleView, Record
    from srl_agents.metrics.sinks import read_lines
    from srl_agents.recipes.loading import find_recipe, load
    from srl_agents.recipes.settings import LeagueRecipe
    from srl_agents.training.loop.run import LeagueTraining

    class Clock(ConsoleView):
        """Notes the process's time at the end of each update."""

        def write(self, record: Record) -> None:
            ends.append(time.process_time())

    ends: list[float] = []
    torch.set_num_threads(1)
    more = (*ARMS[arm], *SAME, f"seed={seed}", f"updates={updates}")
    recipe = load(LeagueRecipe, find_recipe(RECIPE), more)
    with Clock("run", updates, Console(quiet=True)) as view:
        training = LeagueTraining(recipe, folder / "run", view)
        training.run()
        training.close()
    records = read_lines(folder / "run/metrics.jsonl")[1:]
    rows = [sum(own.get("rows", 0.0) for own in one["learners"].values()) for one in records]
    tokens = records[-1]["run"]["spent/tokens"] / updates
    row = {
        "arm": arm,
        "seed": seed,
        "cpu_s": (ends[-1] - ends[0]) / (updates - 1),
        "tokens": tokens,
        "rows": statistics.fmean(rows),
    }
    (folder / "row.json").write_text(json.dumps(row))
    return 0


def measure(rounds: int, updates: int) -> list[Row]:
    """Both arms in every round, the order of one round the reverse of that of the next."""
    found: list[Row] = []
    for seed in range(rounds):
        for arm in list(ARMS)[:: 1 if seed % 2 else -1]:
            with tempfile.TemporaryDirectory() as work:
                folder = Path(work)
                if in_child(partial(train, arm, seed, updates, folder), folder / "log") is None:
                    raise SystemExit(1)
                found.append(json.loads((folder / "row.json").read_text()))
            print(json.dumps(found[-1]), flush=True)
    return found


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown: a line for each arm, then the ratios of the pairs."""
    yield "| | CPU s per update | updates per CPU hour | reply tokens | rows |"
    yield "|---|--:|--:|--:|--:|"
    for arm in ARMS:
        own = {
            name: statistics.median(row[name] for row in rows if row["arm"] == arm)
            for name in ("cpu_s", "tokens", "rows")
        }
        yield (
            f"| {arm} | {own['cpu_s']:.2f} | {3600 / own['cpu_s']:,.0f} | {own['tokens']:,.0f} | "
            f"{own['rows']:,.0f} |"
        )
    took = {(row["arm"], row["seed"]): row["cpu_s"] for row in rows}
    without, forked = ARMS
    seeds = {row["seed"] for row in rows}
    pairs = sorted(took[forked, seed] / took[without, seed] for seed in seeds)
    low, high = pairs[0], pairs[-1]
    yield f"\nAn update with forks takes {statistics.median(pairs):.2f} times [{low:.2f}, {high:.2f}]."


def main() -> None:
    """Measure, print the table, and write the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.update({"OMP_NUM_THREADS": "1", "SRL_TORCH_THREADS": "1"})
    rows = measure(options.rounds, options.updates)
    print("\n".join(table(rows)))
    if options.json:
        about = {"command": "python -m benchmarks.speed.fork_updates", "commit": commit()}
        options.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
