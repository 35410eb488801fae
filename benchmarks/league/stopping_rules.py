"""Rules that decide, pair by pair, between a low mean and a high one: the gate's and its rivals.

Every rule takes the scores of many candidates at once and answers for each: promoted, kept or undecided
when the scores ran out, and after how many pairs.

Array axes: ``R`` candidates, ``K`` pairs in their order.

Sources: arXiv:2010.09686 for hedged capital (predictable plug-in), for bets by approximate GRAPA and for a
grid of constant bets; Owen, "Empirical Likelihood" (2001); for the rule of commit 2582fa9 Wald (1945),
Anderson (1960) and the pentanomial test of chess engines.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srl_agents.league.ratings.betting import MeanTest
from srl_envs.redteam.betting import MOST_VARIANCE

Floats = NDArray[np.float64]
Rule = Callable[[Floats, MeanTest], "Outcomes"]
_LEAST = 20
"""Pairs before the first decision, of rules that do not count a doubtful first pair by themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Of one rule on many candidates."""

    promoted_R: NDArray[np.bool_]
    undecided_R: NDArray[np.bool_]
    pairs_R: NDArray[np.int64]


def gate(scores_RK: Floats, test: MeanTest) -> Outcomes:
    """The gate's own rule, all candidates at once; `MeanTest.find` decides alike."""
    return first_to(*test.wealth(scores_RK), test.goals, test.least)


def first_to(above: Floats, below: Floats, goals: tuple[float, float], least: int) -> Outcomes:
    """Decide when the first of two statistics has reached its goal, after a smallest number of pairs."""
    beyond = np.maximum(above - goals[0], below - goals[1])
    beyond[:, : least - 1] = -1.0
    done_R: NDArray[np.bool_] = np.any(beyond >= 0, axis=1)
    last_R = np.where(done_R, (beyond >= 0).argmax(axis=1), beyond.shape[1] - 1)
    row = np.arange(beyond.shape[0])
    up_R = done_R & (above[row, last_R] - goals[0] == beyond[row, last_R])
    return Outcomes(up_R, ~done_R, last_R + 1)


def pentanomial(scores_RK: Floats, test: MeanTest) -> Outcomes:
    """Of commit 2582fa9: a likelihood ratio of normal scores with the variance so far, ended by
    information; an undecided candidate is then kept."""
    log_alpha, log_beta = math.log(0.8 * test.alpha), math.log(0.8 * test.beta)
    reject, accept = (
        log_beta - math.log1p(-0.8 * test.alpha),
        math.log1p(-0.8 * test.beta) - log_alpha,
    )
    enough = _enough(reject, accept, 0.1 * test.beta)
    scores_RK = scores_RK[:, : max(_LEAST, math.ceil(enough * MOST_VARIANCE / test.step**2))]
    count_K = np.arange(1, scores_RK.shape[1] + 1)
    mean = np.cumsum(scores_RK, axis=1) / count_K
    spread = np.maximum(np.cumsum(scores_RK**2, axis=1) - count_K * mean**2, 0.0)
    variance = (spread + MOST_VARIANCE) / count_K
    ratio = count_K * test.step * (2 * mean - test.low - test.high) / (2 * variance)
    decided = (ratio >= accept) | (ratio <= reject)
    decided |= count_K * test.step**2 / variance >= enough
    decided[:, : _LEAST - 1], decided[:, -1] = False, True
    last_R = decided.argmax(axis=1)
    promoted_R = ratio[np.arange(last_R.size), last_R] >= accept
    return Outcomes(promoted_R, np.zeros(last_R.size, dtype=bool), last_R + 1)


def plug_in(largest: float) -> Rule:
    """One gambler as in the gate, with another largest bet."""

    def bets(scores_RK: Floats, bound: float, step: float) -> Floats:
        _, variance = _before(scores_RK, bound + step / 2)
        return np.minimum(step / (variance + step**2), largest / bound)

    return _by_bets(bets)


def hedged_capital(scores_RK: Floats, test: MeanTest) -> Outcomes:
    """Predictable plug-in bets that shrink with time, for intervals and with no alternative in view."""

    def bets(scores_RK: Floats, bound: float, _: float) -> Floats:
        variance = _before(scores_RK, 0.5)[1]
        time = np.arange(1, scores_RK.shape[1] + 1)
        size = np.sqrt(2 * math.log(2 / test.alpha) / (variance * time * np.log1p(time)))
        return np.minimum(size, 0.5 / bound)

    return _by_bets(bets)(scores_RK, test)


def approximate_grapa(scores_RK: Floats, test: MeanTest) -> Outcomes:
    """Kelly's bets for the mean so far."""

    def bets(scores_RK: Floats, bound: float, step: float) -> Floats:
        mean, variance = _before(scores_RK, bound + step / 2)
        lead = np.maximum(mean - bound, 0.0)
        size: Floats = np.minimum(lead / (variance + lead**2), 0.5 / bound)
        return size

    return _by_bets(bets)(scores_RK, test)


def constant_bets(scores_RK: Floats, test: MeanTest) -> Outcomes:
    """Six gamblers whose bets stay as they are."""

    def wealth(scores_RK: Floats, bound: float) -> Floats:
        parts = [
            np.cumsum(np.log1p(part / bound * (scores_RK - bound)), axis=1)
            for part in (0.03, 0.07, 0.15, 0.3, 0.6, 0.95)
        ]
        total: Floats = np.logaddexp.reduce(parts) - np.float64(math.log(len(parts)))
        return total

    above, below = wealth(scores_RK, test.low), wealth(1 - scores_RK, 1 - test.high)
    return first_to(above, below, test.goals, test.least)


def empirical_likelihood(scores_RK: Floats, test: MeanTest) -> Outcomes:
    """The ratio of the empirical likelihoods of both means with Wald's bounds, looked at every 5 pairs.

    The likelihood of a mean is the wealth of the best constant bet in hindsight, turned upside down; bets
    stop where a score of 0 or 1 would take 99 %.
    """
    up_goal, down_goal = (-math.log(0.8 * x) for x in (test.alpha, test.beta))
    count = scores_RK.shape[0]
    promoted_R, open_R = np.zeros(count, dtype=bool), np.ones(count, dtype=bool)
    pairs_R = np.full(count, scores_RK.shape[1])
    for k in range(_LEAST, scores_RK.shape[1] + 1, 5):
        who = np.flatnonzero(open_R)
        if not who.size:
            break
        seen = scores_RK[who, :k]
        ratio = _best_wealth(seen - test.low, test.low) - _best_wealth(seen - test.high, test.high)
        ends = (ratio >= up_goal) | (ratio <= -down_goal)
        promoted_R[who[ratio >= up_goal]] = True
        pairs_R[who[ends]] = k
        open_R[who[ends]] = False
    return Outcomes(promoted_R, open_R, pairs_R)


def _by_bets(bets: Callable[[Floats, float, float], Floats]) -> Rule:
    """The rule of two gamblers whose bets are a function of scores, bound and step."""

    def rule(scores_RK: Floats, test: MeanTest) -> Outcomes:
        above, below = (
            np.cumsum(np.log1p(bets(scores, bound, test.step) * (scores - bound)), axis=1)
            for scores, bound in ((scores_RK, test.low), (1 - scores_RK, 1 - test.high))
        )
        return first_to(above, below, test.goals, test.least)

    return rule


def _before(scores_RK: Floats, centre: float) -> tuple[Floats, Floats]:
    """(R, K) mean and variance of the scores before each, with half a doubtful one at the centre."""
    away = scores_RK - centre
    weight = 0.5 + np.arange(scores_RK.shape[1])
    total, square = (np.cumsum(part, axis=1) - part for part in (away, away**2))
    variance = (square - total**2 / weight + 0.5 * MOST_VARIANCE) / weight
    return centre + total / weight, variance


def _best_wealth(away_RK: Floats, bound: float) -> Floats:
    """(R,) log-wealth of the best constant bet, by bisection on its slope."""
    low_R = np.full((away_RK.shape[0], 1), -0.99 / (1 - bound))
    high_R = np.full((away_RK.shape[0], 1), 0.99 / bound)
    for _ in range(22):
        middle_R = (low_R + high_R) / 2
        rising = (away_RK / (1 + middle_R * away_RK)).sum(axis=1, keepdims=True) > 0
        low_R, high_R = np.where(rising, middle_R, low_R), np.where(rising, high_R, middle_R)
    wealth: Floats = np.log1p(low_R * away_RK).sum(axis=1)
    return wealth


@functools.lru_cache(maxsize=16)
def _enough(low: float, high: float, chance: float) -> float:
    """Information at which the high mean is still between the bounds with this chance."""
    least, most = 0.0, 1000.0
    for _ in range(60):
        middle = (least + most) / 2
        above = _between(low, high, middle) > chance
        least, most = (middle, most) if above else (least, middle)
    return most


def _between(low: float, high: float, information: float) -> float:
    """Chance that a log-ratio with drift 1/2 and variance 1 has reached neither bound."""
    width, drift, chance = high - low, 0.5, 0.0
    for n in range(1, 200):
        wave = n * math.pi / width
        ends = 1 - (-1) ** n * math.exp(drift * width)
        fades = math.exp(drift * low - (drift**2 + wave**2) * information / 2)
        chance += 2 / width * math.sin(-wave * low) * wave * ends / (drift**2 + wave**2) * fades
    return chance


RULES: dict[str, Rule] = {
    "commit 2582fa9": pentanomial,
    "gate: bold and careful": gate,
    "bold only": plug_in(0.98),
    "careful only": plug_in(0.5),
    "hedged capital": hedged_capital,
    "approximate GRAPA": approximate_grapa,
    "six constant bets": constant_bets,
    "empirical likelihood": empirical_likelihood,
}
