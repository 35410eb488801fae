"""The first screen: one rating over all games, legality and price beside it, and who stands where in each.

Bots have no rating over all games, because a name plays differently in each: they are anchors within a game.
Shares and prices are means over an agent's games, so that a game with many matches counts like any other.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leaderboards.pages.game_tables import GameTables
from leaderboards.pages.standings import finite
from srl_agents.league.ratings.overall import overall
from srl_agents.league.ratings.tables import Rating, RatingTable
from srl_agents.league.ratings.transfer import BOT

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RatedBoard:
    """One game: what its page shows, and its tables on the scale of all games."""

    data: dict[str, Any]
    """JSON values."""
    tables: GameTables


def all_games(boards: Sequence[RatedBoard]) -> dict[str, Any]:
    """What the first page shows of agents over all games, as JSON values.

    Returns:
        ``games``: slug and number of agents of each game with an entrant; ``agents``: models from the
        best on, those without a rating last; ``bots``: names and places of the bots.
    """
    shown = [board for board in boards if board.data["agents"]]
    tables = _by_game(shown, lambda found: found.as_played)
    together = overall(tables)
    given_clean = overall(_by_game(shown, lambda found: found.clean))
    rated = {} if together is None else {row.agent: row for row in together.ratings}
    rated_clean = {} if given_clean is None else {row.agent: row for row in given_clean.ratings}
    per_game = [{row["agent"]: row for row in board.data["agents"]} for board in shown]
    elo = [(_elo(board.tables.as_played), _elo(board.tables.clean)) for board in shown]
    rated_in = [{*table.agents} for table in tables.values() if _models(table) > 1]
    names = {name for rows in per_game for name in rows}
    models = [name for name in rated if name in names]
    models += sorted(name for name in names - rated.keys() if not name.startswith(BOT))
    joined = (
        None if together is None else all(math.isfinite(r.half_width) for r in together.ratings)
    )

    def places(name: str) -> list[list[Any] | None]:
        return [
            _place(rows.get(name), played.get(name), clean.get(name))
            for rows, (played, clean) in zip(per_game, elo, strict=True)
        ]

    return {
        "games": [{"slug": b.data["slug"], "agents": len(b.data["agents"])} for b in shown],
        "rated_games": len(rated_in),
        "joined": joined,
        "agents": [
            {
                "agent": name,
                "id": agent_key(name),
                **_rating(rated.get(name)),
                "clean": _clean(rated_clean.get(name)),
                **_together([rows[name] for rows in per_game if name in rows]),
                "rated_in": sum(name in known for known in rated_in),
                "places": places(name),
            }
            for name in models
        ],
        "bots": [
            {"agent": name, "places": places(name)}
            for name in sorted(
                (name for name in names if name.startswith(BOT)),
                key=lambda name: _commonest_and_best(name, per_game),
            )
        ],
    }


def _commonest_and_best(name: str, per_game: Sequence[Mapping[str, Row]]) -> tuple[int, float, str]:
    ranks = [rows[name]["best_rank"] for rows in per_game if name in rows]
    return -len(ranks), sum(ranks) / len(ranks), name


def agent_key(name: str) -> str:
    """Name of an agent's page, safe in a file's name and in an address."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _by_game(
    boards: Iterable[RatedBoard], choose: Callable[[GameTables], RatingTable | None]
) -> dict[str, RatingTable]:
    found = {board.data["slug"]: choose(board.tables) for board in boards}
    return {slug: table for slug, table in found.items() if table is not None}


def _models(table: RatingTable) -> int:
    return sum(not name.startswith(BOT) for name in table.agents)


def _elo(table: RatingTable | None) -> dict[str, tuple[float, float]]:
    """Agent -> (Elo, half-width) in one game."""
    return {} if table is None else {row.agent: (row.elo, row.half_width) for row in table.ratings}


def _place(row: Row | None, *elo: tuple[float, float] | None) -> list[Any] | None:
    """Of one game [best rank, worst rank, value, share of clean games, Elo, its half-width, Elo given clean
    play, its half-width]; None where the agent is not in it."""
    if row is None:
        return None
    pairs = [value for pair in elo for value in _rounded(pair)]
    return [row["best_rank"], row["worst_rank"], row["value"], row["clean_share"], *pairs]


def _rounded(pair: tuple[float, float] | None) -> list[float | None]:
    return [None, None] if pair is None else [finite(value, 0) for value in pair]


def _rating(row: Rating | None) -> dict[str, Any]:
    if row is None:
        unknown = dict.fromkeys(("value", "low", "high", "half_width", "best_rank", "worst_rank"))
        return {**unknown, "seeds": 0, "provisional": ["no other model entered its games"]}
    return {
        "value": finite(row.elo),
        "low": finite(row.low),
        "high": finite(row.high),
        "half_width": finite(row.half_width),
        "best_rank": row.best_rank,
        "worst_rank": row.worst_rank,
        "seeds": row.clusters,
        "provisional": list(row.provisional),
    }


def _clean(row: Rating | None) -> list[float | None] | None:
    """[Elo, half-width] given clean play on both sides."""
    return None if row is None else [finite(row.elo), finite(row.half_width)]


def _together(rows: Sequence[Row]) -> dict[str, Any]:
    """An agent's conduct and price over its games."""
    mistakes: Counter[str] = Counter()
    for row in rows:
        mistakes.update(row.get("mistakes") or {})
    entries = [row["entry"] for row in rows if row.get("entry")]
    costs = [_cost(row) for row in rows]
    currencies = sorted({currency for _, currency in costs if currency})
    one = len(currencies) == 1
    return {
        "entered": len(rows),
        "matches": sum(row["seat_games"] for row in rows),
        "base": next((row["base"] for row in rows if row.get("base")), None),
        "submitter": next((e["submitter"] for e in entries if e["submitter"]), ""),
        "endpoint": any(entry["endpoint"] for entry in entries),
        "level": min((row["level"] for row in rows if row.get("level")), default=None),
        **{
            key: _mean([row[key] for row in rows])
            for key in (
                "clean_share", "forfeit_share", "others_forfeit_share", "invalid_share", "replies_per_game",
            )
        },
        "mistakes": dict(sorted(mistakes.items())),
        "tokens_per_game": _mean([_tokens(row) for row in rows], 1),
        "cost_per_game": _mean([cost for cost, _ in costs], 8) if one else None,
        "currency": currencies[0] if one else "",
        "seconds_per_game": _mean([_seconds(row) for row in rows], 2),
    }  # fmt: skip


def _tokens(row: Row) -> float | None:
    """Tokens that the agent wrote per game; of an endpoint those that it reported."""
    used = _usage(row)
    if used is not None:
        known, games = used["completion_tokens"], row["seat_games"]
        return None if known is None or not games else known / games
    return row["tokens_per_game"] or None  # programs write none


def _seconds(row: Row) -> float | None:
    """Seconds that a game waited for the agent's replies; unknown of agents that were played from weights,
    because many matches share the machine."""
    used = _usage(row)
    seconds = None if used is None else used.get("seconds")
    return None if seconds is None or not row["seat_games"] else seconds / row["seat_games"]


def _cost(row: Row) -> tuple[float | None, str]:
    used = _usage(row)
    if used is None or used["cost"] is None or not row["seat_games"]:
        return None, ""
    return used["cost"] / row["seat_games"], used["currency"]


def _usage(row: Row) -> Row | None:
    endpoint = (row.get("entry") or {}).get("endpoint")
    return endpoint.get("usage") if endpoint else None


def _mean(values: Sequence[float | None], digits: int = 4) -> float | None:
    """The mean; None where one is unknown, because the others would then stand for it."""
    if not values or any(value is None for value in values):
        return None
    return finite(sum(value for value in values if value is not None) / len(values), digits)
