"""Structure of a field beyond ratings: equilibrium, cycles and exploitability.

These stand beside a rating table and never replace it: on noisy results the equilibrium's support
changes between resamples even where strength is one number, which is why its frequency is reported.

Array axes: ``N`` agents, ``M`` results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from srl_agents.league.ratings.davidson import totals
from srl_agents.league.ratings.intervals import Floats, Ints, t_quantile
from srl_agents.league.ratings.nash import equilibrium
from srl_agents.league.ratings.pairs import Pairs, count_results
from srl_agents.league.ratings.tables import RatingTable, rate

_RESAMPLES = 50
"""Of clusters, for how often an agent is in the equilibrium."""

KAPPA = 4.0
"""Games that a rating's expectation is worth in a cell of the payoff matrix."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exploitability:
    """A lower bound on how far the best reply known beats an agent."""

    agent: str
    exploiter: str | None
    """The agent shown to beat it by the largest bound; None if no agent was shown to."""
    bound: float
    """Points per game above one half that the exploiter is shown to take, in [0, 0.5]."""
    budget: str
    """Games and search behind the bound, which is only as good as they are."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Diagnostics:
    """Diagnostics of one field of agents, in the order of ``agents``."""

    agents: tuple[str, ...]
    nash_N: Floats
    """Equilibrium of the payoff matrix."""
    nash_frequency_N: Floats
    """Share of cluster resamples in which the agent is in the equilibrium's support."""
    cyclic_share: float
    """Share of the variance of log-odds between pairs that no ranking explains; NaN below 3 agents."""
    noise_share: float
    """The share expected by chance if a ranking explained everything."""
    exploitability: tuple[Exploitability, ...]


def diagnose(pairs: Pairs, *, steps: Mapping[str, int] | None = None) -> Diagnostics:
    """Compute all of them.

    Args:
        pairs: results; at least one.
        steps: agent -> optimizer steps it was trained, for the budgets.
    """
    table = rate(pairs)
    payoff_NN = payoffs(pairs, table)
    cyclic, noise = cyclic_share(pairs, table)
    return Diagnostics(
        agents=pairs.agents,
        nash_N=equilibrium(payoff_NN).row,
        nash_frequency_N=_support_frequency(pairs, table),
        cyclic_share=cyclic,
        noise_share=noise,
        exploitability=exploitability(pairs, steps),
    )


def payoffs(pairs: Pairs, table: RatingTable) -> Floats:
    """(N, N) shrunken score of row against column minus one half, antisymmetric."""
    points_NN, games_NN = _points(pairs)
    return _shrunken(points_NN, games_NN, _expected(pairs.agents, table)) - 0.5


def cyclic_share(pairs: Pairs, table: RatingTable) -> tuple[float, float]:
    """1 - R² of the best ranking's fit to the pairs' log-odds, weighted by games, and noise's part.

    Log-odds are of shrunken scores, as cells with one game have none of their own. The shrinking
    takes the same share from signal and noise of a cell.
    """
    n = len(pairs.agents)
    points_NN, games_NN = _points(pairs)
    i_U, j_U = np.nonzero(np.triu(games_NN, k=1))
    if n < 3 or i_U.size < 3:
        return math.nan, math.nan
    x_U = _shrunken(points_NN, games_NN, _expected(pairs.agents, table))[i_U, j_U]
    weight_U, odds_U = games_NN[i_U, j_U], np.log(x_U / (1 - x_U))
    design = np.zeros((i_U.size, n))
    design[np.arange(i_U.size), i_U] = 1
    design[np.arange(i_U.size), j_U] = -1
    root_U = np.sqrt(weight_U)
    skill_N = np.linalg.lstsq(root_U[:, None] * design, root_U * odds_U, rcond=None)[0]
    left = float(weight_U @ (odds_U - design @ skill_N) ** 2)
    total = float(weight_U @ odds_U**2)
    if total < 1e-12:
        return 0.0, 0.0
    kept_U = weight_U / (weight_U + KAPPA)  # how much of a cell's noise the shrinking lets through
    chance = float((kept_U**2 / (x_U * (1 - x_U))).sum()) * max(0, i_U.size - n + 1) / i_U.size
    return left / total, min(1.0, chance / total)


def exploitability(
    pairs: Pairs, steps: Mapping[str, int] | None = None
) -> tuple[Exploitability, ...]:
    """For each agent the surest of its losses, with a bound that allows for having looked at all.

    The bound is the lower end of a one-sided interval at 97.5 % divided by the number of agents
    that it met (Bonferroni): the largest of many noisy scores would always show a weakness.
    """
    n = len(pairs.agents)
    budget, trained = "best of {} opponents met", dict(steps or {})
    cells = _cells(pairs)
    found = []
    for me in range(n):
        bounds = []
        met = [other for other in range(n) if (me, other) in cells]
        for other in met:
            score_K, cluster_K = cells[me, other]
            bounds.append((_lower(1 - score_K, cluster_K, len(met)) - 0.5, -other))
        bound, other = max(bounds, default=(0.0, 0))
        exploiter = pairs.agents[-other] if bounds and bound > 0 else None
        spent = budget.format(len(met))
        if exploiter is not None and trained.get(exploiter):
            spent += f", trained {trained[exploiter]} steps"
        found.append(
            Exploitability(
                agent=pairs.agents[me], exploiter=exploiter, bound=max(0.0, bound), budget=spent
            )
        )
    return tuple(found)


def _cells(pairs: Pairs) -> dict[tuple[int, int], tuple[Floats, Ints]]:
    """(agent, opponent) -> the agent's scores and their clusters."""
    n = len(pairs.agents)
    me = np.concatenate([pairs.a_M, pairs.b_M])
    other = np.concatenate([pairs.b_M, pairs.a_M])
    score = np.concatenate([pairs.score_M, 1 - pairs.score_M])
    cluster = np.tile(pairs.cluster_M, 2)
    key = me * n + other
    order = np.argsort(key, kind="stable")
    names, first = np.unique(key[order], return_index=True)
    parts = zip(np.split(score[order], first[1:]), np.split(cluster[order], first[1:]), strict=True)
    return {(int(k) // n, int(k) % n): part for k, part in zip(names, parts, strict=True)}


def _lower(score_K: Floats, cluster_K: Ints, looks: int) -> float:
    """Lower bound of a mean score; 0 while the clusters show no spread to judge by."""
    label_K = np.unique(cluster_K, return_inverse=True)[1].reshape(-1)
    count = int(label_K.max()) + 1
    if count < 2:
        return 0.0
    mean = float(score_K.mean())
    sums_C = np.bincount(label_K, weights=score_K - mean)
    level = 0.025 / looks
    if float(np.abs(sums_C).max()) < 1e-9:
        return mean * math.exp(
            math.log(level) / count
        )  # all alike: the kind of seed that was just missed
    error = math.sqrt(count / (count - 1) * float(sums_C @ sums_C)) / score_K.size
    return mean - t_quantile(count - 1, 1 - level) * error


def _support_frequency(pairs: Pairs, table: RatingTable) -> Floats:
    n = len(pairs.agents)
    expected_NN = _expected(pairs.agents, table)
    label_M = np.unique(pairs.cluster_M, return_inverse=True)[1].reshape(-1)
    clusters = int(label_M.max()) + 1
    key_M = pairs.a_M * n + pairs.b_M
    rng = np.random.default_rng(0)
    held_N = np.zeros(n)
    for _ in range(_RESAMPLES):
        drawn_C = np.bincount(rng.integers(clusters, size=clusters), minlength=clusters)
        weight_M = drawn_C[label_M].astype(np.float64)
        won = totals(key_M, weight_M * pairs.score_M, n * n).reshape(n, n)
        games = totals(key_M, weight_M, n * n).reshape(n, n)
        points_NN = won + (games - won).T
        shrunken = _shrunken(points_NN, games + games.T, expected_NN)
        held_N += equilibrium(shrunken - 0.5).row > 1e-6
    frequency: Floats = held_N / _RESAMPLES
    return frequency


def _points(pairs: Pairs) -> tuple[Floats, Floats]:
    wins_NN, ties_NN = count_results(pairs)
    return wins_NN + ties_NN / 2, wins_NN + wins_NN.T + ties_NN


def _expected(agents: tuple[str, ...], table: RatingTable) -> Floats:
    """(N, N) scores that the ratings expect."""
    return np.array([[table.expected_score(a, b) for b in agents] for a in agents])


def _shrunken(points_NN: Floats, games_NN: Floats, expected_NN: Floats) -> Floats:
    shrunken: Floats = (points_NN + KAPPA * expected_NN) / (games_NN + KAPPA)
    return shrunken
