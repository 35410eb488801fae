"""When a candidate replaces the best: a sequential test on mirrored pairs, then a look at the anchors.

A pair is one seed played in both seats; its score is the candidate's points per game, one of 0, 1/4,
1/2, 3/4 and 1. The generalised sequential probability ratio test asks after every pair whether the
scores speak for "stronger by elo1" or for "stronger by elo0", and stops as soon as they do. In a
cooperative game the same test runs on ``half_difference`` of two returns on one seed.

Source: the pentanomial test of chess engine testing; Wald, "Sequential Tests of Statistical
Hypotheses", Annals of Mathematical Statistics 16 (1945). Differences: a floor under the variance,
and a smallest and largest number of pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.intervals import Floats, Interval, paired_interval
from srl_agents.league.ratings import expected_score
from srl_envs.errors import ConfigError, ShapeError

Decision = Literal["promote", "keep", "continue"]
_LEAST_VARIANCE = 1e-3
"""Of a pair score: scores that all agree would otherwise be certain after two pairs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PromotionSettings:
    """The gate between a candidate and the best version of its lineage."""

    elo0: float = 0.0
    """A candidate this much stronger is not worth a promotion."""
    elo1: float = 35.0
    """A candidate this much stronger is."""
    alpha: float = 0.05
    """Chance to promote a candidate of strength elo0."""
    beta: float = 0.05
    """Chance to keep the old one although the candidate's strength is elo1."""
    min_pairs: int = 20
    """Mirrored pairs before the first decision."""
    max_pairs: int = 300
    """Pairs after which an undecided candidate is kept out."""
    batch_pairs: int = 20
    """Pairs that are played at once; the decision is the same for any number."""
    anchor_pairs: int = 30
    """Mirrored pairs per anchor that candidate and best both play on the same seeds; 0 skips it."""
    anchor_margin: float = 0.1
    """Points per game against the anchors that the candidate may not be shown to lose."""

    def __post_init__(self) -> None:
        if not self.elo1 > self.elo0:
            raise ConfigError(f"elo1={self.elo1}: use more than elo0={self.elo0}.")
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if not 0 < value < 0.5:
                raise ConfigError(f"{name}={value}: a chance of error lies between 0 and 0.5.")
        for name in ("min_pairs", "batch_pairs"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: use 1 or more.")
        if self.max_pairs < self.min_pairs:
            raise ConfigError(
                f"max_pairs={self.max_pairs}: use min_pairs={self.min_pairs} or more."
            )
        if self.anchor_pairs < 0 or not 0 < self.anchor_margin <= 1:
            raise ConfigError(
                f"anchor_pairs={self.anchor_pairs}, anchor_margin={self.anchor_margin}: use 0 or "
                "more pairs and a margin above 0, at most 1."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the test says so far."""

    decision: Decision
    pairs: int
    """Pairs that were needed; later ones are not looked at."""
    log_ratio: float
    """Of the two hypotheses; above 0 speaks for the candidate."""


def sequential_test(scores: Floats, settings: PromotionSettings) -> Verdict:
    """Decide on pair scores in the order in which they were scheduled.

    Args:
        scores: (K,) points per game of the candidate, one per mirrored pair, in [0, 1].
        settings: of the gate.

    Returns:
        ``continue`` asks for more pairs. The decision is that of the first pair that allows one, so
        playing in larger batches changes nothing.

    Raises:
        ShapeError: not a row of numbers in [0, 1].
    """
    if scores.ndim != 1 or not ((scores >= 0) & (scores <= 1)).all():
        raise ShapeError(
            f"pair scores of shape {scores.shape}: give one number in [0, 1] per pair."
        )
    scores = scores[: settings.max_pairs]
    low, high = expected_score(settings.elo0), expected_score(settings.elo1)
    count = np.arange(1, scores.size + 1)
    mean = np.cumsum(scores) / count
    variance = np.maximum(np.cumsum(scores**2) / count - mean**2, _LEAST_VARIANCE)
    ratio = count * (high - low) * (2 * mean - low - high) / (2 * variance)
    accept = math.log((1 - settings.beta) / settings.alpha)
    reject = math.log(settings.beta / (1 - settings.alpha))
    decided = ((ratio >= accept) | (ratio <= reject)) & (count >= settings.min_pairs)
    if decided.any():
        first = int(np.argmax(decided))
        decision: Decision = "promote" if ratio[first] >= accept else "keep"
        return Verdict(decision=decision, pairs=first + 1, log_ratio=float(ratio[first]))
    decision = "keep" if scores.size >= settings.max_pairs else "continue"
    last = float(ratio[-1]) if scores.size else 0.0
    return Verdict(decision=decision, pairs=int(scores.size), log_ratio=last)


def half_difference(candidate: Floats, best: Floats) -> Floats:
    """Pair scores in [0, 1] from two rows of returns in [0, 1] on the same seeds; 1/2 is equal."""
    if candidate.shape != best.shape:
        raise ShapeError(f"returns of shapes {candidate.shape} and {best.shape} on the same seeds.")
    return (1 + candidate - best) / 2


def anchor_change(candidate: Floats, best: Floats, clusters: NDArray[np.generic]) -> Interval:
    """Change of the points per game against the anchors, on common seeds.

    Args:
        candidate: (K,) points per game of the candidate, one per anchor and mirrored pair.
        best: (K,) those of the best version.
        clusters: (K,) the seed of each.
    """
    return paired_interval(2 * half_difference(candidate, best) - 1, clusters)


def loses_to_anchors(change: Interval, settings: PromotionSettings) -> bool:
    """Whether a loss beyond the margin cannot be excluded although a loss was seen."""
    return change.estimate < 0 and change.low < -settings.anchor_margin
