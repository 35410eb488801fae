"""A bundle's claim: rows of ratings as a pure function of its protocol and matches."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from leaderboards.protocol import BOT, HELD_OUT, Protocol
from srl_agents.league.ratings.intervals import Interval, paired_interval
from srl_agents.league.ratings.pairs import Pairs
from srl_agents.league.ratings.separate import rate_separately
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.errors import ConfigError

TOLERANCE = 2e-4
"""Largest difference between a claimed number and ours: solvers of linear algebra round differently."""
MOST_NUMBER = 1e9
"""Above it a number comes from a fit without data, such as an interval over one seed."""
_DIGITS = 4
SCHEMAS = (1, 2)
"""Of ``ratings.json``; the last one is written. In 1, Elo intervals follow an earlier rule."""
_BY_INTERVALS = frozenset(
    {"half_width", "low", "high", "best_rank", "worst_rank", "provisional", "resolution"}
)
"""What follows from the rule of Elo intervals; no other measure has these names."""

Matches = Sequence[tuple[MatchSpec, MatchResult]]
Row = dict[str, Any]


def ratings(protocol: Protocol, matches: Matches) -> dict[str, Any]:
    """The content of ``ratings.json``.

    An agent's row counts its own matches with references, and no other entrant's.

    Args:
        protocol: determines how rows are computed.
        matches: all of the schedule, none void.
    """
    rules: dict[str, Callable[[Protocol, Matches], dict[str, Any]]] = {
        "elo": _by_elo,
        "cross_play": _by_cross_play,
        "focal_return": _by_focal_return,
    }
    found = rules[protocol.rating.measure](protocol, matches)
    return {"schema": SCHEMAS[-1], "measure": protocol.rating.measure, **found}


def wrong_claim(claimed: dict[str, Any], true: dict[str, Any]) -> str:
    """Where ``ratings.json`` differs from what its matches give; empty where it does not.

    In an earlier schema, Elo intervals and the ranks that they leave open are not compared. Boards compute
    theirs from the matches and show none of a file.
    """
    if claimed["schema"] == SCHEMAS[-1]:
        return disagreement(claimed, true)
    return disagreement(_by_results(claimed), {**_by_results(true), "schema": claimed["schema"]})


def _by_results(found: dict[str, Any]) -> dict[str, Any]:
    """The content of ``ratings.json`` without what follows from intervals."""
    kept = {name: value for name, value in found.items() if name not in _BY_INTERVALS}
    rows = [{k: v for k, v in row.items() if k not in _BY_INTERVALS} for row in found["rows"]]
    return {**kept, "rows": rows}


def disagreement(claimed: Any, true: Any, place: str = "ratings.json") -> str:
    """Where two values of JSON first differ by more than rounding; empty where they do not."""
    if isinstance(claimed, dict) and isinstance(true, dict):
        if claimed.keys() != true.keys():
            return f"{place} has the keys {sorted(claimed)}, not {sorted(true)}"
        parts = [(claimed[key], true[key], f"{place}: {key}") for key in true]
    elif isinstance(claimed, list) and isinstance(true, list):
        if len(claimed) != len(true):
            return f"{place} has {len(claimed)} entries, not {len(true)}"
        pairs = enumerate(zip(claimed, true, strict=True))
        parts = [(one, other, f"{place}: {_name(other, k)}") for k, (one, other) in pairs]
    else:
        same = _is_number(claimed) and _is_number(true) and abs(claimed - true) <= TOLERANCE
        same = same or (type(claimed) is type(true) and claimed == true)
        return "" if same else f"{place} is claimed as {claimed!r} and is {true!r}"
    return next((found for part in parts if (found := disagreement(*part))), "")


def _by_elo(protocol: Protocol, matches: Matches) -> dict[str, Any]:
    rows = []
    for spec, result in matches:
        for i, j in combinations(range(len(spec.seats)), 2):
            if spec.seats[i] != spec.seats[j]:
                difference = result.outcomes[i] - result.outcomes[j]
                points = 0.5 if abs(difference) < 1e-9 else float(difference > 0)
                rows.append((spec.seats[i], spec.seats[j], points, spec.cluster))
    anchors = [BOT + name for name in protocol.anchors]
    table = rate_separately(
        Pairs.of(rows), protocol.references, anchors=anchors, ridge=protocol.rating.ridge
    )
    order = sorted(table.ratings, key=lambda r: (-_rounded(r.elo), r.agent))
    return {
        "anchors": list(table.anchors),
        "ridge": table.ridge,
        "tie_nu": _number(table.tie_nu),
        "resolution": _number(table.resolution),
        "rows": [
            {
                "agent": r.agent,
                "elo": _number(r.elo),
                "half_width": _number(r.half_width),
                "low": _number(r.low),
                "high": _number(r.high),
                "best_rank": r.best_rank,
                "worst_rank": r.worst_rank,
                "wins": r.wins,
                "draws": r.draws,
                "losses": r.losses,
                "seeds": r.clusters,
                "field_score": _number(r.field_score),
                "provisional": list(r.provisional),
            }
            for r in order
        ],
    }


def _by_cross_play(protocol: Protocol, matches: Matches) -> dict[str, Any]:
    rows = []
    for agent in _agents(matches):
        partners: dict[str, list[float]] = defaultdict(list)
        shared, unseen, own = _Returns(), _Returns(), _Returns()
        for spec, result in matches:
            if agent not in spec.seats:
                continue
            value = _mean_return(spec, result, {agent})
            others = set(spec.seats) - {agent}
            if not others:
                own.add(value, spec.cluster)
            elif others <= set(protocol.references):
                shared.add(value, spec.cluster)
                partners[min(others)].append(value)
                if others == {HELD_OUT}:
                    unseen.add(value, spec.cluster)
        met, self_play = shared.interval(), own.interval()
        kept = unseen.interval() if unseen.values else None
        rows.append(
            {
                "agent": agent,
                **_interval("cross_play", met),
                **_interval("held_out", kept),
                **_interval("self_play", self_play),
                "gap": _number(self_play.estimate - met.estimate),
                "worst_partner": min(partners, key=lambda p: (round(_mean(partners[p]), 9), p)),
                "matches": len(shared.values) + len(own.values),
            }
        )
    return {"rows": sorted(rows, key=lambda row: (-row["cross_play"], row["agent"]))}


def _by_focal_return(protocol: Protocol, matches: Matches) -> dict[str, Any]:
    rows = []
    for agent in _agents(matches):
        one_seat = (protocol.seats,) if protocol.self_play else ()
        scenarios = {held: (_Returns(), _Returns()) for held in (*protocol.focal_seats, *one_seat)}
        for spec, result in matches:
            others, held = set(spec.seats) - {agent}, spec.seats.count(agent)
            if held in scenarios and others <= set(protocol.references):
                mine, rest = scenarios[held]
                mine.add(_mean_return(spec, result, {agent}), spec.cluster)
                if others:
                    rest.add(_mean_return(spec, result, others), spec.cluster)
        met = _Returns.together([scenarios[held][0] for held in protocol.focal_seats])
        rows.append(
            {
                "agent": agent,
                **_interval("focal_return", met.interval()),
                "scenarios": [
                    {
                        "seats_held": held,
                        **_interval("own", mine.interval()),
                        "others": _number(_mean(rest.values)) if rest.values else None,
                    }
                    for held, (mine, rest) in scenarios.items()
                ],
                "matches": sum(len(mine.values) for mine, _ in scenarios.values()),
            }
        )
    return {"rows": sorted(rows, key=lambda row: (-row["focal_return"], row["agent"]))}


class _Returns:
    """Returns in [0, 1] with the clusters that they share their randomness with."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.clusters: list[str] = []

    def add(self, value: float, cluster: str) -> None:
        self.values.append(value)
        self.clusters.append(cluster)

    @classmethod
    def together(cls, parts: Iterable[_Returns]) -> _Returns:
        """All of them; scenarios weigh alike because a schedule gives them equally many matches."""
        whole = cls()
        for part in parts:
            whole.values += part.values
            whole.clusters += part.clusters
        return whole

    def interval(self) -> Interval:
        centred = 2 * np.array(self.values) - 1  # `paired_interval` takes values in [-1, 1]
        found = paired_interval(centred, np.array(self.clusters))
        return Interval(
            (1 + found.estimate) / 2, (1 + found.low) / 2, (1 + found.high) / 2, found.clusters
        )


def _agents(matches: Matches) -> list[str]:
    return sorted({name for spec, _ in matches for name in spec.seats})


def _mean_return(spec: MatchSpec, result: MatchResult, agents: set[str]) -> float:
    """Mean over the seats that these agents hold of (1 + outcome) / 2."""
    held = [o for name, o in zip(spec.seats, result.outcomes, strict=True) if name in agents]
    return (1 + _mean(held)) / 2


def _mean(values: Sequence[float]) -> float:
    if not values:
        raise ConfigError("no match to rate.")
    return math.fsum(values) / len(values)


def _interval(name: str, found: Interval | None) -> Row:
    if found is None:
        return {name: None, f"{name}_half_width": None}
    return {name: _number(found.estimate), f"{name}_half_width": _number(found.half_width)}


def _number(value: float) -> float | None:
    """A number, rounded; None for one that is not finite or too large to be meaningful."""
    return _rounded(value) if abs(value) < MOST_NUMBER else None


def _rounded(value: float) -> float:
    return round(float(value), _DIGITS) + 0.0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _name(value: Any, number: int) -> str:
    """How an entry of a list is called: rows by their agent."""
    return str(value["agent"]) if isinstance(value, dict) and "agent" in value else str(number)
