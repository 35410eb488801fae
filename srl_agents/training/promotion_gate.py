"""Plays the matches of a promotion gate: candidate against the best of its lineage, then the anchors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from srl_agents.league.agent_names import lineage
from srl_agents.league.intervals import Floats
from srl_agents.league.manager import League
from srl_agents.league.points import mean_points, points_alone
from srl_agents.league.promotion import (
    PromotionSettings,
    Verdict,
    anchor_change,
    half_difference,
    loses_to_anchors,
    sequential_test,
)
from srl_agents.records import Episode, MatchSpec, label_of

Play = Callable[[str, Sequence[MatchSpec]], list[Episode]]
PARTNERS = 3
"""Most partners of a cooperative gate; the newest are taken."""


class PromotionGate:
    """The gate of one league.

    Args:
        league: schedules the matches.
        settings: of the test.
        anchors: agents that a candidate may not lose ground to: the start and bots.
        play: plays matches and stores them; called with what to show meanwhile.
    """

    def __init__(
        self, league: League, settings: PromotionSettings, anchors: Sequence[str], play: Play
    ) -> None:
        self.league, self.settings = league, settings
        self.anchors, self._play = tuple(anchors), play

    def passes(self, learner: str) -> tuple[bool, str]:
        """Whether the learner's present version replaces its best, and a line that says why."""
        candidate, best = self.league.live(learner), self.league.best[learner]
        if candidate == best:
            return False, f"{label_of(candidate)} is the best already"
        verdict = self._against_best(learner, candidate, best)
        against = f"{label_of(candidate)} against {label_of(best)}: {verdict.pairs} pairs, "
        if verdict.decision != "promote":
            return False, f"{against}not shown to be better"
        anchors = [name for name in self.anchors if name not in (candidate, best)]
        if self.settings.anchor_pairs and anchors and self.league.arenas.met_in:
            scores, old, seeds = self._against_anchors(candidate, best, anchors)
            change = anchor_change(scores, old, seeds)
            if loses_to_anchors(change, self.settings):
                return False, f"{against}better, but {change.estimate:+.2f} against the anchors"
        return True, f"{against}promoted"

    def _against_best(self, learner: str, candidate: str, best: str) -> Verdict:
        settings, scores = self.settings, np.zeros(0)
        for first in range(0, 2 * settings.most_pairs, settings.batch_pairs):
            scores = np.append(scores, self._batch(learner, candidate, best, first))
            verdict = sequential_test(scores, settings)
            if verdict.decision != "continue":
                return verdict
        return Verdict(decision="keep", pairs=scores.size, log_ratio=0.0)  # too many were void

    def _batch(self, learner: str, candidate: str, best: str, first: int) -> Floats:
        """Pair scores of some pairs, in the order of their seeds."""
        phase = f"gate: {label_of(candidate)} against {label_of(best)}"
        pairs = self.settings.batch_pairs
        if not self.league.arenas.cooperative:
            played = self._play(phase, self.league.evaluation.gate(candidate, best, first, pairs))
            return np.array(list(self._by_seed(played, candidate, best).values()))
        new, old = (
            self._returns(phase, who, self._partners(learner), first, pairs, alone=True)
            for who in (candidate, best)
        )
        common = [seed for seed in new if seed in old]
        return half_difference(
            np.array([new[s] for s in common]), np.array([old[s] for s in common])
        )

    def _returns(
        self,
        phase: str,
        who: str,
        partners: Sequence[str],
        first: int,
        pairs: int,
        *,
        alone: bool = False,
    ) -> dict[int, float]:
        specs = {
            spec.match_id: spec
            for partner in partners
            for spec in self.league.evaluation.gate(who, partner, first, pairs)
            if len(spec.seats) > 1 or (alone and who in spec.seats)
        }
        return self._by_seed(self._play(phase, list(specs.values())), who)

    def _partners(self, learner: str) -> list[str]:
        """Strangers: frozen versions of other lineages, and the start."""
        start, best = self.league.start_of(learner), self.league.best[learner]
        pool = [v for v in self.league.past if lineage(v) != learner and v != best]
        return pool[-PARTNERS:] or [start]

    def _against_anchors(
        self, candidate: str, best: str, anchors: Sequence[str]
    ) -> tuple[Floats, Floats, np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """Scores of both against every anchor on common seeds, and the seeds."""
        pairs = self.settings.anchor_pairs
        rows: list[tuple[float, float, int]] = []
        for anchor in anchors:
            new, old = (
                self._returns(f"gate: {label_of(who)} against {anchor}", who, [anchor], 0, pairs)
                for who in (candidate, best)
            )
            rows += [(new[seed], old[seed], seed) for seed in new if seed in old]
        scores, old_scores, seeds = zip(*rows, strict=True) if rows else ((0.5,), (0.5,), (0,))
        return np.array(scores), np.array(old_scores), np.array(seeds)

    def _by_seed(
        self, episodes: Sequence[Episode], who: str, rival: str | None = None
    ) -> dict[int, float]:
        """Seed -> mean points of ``who``, for seeds of which no game went void.

        In a game of one seat they are its return, or with a rival half the difference to the rival's.
        """
        points: dict[int, list[float]] = defaultdict(list)
        void = {e.spec.seed for e in episodes if not e.valid}
        alone: dict[tuple[int, str], dict[str, float]] = defaultdict(dict)
        for episode in episodes:
            if episode.spec.seed in void:
                continue
            spec, outcomes = episode.spec, episode.result().outcomes
            arena = self.league.arenas.of(spec)
            if arena.alone and rival is not None:
                alone[spec.seed, arena.title][spec.seats[0]] = outcomes[0]
            else:
                points[spec.seed].append(mean_points(spec.seats, outcomes, who, arena.mode))
        for (seed, _), own in alone.items():
            if rival is not None and {who, rival} <= own.keys():
                points[seed].append(points_alone(own[who], own[rival]))
        return {seed: float(np.mean(values)) for seed, values in sorted(points.items())}
