"""Which kind of credit teaches a team most from equal tokens? Pilots in two games, and a table.

    nice -n 19 python -m benchmarks.learning.fork_outcomes [--only 'codewords/*'] [--seeds 901 902]
    python -m benchmarks.learning.fork_outcomes --only none

One adapter holds both seats. In mini Hanabi recipe and arms are those of the announced experiment
`credit_by_forks`; codewords duet, which that one left out, has a model and sizes of its own here. Every
run ends when it has generated `TOKENS` tokens, branches included. The measure is the announced one: a
team's mean outcome on 192 eval seeds. Seeds 901 and 902 are pilots, which no published comparison uses,
and two of them size effects; they decide nothing.

Runs go one after the other on one thread. A finished run is saved at once, and a killed one goes on from its
checkpoint when the command is given again. The second command prints the table of what is there.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import announced, rows
from benchmarks.experiments.announced import Arena, Page, merged
from benchmarks.experiments.comparisons import Floats, half_width, paired
from benchmarks.learning.fork_credit import GAMES

NAME = "fork_outcomes"
ANNOUNCED = "credit_by_forks"
RESULTS = Path("benchmarks/results")
RUNS = Path("runs/pilots")
TOKENS = 10_000
PILOTS = (901, 902)
CREDITS = ("group per episode", "group per turn", "difference", "c3", "vine", "tree", "at_grpo")
"""Arms of the announced experiment; the first is the baseline."""
CODEWORDS = "codewords_duet-v0"
WITH_FORKS = {"c3": 4, "vine": 4, "tree": 4, "at_grpo": 2}
"""Arm -> start states of an update in codewords duet, so that it generates about as many tokens as the
baseline's sixteen matches."""


def pilot(tokens: int = TOKENS) -> Page:
    """The announced experiment's arms in both games, at a budget of its own."""
    page = announced.read(ANNOUNCED)
    hanabi = page.experiment.arenas["hanabi"]
    chosen = {name: hanabi.arms[name] for name in CREDITS}
    sizes: dict[str, dict[str, Any]] = {
        name: {"rollout": {"start_states": WITH_FORKS[name], "group_size": 1}}
        if name in WITH_FORKS
        else {}
        for name in CREDITS
    }
    game = {"env": CODEWORDS, "env_options": GAMES[CODEWORDS]}
    recipe = {**merged(hanabi.recipe, {"rollout": {"max_new_tokens": 16}}), **game}
    codewords = Arena(model="codewords", measure="team", recipe=recipe, arms=sizes)
    experiment = replace(
        page.experiment,
        stop={"tokens": tokens},
        arenas={"hanabi": replace(hanabi, arms=chosen), "codewords": codewords},
        arms={name: page.experiment.arms[name] for name in CREDITS},
    )
    return replace(page, name=NAME, digest="pilot", experiment=experiment)


def table(found: Sequence[rows.Row]) -> Iterator[str]:
    """Markdown: an arm a line, with what it is above the baseline by seed, and the processor time of all."""
    yield (
        "| game | credit | seeds | start | last | difference by seed | mean, 95 % | peak | refused | "
        "trained | updates | CPU s |"
    )
    yield "|---|---|--:|--:|--:|---|---|--:|--:|--:|--:|--:|"
    for arena in dict.fromkeys(row["arena"] for row in found):
        of_arm = {
            arm: {row["seed"]: row for row in found if (row["arena"], row["arm"]) == (arena, arm)}
            for arm in CREDITS
        }
        last = {
            arm: {s: row["values"]["last"] for s, row in own.items()} for arm, own in of_arm.items()
        }
        for arm, own in of_arm.items():
            if own:
                gains = paired(last[arm], last[CREDITS[0]]) if arm != CREDITS[0] else np.array([])
                yield f"| {arena} | {arm} | {len(own)} {_line([*own.values()], gains)}"
    hours = sum(row["cpu_s"] for row in found) / 3600
    yield f"\n{len(found)} runs, {hours:.2f} CPU hours, training and measuring."


def _line(own: Sequence[rows.Row], gains: Floats) -> str:
    values = {name: np.mean([row["values"][name] for row in own]) for name in own[0]["values"]}
    spent = {name: np.mean([row[name] for row in own]) for name in ("updates", "cpu_s")}
    trained = np.mean([row["trained_tokens"] for row in own])
    by_seed = ", ".join(f"{gain:+.3f}" for gain in gains)
    mean = f"{gains.mean():+.3f} ± {half_width(gains):.3f}" if len(gains) > 1 else ""
    return (
        f"| {values['first']:.3f} | {values['last']:.3f} | {by_seed} | {mean} | {values['peak']:.3f} | "
        f"{values['refused']:.2f} | {trained:,.0f} | {spent['updates']:.0f} | {spent['cpu_s']:.0f} |"
    )


def main() -> int:
    """1 if a run failed."""
    from benchmarks.experiments import sweep

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=["*"], help="GAME/ARM patterns")
    parser.add_argument("--seeds", nargs="+", type=int, default=PILOTS)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    page = pilot(options.tokens)
    keys = [key for seed in options.seeds for key in sweep.wanted(page, options.only, [seed])]
    failed = sweep.work(page, keys, options.runs, options.results)
    print("\n".join(table(rows.load(NAME, options.results))))
    return min(len(failed), 1)


if __name__ == "__main__":
    raise SystemExit(main())
