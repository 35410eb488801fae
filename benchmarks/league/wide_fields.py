"""Coverage of rating intervals where skills lie far apart, with few seeds, and for newcomers.

A field plays mirrored pairs on common seeds. Seeds are either pure chance, or they matter: each favours
a seat of every pairing (sd 0.8 logit) and each agent is better on some than on others (sd 0.6 logit).
With such seeds the *truth* is what the fit would find with infinitely many: the Bradley-Terry skills of
the expected results. A rating is covered if its interval holds the truth, both as distances to the
mean of the anchors. An agent that won or lost everything has an interval too: one end comes from its
results and is tested like any other, the far end from the prior, 1500 Elo wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.ratings.davidson import MatchUps, fit, probabilities
from srl_agents.league.ratings.large_field import rate_large
from srl_agents.league.ratings.tables import ELO_PER_NAT, Pairs, RatingTable, rate, rate_teams

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NU = 0.35
SEEDS = (8, 30, 64)
SPREADS = (100, 300, 800)
OUTSIDERS = ((-1200,), (1200,), (-1200, -1200), (1200, -1200))
SEAT_LUCK, AGENT_LUCK = 0.8, 0.6
"""Standard deviations in log-odds of what a seed does to a pairing's seats and to an agent."""
UNEQUAL_LUCK = 1.5
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """One kind of field."""

    spread: float
    """Standard deviation of the skills, Elo."""
    seeds: int
    lucky: bool
    """Whether seeds matter."""
    unequal: bool = False
    """Whether they matter to every other agent only, with `UNEQUAL_LUCK`; those are measured."""
    agents: int = 8
    outsiders: tuple[int, ...] = ()
    """Elo above the mean of the others, who are the anchors."""
    gap: float = 0.0
    """Elo between two clumps, each half of the agents."""
    low_anchors: bool = False
    """Whether zero is the mean of the lower clump instead of the mean of all."""
    pool: int = 0
    """Agents that everybody meets; the others do not meet each other, and `rate_large` rates them."""

    def __str__(self) -> str:
        chance = "seeds matter" if self.lucky else "chance"
        chance += " to half of the agents" if self.unequal else ""
        who = f", newcomers {', '.join(f'{x:+}' for x in self.outsiders)}" if self.outsiders else ""
        who += f", clumps {self.gap:.0f} apart" if self.gap else ""
        who += ", lower ones anchors" if self.low_anchors else ""
        who += f", {self.agents} agents against {self.pool}" if self.pool else ""
        return f"sd {self.spread:3.0f}{who}, {self.seeds:2} seeds, {chance}"


def designs(quick: bool) -> list[Design]:
    """The table; with ``quick`` every other part of it."""
    rows = [
        Design(spread=spread, seeds=seeds, lucky=lucky)
        for spread in SPREADS
        for lucky in (False, True)
        for seeds in SEEDS
    ]
    rows += [
        Design(spread=300, seeds=seeds, lucky=lucky, outsiders=outsiders)
        for outsiders in OUTSIDERS
        for lucky in (False, True)
        for seeds in SEEDS
    ]
    rows += [Design(spread=spread, seeds=30, lucky=True, agents=150, pool=6) for spread in SPREADS]
    return rows[::2] if quick else rows


def measure(design: Design, fields: int, root: int = 0) -> dict[str, Any]:
    """Shares of intervals that hold the truth, over many fields."""
    return summary([one_field(design, run, root) for run in range(fields)])


def summary(found: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Means over fields with their standard errors; of widths the median."""
    columns = {name: np.array([row[name] for row in found]) for name in found[0]}
    row: dict[str, Any] = {"fields": len(found)}
    for name, values in columns.items():
        row[name] = float(np.nanmedian(values) if "elo" in name else np.nanmean(values))
        if "coverage" in name:
            row[f"{name}_se"] = float(np.nanstd(values) / math.sqrt(len(found)))
    return row


def measure_teams(spread: float, seeds: int, fields: int) -> dict[str, Any]:
    """The same for sides of two among six agents; every pairing of sides once per seed, both ways."""
    covered = []
    for run in range(fields):
        rng = np.random.default_rng([7, seeds, run])
        skill = rng.normal(0, spread / ELO_PER_NAT, 6)
        rows = []
        for seed in range(seeds):
            for _ in range(6):
                w, x, y, z = rng.permutation(6)[:4]
                d = np.full(2, skill[w] + skill[x] - skill[y] - skill[z])
                sides = (f"a{w}", f"a{x}"), (f"a{y}", f"a{z}")
                rows += [(*sides, score, str(seed)) for score in _scores(d, rng).tolist()]
        table = rate_teams(rows)
        covered.append(_covered(table, skill - skill.mean(), range(6)).mean())
    error = float(np.std(covered) / math.sqrt(fields))
    return {"fields": fields, "coverage": float(np.mean(covered)), "coverage_se": error}


def one_field(design: Design, run: int, root: int = 0) -> dict[str, float]:
    """Shares of one field's intervals that hold the truth, and how wide they are."""
    rng = np.random.default_rng([root, design.seeds, run])
    n = design.agents + len(design.outsiders)
    skill = rng.normal(0, design.spread / ELO_PER_NAT, n)
    skill[design.agents // 2 : design.agents] += design.gap / ELO_PER_NAT
    inside = np.arange(design.agents)
    for k, elo in enumerate(design.outsiders):
        skill[design.agents + k] = skill[inside].mean() + elo / ELO_PER_NAT
    a_U, b_U = np.triu_indices(n, k=1)
    if design.pool:
        met = a_U < design.pool
        a_U, b_U, inside = a_U[met], b_U[met], inside[: design.pool]
    if design.low_anchors:
        inside = inside[: design.agents // 2]
    seat, agent_N = _luck(design, n)
    pairs = _play(skill, (a_U, b_U), design.seeds, (seat, agent_N), rng)
    anchors = [f"a{k}" for k in inside]
    truth = _truth(skill, (a_U, b_U), np.sqrt(seat**2 + agent_N[a_U] ** 2 + agent_N[b_U] ** 2))
    truth -= truth[inside].mean()
    if design.pool:
        held = {r.agent: (r.low, r.high) for r in rate_large(pairs, anchors=anchors).ratings}
        ends = np.array([held[f"a{k}"] for k in range(n)])
        true_elo = truth * ELO_PER_NAT
        return {
            "coverage": float(((ends[:, 0] <= true_elo) & (true_elo <= ends[:, 1])).mean()),
            "half_width_elo": float(np.median(ends[:, 1] - ends[:, 0]) / 2),
        }
    table, step = rate(pairs, anchors=anchors), 2 if design.unequal else 1
    asked = range(design.agents, n) if design.outsiders else range(int(design.unequal), n, step)
    wide = [(table[f"a{k}"].high - table[f"a{k}"].low) / 2 for k in asked]
    return {
        "coverage": float(_covered(table, truth, asked).mean()),
        "coverage_others": float(_covered(table, truth, inside.tolist()).mean()),
        **_differences(table, truth, asked, rng),
        "half_width_elo": float(np.median(wide)),
        "one_sided": float(np.mean(["chain" in str(table[f"a{k}"].provisional) for k in asked])),
    }


def _luck(design: Design, n: int) -> tuple[float, Floats]:
    """Standard deviations of what a seed does to the seats of a pairing, and (N,) to the agents."""
    if design.unequal:
        return 0.0, np.where(np.arange(n) % 2, UNEQUAL_LUCK, 0.0)
    return SEAT_LUCK * design.lucky, np.full(n, AGENT_LUCK * design.lucky)


def _covered(table: RatingTable, truth: Floats, asked: Sequence[int]) -> NDArray[np.bool_]:
    rows = [table[f"a{k}"] for k in asked]
    return np.array(
        [r.low <= truth[k] * ELO_PER_NAT <= r.high for k, r in zip(asked, rows, strict=True)]
    )


def _differences(
    table: RatingTable, truth: Floats, asked: Sequence[int], rng: np.random.Generator
) -> dict[str, float]:
    """Differences to another agent, one per agent: how many their intervals hold, and how wide they are."""
    held, wide = [], []
    for k in asked:
        other = int((k + rng.integers(1, truth.size)) % truth.size)
        found = table.difference(f"a{k}", f"a{other}")
        held.append(found.low <= (truth[k] - truth[other]) * ELO_PER_NAT <= found.high)
        wide.append(found.half_width)
    return {
        "coverage_differences": float(np.mean(held)),
        "difference_half_width_elo": float(np.median(wide)),
    }


def _play(
    skill: Floats,
    met: tuple[Ints, Ints],
    seeds: int,
    luck: tuple[float, Floats],
    rng: np.random.Generator,
) -> Pairs:
    """Every pairing in both seats on every seed."""
    a_U, b_U = met
    form_SN = rng.normal(0, 1, (seeds, skill.size)) * luck[1]
    level_SU = (skill + form_SN)[:, a_U] - (skill + form_SN)[:, b_U]
    seat_SU = rng.normal(0, 1, level_SU.shape) * luck[0]
    scores = [_scores((level_SU + sign * seat_SU).ravel(), rng) for sign in (1, -1)]
    return Pairs(
        tuple(f"a{k}" for k in range(skill.size)),
        np.tile(a_U, 2 * seeds),
        np.tile(b_U, 2 * seeds),
        np.concatenate(scores),
        np.tile(np.repeat(np.arange(seeds), a_U.size), 2),
    )


def _scores(d: Floats, rng: np.random.Generator) -> Floats:
    win, _, tie = probabilities(d, NU)
    u = rng.random(d.shape)
    return np.where(u < win, 1.0, np.where(u < win + tie, 0.5, 0.0))


def _truth(skill: Floats, met: tuple[Ints, Ints], luck_U: Floats) -> Floats:
    """Skills that fit the expected results; without luck they are the skills."""
    if not luck_U.any():
        return skill.copy()
    d_UQ = (skill[met[0]] - skill[met[1]])[:, None] + luck_U[:, None] * _NODES[None, :]
    win, loss, tie = (part @ _WEIGHTS / _WEIGHTS.sum() for part in probabilities(d_UQ, NU))
    games = MatchUps(
        agents=skill.size,
        seat_US=np.stack(met, axis=1),
        sign_S=np.array([1.0, -1.0]),
        win_U=1e6 * win,
        tie_U=1e6 * tie,
        loss_U=1e6 * loss,
    )
    return fit(games, 1e-6).t_N
