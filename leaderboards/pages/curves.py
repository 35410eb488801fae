"""Learning curves of a lineage: ratings by training step, and each version against its own start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from leaderboards.pages.matrices import among
from leaderboards.pages.standings import finite
from srl_agents.league.ratings.pairs import Pairs, head_to_head
from srl_agents.league.ratings.tables import Interval, RatingTable
from srl_agents.league.store.history import AgentVersion

VERSIONS_COMPARED = 60
"""Versions that are compared with their start, the best of them."""


def starts(agents: dict[str, AgentVersion], rated: Sequence[str]) -> dict[str, str]:
    """For each rated version that was trained: the oldest rated agent it descends from."""
    known, found = set(rated), {}
    for name in rated:
        line, parent = [name], agents[name].parent
        while parent in agents and parent not in line:  # a cycle would be a user's mistake
            line.append(parent)
            parent = agents[parent].parent
        ancestors = [a for a in line[1:] if a in known]
        if ancestors:
            found[name] = ancestors[-1]
    return found


def curves(agents: dict[str, AgentVersion], table: RatingTable) -> list[dict[str, Any]]:
    """Rating by training step, one curve per lineage, from its start on."""
    rated = {rating.agent: rating for rating in table.ratings}
    lineages: dict[str, set[str]] = defaultdict(set)
    for name, start in starts(agents, list(rated)).items():
        lineages[agents[name].lineage] |= {name, start}
    return [
        {
            "lineage": lineage,
            "points": [
                {
                    "agent": name,
                    "step": agents[name].step,
                    "elo": finite(rated[name].elo),
                    "low": finite(rated[name].low),
                    "high": finite(rated[name].high),
                }
                for name in sorted(names, key=lambda n: (agents[n].step, n))
            ],
        }
        for lineage, names in sorted(lineages.items())
        if len({agents[n].step for n in names}) > 1
    ]


def versus_start(
    pairs: Pairs, order: Sequence[str], agents: dict[str, AgentVersion]
) -> list[dict[str, Any]]:
    """Points per game of trained versions against their own start, from only their own games."""
    first = starts(agents, order)
    rows = []
    for name in [name for name in order if name in first][:VERSIONS_COMPARED]:
        between = among(pairs, {name, first[name]})
        if between.a_M.size == 0:
            continue
        interval = head_to_head(between, name, first[name])
        rows.append(
            {
                "agent": name,
                "start": first[name],
                "games": int(between.a_M.size),
                "clusters": interval.clusters,
                "difference": finite(interval.estimate, 4),
                "half_width": finite(interval.half_width, 4),
                "verdict": _verdict(interval),
            }
        )
    return rows


def _verdict(interval: Interval) -> str:
    if interval.low > 0:
        return "better"
    return "worse" if interval.high < 0 else "not resolved"
