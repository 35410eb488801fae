"""Learners of independent runs play each other: every two of them, in every game and seat, on unused seeds.

A pair that was trained together may have a language of its own. Whether a learner plays with strangers shows
where runs meet: the matrix beside its blocks of one run each. The bases that learners began as sit at
the same tables, in the same seats on the same seeds, so what training was worth stands there too.
Source: the measure, "Other-Play" for zero-shot coordination, arXiv:2003.02979.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.agents.grammar import ModelName
from srl_agents.agents.prompt_file import PROMPT
from srl_agents.agents.resolver import Candidate, Playing, close_engines, find, seat
from srl_agents.interrupts import EventLoop
from srl_agents.league.matchmaking.arenas import Arenas
from srl_agents.league.matchmaking.evaluation_schedule import EvaluationSchedule
from srl_agents.league.ratings.focal_returns import SeatedResult
from srl_agents.league.ratings.intervals import Interval, paired_interval
from srl_agents.league.ratings.transfer import MeasuredGame, mean_of_independent, transfer_table
from srl_agents.recipes.recipe_kinds import read_recipe
from srl_agents.recipes.sections.base_models import Base
from srl_agents.recipes.sections.games import Game, arenas_of
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec, canonical_json
from srl_agents.rollouts import Rollouts
from srl_agents.training.folder.layout import FOLDERS, RECIPE
from srl_agents.training.parts.single import sampling_of
from srl_envs import spec as env_spec
from srl_envs.errors import ConfigError

CROSSPLAY_SEEDS = 4_000_000
"""Eval seeds from here on are for matches between runs, and for swap tests."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Player:
    """A learner of a run, or what learners began as."""

    run: str
    """Name of the run's folder; empty for a start."""
    learner: str
    """Name of the learner; of a start, the name of its base."""
    agent: str
    """Spelling of the agent in `srl_agents.agents.grammar`."""
    seats: tuple[int, ...]
    """Seats that it may hold; empty for all."""

    start: str = ""
    """Label of the start that it began as; empty for a start."""

    @property
    def label(self) -> str:
        """Name in tables, unique among the players."""
        return f"{self.run}:{self.learner}" if self.run else f"start:{self.learner}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CrossPlay:
    """Result of a cross-play in one game."""

    game: str
    """Name of the game in the recipe."""
    env_id: str
    mode: str
    labels: tuple[str, ...]
    cells: Mapping[tuple[str, str], Interval]
    """(row, column) -> mean outcome of the row's seats in its matches with the column's player; absent where
    the two have no seats to meet in."""
    together: Interval | None
    """Mean outcome of a match whose players are of one run."""
    strangers: Interval | None
    """Mean outcome of a match whose players are of two runs."""
    starts: Interval | None
    """Mean outcome of a match that starts play among themselves."""
    gains: Mapping[str, Interval]
    """Learner's label -> what its seats got more than its start did in the same seats, with the same
    others on the same seeds; in returns, (1 + outcome) / 2."""
    team_gains: Mapping[str, Interval]
    """``together`` and ``strangers`` -> mean outcome more than ``starts``, seed by seed; none in a
    competitive game, where what one wins the other loses, or in one that is scored among strangers."""

    def numbers(self) -> dict[str, Any]:
        """The whole result as JSON values."""
        return {
            "game": self.game,
            "env": self.env_id,
            "mode": self.mode,
            "players": list(self.labels),
            "cells": [
                {"row": a, "column": b, **_numbers(cell)} for (a, b), cell in self.cells.items()
            ],
            "together": self.together and _numbers(self.together),
            "strangers": self.strangers and _numbers(self.strangers),
            "starts": self.starts and _numbers(self.starts),
            "gains": {label: _numbers(gain) for label, gain in self.gains.items()},
            "team_gains": {name: _numbers(gain) for name, gain in self.team_gains.items()},
        }


def players_of(runs: Sequence[Path]) -> tuple[LeagueRecipe, list[Player]]:
    """The exported learners of runs, what they began as, and the recipe of the first.

    Raises:
        ConfigError: two folders of one name; a folder holds no run, or a run without exported
            learners; or the runs are of different games.
    """
    if len({run.name for run in runs}) < len(runs):
        raise ConfigError(
            "two runs have folders of the same name, which would name their players alike. "
            "Rename one."
        )
    recipes: list[LeagueRecipe] = []
    players: list[Player] = []
    starts: dict[tuple[str, str], Player] = {}
    for run in runs:
        if not (run / RECIPE).is_file():
            raise ConfigError(
                f"{run} is not the folder of a run: give the folder that `srl train` writes."
            )
        recipe = read_recipe(run / RECIPE)
        if not isinstance(recipe, LeagueRecipe):
            raise ConfigError(
                f"{run} is the run of a population, which has no learners: give runs of `srl "
                "train`."
            )
        recipes.append(recipe)
        for base in recipe.bases:
            start = _start_of(base, run, starts)
            for learner in base.learners:
                folder = run / FOLDERS[base.parameters] / learner
                if not folder.is_dir():
                    raise ConfigError(
                        f"{run} has not exported {learner!r}: wait for its end, or leave it out."
                    )
                whole = base.parameters == "full"
                name = (
                    ModelName(model=str(folder))
                    if whole
                    else ModelName(model=base.model, adapter=str(folder))
                )
                held = recipe.seats.get(learner, ())
                players.append(
                    Player(
                        run=run.name,
                        learner=learner,
                        agent=str(name),
                        seats=tuple(held),
                        start=start.label,
                    )
                )
    first = recipes[0]
    for run, recipe in zip(runs, recipes, strict=True):
        if not _met_in(recipe):
            names = ", ".join(own.name for own in recipe.games)
            raise ConfigError(
                f"{run} plays {names}: tasks of one seat, in which no two players meet."
            )
        if _rules_of(recipe) != _rules_of(first):
            raise ConfigError(
                f"{run} plays {_in_words(recipe)}, and {runs[0]} {_in_words(first)}: only runs of the same "
                "games meet."
            )
    return first, [*players, *starts.values()]


def _met_in(recipe: LeagueRecipe) -> list[Game]:
    """The games of a recipe that have several seats."""
    return [game for game in recipe.games if game.seats > 1]


def _rules_of(recipe: LeagueRecipe) -> list[str]:
    """What makes two recipes' games the same, whatever they are named and however they are weighted."""
    return sorted(
        canonical_json([game.env_id, game.options, list(game.teams)]) for game in _met_in(recipe)
    )


def _in_words(recipe: LeagueRecipe) -> str:
    return ", ".join(f"{game.env_id} with {game.options}" for game in _met_in(recipe))


def _start_of(base: Base, run: Path, starts: dict[tuple[str, str], Player]) -> Player:
    """What the learners of a base began as, behind the base's prompt; one player for all that begin alike."""
    key = (base.model, canonical_json(asdict(base.prompt)))
    if key not in starts:
        names = {start.learner for start in starts.values()}
        own = base.name if base.name not in names else f"{run.name}/{base.name}"
        folder = run / FOLDERS[base.parameters] / base.learners[0]
        prompt = str(folder) if (folder / PROMPT).is_file() else ""
        starts[key] = Player(
            run="", learner=own, agent=str(ModelName(model=base.model, prompt=prompt)), seats=()
        )
    return starts[key]


def cross_play(
    recipe: LeagueRecipe,
    players: Sequence[Player],
    seeds: int,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[CrossPlay]:
    """Let every two players meet in each game that has several seats.

    Args:
        recipe: of the games, and how replies are sampled.
        players: of all runs.
        seeds: for each two of them and each game, each played in all seat rotations.
        progress: called with matches that have ended, and all.

    Returns:
        One for each game, in the order of the recipe.

    Raises:
        ModelError: a model or adapter cannot be loaded.
    """
    by_label = {player.label: player for player in players}
    specs = _matches(recipe, by_label, seeds)
    episodes = play_players(recipe, players, specs, progress)
    return [_found(game, by_label, episodes) for game in _met_in(recipe)]


def gains_over_games(found: Sequence[CrossPlay]) -> dict[str, Interval]:
    """Learner's label -> its mean gain over all games, each game alike; see `CrossPlay.gains`."""
    labels = dict.fromkeys(label for game in found for label in game.gains)
    return {
        label: mean_of_independent([game.gains[label] for game in found if label in game.gains])
        for label in labels
    }


def play_players(
    recipe: LeagueRecipe,
    players: Sequence[Player],
    specs: Sequence[MatchSpec],
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[Episode]:
    """Play matches whose seats name players by their labels.

    Matches in which our own machinery failed are left out.

    Raises:
        ModelError: a model or adapter cannot be loaded.
    """
    env_id = recipe.games[0].env_id  # models and adapters are the same in every game
    candidates: dict[str, Candidate] = {
        player.label: find(player.agent, env_id) for player in players
    }
    playing = Playing(env_id=env_id, sampling=sampling_of(recipe), device=recipe.device)
    policies = {label: seated.policy for label, seated in seat(candidates, playing).items()}
    done = 0

    def ended(count: int) -> None:
        nonlocal done
        done += count
        progress(done, len(specs))

    with EventLoop() as loop:
        rollouts = Rollouts(
            policies,
            root_seed=recipe.seed,
            concurrency=recipe.rollout.concurrency,
            loop=loop,
        )
        try:
            episodes = rollouts.play(specs, ended)
        finally:
            rollouts.close()
            loop.run(close_engines(policies.values()))
    return [episode for episode in episodes if episode.valid]


def _matches(recipe: LeagueRecipe, players: Mapping[str, Player], seeds: int) -> list[MatchSpec]:
    held = {label: player.seats for label, player in players.items() if player.seats}
    first = range(CROSSPLAY_SEEDS, CROSSPLAY_SEEDS + seeds)
    specs: list[MatchSpec] = []

    def mate(label: str, seat: int) -> str | None:
        run = players[label].run
        own = (name for name, seats in held.items() if players[name].run == run and seat in seats)
        return next(own, None)

    for game in _met_in(recipe):
        evaluation = EvaluationSchedule(Arenas(arenas_of((game,))), held, mate)
        pairings = list(combinations_with_replacement(players, 2))
        if game.seats > 2 and not game.teams:
            pairings += [(b, a) for a, b in pairings if a != b]
        specs += evaluation.matches("eval/crossplay", pairings, first)
    return specs


def _found(game: Game, players: Mapping[str, Player], episodes: Sequence[Episode]) -> CrossPlay:
    cells: dict[tuple[str, str], list[tuple[float, str]]] = {}
    blocks: dict[str, list[tuple[float, str]]] = {
        name: [] for name in ("together", "strangers", "starts")
    }
    results: list[SeatedResult] = []
    one_seat = env_spec(game.env_id).strangers
    for episode in episodes:
        spec, outcomes = episode.spec, episode.result().outcomes
        if (spec.env_id, spec.options, spec.teams) != (game.env_id, game.options, game.teams):
            continue
        results.append(SeatedResult(spec.seats, outcomes, spec.cluster))
        names = list(dict.fromkeys(spec.seats))
        for a in names:
            own = [o for o, name in zip(outcomes, spec.seats, strict=True) if name == a]
            if one_seat and len(own) > 1:
                continue
            for b in [name for name in names if name != a] or [a]:
                cells.setdefault((a, b), []).append((float(np.mean(own)), spec.cluster))
        block = _block({players[name].run for name in names})
        if block:
            blocks[block].append((float(np.mean(outcomes)), spec.cluster))
    measured = MeasuredGame(
        name=game.name, mode=game.mode, trained=True, results=results, one_seat=one_seat
    )
    begun = {label: player.start for label, player in players.items() if player.start}
    found = {name: _interval(values) if values else None for name, values in blocks.items()}
    return CrossPlay(
        game=game.name,
        env_id=game.env_id,
        mode=game.mode,
        labels=tuple(players),
        cells={pair: _interval(values) for pair, values in cells.items()},
        together=found["together"],
        strangers=found["strangers"],
        starts=found["starts"],
        gains={gain.learner: gain.gain for gain in transfer_table([measured], begun)},
        team_gains={} if game.mode == "competitive" or one_seat else _team_gains(blocks),
    )


def _block(runs: set[str]) -> str:
    """Which mean a match is part of, by the runs of its players; none where starts and learners meet."""
    if "" in runs:
        return "starts" if len(runs) == 1 else ""
    return "together" if len(runs) == 1 else "strangers"


def _team_gains(blocks: Mapping[str, Sequence[tuple[float, str]]]) -> dict[str, Interval]:
    """Differences to what starts reach among themselves, of each seed's mean."""
    start = _by_seed(blocks["starts"])
    gains = {}
    for name in ("together", "strangers"):
        own = _by_seed(blocks[name])
        if common := sorted(own.keys() & start.keys()):
            gains[name] = _interval([(own[seed] - start[seed], seed) for seed in common])
    return gains


def _by_seed(values: Sequence[tuple[float, str]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for value, seed in values:
        found.setdefault(seed, []).append(value)
    return {seed: float(np.mean(own)) for seed, own in found.items()}


def _interval(values: Sequence[tuple[float, str]]) -> Interval:
    scores, clusters = zip(*values, strict=True)
    return paired_interval(np.array(scores), np.array(clusters))


def _numbers(cell: Interval) -> dict[str, float | int | None]:
    ends = {"low": cell.low, "high": cell.high}
    finite = {name: value if np.isfinite(value) else None for name, value in ends.items()}
    return {"mean": cell.estimate, **finite, "seeds": cell.clusters}
