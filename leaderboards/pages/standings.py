"""The ranking of one environment: one row per agent, by the measure of the game's mode.

Competitive games rank by rating, cooperative ones by the return with strangers, mixed ones by what an
agent earned per seat it held, averaged over how many seats those were. All have a value, the ends of its
95 % interval, the distance to the farther one and a set of ranks that the intervals leave open.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from srl_agents.league.ratings.focal_returns import (
    CrossPlay,
    FocalReturn,
    cross_play,
    focal_returns,
)
from srl_agents.league.ratings.intervals import Floats, Interval, Ints, paired_interval
from srl_agents.league.ratings.large_field import rate_large
from srl_agents.league.ratings.pairs import Pairs
from srl_agents.league.ratings.separate import rate_separately, separate_ratings
from srl_agents.league.ratings.tables import Rating, RatingTable, rate, rate_teams
from srl_agents.league.ratings.transfer import BOT
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import canonical_json
from srl_envs.errors import ConfigError

DENSE_AGENTS = 1500
"""Fields above this are rated without N x N matrices."""
PROVISIONAL_RETURN = 0.1
"""Half-width of a return above which a row is provisional."""
PROVISIONAL_CLUSTERS = 30

METRICS: dict[str, dict[str, Any]] = {
    "competitive": {"name": "Rating", "unit": "Elo", "digits": 0, "signed": True},
    "cooperative": {"name": "Cross-play", "unit": "return", "digits": 3, "signed": False},
    "mixed": {"name": "Focal return", "unit": "return", "digits": 3, "signed": False},
}
"""What each mode ranks by, and how the page writes it."""

Row = dict[str, Any]


@dataclass(slots=True)
class Conduct:
    """How one agent behaved, summed over its seats."""

    matches: int = 0
    forfeits: int = 0
    others_forfeits: int = 0
    """Matches that another agent's forfeit ended."""
    clean: int = 0
    """Matches without a forfeit."""
    invalid: int = 0
    replies: float = 0.0
    tokens: int = 0
    by_seat: dict[str, list[float]] = field(default_factory=dict)
    """Start state -> sum of outcomes and seats held, in the first seat and in the others."""

    @property
    def first_seat(self) -> Interval | None:
        """Outcome in the first seat above that in the others, halved, over start states that have both."""
        gaps = [(a / n - b / m) / 2 for a, n, b, m in self.by_seat.values() if n and m]
        if len(gaps) < 2:
            return None
        return paired_interval(np.array(gaps), np.arange(len(gaps)))


@dataclass(slots=True)
class Played:
    """What the evaluation matches of one environment were, without their results."""

    matches: int = 0
    void: int = 0
    conduct: dict[str, Conduct] = field(default_factory=lambda: defaultdict(Conduct))


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """The matches that one board is made of."""

    env_id: str
    options: dict[str, Any]
    schedule: str | None
    """Name of the schedule; None for every evaluation schedule."""
    mode: str
    references: frozenset[str] = frozenset()
    """Agents that a protocol gives. Their rows come from the matches among themselves, every other row
    from matches with them: no agent's results move another's row. Empty: everybody counts for all."""
    one_seat: bool = False
    """Whether an agent counts only where it holds one seat (`srl_envs.registry.EnvSpec.strangers`)."""

    def concerns(self, agent: str, seats: Collection[str]) -> bool:
        """Whether a match of these seats counts for this agent's row."""
        return not self.references or self.references.issuperset(set(seats) - {agent})

    def pairs(self, store: LeagueStore, *, errors: bool = True) -> Pairs:
        """Results between agents; see `StoreReader.pairs`."""
        return store.pairs(self.env_id, options=self.options, schedule=self.schedule, errors=errors)


@dataclass(frozen=True, kw_only=True, slots=True)
class Standings:
    """Rows from best to worst, and what they were computed from."""

    rows: list[Row]
    clusters: int
    resolution: float
    """Smallest difference between two agents that counts as one, in the median; NaN if unknown."""
    table: RatingTable | None
    """None where the mode ranks by returns, or the field is too large for one."""
    clean: RatingTable | None = None
    """The same without matches that a forfeit ended; None where that is none, or all."""
    partners: CrossPlay | None = None
    focal: Sequence[FocalReturn] = ()


def played(store: LeagueStore, scope: Scope) -> Played:
    """Count matches and what agents did in them, one match at a time.

    A result counts replies per match, not per seat. Seats take turns, so the valid replies are
    split evenly; the invalid ones are known per seat.
    """
    columns = (
        "match_no", "termination", "turns", "agent_id", "invalid", "forfeited", "tokens", "outcome", "seed",
        "options_json", "purpose", "schedule",
    )  # fmt: skip
    wanted = canonical_json(scope.options)
    total = Played()
    rows = store.seat_rows(scope.env_id, "eval", columns)
    for _, group in groupby(rows, key=itemgetter(0)):
        seats = list(group)
        _, termination, turns, *_, options, purpose, schedule = seats[0]
        if options != wanted or purpose != "eval" or scope.schedule not in (None, schedule):
            continue
        if termination == "void":
            total.void += 1
            continue
        total.matches += 1
        names = [seat[3] for seat in seats]
        gave_up = {seat[3] for seat in seats if seat[5]}
        valid_each = max(0, turns - sum(seat[4] for seat in seats)) / len(seats)
        for place, seat in enumerate(seats):
            if not scope.concerns(seat[3], names):
                continue
            entry = total.conduct[seat[3]]
            entry.matches += 1
            entry.forfeits += seat[5]
            entry.others_forfeits += bool(gave_up - {seat[3]})
            entry.clean += not gave_up
            entry.tokens += seat[6]
            sums = entry.by_seat.setdefault(seat[8], [0.0, 0, 0.0, 0])
            sums[2 * (place > 0)] += seat[7]
            sums[2 * (place > 0) + 1] += 1
            entry.invalid += seat[4]
            entry.replies += valid_each + seat[4]
    return total


def standings(
    store: LeagueStore, scope: Scope, pairs: Pairs, agents: Mapping[str, AgentVersion]
) -> Standings | None:
    """Rank the agents of a board; None while there is nothing to rank."""
    if scope.mode == "competitive":
        return _by_rating(store, scope, pairs, agents)
    seated = store.seated(scope.env_id, options=scope.options, schedule=scope.schedule)
    if not seated:
        return None
    clusters = len({result.cluster for result in seated})
    among = [result for result in seated if scope.concerns("", result.seats)]
    if scope.mode == "cooperative":
        lineages = {name: agent.lineage for name, agent in agents.items()}
        held_out = [name for name, agent in agents.items() if agent.role == "heldout"]
        partners = cross_play(seated, lineages, held_out)
        rows = [_partner_row(k, partners) for k in range(len(partners.ratings))]
        if scope.references:
            fixed = cross_play(among, lineages, held_out)
            rows = [
                *(_partner_row(k, fixed) for k in range(len(fixed.ratings))),
                *(row for row in rows if row["agent"] not in scope.references),
            ]
        return _by_return(rows, clusters, partners=partners)
    focal = focal_returns(seated, one_seat=scope.one_seat)
    if scope.references:
        others = [found for found in focal if found.agent not in scope.references]
        fixed_rows = focal_returns(among, one_seat=scope.one_seat)
        focal = sorted([*fixed_rows, *others], key=lambda f: (f.agent, f.focal_seats))
    by_agent = [list(group) for _, group in groupby(focal, key=lambda found: found.agent)]
    return _by_return([_focal_row(group) for group in by_agent], clusters, focal=focal)


def _by_rating(
    store: LeagueStore, scope: Scope, pairs: Pairs, agents: Mapping[str, AgentVersion]
) -> Standings | None:
    if pairs.a_M.size == 0:
        return None
    anchors = [name for name, agent in agents.items() if agent.role == "anchor"]
    if scope.references:
        return _by_separate_ratings(store, scope, pairs, anchors)
    if len(pairs.agents) > DENSE_AGENTS:
        large = rate_large(pairs, anchors=anchors)
        rows = [rating_row(rating) for rating in large.ratings]
        return Standings(
            rows=rows, clusters=large.clusters, resolution=large.resolution, table=None
        )
    teams = store.team_results(scope.env_id, options=scope.options, schedule=scope.schedule)
    table = rate_teams(teams, anchors=anchors) if teams else rate(pairs, anchors=anchors)
    rows, clean = [rating_row(rating) for rating in table.ratings], None
    if not teams:
        clean = _without_errors(pairs, scope.pairs(store, errors=False), anchors)
    _add_values(rows, clean)
    return Standings(
        rows=rows, clusters=table.clusters, resolution=table.resolution, table=table, clean=clean
    )


def _by_separate_ratings(
    store: LeagueStore, scope: Scope, pairs: Pairs, anchors: Sequence[str]
) -> Standings:
    """Competitive rows of a protocol; above `DENSE_AGENTS` ranks come only from the intervals."""
    references, clusters = scope.references, int(np.unique(pairs.cluster_M).size)
    if len(pairs.agents) > DENSE_AGENTS:
        fits = separate_ratings(pairs, references, anchors=anchors)
        base, _ = next(fits)
        ratings = [*base.ratings, *(table[name] for table, name in fits)]
        rows = sorted((rating_row(r) for r in ratings), key=lambda row: -row["value"])
        value_N, width_N = (np.array([r[key] for r in rows]) for key in ("value", "half_width"))
        best_N, worst_N = rank_sets(value_N, width_N)
        for row, best, worst in zip(rows, best_N.tolist(), worst_N.tolist(), strict=True):
            row["best_rank"], row["worst_rank"] = best, worst
        return Standings(rows=rows, clusters=clusters, resolution=math.nan, table=None)
    table = rate_separately(pairs, references, anchors=anchors)
    rows = [rating_row(rating) for rating in table.ratings]
    clean = _without_errors(pairs, scope.pairs(store, errors=False), anchors, references)
    _add_values(rows, clean)
    return Standings(
        rows=rows, clusters=clusters, resolution=table.resolution, table=table, clean=clean
    )


def rating_row(rating: Rating) -> Row:
    """The part of a row that comes from a fit."""
    return {
        "agent": rating.agent,
        "value": finite(rating.elo),
        "half_width": finite(rating.half_width),
        "low": finite(rating.low),
        "high": finite(rating.high),
        "best_rank": rating.best_rank,
        "worst_rank": rating.worst_rank,
        "games": rating.games,
        "wins": rating.wins,
        "draws": rating.draws,
        "losses": rating.losses,
        "clusters": rating.clusters,
        "field_score": finite(rating.field_score, 4),
        "provisional": list(rating.provisional),
    }


def _without_errors(
    pairs: Pairs, clean: Pairs, anchors: Sequence[str], references: Collection[str] = ()
) -> RatingTable | None:
    """The ratings without games that ended by forfeit; None where those are all, or none."""
    if clean.a_M.size in (0, pairs.a_M.size):
        return None
    if not references:
        return rate(clean, anchors=anchors)
    try:
        return rate_separately(clean, references, anchors=anchors)
    except ConfigError:  # every match among the references ended by an error
        return None


def _add_values(rows: list[Row], table: RatingTable | None) -> None:
    if table is None:
        return
    known = {rating.agent: rating.elo for rating in table.ratings}
    for row in rows:
        row["value_without_errors"] = finite(known[row["agent"]]) if row["agent"] in known else None


def _partner_row(k: int, partners: CrossPlay) -> Row:
    found = partners.ratings[k]
    met, own, unseen = found.cross_play, found.self_play, found.held_out
    doubts = [] if met else ["it met no agent of another lineage"]
    return {
        "agent": found.agent,
        "value": finite(met.estimate, 4) if met else None,
        "half_width": finite(met.half_width, 4) if met else None,
        "games": int(partners.games_NN[k].sum()),
        "clusters": met.clusters if met else 0,
        "provisional": doubts,
        "held_out": finite(unseen.estimate, 4) if unseen else None,
        "held_out_half_width": finite(unseen.half_width, 4) if unseen else None,
        "self_play": finite(own.estimate, 4) if own else None,
        "gap": finite(found.gap, 4),
        "worst_partner": found.worst_partner,
    }


def _focal_row(group: Sequence[FocalReturn]) -> Row:
    """The mean over numbers of seats held; holding all seats counts only without others. Half-widths are
    averaged too, which never makes the interval narrower than it is: the parts may share seeds."""
    games = sum(found.games for found in group)
    group = [found for found in group if found.focal_seats < found.seats] or group
    others = [found.background.estimate for found in group if found.background]
    return {
        "agent": group[0].agent,
        "value": finite(float(np.mean([found.focal.estimate for found in group])), 4),
        "half_width": finite(float(np.mean([found.focal.half_width for found in group])), 4),
        "games": games,
        "clusters": min(found.focal.clusters for found in group),
        "provisional": [],
        "others": finite(float(np.mean(others)), 4) if others else None,
    }


def _by_return(
    rows: list[Row],
    clusters: int,
    *,
    partners: CrossPlay | None = None,
    focal: Sequence[FocalReturn] = (),
) -> Standings:
    rows.sort(key=lambda row: (row["value"] is None, -(row["value"] or 0.0), row["agent"]))
    value_N = np.array([row["value"] or 0.0 for row in rows])  # unknown: the interval is all
    width_N = np.array([_width(row) for row in rows])
    best_N, worst_N = rank_sets(value_N, width_N)
    for row, best, worst in zip(rows, best_N.tolist(), worst_N.tolist(), strict=True):
        row["best_rank"], row["worst_rank"] = best, worst
        known = row["value"] is not None and row["half_width"] is not None
        row["low"] = finite(row["value"] - row["half_width"], 4) if known else None
        row["high"] = finite(row["value"] + row["half_width"], 4) if known else None
        if _width(row) > PROVISIONAL_RETURN:
            row["provisional"].append(f"interval wider than ±{PROVISIONAL_RETURN}")
        if row["clusters"] < PROVISIONAL_CLUSTERS:
            row["provisional"].append(f"fewer than {PROVISIONAL_CLUSTERS} seeds")
    known_N = width_N[np.isfinite(width_N)]
    return Standings(
        rows=rows,
        clusters=clusters,
        resolution=float(math.sqrt(2) * np.median(known_N)) if known_N.size else math.nan,
        table=None,
        partners=partners,
        focal=focal,
    )


def rank_sets(value_N: Floats, half_width_N: Floats) -> tuple[Ints, Ints]:
    """(N,) best and worst ranks: an agent is ahead of another when their intervals are apart."""
    low_N, high_N = value_N - half_width_N, value_N + half_width_N
    ahead_N = len(value_N) - np.searchsorted(np.sort(low_N), high_N, side="right")
    behind_N = np.searchsorted(np.sort(high_N), low_N, side="left")
    return 1 + ahead_N, len(value_N) - behind_N


def described(
    rows: Iterable[Row], agents: Mapping[str, AgentVersion], conduct: Mapping[str, Conduct]
) -> list[Row]:
    """The rows with who each agent is and how it behaved."""
    nothing = Conduct()
    return [
        {
            **row,
            "lineage": agents[row["agent"]].lineage,
            "role": agents[row["agent"]].role,
            "step": agents[row["agent"]].step,
            "contents": None if row["agent"].startswith(BOT) else agents[row["agent"]].spec,
            "invalid_share": _share(
                (did := conduct.get(row["agent"], nothing)).invalid, did.replies
            ),
            "forfeit_share": _share(did.forfeits, did.matches),
            "others_forfeit_share": _share(did.others_forfeits, did.matches),
            "clean_share": _share(did.clean, did.matches),
            "seat_games": did.matches,
            "first_seat": _pair(did.first_seat),
            "replies_per_game": _share(did.replies, did.matches),
            "tokens_per_game": _share(did.tokens, did.matches),
        }
        for row in rows
    ]


def _pair(interval: Interval | None) -> list[float | None] | None:
    return (
        None if interval is None else [finite(interval.estimate, 3), finite(interval.half_width, 3)]
    )


def finite(value: float, digits: int = 2) -> float | None:
    """A finite number, rounded; None for what JSON cannot say."""
    return round(float(value), digits) + 0.0 if math.isfinite(value) else None


def _width(row: Row) -> float:
    return math.inf if row["half_width"] is None else float(row["half_width"])


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None
