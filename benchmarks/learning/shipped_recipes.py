"""Train every shipped recipe for a CPU to its end, and write what is proven of each recipe.

    python -m benchmarks.learning.shipped_recipes [NAME ...] [--work DIR]

`srl_agents/recipes/proven.json`, which `srl recipes` prints, gets hours of processor time and how many
learners ended better than they began (95 % interval above 0, in every game of the run). Recipes that a card
has run come from `benchmarks/results/gpu_checks.json`. Other rows stay; the file is written after each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.learning.child_process import commit, in_child
from srl_agents.cli.plan.recipes import PROVEN, summary
from srl_agents.recipes.loading import SHIPPED

CARDS = Path(__file__).parents[1] / "results/gpu_checks.json"
SRL = (sys.executable, "-P", "-m", "srl_agents.cli.main")


def on_cards() -> dict[str, Any]:
    """Rows of recipes of which a card has run whole updates."""
    checks = json.loads(CARDS.read_text(encoding="utf-8"))
    return {
        row["recipe"]: {"on": row["card"], "date": row["date"]}
        for row in checks.values()
        if "recipe" in row
    }


def trained(name: str, work: Path) -> dict[str, Any] | None:
    """Run a recipe with one thread; None if it failed."""
    population = summary(name).algorithm == "no training"
    command = [
        *SRL,
        *(("league", "run") if population else ("train",)),
        name,
        "--out",
        str(work / name),
    ]
    spent = in_child(lambda: subprocess.run(command, check=False).returncode, work / f"{name}.log")
    if spent is None:
        return None
    printed = subprocess.run(
        [*SRL, "league", "status", str(work / name), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    games = [row["gains"] for row in json.loads(printed.stdout) if row["gains"]]
    learners = sorted({agent for game in games for agent in game})
    better = [a for a in learners if all(game[a]["low"] > 0 for game in games if a in game)]
    return {
        "on": "cpu", "hours": round(spent.cpu_s / 3600, 3), "learners": len(learners), "better": len(better),
        "commit": commit(), "date": datetime.now(UTC).date().isoformat(),
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run the program; 1 if a recipe failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="recipes; all of tiny models if absent")
    parser.add_argument("--work", type=Path, help="keep runs and logs here")
    options = parser.parse_args(argv)
    names = options.names or [
        path.stem for path in sorted(SHIPPED.glob("*.yaml"))
        if all(model.startswith("tiny") for model in summary(path.stem).models)
    ]  # fmt: skip
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        for name in names:
            row = trained(name, work)
            failed += row is None
            print(f"{name}: {row or 'failed'}", flush=True)
            rows = json.loads(PROVEN.read_text(encoding="utf-8")) | on_cards()
            if row is not None:
                rows[name] = row
            PROVEN.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
