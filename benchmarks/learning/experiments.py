"""Do credit modes, coordination and trainers help? A queue of short runs, and tables with intervals.

    python -m benchmarks.learning.experiments run [--only ARENA/CONDITION ...] [--seeds 0 1 2]
    python -m benchmarks.learning.experiments report --images docs/images

Every run is one `srl train` with an arena's recipe, a condition's settings and a root seed
(`conditions.py`), in a process of its own at the lowest priority (`--nice`), one after the other. A
finished run adds its row to the result file at once, an interrupted one continues when the command is
given again, and rows that are there are not run again. The runs are forked from one process that has
imported torch already, which takes as long as a quarter of the shortest run.

Intervals are Student's t over root seeds. Conditions of one seed meet the same start states, so their
differences to the baseline are taken seed by seed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.learning.child_process import commit, in_child
from benchmarks.learning.conditions import ARENAS, BASELINE, TABLES, Table
from benchmarks.learning.outcomes import measure
from benchmarks.learning.small_games import require
from srl_agents.league.ratings.intervals import t_quantile
from srl_agents.records import canonical_json

RESULTS = Path("benchmarks/results/experiments.json")
LOWEST_PRIORITY = 19
Row = dict[str, Any]
Key = tuple[str, str, int]
"""Arena, condition, root seed."""


# --- the queue -----------------------------------------------------------------------------------


def wanted(patterns: Sequence[str], seeds: Sequence[int]) -> list[Key]:
    """Runs in the order of the queue: what the patterns name, in their order, seed by seed."""
    names = [(arena, name) for arena, found in ARENAS.items() for name in found.conditions]
    chosen = [n for p in patterns for n in names if fnmatch.fnmatch("/".join(n), p)]
    return [(*name, seed) for seed in seeds for name in dict.fromkeys(chosen)]


def arguments(key: Key, folder: Path) -> list[str]:
    """Arguments of `srl train` for one run; writes its recipe."""
    arena, condition, seed = key
    recipe = folder / f"{arena}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    recipe.write_text(f"name: {arena}\n{ARENAS[arena].recipe.lstrip()}")
    settings = [part for s in ARENAS[arena].conditions[condition] for part in ("--set", s)]
    run = folder / arena / condition / f"seed{seed}"
    return [str(recipe), "--seed", str(seed), "--out", str(run), *settings]


def run_one(key: Key, folder: Path) -> Row | None:
    """Train and measure one run.

    Returns:
        Its row; None if it failed, with the reason on the standard error stream.
    """
    args = arguments(key, folder)
    if corpus := ARENAS[key[0]].corpus:
        args += ["--set", f"model={require(corpus)}"]
    spent = in_child(lambda: train(args), folder / "-".join(map(str, key)))
    if spent is None:
        return None
    arena, condition, seed = key
    return {
        "arena": arena,
        "condition": condition,
        "seed": seed,
        "settings": list(ARENAS[arena].conditions[condition]),
        "commit": commit(),
        **asdict(spent),
        **measure(Path(args[args.index("--out") + 1])),
    }


def train(args: list[str]) -> int:
    """`srl train`, in a child that has torch already."""
    from srl_agents.cli.train import main

    return main(args)


def work(keys: Sequence[Key], folder: Path, results: Path, niceness: int) -> int:
    """Run what has no row yet; the number of failures."""
    import srl_agents.training.loop.run  # noqa: F401 - once, for all children

    os.nice(niceness)
    failures = 0
    for key in keys:
        if key in {_key(row) for row in load(results)}:
            continue
        row = run_one(key, folder)
        if row is None:
            failures += 1
            continue
        save([*load(results), row], results)
        print(f"{key}: {row['cpu_s']:.0f} CPU s, {row['final']}", flush=True)
    return failures


def load(results: Path) -> list[Row]:
    """Rows so far."""
    if not results.is_file():
        return []
    rows: list[Row] = json.loads(results.read_text())["rows"]
    return rows


def save(rows: Sequence[Row], results: Path) -> None:
    """Write all rows, one a line, and replace the file at once."""
    lines = ",\n".join(canonical_json(row) for row in sorted(rows, key=_key))
    temporary = results.with_suffix(".tmp")
    temporary.write_text(f'{{"rows": [\n{lines}\n]}}\n')
    temporary.replace(results)


def _key(row: Row) -> Key:
    return row["arena"], row["condition"], row["seed"]


# --- the report ----------------------------------------------------------------------------------


def interval(values: Sequence[float]) -> str:
    """Mean and 95 % half-width over seeds; only the mean where one seed was run."""
    if len(values) < 2:
        return f"{np.mean(values):+.3f}"
    half = t_quantile(len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):+.3f} ± {half:.3f}"


def table_text(table: Table, rows: Sequence[Row]) -> str:
    """A Markdown table: each measure, and its difference to the baseline seed by seed."""
    here = {_key(row): row for row in rows if row["arena"] == table.arena}
    head = ["condition", "seeds", "tokens", "CPU s"]
    head += [title for name in table.measures.values() for title in (name, "difference")]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    for condition in (BASELINE, *table.conditions):
        own = {seed: row for (_, name, seed), row in here.items() if name == condition}
        if not own:
            continue
        cells = [condition, str(len(own))]
        cells += [f"{np.mean([row[k] for row in own.values()]):,.0f}" for k in ("tokens", "cpu_s")]
        for name in table.measures:
            paired = [
                row["final"][name] - here[table.arena, BASELINE, seed]["final"][name]
                for seed, row in own.items()
                if (table.arena, BASELINE, seed) in here
            ]
            compared = condition != BASELINE and bool(paired)
            cells.append(interval([row["final"][name] for row in own.values()]))
            cells.append(interval(paired) if compared else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(table: Table, rows: Sequence[Row], out: Path) -> None:
    """Curves over updates, mean over seeds with their range, one line per condition."""
    names = ("outcome", "invalid_share", "entropy")
    figure, axes = plt.subplots(1, len(names), figsize=(15.4, 3.4), layout="constrained")
    colors = plt.get_cmap("tab10" if len(table.conditions) < 10 else "tab20").colors
    for axis, name in zip(axes, names, strict=True):
        for color, condition in enumerate((BASELINE, *table.conditions)):
            curves = [
                row["curves"][name]
                for row in rows
                if (row["arena"], row["condition"]) == (table.arena, condition)
            ]
            if not curves:
                continue
            values_SU = np.array(curves, dtype=float)
            updates_U = np.arange(1, values_SU.shape[1] + 1)
            axis.plot(updates_U, values_SU.mean(axis=0), color=colors[color], label=condition)
            axis.fill_between(
                updates_U,
                values_SU.min(axis=0),
                values_SU.max(axis=0),
                color=colors[color],
                alpha=0.1,
            )
        axis.set_title(f"{name}, training", fontsize=10)
        axis.set_xlabel("update")
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": table.name}):
        figure.savefig(out, metadata={"Date": None})  # equal pictures are equal files
    plt.close(figure)


def report(results: Path, images: Path | None) -> None:
    """Print the tables that have rows; with ``images``, draw their curves there."""
    rows = load(results)
    run = {(row["arena"], row["condition"]) for row in rows}
    for table in TABLES:
        if not any((table.arena, name) in run for name in table.conditions):
            continue
        print(f"\n{table.title}\n\n{table_text(table, rows)}")
        if images is not None:
            draw(table, rows, images / f"experiments_{table.name}.svg")


def main() -> int:
    """Run the queue, or report; 1 if a run failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--only", nargs="+", default=["*"], help="ARENA/CONDITION patterns")
    run.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    run.add_argument("--folder", type=Path, default=Path("runs/experiments"))
    run.add_argument(
        "--nice", type=int, default=LOWEST_PRIORITY, help="0 to 19, 19 gives way to all"
    )
    show = commands.add_parser("report")
    show.add_argument("--images", type=Path, help="folder for pictures")
    options = parser.parse_args()
    if options.command == "report":
        report(options.results, options.images)
        return 0
    keys = wanted(options.only, options.seeds)
    return min(work(keys, options.folder, options.results, options.nice), 1)


if __name__ == "__main__":
    sys.exit(main())
