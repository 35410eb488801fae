"""Plays the matches of a promotion gate: candidate against the best of its lineage, then the anchors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from srl_agents.league.agents import lineage
from srl_agents.league.matchmaking.manager import League
from srl_agents.league.matchmaking.pair_record import mean_points, points_alone
from srl_agents.league.matchmaking.promotion import PromotionSettings, half_difference
from srl_agents.league.ratings.betting import Finding, MeanTest
from srl_agents.league.ratings.intervals import Floats
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
        """Whether the learner's present version replaces its best, and a line with the reason."""
        candidate, best = self.league.live(learner), self.league.best[learner]
        if candidate == best:
            return False, f"{label_of(candidate)} is the best already"
        test = self.settings.against_best
        found = self._ask(
            test,
            self.settings.min_pairs,
            lambda seeds: self._batch(learner, candidate, best, seeds),
        )
        against = f"{label_of(candidate)} against {label_of(best)}: {found.scores} pairs, "
        if found.answer != "above":
            return False, f"{against}not shown to be better"
        anchors = [name for name in self.anchors if name not in (candidate, best)]
        if self.settings.anchor_pairs and anchors and self.league.arenas.met_in:
            held = self._ask(
                self.settings.against_anchors,
                self.settings.anchor_pairs,
                lambda seeds: self._anchor_batch(candidate, best, anchors, seeds),
            )
            if held.answer != "above":
                return False, (
                    f"{against}better, but not shown to hold its points against the anchors: "
                    f"{held.scores} pairs each"
                )
        return True, f"{against}promoted"

    def _ask(self, test: MeanTest, batch: int, play: Callable[[range], Floats]) -> Finding:
        """Play batches of pairs until the test has an answer; without one, too many were void."""
        scores = np.zeros(0)
        found = test.find(scores)
        for first in range(0, 2 * test.most, batch):
            scores = np.append(scores, play(range(first, first + batch)))
            found = test.find(scores)
            if found.answer != "open":
                break
        return found

    def _batch(self, learner: str, candidate: str, best: str, seeds: range) -> Floats:
        """Pair scores of some pairs, in the order of their seeds."""
        phase = f"gate: {label_of(candidate)} against {label_of(best)}"
        if not self.league.arenas.cooperative:
            played = self._play(
                phase, self.league.evaluation.gate(candidate, best, seeds.start, len(seeds))
            )
            return np.array(list(self._by_seed(played, candidate, best).values()))
        partners = self._partners(learner)
        new, old = (
            self._returns(phase, who, partners, seeds, single_seat=True)
            for who in (candidate, best)
        )
        return _on_common_seeds([(new, old)])

    def _returns(
        self,
        phase: str,
        who: str,
        partners: Sequence[str],
        seeds: range,
        *,
        single_seat: bool = False,
    ) -> dict[int, float]:
        specs = {
            spec.match_id: spec
            for partner in partners
            for spec in self.league.evaluation.gate(who, partner, seeds.start, len(seeds))
            if len(spec.seats) > 1 or (single_seat and who in spec.seats)
        }
        return self._by_seed(self._play(phase, list(specs.values())), who)

    def _partners(self, learner: str) -> list[str]:
        """Strangers: frozen versions of other lineages, and the start."""
        start, best = self.league.start_of(learner), self.league.best[learner]
        pool = [v for v in self.league.past if lineage(v) != learner and v != best]
        return pool[-PARTNERS:] or [start]

    def _anchor_batch(
        self, candidate: str, best: str, anchors: Sequence[str], seeds: range
    ) -> Floats:
        """Half the difference of the two agents' points against all anchors, one score per seed."""
        played = [
            [
                self._returns(f"gate: {label_of(who)} against {anchor}", who, [anchor], seeds)
                for who in (candidate, best)
            ]
            for anchor in anchors
        ]
        return _on_common_seeds([(new, old) for new, old in played])

    def _by_seed(
        self, episodes: Sequence[Episode], who: str, rival: str | None = None
    ) -> dict[int, float]:
        """Seed -> mean points of ``who``, for seeds of which no game went void.

        In a game of one seat they are its return, or with a rival half the difference to the rival's.
        """
        points: dict[int, list[float]] = defaultdict(list)
        void = {e.spec.seed for e in episodes if not e.valid}
        by_task: dict[tuple[int, str], dict[str, float]] = defaultdict(dict)
        for episode in episodes:
            if episode.spec.seed in void:
                continue
            spec, outcomes = episode.spec, episode.result().outcomes
            arena = self.league.arenas.of(spec)
            if arena.alone and rival is not None:
                by_task[spec.seed, arena.title][spec.seats[0]] = outcomes[0]
            else:
                mean = mean_points(spec.seats, outcomes, who, arena.mode, arena.teams)
                points[spec.seed].append(mean)
        for (seed, _), own in by_task.items():
            if rival is not None and {who, rival} <= own.keys():
                points[seed].append(points_alone(own[who], own[rival]))
        return {seed: float(np.mean(values)) for seed, values in sorted(points.items())}


def _on_common_seeds(returns: Sequence[tuple[dict[int, float], dict[int, float]]]) -> Floats:
    """`half_difference` of seed -> points of two agents, mean over opponents, for seeds that all have."""
    common = sorted(set.intersection(*(set(points) for pair in returns for points in pair)))
    rows = [
        half_difference(np.array([new[s] for s in common]), np.array([old[s] for s in common]))
        for new, old in returns
    ]
    return np.asarray(np.mean(rows, axis=0), dtype=np.float64)
