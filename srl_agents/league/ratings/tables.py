"""Rating tables: Elo with clustered intervals, rank sets and provisional marks.

Two seats at a time (`rate`, free-for-all matches as one row per pair of seats) or side against side
(`rate_teams`). Pure numpy; nothing here depends on where results are stored.

Array axes: ``N`` agents, ``M`` results.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.ratings.davidson import Fit, MatchUps, Results, Spread, fit, spread, totals
from srl_agents.league.ratings.interval_ends import (
    Evidence,
    Prior,
    apart,
    correlations,
    ends,
    gaps,
    limits,
    with_lent_clusters,
)
from srl_agents.league.ratings.intervals import (
    Floats,
    Interval,
    Ints,
    paired_interval,
    t_quantile,
)
from srl_agents.league.ratings.moved_games import moved_games
from srl_agents.league.ratings.pairs import (
    Pairs,
    WinMatrix,
    count_results,
    head_to_head,
    win_matrix,
)
from srl_envs.errors import ConfigError

__all__ = [
    "DEFAULT_RIDGE",
    "ELO_PER_NAT",
    "Interval",
    "Pairs",
    "Rating",
    "RatingTable",
    "TeamResult",
    "WinMatrix",
    "expected_score",
    "head_to_head",
    "paired_interval",
    "rate",
    "rate_teams",
    "t_quantile",
    "win_matrix",
]

ELO_PER_NAT = 400 / math.log(10)
"""Elo points per unit of log-odds, 173.7."""
DEFAULT_RIDGE = (ELO_PER_NAT / 1500) ** 2
"""Prior precision: skills have a standard deviation of 1500 Elo before any match. It holds agents that
won or lost everything, and is too weak to pull others by what their intervals would not show."""
PROVISIONAL_HALF_WIDTH_ELO = 75.0
PROVISIONAL_CLUSTERS = 30

TeamResult = tuple[tuple[str, ...], tuple[str, ...], float, str]
"""(members of one side, members of the other, points of the first: 1, 0.5 or 0, cluster)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rating:
    """One row of a `RatingTable`."""

    agent: str
    elo: float
    low: float
    """Elo; lower end of the 95 % interval of the distance to the anchors' mean."""
    high: float
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

    @property
    def half_width(self) -> float:
        """Elo from the rating to the farther end of its interval."""
        return max(self.high - self.elo, self.elo - self.low)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RatingTable:
    """A fit: agents from best to worst, and what is needed to compare any two of them."""

    ratings: tuple[Rating, ...]
    anchors: tuple[str, ...]
    """Agents whose mean rating is 0 Elo."""
    ridge: float
    tie_nu: float
    """Davidson's tie parameter; equals tie : win odds / 1 between equals. 0 without ties."""
    games: int
    clusters: int
    correlation_NN: Floats
    """(N, N) of the ratings' errors, in the order of ``ratings``."""

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
        rows, columns = np.triu_indices(len(self.ratings), k=1)  # better agents come first
        if rows.size == 0:
            return math.nan
        down_N, up_N = (np.array([distance(r) for r in self.ratings]) for distance in (_down, _up))
        widths_NN = gaps(down_N, up_N, self.correlation_NN)
        return float(np.median(widths_NN[rows, columns]))

    def difference(self, agent: str, opponent: str) -> Interval:
        """Elo of ``agent`` above ``opponent``; tighter than the two single intervals suggest."""
        i, j = self._row(agent), self._row(opponent)
        one, other = self.ratings[i], self.ratings[j]
        gap = one.elo - other.elo
        sides, others = (np.array([_down(row), _up(row)]) for row in (one, other))
        below, above = apart(
            (sides, sides[::-1]), (others[::-1], others), self.correlation_NN[i, j]
        ).tolist()
        return Interval(gap, gap - below, gap + above, min(one.clusters, other.clusters))

    def expected_score(self, agent: str, opponent: str) -> float:
        """Points per game that ``agent`` is expected to take from ``opponent``."""
        return expected_score(self[agent].elo - self[opponent].elo, self.tie_nu)

    def _row(self, agent: str) -> int:
        if agent not in self.agents:
            raise ConfigError(f"no agent {agent!r} in this table of {len(self.ratings)}.")
        return self.agents.index(agent)


def _down(rating: Rating) -> float:
    return rating.elo - rating.low


def _up(rating: Rating) -> float:
    return rating.high - rating.elo


def expected_score(elo_difference: float, tie_nu: float = 0.0) -> float:
    """Points per game (win 1, tie 0.5) of an agent that is ``elo_difference`` stronger."""
    half = elo_difference / ELO_PER_NAT / 2
    top = max(half, -half)
    win, loss, tie = math.exp(half - top), math.exp(-half - top), tie_nu * math.exp(-top)
    return (win + tie / 2) / (win + loss + tie)


@dataclass(frozen=True, slots=True, eq=False)
class _Record:
    """Games of each agent, as the rows of a table show them."""

    wins_N: Floats
    ties_N: Floats
    losses_N: Floats
    field_score_N: Floats
    linked_N: NDArray[np.bool_]


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

    Intervals are those of `ratings.interval_ends`: lopsided where results are, wider where clusters agree
    less than chance would have it. Where no chain of wins joins an agent with the field, the prior
    ends the interval's open side, and the row is `Rating.provisional`.
    """
    _check(pairs.a_M.size, ridge)
    n = len(pairs.agents)
    wins_NN, ties_NN = count_results(pairs)
    games_NN = wins_NN + wins_NN.T + ties_NN
    met = np.triu(games_NN, k=1) > 0
    one_U, other_U = np.nonzero(met)
    games = MatchUps(
        agents=n,
        seat_US=np.stack([one_U, other_U], axis=1),
        sign_S=np.array([1.0, -1.0]),
        win_U=wins_NN[met],
        tie_U=ties_NN[met],
        loss_U=wins_NN.T[met],
    )
    row_NN = np.zeros((n, n), dtype=np.int64)
    row_NN[met] = np.arange(one_U.size)
    row_NN += row_NN.T
    swapped_M = pairs.a_M > pairs.b_M
    results = Results(
        row_M=row_NN[pairs.a_M, pairs.b_M],
        score_M=np.where(swapped_M, 1 - pairs.score_M, pairs.score_M),
        cluster_M=pairs.cluster_M,
    )
    points_NN = wins_NN + ties_NN / 2
    record = _Record(
        wins_N=wins_NN.sum(axis=1),
        ties_N=ties_NN.sum(axis=1),
        losses_N=wins_NN.sum(axis=0),
        field_score_N=np.array([_field_score(points_NN[k], games_NN[k]) for k in range(n)]),
        linked_N=_linked(wins_NN + ties_NN > 0),
    )
    return _table(pairs.agents, games, results, record, anchors=anchors, ridge=ridge)


def rate_teams(
    rows: Iterable[TeamResult], *, anchors: Collection[str] = (), ridge: float = DEFAULT_RIDGE
) -> RatingTable:
    """Rate members from results between sides; a side is as strong as the sum of its members.

    Rows of `Rating` count games of the agent's sides. Where all sides are equally large only
    differences between agents are known, as in `rate`.

    Args:
        rows: one per match and pair of sides. An agent on both sides counts for neither.
        anchors: as in `rate`.
        ridge: as in `rate`.

    Raises:
        ConfigError: no result, a score that is none, or a ridge that is not positive.
    """
    table = [(tuple(sorted(a)), tuple(sorted(b)), s, c) for a, b, s, c in rows]
    _check(len(table), ridge)
    if any(score not in (0.0, 0.5, 1.0) for _, _, score, _ in table):
        raise ConfigError("a score is 1 (win), 0.5 (tie) or 0 (loss).")
    agents = tuple(sorted({name for a, b, _, _ in table for name in (*a, *b)}))
    games, row_M = _team_games(table, agents)
    cluster = {c: k for k, c in enumerate(sorted({c for *_, c in table}))}
    results = Results(
        row_M=row_M,
        score_M=np.array([score for _, _, score, _ in table]),
        cluster_M=np.array([cluster[c] for *_, c in table], dtype=np.int64),
    )
    return _table(agents, games, results, _team_record(table, agents), anchors=anchors, ridge=ridge)


def _team_games(table: Sequence[TeamResult], agents: tuple[str, ...]) -> tuple[MatchUps, Ints]:
    """Match-ups, and the match-up of each row."""
    number = {name: k for k, name in enumerate(agents)}
    ups = {(a, b): k for k, (a, b) in enumerate(dict.fromkeys((a, b) for a, b, _, _ in table))}
    row_M = np.array([ups[a, b] for a, b, _, _ in table], dtype=np.int64)
    score_M = np.array([score for _, _, score, _ in table])
    first, second = max(len(a) for a, _ in ups), max(len(b) for _, b in ups)
    if any(len(a) != first or len(b) != second for a, b in ups):
        raise ConfigError(
            "the sides of one table must have the same size in every match: rate each size "
            "separately."
        )
    return (
        MatchUps(
            agents=len(agents),
            seat_US=np.array([[number[name] for name in (*a, *b)] for a, b in ups]),
            sign_S=np.array([1.0] * first + [-1.0] * second),
            win_U=totals(row_M, score_M == 1, len(ups)),
            tie_U=totals(row_M, score_M == 0.5, len(ups)),
            loss_U=totals(row_M, score_M == 0, len(ups)),
        ),
        row_M,
    )


def _team_record(table: Sequence[TeamResult], agents: tuple[str, ...]) -> _Record:
    n = len(agents)
    number = {name: k for k, name in enumerate(agents)}
    count_3N = np.zeros((3, n))
    points_NN, games_NN, beat_NN = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n), dtype=bool)
    for a, b, score, _ in table:
        for mine, theirs, points in ((a, b, score), (b, a, 1 - score)):
            others = [number[name] for name in theirs]
            for i in (number[name] for name in mine):
                count_3N[int(2 - 2 * points), i] += 1
                points_NN[i, others] += points
                games_NN[i, others] += 1
                beat_NN[i, others] |= points > 0
    return _Record(
        wins_N=count_3N[0],
        ties_N=count_3N[1],
        losses_N=count_3N[2],
        field_score_N=np.array([_field_score(points_NN[k], games_NN[k]) for k in range(n)]),
        linked_N=_linked(beat_NN),
    )


def _check(results: int, ridge: float) -> None:
    if not ridge > 0:
        raise ConfigError(f"ridge={ridge}: an undefeated agent would be infinite. Use more than 0.")
    if not results:
        raise ConfigError("no result to rate: play evaluation matches between two agents first.")


def _table(
    agents: tuple[str, ...],
    games: MatchUps,
    results: Results,
    record: _Record,
    *,
    anchors: Collection[str],
    ridge: float,
) -> RatingTable:
    found = fit(games, ridge)
    known = spread(games, results, found, ridge)
    anchored = np.isin(agents, sorted(anchors)) if anchors else np.zeros(0)
    if not anchored.any():
        anchored = np.ones(len(agents), dtype=bool)
    zero_N = anchored / anchored.sum()
    shift_NN = np.eye(len(agents)) - zero_N[None, :]  # t -> t minus the anchors' mean
    elo_N = ELO_PER_NAT * (shift_NN @ found.t_N)
    down_N, up_N, correlation_NN = _widths(games, found, known, shift_NN, ridge)
    order = np.lexsort((np.arange(elo_N.size), -elo_N))
    ahead_NN = elo_N[:, None] - elo_N[None, :] > gaps(down_N, up_N, correlation_NN)
    np.fill_diagonal(ahead_NN, False)
    ends_N = (elo_N - down_N, elo_N + up_N)
    rows = _rows(agents, record, elo_N, ends_N, (ahead_NN, known.clusters_N))
    return RatingTable(
        ratings=tuple(rows[k] for k in order),
        anchors=tuple(a for a, is_anchor in zip(agents, anchored, strict=True) if is_anchor),
        ridge=ridge,
        tie_nu=found.nu,
        games=int(results.row_M.size),
        clusters=known.clusters,
        correlation_NN=correlation_NN[np.ix_(order, order)],
    )


def _widths(
    games: MatchUps, found: Fit, known: Spread, shift_NN: Floats, ridge: float
) -> tuple[Floats, Floats, Floats]:
    """Distances to the lower and the upper ends, Elo, and the errors' correlations."""
    n = games.agents
    model_PN = (
        known.inverse_PP[:, :n] @ shift_NN.T
    )  # column k: A⁻¹ times agent k's distance to zero
    variance_N, observed_N, expected_N = (
        np.einsum("nk,nk->n", shift_NN @ part_NN, shift_NN)
        for part_NN in (known.inverse_PP[:n, :n], known.observed_NN, known.expected_NN)
    )
    variance_N = np.maximum(variance_N, 0.0)
    allowed = limits(
        Evidence(
            variance_N=variance_N,
            observed_N=observed_N,
            expected_N=expected_N,
            clusters_N=known.clusters_N,
        )
    )
    path_PN = model_PN / np.where(variance_N > 0, variance_N, 1.0)
    theta_P = np.append(found.t_N, math.log(found.nu)) if path_PN.shape[0] > n else found.t_N
    prior = Prior(slope_N=ridge * theta_P @ path_PN, curvature_N=ridge * (path_PN**2).sum(axis=0))
    down_N, up_N = ends(moved_games(games, theta_P, path_PN), variance_N, allowed, prior)
    results_NN = with_lent_clusters(known.observed_NN, known.expected_NN, known.clusters)
    robust_NN = known.inverse_PP[:n, :n] - known.expected_NN + results_NN
    correlation_NN = correlations(shift_NN @ robust_NN @ shift_NN.T)
    return ELO_PER_NAT * down_N, ELO_PER_NAT * up_N, correlation_NN


def _rows(
    agents: tuple[str, ...],
    record: _Record,
    elo_N: Floats,
    reach: tuple[Floats, Floats],
    resolved: tuple[NDArray[np.bool_], Ints],
) -> list[Rating]:
    """One row per agent; ``resolved`` holds which agent is better than which, and the clusters."""
    n, (low_N, high_N), (ahead_NN, clusters_N) = len(agents), reach, resolved
    width_N = np.maximum(high_N - elo_N, elo_N - low_N)
    games_N = record.wins_N + record.ties_N + record.losses_N
    return [
        Rating(
            agent=agents[k],
            elo=float(elo_N[k]),
            low=float(low_N[k]),
            high=float(high_N[k]),
            best_rank=1 + int(ahead_NN[:, k].sum()),
            worst_rank=n - int(ahead_NN[k].sum()),
            games=int(games_N[k]),
            wins=int(record.wins_N[k]),
            draws=int(record.ties_N[k]),
            losses=int(record.losses_N[k]),
            clusters=int(clusters_N[k]),
            field_score=float(record.field_score_N[k]),
            provisional=doubts(float(width_N[k]), int(clusters_N[k]), bool(record.linked_N[k])),
        )
        for k in range(n)
    ]


def _field_score(points_N: Floats, games_N: Floats) -> float:
    met = games_N > 0
    return float((points_N[met] / games_N[met]).mean()) if met.any() else math.nan


def doubts(half_width: float, clusters: int, linked: bool) -> tuple[str, ...]:
    """Why not to rely on a row yet: ``half_width`` in Elo, ``linked`` as in `Rating.provisional`."""
    reasons = []
    if half_width > PROVISIONAL_HALF_WIDTH_ELO:
        reasons.append(f"interval wider than ±{PROVISIONAL_HALF_WIDTH_ELO:.0f} Elo")
    if clusters < PROVISIONAL_CLUSTERS:
        reasons.append(f"fewer than {PROVISIONAL_CLUSTERS} seeds")
    if not linked:
        reasons.append("no chain of wins both to and from the rest of the field")
    return tuple(reasons)


def _linked(beat_NN: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(N,) True in the largest group where wins lead from everyone to everyone.

    Between groups only the prior sets the distance. When two groups are equally large there is
    no main field, and no agent is linked.
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
