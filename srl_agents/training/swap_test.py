"""The swap test: learners with seats of their own exchange them, in every game of a run.

A team whose members took on roles loses when they exchange seats; one whose members learned the same does
not. Source: AT-GRPO, arXiv:2510.11062, whose two agents fall from 96 to 6 % solved. A *return* is
(1 + outcome) / 2, in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.league.ratings.intervals import Interval, paired_interval
from srl_agents.recipes.sections.games import Game
from srl_agents.records import Episode, MatchSpec
from srl_agents.training.crossplay import CROSSPLAY_SEEDS, Player, play_players, players_of
from srl_envs.errors import ConfigError

OWN, START = "own", "start"
"""Schedules of matches in the seats that were trained, and of what the learners began as."""
SWAP = "swap"
"""Schedule of matches in each other's seats."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SwapTest:
    """Result of an exchange of seats; intervals are over seeds."""

    game: str
    mode: str
    own: Interval
    """Mean return per match and seat, each learner in its own seats."""
    swapped: Interval
    """Likewise on the same seeds in each other's seats; the mean of all ways to pass them round."""
    start: Interval
    """Likewise where the base of a seat's learner plays it, untrained."""
    drop: Interval
    """``own`` minus ``swapped``, seed by seed."""
    learners: Mapping[str, Interval]
    """Learner -> its mean return in its own seats minus that in others'."""


def learners_with_seats(
    run: Path,
) -> tuple[tuple[Game, ...], dict[int, Player], dict[int, Player]]:
    """The games of a run, and for each seat the learner that holds it and what that learner began as.

    Raises:
        ConfigError: there is nothing to exchange, and why.
    """
    recipe, players = players_of([run])
    starts = {player.label: player for player in players if not player.run}
    held: dict[int, Player] = {}
    for player in players:
        for seat in player.seats:
            held.setdefault(seat, player)
    if len({player.label for player in held.values()}) < 2:
        raise ConfigError(
            f"{run}: no two learners have seats of their own, so an exchange would change nothing. "
            "Give them seats in the recipe, for example `seats: {alice: [0], bob: [1]}`."
        )
    for game in recipe.games:
        if missing := set(range(game.seats)) - set(held):
            raise ConfigError(f"{run}: no learner holds seat {min(missing)} of {game.env_id}.")
    return recipe.games, held, {seat: starts[player.start] for seat, player in held.items()}


def swap_matches(
    game: Game, held: Mapping[int, Player], starts: Mapping[int, Player], seeds: int
) -> list[MatchSpec]:
    """Every seed with own seats, with each way to pass the seats round, and with the starts."""
    names = list(dict.fromkeys(held[seat].label for seat in sorted(held)))
    lineups = [(OWN, [held[seat].label for seat in range(game.seats)])]
    for step in range(1, len(names)):
        passed = {name: names[(place + step) % len(names)] for place, name in enumerate(names)}
        lineups.append((SWAP, [passed[held[seat].label] for seat in range(game.seats)]))
    lineups.append((START, [starts[seat].label for seat in range(game.seats)]))
    return [
        MatchSpec(
            env_id=game.env_id,
            options=game.options,
            seed=seed,
            split="eval",
            seats=tuple(seats),
            learner_seats=(),
            purpose="eval",
            cluster=f"eval/{seed}",
            schedule=f"eval/{schedule}",
            number=number,
            teams=game.teams,
        )
        for number, (schedule, seats) in enumerate(lineups)
        for seed in range(CROSSPLAY_SEEDS, CROSSPLAY_SEEDS + seeds)
    ]


def swap_result(game: Game, held: Mapping[int, Player], episodes: Sequence[Episode]) -> SwapTest:
    """The test's numbers, of seeds on which each kind of match was played to its end."""
    means: dict[str, dict[str, list[float]]] = {OWN: {}, SWAP: {}, START: {}}
    seated: dict[tuple[str, str], dict[str, list[float]]] = {}
    for episode in episodes:
        spec = episode.spec
        returns = [(1 + outcome) / 2 for outcome in episode.result().outcomes]
        kind = spec.schedule.removeprefix("eval/")
        means[kind].setdefault(spec.cluster, []).append(float(np.mean(returns)))
        for name, own in zip(spec.seats, returns, strict=True):
            seated.setdefault((name, kind), {}).setdefault(spec.cluster, []).append(own)
    seeds = sorted(set.intersection(*(set(own) for own in means.values())))
    if not seeds:
        raise ConfigError("no seed was played to its end in every way; see the errors above.")

    def interval(values: Mapping[str, Sequence[float]]) -> Interval:
        return paired_interval(np.array([np.mean(values[seed]) for seed in seeds]), np.array(seeds))

    def difference(a: Mapping[str, list[float]], b: Mapping[str, list[float]]) -> Interval:
        return interval({seed: [float(np.mean(a[seed]) - np.mean(b[seed]))] for seed in seeds})

    labels = {player.label: player.learner for player in held.values()}
    return SwapTest(
        game=game.name,
        mode=game.mode,
        own=interval(means[OWN]),
        swapped=interval(means[SWAP]),
        start=interval(means[START]),
        drop=difference(means[OWN], means[SWAP]),
        learners={
            learner: difference(seated[label, OWN], seated[label, SWAP])
            for label, learner in labels.items()
        },
    )


def swap_test(
    run: Path, seeds: int, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> list[SwapTest]:
    """Let the exported learners of a finished run exchange seats on eval seeds, in each game.

    Args:
        run: its folder.
        seeds: of each game; each is played in own seats, in exchanged ones, and by what the learners began
        as. progress: called with matches that have ended, and all.

    Raises:
        ConfigError: there is nothing to exchange, and why.
        ModelError: a model or adapter cannot be loaded.
    """
    games, held, starts = learners_with_seats(run)
    recipe, _ = players_of([run])
    specs = {game.name: swap_matches(game, held, starts, seeds) for game in games}
    players = {player.label: player for player in (*held.values(), *starts.values())}
    together = [spec for own in specs.values() for spec in own]
    played = play_players(recipe, list(players.values()), together, progress)
    by_match = {episode.spec.match_id: episode for episode in played}
    return [
        swap_result(
            game,
            held,
            [by_match[spec.match_id] for spec in specs[game.name] if spec.match_id in by_match],
        )
        for game in games
    ]


def numbers(found: SwapTest) -> dict[str, Any]:
    """Of one game, for JSON."""

    def ends(cell: Interval) -> dict[str, float | int]:
        return {"mean": cell.estimate, "low": cell.low, "high": cell.high, "seeds": cell.clusters}

    return {
        "game": found.game,
        "mode": found.mode,
        **{name: ends(getattr(found, name)) for name in ("own", "swapped", "start", "drop")},
        "learners": {name: ends(cell) for name, cell in found.learners.items()},
    }
