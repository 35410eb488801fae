"""How near prioritised fictitious self-play comes to the distribution that it means.

    python -m benchmarks.league.samplers [--runs 15] [--json FILE]

A learner that improves meets 60 frozen versions, 1,200 games, each drawn by the sampler itself; the
truth has a cyclic part, which ratings cannot represent. Every frozen version was looked at once, as
the default evaluation does it: 40 games against each of three anchors. Total variation distance to
the same preference on the true probabilities, mean over the last three quarters of the games.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.matchmaking.pair_record import PairRecord, expected_scores
from srl_agents.league.sampling import Preference, pfsp

Floats = NDArray[np.float64]
Estimator = Literal["raw", "even", "ratings", "ratings, decay"]
POOL, GAMES, REFIT = 60, 1200, 25
ANCHORS = {"weak": -1.0, "middle": 0.0, "strong": 1.0}


def truth(learner: float, skill: Floats, angle: Floats) -> Floats:
    """Probability that the learner beats each of the pool."""
    odds: Floats = 1 / (1 + np.exp(-(learner - skill + 0.7 * np.sin(1.0 - angle))))
    return odds


def preferred(x: Floats, preference: Preference) -> Floats:
    """The distribution that is meant."""
    weight: Floats = (1 - x) ** 2 if preference == "hard" else x * (1 - x)
    chances: Floats = weight / weight.sum()
    return chances


def distance(estimator: Estimator, preference: Preference, seed: int) -> float:
    """Mean total variation distance of one run."""
    rng = np.random.default_rng(seed)
    skill = np.sort(rng.normal(0, 1.2, POOL))
    angle = rng.uniform(0, 2 * np.pi, POOL)
    names = [f"v{k}" for k in range(POOL)]
    games, cells = PairRecord(), PairRecord()
    decay = 0.998 if estimator == "ratings, decay" else 1.0
    look(cells, names, skill, rng)
    prior: Floats | float = 0.5
    distances = []
    for game in range(GAMES):
        if estimator.startswith("ratings") and game % REFIT == 0:
            expected = expected_scores([games, cells], ["me", *names, *ANCHORS])
            prior = 0.5 if expected is None else expected[0, 1 : 1 + POOL]
        true = truth(-0.5 + 1.5 * game / GAMES, skill, angle)
        view = games.view("me", names, prior=prior)
        kappa = 1e-9 if estimator == "raw" else 4.0
        chances = pfsp(view, preference, kappa=kappa)
        if game >= GAMES // 4:
            distances.append(0.5 * float(np.abs(chances - preferred(true, preference)).sum()))
        other = int(rng.choice(POOL, p=chances))
        games.add("me", names[other], float(rng.random() < true[other]), decay)
    return float(np.mean(distances))


def look(cells: PairRecord, names: list[str], skill: Floats, rng: np.random.Generator) -> None:
    """Evaluation games of everybody against the anchors."""
    for name, mine in zip(names, skill, strict=True):
        for anchor, theirs in ANCHORS.items():
            for won in rng.random(40) < 1 / (1 + np.exp(theirs - mine)):
                cells.add(name, anchor, float(won))
                cells.add(anchor, name, 1 - float(won))


def main() -> None:
    """Print one row per estimator."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {"runs": options.runs}
    estimators: tuple[Estimator, ...] = ("raw", "even", "ratings", "ratings, decay")
    preferences: tuple[Preference, ...] = ("hard", "variance")
    print(f"{'win rates':16} {'hard':>6} {'variance':>9}")
    for estimator in estimators:
        row = {
            p: float(np.mean([distance(estimator, p, seed) for seed in range(options.runs)]))
            for p in preferences
        }
        found[estimator] = row
        print(f"{estimator:16} {row['hard']:6.3f} {row['variance']:9.3f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
