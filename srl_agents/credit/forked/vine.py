"""VinePPO: the advantage of a step from values that fresh continuations measure.

    A_t = r_t + discount * V(s_{t+1}) - V(s_t),    V(s) = mean return of K continuations from s

V(s_t) is the mean over the branches that leave at t, without the parent's own reply, which is what A_t
judges. V(s_{t+1}) is the mean over the branches of the next fork, of any seat; where no fork follows, the
parent's own end counts. So A_t is the worth of the state after the reply minus that of the state before it.

By hand: branches at turn 0 return 0 and 1, branches at turn 1 return 1 and 0.5, no reward before the end, the
match itself ends with 0.25: A_0 = 0.75 - 0.5 = 0.25, A_1 = 0.25 - 0.75 = -0.5.

Source: arXiv:2410.01679 equations 4 to 6. Differences: a step is a turn, not a line of reasoning; advantages
of turns, without TRL's ratio and clip, which the trainer adds. Continuations are not trained on, as there.
"""

from __future__ import annotations

import numpy as np

from srl_agents.credit.estimators import FLAT, Advantages, Earned, Estimator
from srl_agents.credit.forked.alternatives import gathered
from srl_agents.credit.forks import Place


class Vine(Estimator):
    """Differences of measured values along each match that branches left.

    Source: arXiv:2410.01679 equations 4 to 6.
    """

    needs_turns = True
    reads_forks = True

    def advantages(self, earned: Earned) -> Advantages:
        """See `Estimator`; only replies of parents at a fork are credited."""
        forest, returns_EK = earned.forest, earned.returns_EK
        if forest is None:
            return gathered(earned, [], flat_forks=[])
        found: list[tuple[Place, float]] = []
        flat_forks: list[bool] = []
        for fork in forest.forks:
            for seat, (own, *_) in fork.choices.items():
                value = float(np.mean(forest.backed_up(fork, seat, returns_EK)[1:]))
                after = forest.worth_after(fork.parent, seat, own[1], fork.end, returns_EK)
                gain = (float(returns_EK[own]) if after is None else after) - value
                flat_forks.append(abs(gain) < FLAT)
                if not flat_forks[-1]:
                    found.append((own, gain))
        return gathered(earned, found, flat_forks=flat_forks)
