"""How often the promotion gate promotes whom, and how many games it takes.

    python -m benchmarks.league.gates [--runs 2000] [--json FILE]

Mirrored pairs; a seed favours a seat (sd 1 logit), 15 % of games tie. Beside it the rule that leagues
use most: promote as soon as the last 100 games gave more than 55 %.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.promotion import PromotionSettings, sequential_test

Floats = NDArray[np.float64]
STRENGTHS = (-35.0, 0.0, 17.0, 35.0, 70.0, 120.0)


def games(elo: float, pairs: int, rng: np.random.Generator) -> Floats:
    """(pairs, 2) scores of the candidate in both seats."""
    luck = rng.normal(0, 1, pairs)
    scores = np.empty((pairs, 2))
    for seat, sign in enumerate((1, -1)):
        p = 1 / (1 + np.exp(-(elo * math.log(10) / 400 + sign * luck)))
        tied = rng.random(pairs) < 0.15
        scores[:, seat] = np.where(tied, 0.5, rng.random(pairs) < p)
    return scores


def window(scores: Floats, size: int = 100, threshold: float = 0.55) -> tuple[bool, int]:
    """Whether and after how many games a moving window promotes."""
    row = scores.ravel()
    total = np.cumsum(np.insert(row, 0, 0.0))
    above = (total[size:] - total[:-size]) / size > threshold
    return (True, int(np.argmax(above)) + size) if above.any() else (False, row.size)


def main() -> None:
    """Print one row per true strength."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    gate = PromotionSettings()
    found: dict[str, Any] = {"runs": options.runs, "settings": str(gate)}
    print(f"{'Elo':>5} {'gate promotes':>14} {'games':>6} {'window promotes':>16} {'games':>6}")
    for elo in STRENGTHS:
        rows = []
        for run in range(options.runs):
            scores = games(elo, gate.max_pairs, np.random.default_rng([run, round(elo) + 1000]))
            verdict = sequential_test(scores.mean(axis=1), gate)
            rows.append((verdict.decision == "promote", 2 * verdict.pairs, *window(scores)))
        gate_share, gate_games, share, count = np.mean(np.array(rows, dtype=float), axis=0)
        found[f"{elo:+.0f}"] = {
            "gate": gate_share, "gate_games": gate_games, "window": share, "window_games": count,
        }  # fmt: skip
        print(
            f"{elo:+5.0f} {gate_share:14.4f} {gate_games:6.0f} {share:16.3f} {count:6.0f}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
