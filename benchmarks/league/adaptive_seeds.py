"""Adaptive seeds beside fixed ones: coverage of intervals at the stop, and seeds at equal power.

Run: python -m benchmarks.league.adaptive_seeds --json benchmarks/results/adaptive_seeds.json

Two entrants play five references from both seats on the same seeds; each has luck of its own with a seed.
``rule`` is the coverage of the comparison that decides, ``own`` that of one entrant's ordinary 95 % interval
when the run stops, ``difference_ordinary`` that of an ordinary interval of the difference. ``fixed`` is the
smallest number of seeds, decided before, at which such an interval excludes 0 as often as the rule does.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.league.ratings.intervals import (
    LOOKS_ALPHA,
    Floats,
    compared,
    looks,
    t_quantile,
)

REFERENCES = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Skills in log-odds of a point."""
LUCK = 0.7
"""Standard deviation of a seed's luck in log-odds, of each entrant."""
GAPS = (0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 1.0)


def points(skill: float, runs: int, seeds: int, rng: np.random.Generator) -> Floats:
    """(runs, seeds) share of the points in ten matches per seed."""
    luck = rng.normal(0, LUCK, (runs, seeds, 1))
    odds = skill - np.repeat(REFERENCES, 2) + luck
    won: Floats = (rng.random(odds.shape) < 1 / (1 + np.exp(-odds))).mean(axis=-1)
    return won


def expected(skill: float) -> float:
    """Share of the points that an entrant gets in the long run."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    odds = skill - np.array(REFERENCES)[:, None] + LUCK * nodes
    return float((1 / (1 + np.exp(-odds)) @ weights).mean() / weights.sum())


def ordinary(values: Floats, truth: float) -> bool:
    """Whether the usual 95 % interval of a mean holds the truth."""
    error = values.std(ddof=1) / np.sqrt(values.size)
    return bool(abs(values.mean() - truth) <= t_quantile(values.size - 1) * error)


def simulate(gap: float, runs: int, most: int, seed: int) -> dict[str, Any]:
    """One row: how often intervals hold when the run stops, and how many seeds that takes."""
    rng = np.random.default_rng([seed, round(1000 * gap)])
    ours, theirs = (points(skill, runs, most, rng) for skill in (gap / 2, -gap / 2))
    truth, own = expected(gap / 2) - expected(-gap / 2), expected(gap / 2)
    planned, held = looks(most), np.zeros((runs, 5))
    for run in range(runs):
        for n in planned:
            found = compared("a", "b", ours[run, :n] - theirs[run, :n], len(planned))
            if found.apart or n == most:
                held[run] = (
                    n, found.apart, found.low <= truth <= found.high,
                    ordinary(ours[run, :n], own), ordinary((ours - theirs)[run, :n], truth),
                )  # fmt: skip
                break
    seeds, apart, rule, alone, both = held.mean(axis=0).tolist()
    return {
        "gap": gap, "difference": round(truth, 4), "seeds": round(seeds, 1), "apart": round(apart, 4),
        "rule": round(rule, 4), "own": round(alone, 4), "difference_ordinary": round(both, 4),
        "fixed": fixed_seeds(ours - theirs, apart),
    }  # fmt: skip


def fixed_seeds(gap_RS: Floats, power: float) -> int | None:
    """Smallest number of seeds, decided before, that separates as often; None where all are too few."""
    for n in range(2, gap_RS.shape[1] + 1):
        part = gap_RS[:, :n]
        error = np.maximum(part.std(axis=1, ddof=1), 0.5 / np.sqrt(n)) / np.sqrt(n)
        if np.mean(np.abs(part.mean(axis=1)) > t_quantile(n - 1) * error) >= power:
            return n
    return None


def main() -> None:
    """Simulate every gap and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--most", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [simulate(gap, options.runs, options.most, options.seed) for gap in GAPS]
    for row in rows:
        print(row)
    if options.json:
        data = {"runs": options.runs, "most": options.most, "alpha": LOOKS_ALPHA, "rows": rows}
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
