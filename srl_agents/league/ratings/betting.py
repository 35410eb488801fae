"""Test by betting whether a mean lies above one bound or below another, for any scores in [0, 1].

A gambler who owns 1 bets on every score that the mean is above ``low``. If it is not, a fair bookmaker
takes the bets at a profit or at none, so that the gambler's wealth ever reaches ``1 / chance`` with at
most that chance, whatever the distribution of the scores and however often the test looks (Ville). A second
gambler bets against ``high``. The first of the two who is rich enough decides.

Of wealth W, a bet of size b on a score x makes W (1 + b (x - low)). The size is Kelly's for a mean of
``high``: the step from ``low`` to ``high`` over variance plus squared step, with the variance of the scores
before. Scores that hardly vary make bets large, and one disaster would take nearly everything: so a bold
and a careful gambler share the capital (`srl_envs.redteam.betting`). The best bets depend on the
distribution; which are chosen changes how many scores are needed, and no chance of error.

Array axes: ``K`` scores in their order, after any number of others that are worked on alike.

Sources: Ville, "Étude critique de la notion de collectif" (1939) for the bound on wealth; Waudby-Smith and
Ramdas, arXiv:2010.09686, for bets on bounded means; Kelly, Bell System Technical Journal 35 (1956) for
their size. Differences: bets aim at a stated alternative, two gamblers differ by their largest bet, and an
undecided test ends.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from srl_agents.league.ratings.intervals import Floats
from srl_envs.errors import ShapeError
from srl_envs.redteam.betting import GAMBLERS, MOST_VARIANCE, largest_bet, log_wealth

Answer = Literal["above", "below", "open"]
_WEALTH_SHARE, _END_SHARE = 0.8, 0.1
"""Part of both chances of error that the gamblers may spend, and of ``beta`` that the end of the test may
cost. The rest stays unspent, so that a simulation of usual size confirms the chances."""
_normal = NormalDist().cdf


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """State of a `MeanTest` after the scores so far."""

    answer: Answer
    """``above`` low, ``below`` high, or ``open`` for more scores."""
    scores: int
    """That were needed; later ones are ignored."""
    above: float
    """Log-wealth of the gambler who bets on more than ``low``."""
    below: float
    """Log-wealth of the gambler who bets on less than ``high``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanTest:
    """Test of independent scores in [0, 1] with one mean, of which only the bounds matter."""

    low: float
    """Mean at which ``above`` is an error."""
    high: float
    """Mean at which ``below`` is an error; greater than ``low``."""
    alpha: float
    """Chance to answer ``above`` at a mean of ``low`` or less."""
    beta: float
    """Chance to answer ``below``, or not to answer, at a mean of ``high`` or more."""
    least: int = 1
    """Fewest scores before the test may answer."""

    @property
    def step(self) -> float:
        """Distance between the two bounds."""
        return self.high - self.low

    @property
    def goals(self) -> tuple[float, float]:
        """Log-wealth at which the answer is ``above``, and ``below``."""
        return -math.log(_WEALTH_SHARE * self.alpha), -math.log(_WEALTH_SHARE * self.beta)

    @property
    def most(self) -> int:
        """Scores after which the noisiest have decided, but for a tenth of ``beta``."""
        # log-wealth is close to Brownian motion with drift 1/2 in time: scores times step² over variance
        time = _time_to(self.goals[0], _END_SHARE * self.beta)
        # and cannot reach its goal faster than by scores that are all 1
        fastest = self.goals[0] / math.log1p(largest_bet(GAMBLERS[1][1], self.low) * (1 - self.low))
        return max(self.least, math.ceil(time * MOST_VARIANCE / self.step**2 + fastest))

    def wealth(self, scores: Floats) -> tuple[Floats, Floats]:
        """(..., K) log-wealth of both gamblers after every score.

        Args:
            scores: (..., K) in [0, 1]; rows are tests of their own.
        """
        above = log_wealth(scores, self.low, self.step)
        return above, log_wealth(1 - scores, 1 - self.high, self.step)

    def find(self, scores: Floats) -> Finding:
        """The first answer that scores in their order allow.

        Args:
            scores: (K,) in [0, 1].

        Returns:
            The answer of the first score that allows one, so that looking more rarely changes nothing.
            After ``most`` scores without one it is ``below``.

        Raises:
            ShapeError: not a row of numbers in [0, 1].
        """
        if scores.ndim != 1 or not ((scores >= 0) & (scores <= 1)).all():
            raise ShapeError(
                f"scores of shape {scores.shape}: give a row of numbers from 0 to 1, one per pair."
            )
        scores = scores[: self.most]
        if not scores.size:
            return Finding(answer="open", scores=0, above=0.0, below=0.0)
        above, below = self.wealth(scores)
        beyond = np.maximum(above - self.goals[0], below - self.goals[1])
        answered = (beyond >= 0) & (np.arange(1, scores.size + 1) >= self.least)
        last = int(np.argmax(answered)) if answered.any() else scores.size - 1
        answer: Answer = "below" if answered.any() or scores.size >= self.most else "open"
        if answered.any() and above[last] - self.goals[0] == beyond[last]:
            answer = "above"
        return Finding(
            answer=answer, scores=last + 1, above=float(above[last]), below=float(below[last])
        )


@functools.lru_cache(maxsize=256)
def _time_to(goal: float, chance: float) -> float:
    """Time after which Brownian motion with drift 1/2 has not been at the goal with this chance."""
    least, most = 0.0, 1.0
    while _not_yet(goal, most) > chance:
        most *= 2
    for _ in range(50):
        middle = (least + most) / 2
        late = _not_yet(goal, middle) > chance
        least, most = (middle, most) if late else (least, middle)
    return most


def _not_yet(goal: float, time: float) -> float:
    """Chance that Brownian motion with drift 1/2 and variance 1 has stayed below a goal."""
    root = math.sqrt(time)
    reflected = math.exp(goal) * _normal((-goal - time / 2) / root)
    return _normal((goal - time / 2) / root) - reflected
