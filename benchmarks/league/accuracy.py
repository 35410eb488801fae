"""Ratings of simulated populations whose skills are known: coverage, rank correlation, error.

    python -m benchmarks.league.accuracy [--quick] [--prototype FOLDER] [--scale 1.0] [--json FILE]

Two tables: kinds of schedules; and wide fields, few seeds and newcomers (`wide_fields`). ``--quick`` takes
part of the second table and a tenth of all runs.

Coverage is the share of agents whose 95 % interval holds the truth, over many populations. With
``--prototype`` the research prototype (a folder with ``ours.py``) fits the same results.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.league import wide_fields
from srl_agents.league.ratings.tables import ELO_PER_NAT, Pairs, TeamResult, rate, rate_teams

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NU = 0.35
"""Davidson's tie parameter of the simulated games: 15 % ties between equals."""


def play(d: Floats, rng: np.random.Generator, nu: float = NU) -> Floats:
    """Scores of games with log-odds ``d``."""
    win, loss = np.exp(d / 2), np.exp(-d / 2)
    total, u = win + loss + nu, rng.random(d.shape)
    return np.where(u < win / total, 1.0, np.where(u < (win + nu) / total, 0.5, 0.0))


def kendall(x: Floats, y: Floats) -> float:
    """Rank correlation of two rows without ties."""
    signs = np.sign(x[:, None] - x[None, :]) * np.sign(y[:, None] - y[None, :])
    n = x.size
    return float(signs.sum() / (n * (n - 1)))


def named(n: int) -> tuple[str, ...]:
    """Agent names in the order of their numbers."""
    return tuple(f"a{k:03}" for k in range(n))


def single_games(n: int, games: int, rng: np.random.Generator) -> tuple[Floats, Pairs]:
    """Uniform pairs, every game on a seed of its own."""
    skill = rng.normal(0, 1, n)
    a = rng.integers(0, n, games)
    b = (a + rng.integers(1, n, games)) % n
    return skill, Pairs(named(n), a, b, play(skill[a] - skill[b], rng), np.arange(games))


def mirrored(n: int, seeds: int, rng: np.random.Generator) -> tuple[Floats, Pairs]:
    """Round robins in both seats on common seeds; a seed favours a seat (sd 1 logit)."""
    skill = rng.normal(0, 1, n)
    i, j = (x.astype(np.int64) for x in np.triu_indices(n, k=1))
    luck = rng.normal(0, 1, (seeds, i.size))
    parts = []
    for sign, a, b in ((1, i, j), (-1, j, i)):
        score = play(skill[a] - skill[b] + sign * luck * 1.0, rng)
        parts.append((np.tile(a, seeds), np.tile(b, seeds), score.ravel()))
    a, b, score = (np.concatenate(x) for x in zip(*parts, strict=True))
    cluster = np.tile(np.repeat(np.arange(seeds), i.size), 2)
    return skill, Pairs(named(n), a, b, score, cluster)


def same_seats(n: int, seeds: int, rng: np.random.Generator) -> tuple[Floats, Pairs]:
    """Eight games per seed and pair in the same seats, with a strong seed effect: the bad design."""
    skill = rng.normal(0, 1, n)
    a = rng.integers(0, n, seeds)
    b = (a + rng.integers(1, n, seeds)) % n
    d = np.repeat(skill[a] - skill[b] + rng.normal(0, 1.5, seeds), 8)
    return skill, Pairs(
        named(n),
        np.repeat(a, 8),
        np.repeat(b, 8),
        play(d, rng, 0.0),
        np.repeat(np.arange(seeds), 8),
    )


def free_for_all(
    n: int, matches: int, seats: int, rng: np.random.Generator
) -> tuple[Floats, Pairs]:
    """Plackett-Luce rankings; every pair of seats of a match is a row, the match is the cluster."""
    skill = rng.normal(0, 1, n)
    a, b, score, cluster = [], [], [], []
    for match in range(matches):
        table = rng.choice(n, seats, replace=False)
        order = np.argsort(-(skill[table] + rng.gumbel(size=seats)))
        place = np.empty(seats)
        place[order] = np.arange(seats)
        for x in range(seats):
            for y in range(x + 1, seats):
                a.append(table[x])
                b.append(table[y])
                score.append(float(place[x] < place[y]))
                cluster.append(match)
    return skill, Pairs(
        named(n), np.array(a), np.array(b), np.array(score), np.array(cluster, dtype=np.int64)
    )


def teams(n: int, matches: int, rng: np.random.Generator) -> tuple[Floats, list[TeamResult]]:
    """Two against two; a side is as strong as its members together."""
    skill, names = rng.normal(0, 0.7, n), named(n)
    rows: list[TeamResult] = []
    for match in range(matches):
        w, x, y, z = rng.choice(n, 4, replace=False)
        d = np.array([skill[w] + skill[x] - skill[y] - skill[z]])
        score = float(play(d, rng)[0])
        rows.append(((names[w], names[x]), (names[y], names[z]), score, str(match)))
    return skill, rows


def marginal(skill: Floats, elo: Floats, shrinks: bool) -> Floats:
    """The truth that a fit can find: luck that the model does not know shrinks the scale."""
    truth: Floats = (skill - skill.mean()) * ELO_PER_NAT
    scale = float(elo @ truth / (truth @ truth)) if shrinks else 1.0
    scaled: Floats = truth * scale
    return scaled


def measure(make: Callable[[np.random.Generator], Any], runs: int, shrinks: bool) -> dict[str, Any]:
    """Coverage, mean width, rank correlation and error over populations."""
    covered, widths, taus, errors = [], [], [], []
    for run in range(runs):
        skill, results = make(np.random.default_rng(1000 + run))
        table = rate(results) if isinstance(results, Pairs) else rate_teams(results)
        names = named(skill.size)
        elo = np.array([table[name].elo for name in names])
        low = np.array([table[name].low for name in names])
        high = np.array([table[name].high for name in names])
        truth = marginal(skill, elo, shrinks)
        covered.append(float(((low <= truth) & (truth <= high)).mean()))
        widths.append(float((high - low).mean()))
        taus.append(kendall(elo, skill))
        errors.append(math.sqrt(float(((elo - truth) ** 2).mean())))
    return {
        "coverage": float(np.mean(covered)),
        "coverage_se": float(np.std(covered) / math.sqrt(runs)),
        "width_elo": float(np.mean(widths)),
        "kendall": float(np.mean(taus)),
        "rmse_elo": float(np.mean(errors)),
        "runs": runs,
    }


def beside_prototype(folder: Path, runs: int) -> dict[str, Any]:
    """The same 100 agents and 100,000 games through the prototype's fit and ours."""
    sys.path.insert(0, str(folder))
    prototype = importlib.import_module("ours")
    found: dict[str, list[float]] = {}
    for run in range(runs):
        skill, pairs = single_games(100, 100_000, np.random.default_rng(run))
        truth = (skill - skill.mean()) * ELO_PER_NAT
        table = rate(pairs)
        mine = np.array([table[name].elo for name in named(100)])
        wins, ties = prototype.aggregate_wt(100, pairs.a_M, pairs.b_M, pairs.score_M)
        theirs = prototype.fit_davidson(wins, ties)[0] * ELO_PER_NAT
        for name, elo in (("SRL", mine), ("prototype", theirs)):
            error = math.sqrt(float(((elo - elo.mean() - truth) ** 2).mean()))
            found.setdefault(f"{name} rmse_elo", []).append(error)
            found.setdefault(f"{name} kendall", []).append(kendall(elo, skill))
    return {name: float(np.mean(values)) for name, values in found.items()}


DESIGNS: dict[str, tuple[Callable[[np.random.Generator], Any], int, bool]] = {
    "20 agents, 2,000 games": (lambda g: single_games(20, 2000, g), 200, False),
    "100 agents, 5,000 games": (lambda g: single_games(100, 5000, g), 40, False),
    "100 agents, 20,000 games": (lambda g: single_games(100, 20_000, g), 40, False),
    "21 agents, mirrored, 64 seeds": (lambda g: mirrored(21, 64, g), 60, True),
    "8 agents, mirrored, 64 seeds": (lambda g: mirrored(8, 64, g), 150, True),
    "20 agents, 8 games per seed, same seats": (lambda g: same_seats(20, 400, g), 150, True),
    "free for all, 20 agents, 600 tables of 4": (lambda g: free_for_all(20, 600, 4, g), 60, False),
    "free for all, 20 agents, 600 tables of 8": (lambda g: free_for_all(20, 600, 8, g), 40, False),
    "teams of two, 12 agents, 2,000 matches": (lambda g: teams(12, 2000, g), 60, False),
}
FIELDS = 400
"""Simulated fields per row of the second table."""


def schedules(scale: float) -> dict[str, Any]:
    """The first table, printed and returned."""
    found = {}
    print(f"{'schedule':44} {'coverage':>9} {'width':>6} {'tau':>6} {'rmse':>6}")
    for name, (make, runs, shrinks) in DESIGNS.items():
        row = found[name] = measure(make, max(5, round(runs * scale)), shrinks)
        print(
            f"{name:44} {row['coverage']:9.3f} {row['width_elo']:6.0f} {row['kendall']:6.3f} "
            f"{row['rmse_elo']:6.1f}",
            flush=True,
        )
    return found


def wide(scale: float, *, quick: bool) -> dict[str, Any]:
    """The second table, printed and returned."""
    found = {}
    print(
        f"\n{'field':64} {'coverage':>9} {'+-':>6} {'others':>7} {'gaps':>6} {'width':>6} {'one end':>8}"
    )
    for design in wide_fields.designs(quick=quick):
        # newcomers are one or two agents of a field, a pool's are all of 150
        fields = FIELDS // 10 if design.pool else 3 * FIELDS if design.outsiders else FIELDS
        row = found[str(design)] = wide_fields.measure(design, max(5, round(fields * scale)))
        print(
            f"{design!s:64} {row['coverage']:9.3f} {row['coverage_se']:6.3f} "
            f"{row.get('coverage_others', math.nan):7.3f} "
            f"{row.get('coverage_differences', math.nan):6.3f} {row['half_width_elo']:6.0f} "
            f"{row.get('one_sided', math.nan):8.3f}",
            flush=True,
        )
    for spread in wide_fields.SPREADS:
        name = f"teams of two, sd {spread}, 30 seeds, chance"
        row = found[name] = wide_fields.measure_teams(spread, 30, max(5, round(FIELDS / 4 * scale)))
        print(f"{name:64} {row['coverage']:9.3f} {row['coverage_se']:6.3f}", flush=True)
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--prototype", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of populations")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    scale = options.scale * (0.1 if options.quick else 1.0)
    found: dict[str, Any] = {
        **schedules(scale),
        "wide fields": wide(scale, quick=options.quick),
    }
    if options.prototype:
        found["beside the prototype"] = beside_prototype(options.prototype, 5)
        print(json.dumps(found["beside the prototype"], indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
