"""From a league store to a leaderboard: `board_data` computes, `write_site` writes.

Only played evaluation matches count. Training matches, gate matches and void ones never move a
published number: training opponents are chosen adaptively, and a gate's winner was selected on
its own matches.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaderboards.pages.render import page
from srl_agents.league.ratings import (
    Interval,
    Pairs,
    Rating,
    RatingTable,
    head_to_head,
    rate,
    win_matrix,
)
from srl_agents.league.store import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec, canonical_json
from srl_envs.errors import StoreError

MATRIX_AGENTS = 60
"""The win matrix shows at most this many agents, the best first."""

Played = Sequence[tuple[MatchSpec, MatchResult]]


@dataclass(slots=True)
class Conduct:
    """How one agent behaved, summed over its seats."""

    matches: int = 0
    forfeits: int = 0
    invalid: int = 0
    replies: float = 0.0


def board_data(
    store: LeagueStore, command: str = "", schedule: str | None = None
) -> dict[str, Any]:
    """Everything that the page shows, as JSON values; a function of the store's content.

    Args:
        store: open for reading or writing.
        command: the command line that builds the page again.
        schedule: count the matches of this schedule only; all evaluation matches by default.
    """
    with store.snapshot():
        agents = {agent.agent_id: agent for agent in store.agents()}
        boards = [_board(store, agents, *group, schedule) for group in store.environments()]
        digest = store.content_digest()
    boards.sort(key=lambda board: not board["agents"])  # those with a table first
    return {"schema": 1, "command": command, "store_sha256": digest, "boards": boards}


def write_site(data: dict[str, Any], out: Path) -> list[Path]:
    """Write ``index.html``, which holds everything it needs, and the same numbers as ``data.json``.

    Raises:
        StoreError: the folder cannot be written.
    """
    files = {
        "index.html": page(data),
        "data.json": json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n",
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{out} cannot be written: {error.strerror}.") from error
    return [out / name for name in files]


def _board(
    store: LeagueStore,
    agents: dict[str, AgentVersion],
    env_id: str,
    options: dict[str, Any],
    schedule: str | None,
) -> dict[str, Any]:
    evaluation = store.matches(env_id, "eval", "eval", schedule, options=options)
    played = [m for m in evaluation if m[1].termination != "void"]
    pairs = store.pairs(env_id, options=options, schedule=schedule)
    board = {
        "env_id": env_id,
        "options": canonical_json(options) if options else "",
        "schedule": schedule or "",
        "matches": len(played),
        "void": len(evaluation) - len(played),
        "not_rated": store.count(env_id, options=options) - len(evaluation),
        "agents": [],
        "matrix": None,
        "curves": [],
        "versus_start": [],
    }
    if pairs.a_M.size == 0:
        return board
    anchors = [name for name, agent in agents.items() if agent.role == "anchor"]
    table = rate(pairs, anchors=anchors)
    anchored = bool({*anchors} & {*pairs.agents})
    conduct = conduct_by_agent(played)
    starts = _starts(agents, pairs.agents)
    return board | {
        "clusters": table.clusters,
        "games": table.games,
        "resolution": _number(table.resolution),
        "tie_nu": _number(table.tie_nu, 4),
        "ridge": _number(table.ridge, 4),
        "anchors": list(table.anchors) if anchored else [],
        "agents": [_row(r, agents[r.agent], conduct[r.agent]) for r in table.ratings],
        "matrix": _matrix(pairs, table.agents[:MATRIX_AGENTS]),
        "curves": _history(store, agents, env_id, options) if schedule else _curves(agents, table),
        "versus_start": _versus_start(pairs, table, starts),
    }


def conduct_by_agent(played: Played) -> dict[str, Conduct]:
    """Matches, forfeits and invalid replies per agent.

    A result counts replies per match, not per seat. Seats take turns, so the valid replies are
    split evenly; the invalid ones are known per seat.
    """
    total: dict[str, Conduct] = defaultdict(Conduct)
    for spec, result in played:
        valid_each = max(0, result.turns - sum(result.invalid_replies)) / len(spec.seats)
        for seat, agent in enumerate(spec.seats):
            entry = total[agent]
            entry.matches += 1
            entry.forfeits += seat in result.forfeited
            entry.invalid += result.invalid_replies[seat]
            entry.replies += valid_each + result.invalid_replies[seat]
    return total


def _row(rating: Rating, agent: AgentVersion, conduct: Conduct) -> dict[str, Any]:
    return {
        "agent": rating.agent,
        "lineage": agent.lineage,
        "role": agent.role,
        "step": agent.step,
        "best_rank": rating.best_rank,
        "worst_rank": rating.worst_rank,
        "elo": _number(rating.elo),
        "half_width": _number(rating.half_width),
        "games": rating.games,
        "wins": rating.wins,
        "draws": rating.draws,
        "losses": rating.losses,
        "clusters": rating.clusters,
        "field_score": _number(rating.field_score, 4),
        "invalid_share": _share(conduct.invalid, conduct.replies),
        "forfeit_share": _share(conduct.forfeits, conduct.matches),
        "provisional": list(rating.provisional),
    }


def _matrix(pairs: Pairs, order: Sequence[str]) -> dict[str, Any]:
    matrix = win_matrix(pairs, order)
    return {
        "agents": list(matrix.agents),
        "score": [[_number(x, 4) for x in row] for row in matrix.score_NN.tolist()],
        "low": [[_number(x, 4) for x in row] for row in matrix.low_NN.tolist()],
        "high": [[_number(x, 4) for x in row] for row in matrix.high_NN.tolist()],
        "games": matrix.games_NN.tolist(),
    }


def _starts(agents: dict[str, AgentVersion], rated: Sequence[str]) -> dict[str, str]:
    """For each rated version that was trained: the oldest rated agent it descends from."""
    starts = {}
    for name in rated:
        line, parent = [name], agents[name].parent
        while parent in agents and parent not in line:  # a cycle would be a user's mistake
            line.append(parent)
            parent = agents[parent].parent
        ancestors = [a for a in line[1:] if a in rated]
        if ancestors:
            starts[name] = ancestors[-1]
    return starts


def _history(
    store: LeagueStore, agents: dict[str, AgentVersion], env_id: str, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Curves over all evaluation matches: a table of one schedule knows few versions."""
    anchors = [name for name, agent in agents.items() if agent.role == "anchor"]
    return _curves(agents, rate(store.pairs(env_id, options=options), anchors=anchors))


def _curves(agents: dict[str, AgentVersion], table: RatingTable) -> list[dict[str, Any]]:
    """Rating by training step, one curve per lineage, from its start on."""
    starts = _starts(agents, table.agents)
    lineages: dict[str, set[str]] = defaultdict(set)
    for name, start in starts.items():
        lineages[agents[name].lineage] |= {name, start}
    return [
        {
            "lineage": lineage,
            "points": [
                {
                    "agent": name,
                    "step": agents[name].step,
                    "elo": _number(table[name].elo),
                    "half_width": _number(table[name].half_width),
                }
                for name in sorted(names, key=lambda n: (agents[n].step, n))
            ],
        }
        for lineage, names in sorted(lineages.items())
        if len({agents[n].step for n in names}) > 1
    ]


def _versus_start(pairs: Pairs, table: RatingTable, starts: dict[str, str]) -> list[dict[str, Any]]:
    """Points per game of trained versions against their own start, from their own games alone."""
    matrix = win_matrix(pairs)
    place = {name: k for k, name in enumerate(matrix.agents)}
    rows = []
    for name in table.agents:
        games = int(matrix.games_NN[place[name], place[starts[name]]]) if name in starts else 0
        if games:
            interval = head_to_head(pairs, name, starts[name])
            rows.append(
                {
                    "agent": name,
                    "start": starts[name],
                    "games": games,
                    "clusters": interval.clusters,
                    "difference": _number(interval.estimate, 4),
                    "half_width": _number(interval.half_width, 4),
                    "verdict": _verdict(interval),
                }
            )
    return rows


def _verdict(interval: Interval) -> str:
    if interval.low > 0:
        return "better"
    return "worse" if interval.high < 0 else "not resolved"


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


def _number(value: float, digits: int = 2) -> float | None:
    """A finite number, rounded; None for what JSON cannot say."""
    return round(float(value), digits) + 0.0 if math.isfinite(value) else None
