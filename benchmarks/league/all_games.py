"""Coverage of the rating over several games, and what pooling their results would say instead.

    python -m benchmarks.league.all_games --out benchmarks/results/all_games.json

Agents have a strength, and another one on top in each game. They play some of six games (0.6 of them in the
mean, two at least), against some of the others; the first game has ten times the seeds of the last. A seed is
played from both seats and is one cluster, with an advantage of the first seat and ties. The truth is the
equal-weight fit to the true strengths in the games that were played. Shown are the share of pairs of agents
whose 95 % interval holds the true difference, and the root mean square error in Elo, for `overall` and for
one fit of all results pooled. ``cycles`` adds a payoff that no strength explains.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.league.ratings.overall import overall
from srl_agents.league.ratings.pairs import Pairs
from srl_agents.league.ratings.tables import ELO_PER_NAT, RatingTable, rate

GAMES, SHARE = 6, 0.6
SEEDS = (100, 60, 40, 30, 20, 10)
"""Of each pair that met, by game."""
STRENGTH_ELO, GAME_ELO, SEAT_ELO, CYCLE_ELO = 200.0, 120.0, 60.0, 120.0
TIE_NU = 0.3
OPPONENTS = 8
"""Most that an agent meets in a game."""
FIELDS = {"5 agents": (5, 40, 0.0), "20 agents": (20, 12, 0.0), "50 agents": (50, 4, 0.0),
          "200 agents": (200, 1, 0.0), "20 agents, cycles": (20, 12, CYCLE_ELO)}  # fmt: skip
"""Name -> agents, repetitions, size of cycles in Elo."""
Row = tuple[str, str, float, str]


def played(
    rng: np.random.Generator,
    elo_N: np.ndarray[Any, Any],
    names: list[str],
    seeds: int,
    cycle: float,
) -> list[Row]:
    """Results of one game between agents that meet some of the others."""
    rows: list[Row] = []
    n = len(names)
    meetings = {
        (min(i, int(j)), max(i, int(j)))
        for i in range(n)
        for j in rng.choice(
            [k for k in range(n) if k != i], min(OPPONENTS // 2, n - 1), replace=False
        )
    }
    for i, j in sorted(meetings):
        turn = cycle * ((j - i) % 3 - 1) if (j - i) % 3 else 0.0
        for seed in range(seeds):
            for first in (1.0, -1.0):
                gap = (elo_N[i] - elo_N[j] + turn + first * SEAT_ELO) / ELO_PER_NAT / 2
                win, loss = np.exp(gap), np.exp(-gap)
                drawn = rng.random() * (win + loss + TIE_NU)
                score = 1.0 if drawn < win else 0.5 if drawn < win + TIE_NU else 0.0
                rows.append((names[i], names[j], score, str(seed)))
    return rows


def truth(elo_GN: np.ndarray[Any, Any], plays_GN: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(N,) equal-weight fit to true strengths, as `overall` fits measured ones."""
    n = elo_GN.shape[1]
    weight_NN, pull_N = np.zeros((n, n)), np.zeros(n)
    for elo_N, plays_N in zip(elo_GN, plays_GN, strict=True):
        at = np.flatnonzero(plays_N)
        centre = np.eye(at.size) - 1 / max(1, at.size)
        weight_NN[np.ix_(at, at)] += centre
        pull_N[at] += centre @ elo_N[at]
    found: np.ndarray[Any, Any] = np.linalg.pinv(weight_NN, hermitian=True) @ pull_N
    return found


def judged(
    table: RatingTable, names: list[str], true_N: np.ndarray[Any, Any]
) -> tuple[int, int, float]:
    """(pairs whose interval holds the truth, pairs, sum of squared errors of differences)."""
    inside = pairs = 0
    squares = 0.0
    for i, one in enumerate(names):
        for j in range(i):
            gap = table.difference(one, names[j])
            true = float(true_N[i] - true_N[j])
            inside += gap.low <= true <= gap.high
            squares += (gap.estimate - true) ** 2
            pairs += 1
    return inside, pairs, squares


def field(name: str, seed: int = 0) -> dict[str, Any]:
    """One row of the table."""
    agents, repetitions, cycle = FIELDS[name]
    rng = np.random.default_rng([seed, agents, int(cycle)])
    sums = {"overall": np.zeros(3), "pooled": np.zeros(3)}
    names = [f"agent{k:03}" for k in range(agents)]
    for _ in range(repetitions):
        elo_GN = rng.normal(0, STRENGTH_ELO, agents) + rng.normal(0, GAME_ELO, (GAMES, agents))
        plays_GN = rng.random((GAMES, agents)) < SHARE
        plays_GN[:2] = True
        tables: dict[str, RatingTable] = {}
        pooled: list[Row] = []
        for game in range(GAMES):
            at = np.flatnonzero(plays_GN[game])
            if at.size < 2:
                plays_GN[game] = False
                continue
            rows = played(rng, elo_GN[game][at], [names[k] for k in at], SEEDS[game], cycle)
            tables[f"game {game}"] = rate(Pairs.of(rows))
            pooled += [(a, b, score, f"{game} {cluster}") for a, b, score, cluster in rows]
        true_N = truth(elo_GN, plays_GN)
        together = overall(tables)
        assert together is not None
        sums["overall"] += judged(together, names, true_N)
        sums["pooled"] += judged(rate(Pairs.of(pooled)), names, true_N)
    return {"field": name, "repetitions": repetitions} | {
        f"{kind} {what}": value
        for kind, (inside, pairs, squares) in sums.items()
        for what, value in (("coverage", inside / pairs), ("rmse_elo", float(np.sqrt(squares / pairs))))
    }  # fmt: skip


def main() -> None:
    """Measure all fields, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fields", nargs="*", help=f"{', '.join(FIELDS)}; all if absent")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for name in options.fields or FIELDS:
        rows.append(field(name))
        print(json.dumps(rows[-1]), flush=True)
    if options.out:
        command = "python -m benchmarks.league.all_games"
        options.out.write_text(json.dumps({"command": command, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
