"""Plays the matches of a promotion gate: candidate against the best of its lineage, then the anchors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from srl_agents.league.agents import lineage
from srl_agents.league.matchmaking.arenas import Arena
from srl_agents.league.matchmaking.gate_rule import Judgement
from srl_agents.league.matchmaking.manager import BOT, League
from srl_agents.league.matchmaking.pair_record import mean_points, points_alone
from srl_agents.league.matchmaking.promotion import PromotionSettings, half_difference
from srl_agents.league.ratings.intervals import Floats
from srl_agents.records import Episode, MatchSpec, label_of

Play = Callable[[str, Sequence[MatchSpec]], list[Episode]]
BySeed = dict[int, float]
PARTNERS = 3
"""Most partners of a cooperative gate; the newest are taken."""


class PromotionGate:
    """The gate of one league.

    Args:
        league: schedules the matches.
        settings: of the tests.
        play: plays matches and stores them; called with what to show meanwhile.
    """

    def __init__(self, league: League, settings: PromotionSettings, play: Play) -> None:
        self.league, self.settings = league, settings
        self._play = play

    def passes(self, learner: str) -> tuple[bool, str]:
        """Whether the learner's present version replaces its best, and a line with the reason."""
        candidate, best = self.league.live(learner), self.league.best[learner]
        if candidate == best:
            return False, f"{label_of(candidate)} is the best already"
        games = {arena.title: arena for arena in self.league.trained_by(learner)}
        found = self.settings.rule(len(games)).judge(
            list(games),
            lambda names, pairs: self._against_best(
                learner, [games[name] for name in names], pairs
            ),
            self.settings.min_pairs,
        )
        against = f"{label_of(candidate)} against {label_of(best)}: {_in_words(found)}, "
        if found.verdict != "passed":
            return False, against + _REASONS[found.verdict].format(found.game)
        for arena in games.values() if self.settings.anchor_pairs else ():
            anchors = [name for name in self._anchors(arena) if name not in (candidate, best)]
            seeds = self._lost_to_anchors(arena, candidate, best, anchors, len(games))
            if seeds is not None:
                where = f" in {arena.title}" if len(games) > 1 else ""
                return False, (
                    f"{against}better, but not shown to hold its points against the anchors{where}: "
                    f"{seeds} pairs each"
                )
        return True, f"{against}promoted"

    def _against_best(
        self, learner: str, arenas: Sequence[Arena], pairs: range
    ) -> dict[str, Floats]:
        """Game -> scores of some pairs, in the order of their seeds; a seed that was void in one game is left
        out in all, so that the games stay abreast."""
        candidate, best = self.league.live(learner), self.league.best[learner]
        phase = f"gate: {label_of(candidate)} against {label_of(best)}"
        scores: dict[str, BySeed] = {}
        for arena in arenas:
            if self._meet(arena, candidate, best):
                specs = self.league.evaluation.gate(arena, candidate, best, pairs)
                seats = {spec.match_id: spec.seats for spec in specs}
                played = self._play(phase, specs)
                scores[arena.title] = _points(arena, played, seats, candidate, best)
            else:
                others = self._partners(learner)
                scores[arena.title] = self._compared(arena, candidate, best, others, pairs)
        common = set.intersection(*(set(own) for own in scores.values()))
        return {
            game: np.array([own[seed] for seed in sorted(common)]) for game, own in scores.items()
        }

    def _meet(self, arena: Arena, candidate: str, best: str) -> bool:
        """Whether candidate and best play each other in every seat, or the same task; else each plays with
        the same strangers: where all are paid alike, and where both hold the same seats."""
        if arena.alone or arena.mode == "cooperative":
            return arena.alone
        lineups = self.league.evaluation.gate(arena, candidate, best, range(1))
        return len(lineups) == len(arena.turns)

    def _compared(
        self, arena: Arena, candidate: str, best: str, others: Sequence[str], pairs: range
    ) -> BySeed:
        """Seed -> half the difference of the points of both in the same seats with the same others; the mean
        over these, for seeds of which no match went void."""
        rows: list[BySeed] = []
        for other in others:
            lineups = self.league.evaluation.gate(arena, candidate, other, pairs)
            points = []
            for who in (candidate, best):
                specs = [_seated(spec, candidate, who) for spec in lineups]
                seats = {own.match_id: spec.seats for own, spec in zip(specs, lineups, strict=True)}
                played = self._play(f"gate: {label_of(who)} against {label_of(other)}", specs)
                points.append(_points(arena, played, seats, candidate))
            common = sorted(points[0].keys() & points[1].keys())
            new, old = (np.array([own[seed] for seed in common]) for own in points)
            rows.append(dict(zip(common, half_difference(new, old).tolist(), strict=True)))
        seeds = sorted(set.intersection(*(set(own) for own in rows)))
        return {seed: float(np.mean([own[seed] for own in rows])) for seed in seeds}

    def _partners(self, learner: str) -> list[str]:
        """Strangers: frozen versions of other lineages, and the start."""
        start, best = self.league.start_of(learner), self.league.best[learner]
        pool = [v for v in self.league.past if lineage(v) != learner and v != best]
        return pool[-PARTNERS:] or [start]

    def _anchors(self, arena: Arena) -> tuple[str, ...]:
        """Agents that a candidate may not lose ground to: what learners began as, and bots of the game."""
        if arena.alone:
            return ()
        bots = [name for name in arena.rated_against if name.startswith(BOT)]
        return (*self.league.starts, *bots)

    def _lost_to_anchors(
        self, arena: Arena, candidate: str, best: str, anchors: Sequence[str], games: int
    ) -> int | None:
        """Seeds after which a game has not shown that the candidate takes as many points from its anchors as
        the best; None where it has, or has no anchors."""
        if not anchors:
            return None
        test, at_once = self.settings.against_anchors(games), self.settings.anchor_pairs
        scores = np.zeros(0)
        for first in range(0, 2 * test.most, at_once):
            pairs = range(first, first + at_once)
            more = self._compared(arena, candidate, best, anchors, pairs)
            scores = np.append(scores, list(more.values()))
            if test.find(scores).answer != "open":
                break
        found = test.find(scores)
        return None if found.answer == "above" else found.scores


_REASONS: Mapping[str, str] = {
    "not better": "not shown to be better",
    "worse": "worse in {}",
    "not held": "better, but not shown to be no worse in {}",
}
"""Verdict -> why the candidate stays out."""


def _in_words(found: Judgement) -> str:
    """Pairs of each game, and of several its points."""
    if len(found.pairs) == 1:
        (count,) = found.pairs.values()
        return f"{count} pairs"
    return ", ".join(
        f"{game} {found.means[game]:.0%} of the points in {count} pairs"
        for game, count in found.pairs.items()
    )


def _seated(spec: MatchSpec, candidate: str, who: str) -> MatchSpec:
    """A match of the candidate with another in its seats."""
    seats = tuple(who if name == candidate else name for name in spec.seats)
    return replace(spec, seats=seats, schedule=f"gate/{label_of(who)}")


def _points(
    arena: Arena,
    episodes: Sequence[Episode],
    seats: Mapping[str, tuple[str, ...]],
    candidate: str,
    rival: str | None = None,
) -> BySeed:
    """Seed -> mean points of the candidate's seats, for seeds of which no match went void.

    In a game of one seat they are half the difference to the rival's return.

    Args:
        arena: the game.
        episodes: of it.
        seats: match -> who is taken to hold its seats.
        candidate: whose points.
        rival: of a game of one seat.
    """
    points: dict[int, list[float]] = defaultdict(list)
    void = {e.spec.seed for e in episodes if not e.valid}
    alone: dict[int, dict[str, float]] = defaultdict(dict)
    for episode in episodes:
        spec = episode.spec
        if spec.seed in void:
            continue
        outcomes = episode.result().outcomes
        if arena.alone:
            alone[spec.seed][spec.seats[0]] = outcomes[0]
        else:
            sides = seats[spec.match_id]
            own = mean_points(sides, outcomes, candidate, arena.mode, arena.teams)
            points[spec.seed].append(own)
    for seed, own_of in alone.items():
        if rival is not None and {candidate, rival} <= own_of.keys():
            points[seed].append(points_alone(own_of[candidate], own_of[rival]))
    return {seed: float(np.mean(values)) for seed, values in sorted(points.items())}
