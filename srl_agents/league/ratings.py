"""Ratings from match results: Bradley-Terry with ties, intervals, rank sets, win matrix.

The model is Davidson's: with d = t_a - t_b the log-probabilities of win, tie and loss are
d/2, log nu and -d/2 up to a constant. It is fitted as the maximum of a posterior whose prior
(a ridge) keeps undefeated agents finite. Intervals are cluster-robust: games that share a seed
count as one observation, because a lucky start state helps in all of them. Pure numpy; nothing
here knows where results are stored.

Array axes: ``N`` agents, ``M`` results (one per pair of seats), ``C`` clusters.

Sources: Davidson, "On Extending the Bradley-Terry Model to Accommodate Ties", JASA 65 (1970);
Liang and Zeger, "Longitudinal data analysis using generalized linear models", Biometrika 73
(1986) for the clustered sandwich. Differences: a ridge, and its share in the sandwich.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from srl_envs.errors import ConfigError, ShapeError

ELO_PER_NAT = 400 / math.log(10)
"""Elo points per unit of log-odds, 173.7."""
DEFAULT_RIDGE = (ELO_PER_NAT / 400) ** 2
"""Prior precision: skills have a standard deviation of 400 Elo before any match."""
PROVISIONAL_HALF_WIDTH_ELO = 75.0
PROVISIONAL_CLUSTERS = 30
BLOCK_NUMBERS = 1_000_000
"""Numbers (8 bytes each) of cluster scores held at once while intervals are computed."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Results between two agents. A match with more than two seats is one row per pair of seats."""

    agents: tuple[str, ...]
    a_M: Ints
    """Index into ``agents``."""
    b_M: Ints
    score_M: Floats
    """Points of ``a``: 1 win, 0.5 tie, 0 loss."""
    cluster_M: Ints
    """Rows with the same number share their randomness."""

    def __post_init__(self) -> None:
        shapes = {x.shape for x in (self.a_M, self.b_M, self.score_M, self.cluster_M)}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise ShapeError(f"columns of shapes {shapes}: give four arrays of one length.")
        if self.a_M.size == 0:
            return
        both = np.concatenate([self.a_M, self.b_M])
        if both.min() < 0 or both.max() >= len(self.agents):
            raise ShapeError(
                f"agent numbers {both.min()}..{both.max()} do not fit {len(self.agents)} agents."
            )
        if (self.a_M == self.b_M).any():
            raise ConfigError("an agent cannot be rated against itself: leave such rows out.")
        if not np.isin(self.score_M, (0.0, 0.5, 1.0)).all():
            raise ConfigError("a score is 1 (win), 0.5 (tie) or 0 (loss).")

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str, float, str]], agents: Iterable[str] = ()) -> Pairs:
        """Build from (agent, opponent, score, cluster) rows.

        Args:
            rows: one per result.
            agents: agents to rate even if they have no row.
        """
        table = list(rows)
        names = sorted({*agents, *(r[0] for r in table), *(r[1] for r in table)})
        clusters = {c: k for k, c in enumerate(sorted({r[3] for r in table}))}
        number = {name: k for k, name in enumerate(names)}
        return cls(
            agents=tuple(names),
            a_M=np.array([number[r[0]] for r in table], dtype=np.int64),
            b_M=np.array([number[r[1]] for r in table], dtype=np.int64),
            score_M=np.array([r[2] for r in table], dtype=np.float64),
            cluster_M=np.array([clusters[r[3]] for r in table], dtype=np.int64),
        )


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval around an estimate."""

    estimate: float
    half_width: float
    """Infinite when fewer than two clusters leave the spread unknown."""
    clusters: int

    @property
    def low(self) -> float:
        """Lower end."""
        return self.estimate - self.half_width

    @property
    def high(self) -> float:
        """Upper end."""
        return self.estimate + self.half_width


@dataclass(frozen=True, kw_only=True, slots=True)
class Rating:
    """One row of a `RatingTable`."""

    agent: str
    elo: float
    half_width: float
    """Elo; half of the 95 % interval of the distance to the anchors' mean."""
    best_rank: int
    """1 + number of agents that are resolved to be better."""
    worst_rank: int
    games: int
    """Results that entered the fit (pairs of seats, not matches)."""
    wins: int
    draws: int
    losses: int
    clusters: int
    field_score: float
    """Mean over the opponents met of the points per game, each opponent counted once, in [0, 1];
    NaN without games."""
    provisional: tuple[str, ...]
    """Why not to rely on this row yet; empty when nothing stands against it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WinMatrix:
    """Observed points between agents, in the order of ``agents``."""

    agents: tuple[str, ...]
    points_NN: Floats
    """Points the row agent took from the column agent; a tie is half a point for both."""
    games_NN: Ints
    score_NN: Floats
    """points / games, NaN where two agents never met."""
    low_NN: Floats
    """95 % Wilson interval with one observation per cluster (wide rather than narrow)."""
    high_NN: Floats


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RatingTable:
    """A fit: agents from best to worst, and what is needed to compare any two of them."""

    ratings: tuple[Rating, ...]
    anchors: tuple[str, ...]
    """Their mean is 0 Elo."""
    ridge: float
    tie_nu: float
    """Davidson's tie parameter; equals tie : win odds / 1 between equals. 0 without ties."""
    games: int
    clusters: int
    covariance_NN: Floats
    """(N, N) Elo², in the order of ``ratings``; a constant added to all ratings has variance 0."""

    def __getitem__(self, agent: str) -> Rating:
        return self.ratings[self._row(agent)]

    @property
    def agents(self) -> tuple[str, ...]:
        """Agent ids from best to worst."""
        return tuple(r.agent for r in self.ratings)

    @property
    def resolution(self) -> float:
        """Median over pairs of agents of the smallest difference in Elo that counts as one.

        NaN with fewer than two agents.
        """
        rows, columns = np.triu_indices(len(self.ratings), k=1)
        if rows.size == 0:
            return math.nan
        return float(np.median(_resolvable(self.covariance_NN, self._clusters_N)[rows, columns]))

    def difference(self, agent: str, opponent: str) -> Interval:
        """Elo of ``agent`` above ``opponent``; tighter than the two single intervals suggest."""
        i, j = self._row(agent), self._row(opponent)
        width = _resolvable(self.covariance_NN, self._clusters_N)[i, j]
        clusters = min(self.ratings[i].clusters, self.ratings[j].clusters)
        return Interval(self.ratings[i].elo - self.ratings[j].elo, float(width), clusters)

    def expected_score(self, agent: str, opponent: str) -> float:
        """Points per game that ``agent`` is expected to take from ``opponent``."""
        return expected_score(self[agent].elo - self[opponent].elo, self.tie_nu)

    @property
    def _clusters_N(self) -> Ints:
        return np.array([r.clusters for r in self.ratings], dtype=np.int64)

    def _row(self, agent: str) -> int:
        if agent not in self.agents:
            raise ConfigError(f"no agent {agent!r} in this table of {len(self.ratings)}.")
        return self.agents.index(agent)


def expected_score(elo_difference: float, tie_nu: float = 0.0) -> float:
    """Points per game (win 1, tie 0.5) of an agent that is ``elo_difference`` stronger."""
    half = elo_difference / ELO_PER_NAT / 2
    top = max(half, -half)
    win, loss, tie = math.exp(half - top), math.exp(-half - top), tie_nu * math.exp(-top)
    return (win + tie / 2) / (win + loss + tie)


def rate(
    pairs: Pairs, *, anchors: Collection[str] = (), ridge: float = DEFAULT_RIDGE
) -> RatingTable:
    """Fit all agents at once.

    The fit does not depend on the order of rows or the names of agents. An agent without games
    gets the prior's mean and an infinite interval.

    Args:
        pairs: results; at least one.
        anchors: agents whose mean rating is 0 Elo; those that are not in ``pairs`` are ignored,
            and without any all agents are anchors.
        ridge: prior precision of a skill in log-odds; greater than 0.

    Raises:
        ConfigError: no result, or a ridge that is not positive.

    Intervals: V = A⁻¹ (B + ridge I) A⁻¹ with the clustered score products B, the factor
    C / (C - 1), and quantiles of Student's t with (clusters of the agent - 1) degrees of freedom.
    The ridge in the middle is the prior's own variance: without it an agent that only won would
    get a narrow interval, because its residuals are small. With it the formula is the posterior
    covariance when the model is right.
    """
    if not ridge > 0:
        raise ConfigError(f"ridge={ridge}: an undefeated agent would be infinite. Use more than 0.")
    if pairs.a_M.size == 0:
        raise ConfigError("no result to rate: play evaluation matches between two agents first.")
    wins_NN, ties_NN = _counts(pairs)
    fit = _fit(wins_NN, ties_NN, ridge)
    clusters_N = _clusters_per_agent(pairs)

    anchored = np.isin(pairs.agents, sorted(anchors)) if anchors else np.zeros(0)
    if not anchored.any():
        anchored = np.ones(len(pairs.agents), dtype=bool)
    zero_N = anchored / anchored.sum()
    shift_NN = np.eye(len(pairs.agents)) - zero_N[None, :]  # t -> t minus the anchors' mean
    elo_N = ELO_PER_NAT * (shift_NN @ fit.t_N)
    covariance_NN = ELO_PER_NAT**2 * shift_NN @ _covariance(pairs, fit, ridge) @ shift_NN.T

    order = np.lexsort((np.arange(elo_N.size), -elo_N))
    rows = _rows(
        pairs,
        wins_NN=wins_NN,
        ties_NN=ties_NN,
        elo_N=elo_N,
        covariance_NN=covariance_NN,
        clusters_N=clusters_N,
    )
    return RatingTable(
        ratings=tuple(rows[k] for k in order),
        anchors=tuple(a for a, is_anchor in zip(pairs.agents, anchored, strict=True) if is_anchor),
        ridge=ridge,
        tie_nu=fit.nu,
        games=int(pairs.a_M.size),
        clusters=int(np.unique(pairs.cluster_M).size),
        covariance_NN=covariance_NN[np.ix_(order, order)],
    )


def win_matrix(pairs: Pairs, order: Collection[str] = ()) -> WinMatrix:
    """Observed scores between all agents.

    Args:
        pairs: results.
        order: agents in the order of rows and columns; all agents by default.
    """
    agents = tuple(order) or pairs.agents
    pick = np.array([pairs.agents.index(a) for a in agents], dtype=np.int64)
    wins_NN, ties_NN = _counts(pairs)
    points_NN = (wins_NN + ties_NN / 2)[np.ix_(pick, pick)]
    games_NN = (wins_NN + wins_NN.T + ties_NN)[np.ix_(pick, pick)]
    met = games_NN > 0
    score_NN = np.full(points_NN.shape, np.nan)
    score_NN[met] = points_NN[met] / games_NN[met]
    low_NN, high_NN = _wilson(score_NN, _clusters_per_pair(pairs)[np.ix_(pick, pick)])
    return WinMatrix(
        agents=agents,
        points_NN=points_NN,
        games_NN=games_NN.astype(np.int64),
        score_NN=score_NN,
        low_NN=low_NN,
        high_NN=high_NN,
    )


def head_to_head(pairs: Pairs, agent: str, opponent: str) -> Interval:
    """Mean score difference per game between two agents, from their own games alone.

    With mirrored pairs (same seed, seats swapped) the advantage of a seat cancels.

    Returns:
        Points of ``agent`` minus points of ``opponent`` per game, in [-1, 1]; above 0 it is better.

    Raises:
        ConfigError: the two never met.
    """
    known = set(pairs.agents)
    if not {agent, opponent} <= known:
        missing = sorted({agent, opponent} - known)
        raise ConfigError(f"no results of {', '.join(map(repr, missing))}.")
    i, j = pairs.agents.index(agent), pairs.agents.index(opponent)
    forward, backward = _between(pairs, i, j), _between(pairs, j, i)
    scores = np.where(forward, 2 * pairs.score_M - 1, 1 - 2 * pairs.score_M)
    chosen = forward | backward
    return paired_interval(scores[chosen], pairs.cluster_M[chosen])


def paired_interval(pair_scores: Floats, clusters: NDArray[np.generic]) -> Interval:
    """Mean of mirrored pairs' score differences with a 95 % interval.

    Args:
        pair_scores: (K,) score difference per mirrored pair (or per game), in [-1, 1].
        clusters: (K,) label per entry; entries with one label count as one observation.

    Returns:
        The mean; Student's t over clusters with the factor C / (C - 1). If all clusters
        agree, the observed spread is 0, which proves nothing about unseen seeds: then the
        half-width is 2 (1 - 0.025^(1/C)), the effect of a kind of seed that was just missed.

    Raises:
        ShapeError: the arrays differ in length.
        ConfigError: no entries.
    """
    if pair_scores.shape != clusters.shape or pair_scores.ndim != 1:
        raise ShapeError(f"{pair_scores.shape} scores with {clusters.shape} clusters.")
    if pair_scores.size == 0:
        raise ConfigError("no mirrored pair: these two agents never met.")
    label_K = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    count = int(label_K.max()) + 1
    mean = float(pair_scores.mean())
    if count < 2:
        return Interval(mean, math.inf, count)
    sums_C = np.bincount(label_K, weights=pair_scores - mean)
    if np.abs(sums_C).max() < 1e-9:
        return Interval(mean, 2 * (1 - 0.025 ** (1 / count)), count)
    variance = count / (count - 1) * float(sums_C @ sums_C) / pair_scores.size**2
    return Interval(mean, t_quantile(count - 1) * math.sqrt(variance), count)


@functools.cache
def t_quantile(degrees: int, probability: float = 0.975) -> float:
    """Quantile of Student's t for whole degrees of freedom.

    Up to 200 degrees: bisection on the exact finite sum (Abramowitz and Stegun 26.7.3 and
    26.7.4). Above: their expansion 26.7.5 around the normal quantile, error below 1e-6.

    Args:
        degrees: 1 or more; 0 gives infinity (nothing is known about the spread).
        probability: between 0.5 and 1.
    """
    if degrees < 1:
        return math.inf
    if degrees > 200:
        z = NormalDist().inv_cdf(probability)
        first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
        return z + first / degrees + second / degrees**2
    low, high = 0.0, math.pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        if _t_inside(middle, degrees) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def _t_inside(angle: float, degrees: int) -> float:
    """P(|T| < sqrt(degrees) tan(angle))."""
    sine, cosine = math.sin(angle), math.cos(angle)
    term = total = cosine if degrees % 2 else 1.0
    first = 3 if degrees % 2 else 2
    for k in range(first, degrees, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    if degrees % 2 == 0:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if degrees > 1 else 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    t_N: Floats
    """Skills in log-odds, sum 0."""
    nu: float
    hessian: Floats
    """(N, N), or (N + 1, N + 1) with log nu last when there are ties; includes the ridge."""


def _counts(pairs: Pairs) -> tuple[Floats, Floats]:
    """(N, N) wins of row over column, and (N, N) symmetric ties."""
    n = len(pairs.agents)
    forward, backward = pairs.a_M * n + pairs.b_M, pairs.b_M * n + pairs.a_M
    wins = np.bincount(forward[pairs.score_M == 1.0], minlength=n * n)
    wins = wins + np.bincount(backward[pairs.score_M == 0.0], minlength=n * n)
    ties = np.bincount(forward[pairs.score_M == 0.5], minlength=n * n).reshape(n, n)
    return wins.reshape(n, n).astype(np.float64), (ties + ties.T).astype(np.float64)


def _probabilities(t_N: Floats, nu: float) -> tuple[Floats, Floats, Floats]:
    """(N, N) probabilities that the row wins, loses, ties against the column."""
    half = (t_N[:, None] - t_N[None, :]) / 2
    top = np.abs(half)
    win, loss, tie = np.exp(half - top), np.exp(-half - top), nu * np.exp(-top)
    total = win + loss + tie
    return win / total, loss / total, tie / total


def _loss(theta: Floats, wins_NN: Floats, ties_NN: Floats, ridge: float) -> float:
    """Negative log-posterior; ``theta`` is t, then log nu if there are ties."""
    n = wins_NN.shape[0]
    half = (theta[:n, None] - theta[None, :n]) / 2
    total = np.logaddexp(half, -half)
    likelihood = 0.0
    if theta.size > n:
        total = np.logaddexp(total, theta[n])
        likelihood = 0.5 * float((ties_NN * (theta[n] - total)).sum())
    likelihood += float((wins_NN * (half - total)).sum())
    return ridge / 2 * float(theta @ theta) - likelihood


def _slope(theta: Floats, wins_NN: Floats, ties_NN: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Gradient and Hessian of `_loss`."""
    n = wins_NN.shape[0]
    win, loss, tie = _probabilities(theta[:n], math.exp(theta[n]) if theta.size > n else 0.0)
    games_NN = wins_NN + wins_NN.T + ties_NN
    gradient = ridge * theta
    gradient[:n] -= (wins_NN - wins_NN.T - games_NN * (win - loss)).sum(axis=1) / 2
    curvature = games_NN * (win + loss - (win - loss) ** 2) / 4
    hessian = ridge * np.eye(theta.size)
    hessian[:n, :n] += np.diag(curvature.sum(axis=1)) - curvature
    if theta.size > n:
        gradient[n] -= ((ties_NN - games_NN * tie) / 2).sum()
        hessian[:n, n] = hessian[n, :n] = -(games_NN * tie * (win - loss)).sum(axis=1) / 2
        hessian[n, n] += (games_NN * tie * (1 - tie)).sum() / 2
    return gradient, hessian


def _fit(wins_NN: Floats, ties_NN: Floats, ridge: float) -> _Fit:
    """Damped Newton on a convex function.

    Without ties nu is 0. With ties log nu has the same prior precision as a skill, so that a
    field which only ever tied still has a finite fit.
    """
    n = wins_NN.shape[0]
    theta = np.zeros(n + 1 if ties_NN.any() else n)
    loss = _loss(theta, wins_NN, ties_NN, ridge)
    for _ in range(200):
        gradient, hessian = _slope(theta, wins_NN, ties_NN, ridge)
        step = -np.linalg.solve(_gauged(hessian, n), gradient)
        length = 1.0
        while True:
            candidate = theta + length * step
            candidate[:n] -= candidate[:n].mean()
            trial = _loss(candidate, wins_NN, ties_NN, ridge)
            if trial <= loss + 1e-12 * abs(loss) or length < 1e-6:
                break
            length /= 2
        moved = float(np.abs(candidate - theta).max())
        theta, loss = candidate, trial
        if moved < 1e-11 * max(1.0, float(np.abs(theta).max())):
            break
    nu = math.exp(theta[n]) if theta.size > n else 0.0
    return _Fit(theta[:n], nu, _slope(theta, wins_NN, ties_NN, ridge)[1])


def _gauged(hessian: Floats, n: int) -> Floats:
    """Give the direction "all skills up by the same amount" a firm curvature.

    Only the ridge holds that direction; rounding noise divided by a small ridge would leak
    into every standard error.
    """
    gauged = hessian.copy()
    gauged[:n, :n] += max(1.0, float(np.trace(hessian)) / n) / n
    return gauged


def _covariance(pairs: Pairs, fit: _Fit, ridge: float) -> Floats:
    """(N, N) clustered sandwich in squared log-odds.

    Right for differences of agents; the direction "all up" has a made-up variance, which the
    caller's shift to the anchors removes.
    """
    n, size = len(pairs.agents), fit.hessian.shape[0]
    bread = np.linalg.inv(_gauged(fit.hessian, n))
    meat = _score_products(pairs, fit)
    clusters = np.unique(pairs.cluster_M).size
    correction = clusters / (clusters - 1) if clusters > 1 else 1.0  # widths are infinite at 1
    meat = correction * meat + ridge * np.eye(size)
    covariance: Floats = (bread @ meat @ bread)[:n, :n]
    return covariance


def _score_products(pairs: Pairs, fit: _Fit) -> Floats:
    """Sum over clusters of u uᵀ, where u is the gradient of the cluster's log-likelihood.

    Works through blocks of clusters, so that memory stays small for a million of them.
    """
    n, size = len(pairs.agents), fit.hessian.shape[0]
    win, loss, tie = _probabilities(fit.t_N, fit.nu)
    order = np.argsort(pairs.cluster_M, kind="stable")
    a, b, score = pairs.a_M[order], pairs.b_M[order], pairs.score_M[order]
    cluster = np.unique(pairs.cluster_M[order], return_inverse=True)[1].reshape(-1)
    skill = score - 0.5 - (win[a, b] - loss[a, b]) / 2
    tied = (score == 0.5) - tie[a, b]

    products = np.zeros((size, size))
    block = max(1, BLOCK_NUMBERS // size)
    for start in range(0, int(cluster[-1]) + 1, block):
        rows = slice(*np.searchsorted(cluster, [start, start + block]))
        key = (cluster[rows] - start) * size
        total = np.bincount(key + a[rows], weights=skill[rows], minlength=block * size)
        total -= np.bincount(key + b[rows], weights=skill[rows], minlength=block * size)
        if size > n:
            total += np.bincount(key + n, weights=tied[rows], minlength=block * size)
        u = total.reshape(block, size)
        products += u.T @ u
    return products


def _clusters_per_agent(pairs: Pairs) -> Ints:
    """(N,) number of clusters in which each agent has a result."""
    span = int(pairs.cluster_M.max()) + 1
    seats = np.concatenate([pairs.a_M, pairs.b_M]) * span + np.tile(pairs.cluster_M, 2)
    return np.bincount(np.unique(seats) // span, minlength=len(pairs.agents))


def _clusters_per_pair(pairs: Pairs) -> Ints:
    """(N, N) number of clusters in which two agents met."""
    n = len(pairs.agents)
    span = int(pairs.cluster_M.max(initial=0)) + 1
    lower, upper = np.minimum(pairs.a_M, pairs.b_M), np.maximum(pairs.a_M, pairs.b_M)
    met = np.unique((lower * n + upper) * span + pairs.cluster_M) // span
    half = np.bincount(met, minlength=n * n).reshape(n, n)
    return half + half.T


def _wilson(score_NN: Floats, count_NN: Ints) -> tuple[Floats, Floats]:
    """Wilson's interval for a mean in [0, 1]; NaN where ``score_NN`` is."""
    z = NormalDist().inv_cdf(0.975)
    count = np.maximum(count_NN, 1)
    scale = 1 + z**2 / count
    centre = (score_NN + z**2 / (2 * count)) / scale
    spread = z / scale * np.sqrt(score_NN * (1 - score_NN) / count + z**2 / (4 * count**2))
    return centre - spread, centre + spread


def _resolvable(covariance_NN: Floats, clusters_N: Ints) -> Floats:
    """(N, N) half-width of the 95 % interval of each difference, Elo."""
    variance_N = np.diag(covariance_NN)
    variance = variance_N[:, None] + variance_N[None, :] - 2 * covariance_NN
    fewest = np.minimum(clusters_N[:, None], clusters_N[None, :])
    widths: Floats = _quantiles(fewest) * np.sqrt(np.maximum(variance, 0.0))
    np.fill_diagonal(widths, 0.0)
    return widths


def _quantiles(clusters: Ints) -> Floats:
    """`t_quantile` with one degree of freedom less than there are clusters, for an array."""
    values, place = np.unique(clusters, return_inverse=True)
    # 1e300, not infinity: times a variance of 0 it must stay a number
    quantiles = np.array([min(t_quantile(int(v) - 1), 1e300) for v in values])
    widths: Floats = quantiles[place.reshape(clusters.shape)]
    return widths


def _rows(
    pairs: Pairs,
    *,
    wins_NN: Floats,
    ties_NN: Floats,
    elo_N: Floats,
    covariance_NN: Floats,
    clusters_N: Ints,
) -> list[Rating]:
    n = len(pairs.agents)
    width_N = _quantiles(clusters_N) * np.sqrt(np.maximum(np.diag(covariance_NN), 0.0))
    width_N = np.where(width_N > 1e6, np.inf, width_N)
    ahead = elo_N[:, None] - elo_N[None, :] > _resolvable(covariance_NN, clusters_N)
    np.fill_diagonal(ahead, False)
    games_NN = wins_NN + wins_NN.T + ties_NN
    linked = _linked(wins_NN + ties_NN > 0)
    return [
        Rating(
            agent=pairs.agents[k],
            elo=float(elo_N[k]),
            half_width=float(width_N[k]),
            best_rank=1 + int(ahead[:, k].sum()),
            worst_rank=n - int(ahead[k].sum()),
            games=int(games_NN[k].sum()),
            wins=int(wins_NN[k].sum()),
            draws=int(ties_NN[k].sum()),
            losses=int(wins_NN[:, k].sum()),
            clusters=int(clusters_N[k]),
            field_score=_field_score(wins_NN[k] + ties_NN[k] / 2, games_NN[k]),
            provisional=_doubts(float(width_N[k]), int(clusters_N[k]), bool(linked[k])),
        )
        for k in range(n)
    ]


def _field_score(points_N: Floats, games_N: Floats) -> float:
    met = games_N > 0
    return float((points_N[met] / games_N[met]).mean()) if met.any() else math.nan


def _doubts(half_width: float, clusters: int, linked: bool) -> tuple[str, ...]:
    doubts = []
    if half_width > PROVISIONAL_HALF_WIDTH_ELO:
        doubts.append(f"interval wider than ±{PROVISIONAL_HALF_WIDTH_ELO:.0f} Elo")
    if clusters < PROVISIONAL_CLUSTERS:
        doubts.append(f"fewer than {PROVISIONAL_CLUSTERS} seeds")
    if not linked:
        doubts.append("no chain of wins both to and from the rest of the field")
    return tuple(doubts)


def _linked(beat_NN: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(N,) True in the largest group where wins lead from everyone to everyone.

    Between groups only the prior sets the distance. When two groups are equally large there is
    no main field, and nobody is linked.
    """
    group_N = np.full(beat_NN.shape[0], -1)
    for k in range(group_N.size):
        if group_N[k] < 0:
            group_N[_reach(beat_NN, k) & _reach(beat_NN.T, k)] = k
    names, sizes = np.unique(group_N, return_counts=True)
    largest = names[sizes == sizes.max()]
    if largest.size > 1:
        return np.zeros(group_N.size, dtype=bool)
    linked: NDArray[np.bool_] = group_N == largest[0]
    return linked


def _reach(edge_NN: NDArray[np.bool_], start: int) -> NDArray[np.bool_]:
    """(N,) agents that a chain of edges leads to, ``start`` included."""
    seen = np.zeros(edge_NN.shape[0], dtype=bool)
    seen[start] = True
    frontier = seen
    while frontier.any():
        frontier = edge_NN[frontier].any(axis=0) & ~seen
        seen = seen | frontier
    return seen


def _between(pairs: Pairs, i: int, j: int) -> NDArray[np.bool_]:
    chosen: NDArray[np.bool_] = (pairs.a_M == i) & (pairs.b_M == j)
    return chosen
