"""Writes what a run's learners gained in every game, trained or not, beside its other results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.matchmaking.manager import League
from srl_agents.league.ratings.transfer import MeasuredGame, over_games, transfer_table
from srl_agents.league.store.history import LeagueStore
from srl_agents.recipes.sections.games import Game
from srl_agents.records import plain_json
from srl_envs import spec

TRANSFER = "transfer.json"
"""Name of the file in a run's folder."""


def write_transfer(
    games: Sequence[Game], store: LeagueStore, league: League, learners: Iterable[str], folder: Path
) -> Path | None:
    """After the final table; nothing where there is one game.

    Args:
        games: of the recipe.
        store: with the final table.
        league: holds the first and last version of each learner.
        learners: their names.
        folder: of the run.
    """
    if len(games) == 1:
        return None
    measured = [
        MeasuredGame(
            name=game.name,
            mode=game.mode,
            trained=game.weight > 0,
            results=store.seated(game.env_id, options=game.options, schedule=FINAL),
            one_seat=spec(game.env_id).strangers,
        )
        for game in games
    ]
    names = {league.live(name): name for name in learners}
    trained = {
        (agent, arena.title): league.lessons.trains_in(name, arena)
        for agent, name in names.items()
        for arena in league.arenas.all
    }
    rows = [
        replace(row, trained=trained[row.learner, row.game])
        for row in transfer_table(
            measured, {agent: league.start_of(name) for agent, name in names.items()}
        )
    ]
    means = {
        kind: {
            learner: {"gain": mean.estimate, "low": mean.low, "high": mean.high}
            for learner, mean in over_games(rows, trained=kind == "trained").items()
        }
        for kind in ("trained", "others")
    }
    path = folder / TRANSFER
    path.write_text(plain_json({"rows": [row.as_json() for row in rows], "means": means}, indent=2))
    return path
