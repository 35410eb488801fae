"""How good the learners are, on eval seeds: looks during training, and the final table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from srl_agents.credit.by_game import mean_metrics
from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.matchmaking.manager import League
from srl_agents.league.matchmaking.pair_record import points_alone, seat_points
from srl_agents.league.settings import EvaluationSettings
from srl_agents.league.store.history import LeagueStore
from srl_agents.records import Episode
from srl_agents.rollouts.transcripts import TRANSCRIPTS, TranscriptLog
from srl_agents.training.loop.matches import Matches
from srl_agents.training.loop.stages import Parts
from srl_envs.core import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """Plays the learners of a run on eval seeds."""

    settings: EvaluationSettings
    folder: Path
    """Folder of the run."""
    learners: Sequence[str]
    league: League
    matches: Matches
    store: LeagueStore

    @classmethod
    def of(cls, parts: Parts) -> Evaluation:
        """The evaluation of a run."""
        return cls(
            settings=parts.recipe.evaluation,
            folder=parts.folder,
            learners=tuple(parts.learners),
            league=parts.league,
            matches=parts.matches,
            store=parts.store,
        )

    def look(self, done: int, learners: dict[str, dict[str, float]]) -> float:
        """Measure the live versions against the start and the bots.

        Args:
            done: updates so far.
            learners: metrics, which are added to.

        Returns:
            Mean points per game of all learners.
        """
        league = self.league
        specs = [
            match
            for arena in league.arenas.all
            for match in league.evaluation.matches(
                f"eval/{done}",
                [
                    (league.live(name), other)
                    for name in self.learners
                    for other in (*league.starts, *arena.rated_against)
                ],
                range(self.settings.pairs),
                arena=arena,
            )
        ]
        specs = self.matches.affordable(specs)
        episodes = self.matches.play(f"update {done}: evaluating", specs)
        league.report(episodes)
        for name, metrics in learners.items():
            live = league.live(name)
            played = [
                e for e in episodes if e.valid and (live in e.spec.seats or len(e.spec.seats) == 1)
            ]
            metrics.update(_looks(league, played, name))
        return _mean([v[k] for v in learners.values() for k in v if k.startswith("score_")])

    def final_table(self) -> None:
        """Play what is missing of it: every final version, the start and the bots, all against all."""
        league = self.league
        known = {
            spec.match_id
            for spec, result in self.store.matches(schedule=FINAL)
            if result.termination != "void"
        }
        learners = [*league.starts, *map(league.live, self.learners)]
        specs = [
            match
            for arena in league.arenas.all
            for match in league.evaluation.round_robin(
                FINAL,
                [*learners, *arena.rated_against],
                self.settings.final_pairs,
                arena=arena,
            )
        ]
        missing = [spec for spec in specs if spec.match_id not in known]
        missing = self.matches.affordable(missing)
        if missing:
            log = TranscriptLog(self.folder / TRANSCRIPTS)
            self.matches.play("final round robin", missing, log.add)


def _looks(league: League, played: Sequence[Episode], learner: str) -> dict[str, float]:
    """Scores of one learner: in each game where there are several, and the mean over games that have it."""
    arenas, live, start = league.arenas.all, league.live(learner), league.start_of(learner)
    found: dict[str, dict[str, float]] = {}
    for arena in arenas:
        own = [episode for episode in played if league.arenas.of(episode.spec) is arena]
        values = {
            "score_start" if other == start else f"score_{other}": (
                _score_alone(own, live, other)
                if arena.alone
                else _score(own, live, other, arena.mode)
            )
            for other in (*league.starts, *arena.rated_against)
            if any(other in episode.spec.seats for episode in own)  # else its budget is spent
        }
        if arena.alone:
            values["return_alone"] = _return_alone(own, live)
            values["start_return_alone"] = _return_alone(own, start)
        values["eval_format"] = _format_of(own, live)
        values["start_format"] = _format_of(own, start)
        found[arena.title] = values
    together = mean_metrics([(1, values) for values in found.values()])
    if len(arenas) > 1:
        for title, values in found.items():
            together |= {f"game/{title}/{name}": value for name, value in values.items()}
    return together


def _score(episodes: Sequence[Episode], policy: str, opponent: str, mode: Mode) -> float:
    """Points per game of ``policy`` against ``opponent``; with it, where all are paid alike."""
    points = []
    for episode in episodes:
        if opponent not in episode.spec.seats:
            continue
        points.append(seat_points(_outcome(episode, policy), _outcome(episode, opponent), mode))
    return _mean(points)


def _outcome(episode: Episode, policy: str) -> float:
    """What a policy got in its first seat; with teams, the mean of its side."""
    own = next(t for t in episode.trajectories if t.policy == policy)
    teams = episode.spec.teams
    if not teams:
        return own.outcome
    return _mean([t.outcome for t in episode.trajectories if teams[t.seat] == teams[own.seat]])


def _score_alone(episodes: Sequence[Episode], policy: str, other: str) -> float:
    """Points of ``policy`` for the seeds that both had to themselves."""
    own, others = (
        {e.spec.seed: e.trajectories[0].outcome for e in episodes if e.spec.seats == (name,)}
        for name in (policy, other)
    )
    return _mean([points_alone(own[seed], others[seed]) for seed in own if seed in others])


def _return_alone(episodes: Sequence[Episode], policy: str) -> float:
    """Mean return of ``policy`` by itself."""
    own = [e.trajectories[0].outcome for e in episodes if e.spec.seats == (policy,)]
    return _mean([(1 + outcome) / 2 for outcome in own])


def _format_of(episodes: Sequence[Episode], policy: str) -> float:
    """Mean format component of ``policy``."""
    seats = [t for e in episodes for t in e.trajectories if t.policy == policy]
    return _mean([t.components["format"] for t in seats])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
