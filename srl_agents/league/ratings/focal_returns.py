"""Returns in games without winners: cross-play of cooperative games, focal returns of mixed ones.

In a cooperative game all seats are paid alike, so an agent is as good as it is with partners it was
not trained with. In a mixed game it matters what an agent earns, how many seats it holds, and what
is left for the others. Outcomes lie in [-1, 1]; a *return* here is (1 + outcome) / 2.

Array axes: ``N`` agents.

Sources: cross-play after "Other-Play", arXiv:2003.02979; visitors and residents after Melting Pot,
arXiv:2107.06857. Difference: intervals, clustered by seed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from srl_agents.league.ratings.intervals import Floats, Interval, Ints, paired_interval
from srl_agents.league.ratings.pairs import Pairs
from srl_envs.errors import ConfigError

MOST_COMPARED = 24
"""Agents that one agent is compared with in one place: rows grow with the field and not with its square."""
_TIE = 1e-9
"""Returns that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class SeatedResult:
    """One played match: who sat where, what each seat got, and whose randomness it shares."""

    seats: tuple[str, ...]
    outcomes: tuple[float, ...]
    cluster: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PartnerRating:
    """One row of a `CrossPlay`."""

    agent: str
    cross_play: Interval | None
    """Mean return with partners of other lineages, each game once; None if it met none."""
    held_out: Interval | None
    """Mean return with partners that training never meets; None if it met none."""
    self_play: Interval | None
    """Mean return with itself in all seats."""
    worst_partner: str | None
    """Partner of another lineage with the lowest mean return."""

    @property
    def gap(self) -> float:
        """Return lost when the partner is a stranger; NaN unless both were measured."""
        if self.cross_play is None or self.self_play is None:
            return math.nan
        return self.self_play.estimate - self.cross_play.estimate


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CrossPlay:
    """Agents from the best partner to the worst; those without strangers come last."""

    ratings: tuple[PartnerRating, ...]
    mean_NN: Floats
    """Mean return of the row agent in games with the column agent; NaN where they never sat together.
    The diagonal is self-play."""
    half_width_NN: Floats
    games_NN: Ints

    @property
    def agents(self) -> tuple[str, ...]:
        """In the order of rows and columns."""
        return tuple(r.agent for r in self.ratings)


@dataclass(frozen=True, kw_only=True, slots=True)
class FocalReturn:
    """What an agent earned while it held ``focal_seats`` of ``seats``, and what the others did."""

    agent: str
    focal_seats: int
    seats: int
    focal: Interval
    """Return per seat that it held."""
    background: Interval | None
    """Return per other seat; None where it held all."""
    games: int


class _Mean:
    """Values with their clusters, until an interval is asked for."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.clusters: list[str] = []

    def add(self, value: float, cluster: str) -> None:
        self.values.append(value)
        self.clusters.append(cluster)

    def interval(self) -> Interval:
        centred = 2 * np.array(self.values) - 1  # `paired_interval` takes values in [-1, 1]
        found = paired_interval(centred, np.array(self.clusters))
        return Interval(
            (1 + found.estimate) / 2, (1 + found.low) / 2, (1 + found.high) / 2, found.clusters
        )


def cross_play(
    results: Iterable[SeatedResult],
    lineages: Mapping[str, str] | None = None,
    held_out: Collection[str] | Mapping[str, Collection[str]] = (),
) -> CrossPlay:
    """The table of a cooperative game.

    Args:
        results: played matches.
        lineages: agent -> training run; versions of one lineage are not strangers. By default each
            agent is its own.
        held_out: agents that training never meets, of all or by agent.

    Raises:
        ConfigError: no result.
    """
    lines = dict(lineages or {})

    def new_to(me: str) -> Collection[str]:
        return held_out.get(me, ()) if isinstance(held_out, Mapping) else held_out

    cells: dict[tuple[str, str], _Mean] = defaultdict(_Mean)
    strangers: dict[str, _Mean] = defaultdict(_Mean)
    unseen: dict[str, _Mean] = defaultdict(_Mean)
    for result in results:
        present = sorted(set(result.seats))
        if len(present) == 1:
            value = (1 + float(np.mean(result.outcomes))) / 2
            cells[present[0], present[0]].add(value, result.cluster)
        for me in present if len(present) > 1 else ():
            value = _mean_return(result, {me})
            others = [name for name in present if name != me]
            for other in others:
                cells[me, other].add(value, result.cluster)
            if all(lines.get(o, o) != lines.get(me, me) for o in others):
                strangers[me].add(value, result.cluster)
                if set(new_to(me)).issuperset(others):
                    unseen[me].add(value, result.cluster)
    if not cells:
        raise ConfigError("no result: play evaluation matches first.")
    rows = [
        _partner(name, cells, strangers, unseen, lines) for name in sorted({a for a, _ in cells})
    ]
    rows.sort(key=lambda r: -r.cross_play.estimate if r.cross_play else math.inf)
    n = len(rows)
    mean_NN, width_NN = np.full((n, n), np.nan), np.full((n, n), np.nan)
    games_NN = np.zeros((n, n), dtype=np.int64)
    for i, rating in enumerate(rows):
        for j, partner in enumerate(rows):
            if (rating.agent, partner.agent) in cells:
                cell = cells[rating.agent, partner.agent]
                found = cell.interval()
                mean_NN[i, j], width_NN[i, j] = found.estimate, found.half_width
                games_NN[i, j] = len(cell.values)
    return CrossPlay(
        ratings=tuple(rows), mean_NN=mean_NN, half_width_NN=width_NN, games_NN=games_NN
    )


def focal_returns(results: Iterable[SeatedResult], *, one_seat: bool = False) -> list[FocalReturn]:
    """Per agent and number of seats it held: its return and the others'. Sorted by agent and seats.

    With few seats the agent is a visitor among others, with most of them a resident.

    Args:
        results: played matches.
        one_seat: count an agent only where it holds one seat, as copies of it could agree on a code
            (`srl_envs.registry.EnvSpec.strangers`).
    """
    own: dict[tuple[str, int, int], _Mean] = defaultdict(_Mean)
    others: dict[tuple[str, int, int], _Mean] = defaultdict(_Mean)
    for result in results:
        for agent in set(result.seats):
            key = (agent, result.seats.count(agent), len(result.seats))
            if one_seat and key[1] > 1:
                continue
            own[key].add(_mean_return(result, {agent}), result.cluster)
            if rest := set(result.seats) - {agent}:
                others[key].add(_mean_return(result, rest), result.cluster)
    return [
        FocalReturn(
            agent=agent,
            focal_seats=held,
            seats=seats,
            focal=own[agent, held, seats].interval(),
            background=others[agent, held, seats].interval() if held < seats else None,
            games=len(own[agent, held, seats].values),
        )
        for agent, held, seats in sorted(own)
    ]


def compared_returns(
    results: Iterable[SeatedResult],
    lineages: Mapping[str, str] | None = None,
    references: Collection[str] = (),
    *,
    one_seat: bool = False,
) -> Pairs:
    """Results between agents of a game without winners: who earned more in the same place.

    Two agents are compared where all but themselves is equal: the start state, the seats that they hold, and
    who sits in the others. The higher mean return wins, equal ones tie. Tables that an agent filled by
    itself, or with its own lineage, compare nothing.

    Args:
        results: played matches; ``cluster`` names the start state, which no two start states share.
        lineages: agent -> training run; by default each agent is its own.
        references: where given, only they are company, and each pair holds one of them: no other agent's
            results move an agent's number. Else in each place an agent is compared with at most
            `MOST_COMPARED` others, with other ones in the next place.
        one_seat: as in `focal_returns`.
    """
    lines, known = dict(lineages or {}), frozenset(references)
    places: dict[tuple[str, tuple[str, ...]], dict[str, float]] = defaultdict(dict)
    for result in results:
        present = set(result.seats)
        for me in present:
            others = present - {me}
            own = any(lines.get(other, other) == lines.get(me, me) for other in others)
            if not others or own or (known and not known.issuperset(others)):
                continue
            if one_seat and result.seats.count(me) > 1:
                continue
            seats = tuple("" if name == me else name for name in result.seats)
            places[result.cluster, seats][me] = _mean_return(result, {me})
    rows = []
    for turn, ((start, _), returns) in enumerate(sorted(places.items())):
        names = sorted(returns)
        wanted = combinations(names, 2) if known else _some_pairs(names, turn)
        for one, other in wanted:
            if known.isdisjoint((one, other)) and known:
                continue
            gap = returns[one] - returns[other]
            rows.append((one, other, 0.5 if abs(gap) < _TIE else float(gap > 0), start))
    return Pairs.of(rows)


def _some_pairs(names: Sequence[str], turn: int) -> list[tuple[str, str]]:
    """All pairs of a few names; of many each name with the next ones on a circle, by steps that turn."""
    n = len(names)
    if n <= MOST_COMPARED + 1:
        return list(combinations(names, 2))
    steps = [1 + (turn * MOST_COMPARED // 2 + k) % (n // 2) for k in range(MOST_COMPARED // 2)]
    pairs = {(min(i, j), max(i, j)) for d in steps for i in range(n) for j in [(i + d) % n]}
    return [(names[i], names[j]) for i, j in sorted(pairs)]


def _mean_return(result: SeatedResult, agents: set[str]) -> float:
    """Mean return of the seats that these agents hold."""
    held = [o for name, o in zip(result.seats, result.outcomes, strict=True) if name in agents]
    return (1 + float(np.mean(held))) / 2


def _partner(
    name: str,
    cells: Mapping[tuple[str, str], _Mean],
    strangers: Mapping[str, _Mean],
    unseen: Mapping[str, _Mean],
    lines: Mapping[str, str],
) -> PartnerRating:
    own = cells[name, name].interval() if (name, name) in cells else None
    means = {
        other: float(np.mean(cell.values))
        for (me, other), cell in cells.items()
        if me == name and lines.get(other, other) != lines.get(name, name)
    }
    return PartnerRating(
        agent=name,
        cross_play=strangers[name].interval() if name in strangers else None,
        held_out=unseen[name].interval() if name in unseen else None,
        self_play=own,
        worst_partner=min(means, key=lambda o: (means[o], o)) if means else None,
    )
