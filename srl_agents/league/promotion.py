"""When a candidate replaces the best: a sequential test on mirrored pairs, then a look at the anchors.

A pair is one seed played in both seats; its score is the candidate's points per game, one of 0, 1/4,
1/2, 3/4 and 1. The generalised sequential probability ratio test asks after every pair whether the
scores speak for "stronger by elo1" or for "stronger by elo0", and stops as soon as they do. In a
cooperative game the same test runs on ``half_difference`` of two returns on one seed.

Both chances of error hold at any spread of the scores. The end of the test is set by information, pairs
over their variance: it comes when a candidate of strength elo1 is undecided with a tenth of ``beta``.
Noisy scores take more pairs to tell as much, so no fixed number of pairs cuts them off.

Source: the pentanomial test of chess engine testing; Wald, "Sequential Tests of Statistical
Hypotheses", Annals of Mathematical Statistics 16 (1945); Anderson, "A Modification of the Sequential
Probability Ratio Test to Reduce the Sample Size", same journal 31 (1960) for Brownian motion between
two bounds. Differences: a variance with one doubtful pair in it, a smallest number of pairs, and an
end that is set by information.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.intervals import Floats, Interval, paired_interval
from srl_agents.league.ratings import expected_score
from srl_envs.errors import ConfigError, ShapeError

Decision = Literal["promote", "keep", "continue"]
_MOST_VARIANCE = 0.25
"""Of any number in [0, 1]."""
_BOUNDS_SHARE, _CUT_SHARE = 0.8, 0.1
"""Part of both chances of error that the bounds spend, and of ``beta`` that the end of the test may
cost. The rest is for a variance that is estimated on the way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PromotionSettings:
    """The gate between a candidate and the best version of its lineage."""

    elo0: float = 0.0
    """A candidate this much stronger is not worth a promotion. Elo by points per game, ties counted as
    half a win: 35 is 55 % of the points."""
    elo1: float = 35.0
    """A candidate this much stronger is."""
    alpha: float = 0.05
    """Chance to promote a candidate of strength elo0."""
    beta: float = 0.05
    """Chance to keep the old one although the candidate's strength is elo1. With ``alpha`` and the two
    strengths it decides how many pairs are played: a smaller gap between them takes more."""
    min_pairs: int = 20
    """Mirrored pairs before the first decision."""
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
        if self.anchor_pairs < 0 or not 0 < self.anchor_margin <= 1:
            raise ConfigError(
                f"anchor_pairs={self.anchor_pairs}, anchor_margin={self.anchor_margin}: use 0 or "
                "more pairs and a margin above 0, at most 1."
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """Log-ratios at and below which the old one is kept, and at and above which it is replaced."""
        alpha, beta = _BOUNDS_SHARE * self.alpha, _BOUNDS_SHARE * self.beta
        return math.log(beta / (1 - alpha)), math.log((1 - beta) / alpha)

    @property
    def step(self) -> float:
        """Points per game between the two strengths."""
        return expected_score(self.elo1) - expected_score(self.elo0)

    @property
    def information(self) -> float:
        """At which an undecided candidate is kept out: pairs times step² over the variance."""
        return _enough(*self.bounds, _CUT_SHARE * self.beta)

    @property
    def most_pairs(self) -> int:
        """Pairs after which the noisiest scores have told enough; most candidates need far fewer."""
        least = math.ceil(self.information * _MOST_VARIANCE / self.step**2)
        return max(self.min_pairs, least)


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
    scores = scores[: settings.most_pairs]
    low, high = expected_score(settings.elo0), expected_score(settings.elo1)
    count = np.arange(1, scores.size + 1)
    mean = np.cumsum(scores) / count
    # one pair as far off as can be: scores that all agree would be certain after two
    spread = np.cumsum(scores**2) - count * mean**2
    variance = (np.maximum(spread, 0.0) + _MOST_VARIANCE) / count
    ratio = count * (high - low) * (2 * mean - low - high) / (2 * variance)
    reject, accept = settings.bounds
    told = count * (high - low) ** 2 / variance >= settings.information
    decided = ((ratio >= accept) | (ratio <= reject) | told) & (count >= settings.min_pairs)
    if decided.any():
        first = int(np.argmax(decided))
        decision: Decision = "promote" if ratio[first] >= accept else "keep"
        return Verdict(decision=decision, pairs=first + 1, log_ratio=float(ratio[first]))
    decision = "keep" if scores.size >= settings.most_pairs else "continue"
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


@functools.lru_cache(maxsize=256)
def _enough(low: float, high: float, chance: float) -> float:
    """Information at which elo1 is still between the bounds with this chance."""
    least, most = 0.0, 1.0
    while _undecided(low, high, most) > chance:
        most *= 2
    for _ in range(50):
        middle = (least + most) / 2
        above = _undecided(low, high, middle) > chance
        least, most = (middle, most) if above else (least, middle)
    return most


def _undecided(low: float, high: float, information: float) -> float:
    """Chance that a log-ratio with drift 1/2 and variance 1 has reached neither bound."""
    width, drift, chance = high - low, 0.5, 0.0
    for n in range(1, 200):
        wave = n * math.pi / width
        ends = 1 - (-1) ** n * math.exp(drift * width)
        fades = math.exp(drift * low - (drift**2 + wave**2) * information / 2)
        chance += 2 / width * math.sin(-wave * low) * wave * ends / (drift**2 + wave**2) * fades
    return chance
