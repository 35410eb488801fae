"""How often the promotion gate promotes whom, and how many games it takes.

    python -m benchmarks.league.gates [--runs 2000] [--json FILE]

A strength is Elo by points per game. Pairs of one seed are mirrored (a seed favours a seat, sd 1 logit,
15 % of games tie), or two games of chance, or one game counted twice (no pair is noisier), or mostly
tied. Promotions at elo0 are to be ``alpha`` at most, those at elo1 one less ``beta`` at least. Beside
mirrored pairs the rule that leagues use most: promote as soon as the last 100 games gave over 55 %.
"""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.promotion import PromotionSettings, sequential_test
from srl_agents.league.ratings import expected_score

Floats = NDArray[np.float64]
KINDS = ("mirrored", "chance", "one game", "mostly tied")
STRENGTHS = (-35.0, 0.0, 17.0, 35.0, 70.0, 120.0)


def games(elo: float, pairs: int, rng: np.random.Generator, kind: str = "mirrored") -> Floats:
    """(pairs, 2) scores of the candidate in both seats; on average the points that ``elo`` means."""
    points, shape = expected_score(elo), (pairs, 2)
    if kind == "one game":
        return np.repeat((rng.random((pairs, 1)) < points).astype(float), 2, axis=1)
    tied = {"mirrored": 0.15, "chance": 0.0, "mostly tied": 0.8}[kind]
    share = (points - tied / 2) / (1 - tied)  # of the games that somebody wins
    if kind == "mirrored":
        luck = rng.normal(0, 1, (pairs, 1)) * np.array([1, -1])
        wins = 1 / (1 + np.exp(-(_skill(share) + luck)))
    else:
        wins = np.full(shape, share)
    return np.where(rng.random(shape) < tied, 0.5, rng.random(shape) < wins)


@functools.cache
def _skill(share: float) -> float:
    """Log-odds that win this share of games when a seed shifts them by a logit."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        won = float(weights @ (1 / (1 + np.exp(-(middle + nodes)))) / weights.sum())
        low, high = (middle, high) if won < share else (low, middle)
    return low


def window(scores: Floats, size: int = 100, threshold: float = 0.55) -> tuple[bool, int]:
    """Whether and after how many games a moving window promotes."""
    row = scores.ravel()
    total = np.cumsum(np.insert(row, 0, 0.0))
    above = (total[size:] - total[:-size]) / size > threshold
    return (True, int(np.argmax(above)) + size) if above.any() else (False, row.size)


def promotions(
    gate: PromotionSettings, elo: float, kind: str, runs: int
) -> tuple[float, float, int]:
    """Share of candidates that are promoted, mean number of games, and the most."""
    verdicts = []
    for run in range(runs):
        rng = np.random.default_rng([run, round(elo) + 1000])
        scores = games(elo, gate.most_pairs, rng, kind).mean(axis=1)
        verdicts.append(sequential_test(scores, gate))
    share = float(np.mean([verdict.decision == "promote" for verdict in verdicts]))
    count = [2 * verdict.pairs for verdict in verdicts]
    return share, float(np.mean(count)), max(count)


def main() -> None:
    """Print one row per kind of pair and true strength."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    gate = PromotionSettings()
    found: dict[str, Any] = {"runs": options.runs, "settings": str(gate)}
    print(f"at most {2 * gate.most_pairs} games")
    print(
        f"{'pairs':12} {'Elo':>5} {'promoted':>9} {'games':>6} {'most':>6} {'window':>7} {'games':>6}"
    )
    for kind in KINDS:
        for elo in STRENGTHS if kind == "mirrored" else (gate.elo0, gate.elo1):
            share, count, most = promotions(gate, elo, kind, options.runs)
            row: dict[str, float] = {"promoted": share, "games": count, "most_games": most}
            line = f"{kind:12} {elo:+5.0f} {share:9.4f} {count:6.0f} {most:6}"
            if kind == "mirrored":
                seen = [
                    window(games(elo, 300, np.random.default_rng([run, round(elo) + 1000])))
                    for run in range(options.runs)
                ]
                row["window"], row["window_games"] = np.mean(np.array(seen, dtype=float), axis=0)
                line += f" {row['window']:7.3f} {row['window_games']:6.0f}"
            found[f"{kind} {elo:+.0f}"] = row
            print(line, flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
