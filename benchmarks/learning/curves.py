"""Draw the learning curves of runs, and print the numbers behind them.

    python -m benchmarks.learning.curves RUN [RUN ...] --out docs/images/NAME.png

One row of panels per run: refused replies in training; the format component on eval seeds, where
update 0 is the version that all learners started as, playing against them; and what the learners
score on eval seeds against that version and against bots.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics.sinks import read_lines

PANELS = (
    ("invalid replies, training", ("invalid_share",)),
    ("format component, eval seeds", ("eval_format",)),
    ("points per game, eval seeds", ("score_start", "score_bot:")),
)
METRICS = "metrics.jsonl"
STYLES = ("-", "--", ":", "-.")


def start_format(run: Path) -> float:
    """Mean format component of the starting version over all evaluation matches of a run."""
    with LeagueStore(run / "league.db", mode="read") as store:
        start = next(agent.parent for agent in store.agents() if agent.parent)
        costs = [
            result.rewards[seat] - result.outcomes[seat]
            for spec, result in store.matches(split="eval")
            for seat, name in enumerate(spec.seats)
            if name == start
        ]
    return sum(costs) / len(costs)


def series(run: Path, learner: str) -> dict[str, list[tuple[int, float]]]:
    """Metric name -> (update, value) points of one learner."""
    records = read_lines(run / METRICS)
    points: dict[str, list[tuple[int, float]]] = {"eval_format": [(0, start_format(run))]}
    for record in records:
        for name, value in record["learners"].get(learner, {}).items():
            points.setdefault(name, []).append((record["update"], value))
    return points


def learners_of(run: Path) -> list[str]:
    """Names of the learners of a run."""
    return sorted({name for record in read_lines(run / METRICS) for name in record["learners"]})


def draw(runs: list[Path], out: Path) -> None:
    """Write the picture."""
    figure, axes = plt.subplots(
        len(runs), len(PANELS), figsize=(4.2 * len(PANELS), 3.1 * len(runs)), squeeze=False
    )
    for row, run in zip(axes, runs, strict=True):
        learners = learners_of(run)
        for axis, (title, wanted) in zip(row, PANELS, strict=True):
            for color, learner in enumerate(learners):
                points = series(run, learner)
                names = [n for w in wanted for n in points if n.startswith(w)]
                for style, name in zip(STYLES * 3, names, strict=False):
                    updates, values = zip(*points[name], strict=True)
                    label = f"{learner} {name.removeprefix('score_')}"
                    axis.plot(updates, values, style, color=f"C{color}", marker=".", label=label)
            axis.set_title(title, fontsize=10)
            axis.set_xlabel("update")
            axis.grid(alpha=0.3)
            if axis.has_data():
                axis.legend(fontsize=6)
        row[0].set_ylabel(run.name, fontsize=9)
    figure.tight_layout()
    figure.savefig(out, dpi=110)


def numbers(run: Path) -> str:
    """A Markdown table: first, middle and last measured value of each metric that is drawn."""
    learners = learners_of(run)
    lines = [
        "| learner | metric | " + " | ".join(("first", "middle", "last")) + " |",
        "|---|---|--:|--:|--:|",
    ]
    for learner in learners:
        points = series(run, learner)
        for _, wanted in PANELS:
            for name in [n for w in wanted for n in points if n.startswith(w)]:
                chosen = [points[name][i] for i in (0, len(points[name]) // 2, -1)]
                cells = " | ".join(f"{value:.3f} (update {update})" for update, value in chosen)
                lines.append(f"| {learner} | {name} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Draw and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs")
    parser.add_argument("--out", type=Path, required=True, help="picture to write")
    options = parser.parse_args()
    draw(options.runs, options.out)
    for run in options.runs:
        print(f"\n{run.name}\n\n{numbers(run)}")


if __name__ == "__main__":
    main()
