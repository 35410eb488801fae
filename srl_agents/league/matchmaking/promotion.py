"""Promotion of a candidate: a sequential test on mirrored pairs, then one against the anchors.

A pair is one seed played in both seats; its score is the candidate's points per game. A candidate is to be
stronger than the best of its lineage by ``elo1`` in some game, and in no other weaker by ``anchor_margin``;
one that is stronger in none is to stay out (`GateRule`). Then the anchors, other agents that stay as they
are: on common seeds the candidate may not take fewer points from them than the best by ``anchor_margin``,
in any game. In a cooperative game all tests run on ``half_difference`` of two returns on one seed.

All are a `MeanTest`, so their chances of error hold for scores of every kind: skewed, mostly drawn, or with
a rare seed that loses everything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from srl_agents.league.matchmaking.gate_rule import GateRule, one_of_several
from srl_agents.league.ratings.betting import MeanTest
from srl_agents.league.ratings.intervals import Floats
from srl_agents.league.ratings.tables import expected_score
from srl_envs.errors import ConfigError, ShapeError
from srl_envs.reading.settings import Removed

MOST_PAIRS = 20_000
"""Mirrored pairs that one test may take at most."""
_LEAST_STEP = 1e-9
"""Smallest difference of two strengths that a test can show, in points per game."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PromotionSettings:
    """The gate between a candidate and the best version of its lineage."""

    elo1: float = 35.0
    """A candidate this much stronger is worth a promotion; one that is as strong as the best is not. Elo by
    points per game, ties counted as half a win: 35 is 55 % of the points."""
    alpha: float = 0.05
    """Chance to promote a candidate that is stronger in no game."""
    beta: float = 0.05
    """Chance to keep the old one although the candidate's strength is elo1 in a game and no less in the
    others. With ``alpha`` and ``elo1`` it decides how many pairs are played: a smaller ``elo1`` takes more,
    at most 20,000."""
    min_pairs: int = 20
    """Mirrored pairs before the first decision, and those that are played at once after it."""
    anchor_pairs: int = 30
    """Mirrored pairs per anchor that candidate and best both play on the same seeds, at once, until the
    second test decides; 0 skips it."""
    anchor_margin: float = 0.1
    """Points per game that the candidate may not lose, against the anchors and in any of several games
    against the best: one that loses as much passes with a chance of ``alpha``, one that loses nothing stays
    out with a chance of ``beta``."""

    removed: ClassVar[Removed] = {
        "elo0": (0.0, "raise promotion.elo1"),
        "batch_pairs": (20, "set promotion.min_pairs"),
    }

    def __post_init__(self) -> None:
        if not self.elo1 > 0:
            raise ConfigError(f"elo1={self.elo1}: use more than 0.")
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if not 0 < value < 0.5:
                raise ConfigError(f"{name}={value}: a chance of error lies between 0 and 0.5.")
        if self.min_pairs < 1:
            raise ConfigError(f"min_pairs={self.min_pairs}: use 1 or more.")
        if self.anchor_pairs < 0 or not 0 < self.anchor_margin <= 1:
            raise ConfigError(
                f"anchor_pairs={self.anchor_pairs}, anchor_margin={self.anchor_margin}: use 0 or "
                "more pairs and a margin above 0, at most 1."
            )
        self._refuse_endless()

    @property
    def against_best(self) -> MeanTest:
        """Test of the points per game against the best, one score per mirrored pair."""
        return MeanTest(
            low=expected_score(0),
            high=expected_score(self.elo1),
            alpha=self.alpha,
            beta=self.beta,
            least=self.min_pairs,
        )

    def against_anchors(self, games: int = 1) -> MeanTest:
        """Test of `half_difference` against the anchors in one of some games, one score per seed."""
        return MeanTest(
            low=(1 - self.anchor_margin) / 2, high=0.5, alpha=self.alpha, beta=self.beta / games
        )

    def rule(self, games: int = 1) -> GateRule:
        """Rule against the best of the lineage in so many games.

        Half of ``beta`` is for games that show the candidate's strength, half for those that show no loss.

        Raises:
            ConfigError: one candidate may take too many pairs.
        """
        test = self.against_best
        goal = test.goals[0]
        if games == 1:
            return GateRule(better=test, held=None, goal=goal)
        alone = one_of_several(self.alpha, games)
        rule = GateRule(
            better=replace(test, alpha=alone, beta=self.beta / 2),
            held=self.against_anchors(2 * games),
            goal=goal,
        )
        if rule.most > MOST_PAIRS:
            raise ConfigError(
                f"elo1={self.elo1:g}, anchor_margin={self.anchor_margin:g}, alpha={self.alpha:g}, "
                f"beta={self.beta:g}: in {games} games one candidate may take {rule.most:,} mirrored pairs "
                f"of each, at most {MOST_PAIRS:,} are allowed. Raise elo1 or anchor_margin."
            )
        return rule

    def line(self, games: int = 1) -> str:
        """The gate's largest number of games, as a sentence."""
        each = f" in each of {games} games" if games > 1 else ""
        line = (
            f"promotion gate: at most {self.rule(games).most:,} mirrored pairs per candidate{each}"
        )
        if self.anchor_pairs:
            line += f", then at most {self.against_anchors(games).most:,} per anchor"
        return line + "; most candidates need far fewer"

    def _refuse_endless(self) -> None:
        test = self.against_best
        given = f"elo1={self.elo1:g}, alpha={self.alpha:g}, beta={self.beta:g}"
        if test.step < _LEAST_STEP:
            raise ConfigError(
                f"{given}: the two strengths earn the same points per game. Raise elo1."
            )
        if test.most > MOST_PAIRS:
            gap = math.ceil(self.elo1 * math.sqrt(test.most / MOST_PAIRS) * 1.01)
            wider = replace(test, high=expected_score(gap))
            enough = f"to {gap} or more" if wider.most <= MOST_PAIRS else "by far"
            raise ConfigError(
                f"{given}: one candidate may take {test.most:,} mirrored pairs, at most {MOST_PAIRS:,} are "
                f"allowed. Raise elo1 {enough}, or alpha and beta."
            )
        most = self.against_anchors().most
        if self.anchor_pairs and most > MOST_PAIRS:
            margin = math.ceil(self.anchor_margin * math.sqrt(most / MOST_PAIRS) * 1000) / 1000
            raise ConfigError(
                f"anchor_margin={self.anchor_margin:g}: one candidate may take {most:,} mirrored pairs per "
                f"anchor, at most {MOST_PAIRS:,} are allowed. Use {margin:g} or more, or anchor_pairs=0 "
                "to skip the anchors."
            )


def half_difference(candidate: Floats, best: Floats) -> Floats:
    """Pair scores in [0, 1] from two rows of returns in [0, 1] on the same seeds; 1/2 is equal."""
    if candidate.shape != best.shape:
        raise ShapeError(f"returns of shapes {candidate.shape} and {best.shape} on the same seeds.")
    return (1 + candidate - best) / 2
