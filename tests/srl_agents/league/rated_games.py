"""Games with a known result, and fields with a known skill."""

from __future__ import annotations

import numpy as np

from srl_agents.league.ratings.tables import (
    ELO_PER_NAT,
)

Row = tuple[str, str, float, str]


def games(
    a: str, b: str, *, won: int = 0, tied: int = 0, lost: int = 0, seed: int = 0
) -> list[Row]:
    """One game per seed."""
    scores = [1.0] * won + [0.5] * tied + [0.0] * lost
    return [(a, b, score, f"s{seed + k}") for k, score in enumerate(scores)]


def field(
    n: int, clusters: int, *, nu: float, rng: np.random.Generator, luck: float = 0.0
) -> tuple[list[Row], np.ndarray]:
    """Mirrored pairs between all of ``n`` agents with known skills; returns rows and true Elo."""
    skill = rng.normal(0, 1, n)
    rows = []
    for c in range(clusters):
        for i in range(n):
            for j in range(i):
                shift = luck * rng.normal()
                for a, b in ((i, j), (j, i)):
                    half = (skill[a] - skill[b] + shift) / 2
                    odds = [*np.exp([half, -half]).tolist(), nu]
                    score = rng.choice([1.0, 0.0, 0.5], p=np.array(odds) / sum(odds))
                    rows.append((f"a{a}", f"a{b}", float(score), f"s{c}"))
    return rows, (skill - skill.mean()) * ELO_PER_NAT
