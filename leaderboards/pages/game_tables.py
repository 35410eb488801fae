"""One game's ratings on the scale that all games share, as played and given clean play on both sides.

Games with winners have their own table. In cooperative and mixed games agents are compared by what they
earned in the same place (`compared_returns`), so that every game orders its agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leaderboards.pages.standings import DENSE_AGENTS, Scope, Standings
from srl_agents.league.ratings.focal_returns import SeatedResult, compared_returns
from srl_agents.league.ratings.separate import rate_separately
from srl_agents.league.ratings.tables import RatingTable, rate
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec
from srl_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class GameTables:
    """Two tables of one game."""

    as_played: RatingTable | None = None
    """None where no two agents were compared, or the field is too large for one table."""
    clean: RatingTable | None = None
    """From matches that no forfeit ended."""


def game_tables(
    store: LeagueStore,
    scope: Scope,
    found: Standings,
    agents: Mapping[str, AgentVersion],
    *,
    forfeits: bool,
) -> GameTables:
    """The tables of a game.

    Args:
        store: the matches.
        scope: which of them.
        found: the game's rows.
        agents: of the store, by id.
        forfeits: whether any match ended by one.
    """
    if scope.mode == "competitive":
        clean = found.clean if forfeits else found.table
        return GameTables(as_played=found.table, clean=clean)
    if len(found.rows) > DENSE_AGENTS:
        return GameTables()
    matches = [
        match
        for match in store.matches(
            scope.env_id, "eval", "eval", scope.schedule, options=scope.options
        )
        if match[1].termination != "void"
    ]
    table = _compared(matches, scope, agents)
    if not forfeits:
        return GameTables(as_played=table, clean=table)
    rest = [match for match in matches if match[1].termination != "forfeit"]
    return GameTables(as_played=table, clean=_compared(rest, scope, agents))


def _compared(
    matches: list[tuple[MatchSpec, MatchResult]],
    scope: Scope,
    agents: Mapping[str, AgentVersion],
) -> RatingTable | None:
    anchors = sorted(name for name, agent in agents.items() if agent.role == "anchor")
    pairs = compared_returns(
        [
            SeatedResult(spec.seats, result.outcomes, f"seed {spec.seed}")
            for spec, result in matches
        ],
        {name: agent.lineage for name, agent in agents.items()},
        scope.references,
        one_seat=scope.one_seat,
    )
    if not pairs.a_M.size:
        return None
    if not scope.references:
        return rate(pairs, anchors=anchors)
    try:
        return rate_separately(pairs, scope.references, anchors=anchors)
    except ConfigError:  # no two references sat in the same place
        return None
